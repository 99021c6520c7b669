// The list of cards: oldest first, new ones below, nothing moves by itself under a pointer.
import { button, el } from './dom.js';
import { Card } from './card.js';

const IDLE_MS = 2000;
const INPUTS = ['pointermove', 'pointerdown', 'keydown', 'scroll'];

export class Cards {
  // `env`: { api, state, sync, announce }.
  constructor(env) {
    this.state = env.state;
    this.env = {
      ...env,
      focusAfter: (card) => this.focusAfter(card),
      dismiss: (card) => this.dismiss(card),
    };
    this.cards = new Map(); // approval id -> card
    this.numbered = 0;
    this.lastInput = 0;
    this.list = el('div', { class: 'list' });
    this.heading = el('h2', { tabindex: -1, class: 'count' });
    this.clear = button('Clear receipts', { class: 'plain', hidden: true }, () =>
      this.dismissAll()
    );
    const over = el('div', { class: 'over' }, this.heading, this.clear);
    this.view = el('section', { 'aria-label': 'Requests' }, over, this.list);
    this.listen();
    this.refresh();
  }

  listen() {
    const { state } = this;
    for (const type of INPUTS) {
      const note = () => (this.lastInput = performance.now());
      addEventListener(type, note, { passive: true, capture: true });
    }
    addEventListener('focus', () => this.rearm());
    state.on('item', (id) => this.item(id));
    state.on('loaded', () => this.refresh());
    state.on('host', () => this.refresh());
    state.on('connection', () => this.all.forEach((card) => card.tick()));
    state.on('reset', () => this.reset());
  }

  get all() {
    return [...this.cards.values()];
  }

  item(id) {
    const known = this.state.items.get(id);
    const card = this.cards.get(id);
    if (card) {
      card.update(known);
    } else if (known.approval.state === 'pending') {
      this.numbered += 1;
      const made = new Card(known, this.numbered, this.env);
      this.cards.set(id, made);
      this.list.append(made.root);
      this.env.announce.arrived(known.approval);
    }
    this.refresh();
  }

  refresh() {
    const { state, heading } = this;
    const n = state.pendingCount();
    if (!state.loaded) heading.textContent = 'Loading\u2026';
    else heading.textContent = n ? `${n} waiting` : 'Nothing is waiting.';
    this.clear.hidden = this.all.filter((card) => !card.pending).length < 2;
    const count = n ? `(${n}) ` : '';
    document.title = state.auth ? `${count}${state.host} \u2013 gatehouse` : 'gatehouse';
  }

  rearm() {
    this.all.forEach((card) => card.arm());
  }

  // After a decision: the next card's heading, never one of its buttons.
  focusAfter(card) {
    const waiting = this.all.filter((other) => other.pending);
    const next = waiting.find((other) => other.number > card.number) || waiting[0];
    (next ? next.heading : this.heading).focus();
  }

  remove(card) {
    const { id } = card.approval;
    card.stop();
    card.root.remove();
    this.cards.delete(id);
    this.state.items.delete(id);
  }

  dismiss(card) {
    const hadFocus = card.root.contains(document.activeElement);
    this.remove(card);
    this.rearm();
    this.refresh();
    if (hadFocus) this.focusAfter(card);
  }

  dismissAll() {
    this.all.filter((card) => !card.pending).forEach((card) => this.remove(card));
    this.rearm();
    this.refresh();
    this.heading.focus();
  }

  reset() {
    this.all.forEach((card) => {
      card.stop();
      card.root.remove();
    });
    this.cards.clear();
    this.refresh();
  }

  tick() {
    this.all.forEach((card) => card.tick());
    this.settleDown();
  }

  // The places that receipts keep are given back when nobody is about to click.
  settleDown() {
    const { list } = this;
    const kept = this.all.filter((card) => card.keepsPlace);
    if (!kept.length || performance.now() - this.lastInput < IDLE_MS) return;
    const near = list.matches(':hover') || list.contains(document.activeElement);
    if (near && this.state.pendingCount()) return;
    kept.forEach((card) => card.releasePlace());
    this.rearm();
  }
}
