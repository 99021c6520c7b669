// The list of cards: oldest first, new ones below, nothing moves by itself under a pointer.
import { button, el } from './dom.js';
import { makeCard } from './card.js';

const IDLE_MS = 2000;

export function makeCards(env) {
  const { state } = env;
  const cards = new Map(); // approval id -> card
  const list = el('div', { class: 'list' });
  const heading = el('h2', { tabindex: -1, class: 'count' }, 'Loading\u2026');
  const clear = button('Clear receipts', { class: 'plain', hidden: true }, () => {
    [...cards.values()].filter((card) => !card.pending()).forEach(remove);
    rearm();
    refresh();
    heading.focus();
  });
  const view = el('section', { 'aria-label': 'Requests' }, el('div', { class: 'over' }, heading, clear), list);
  let numbered = 0;
  let lastInput = 0;

  const ownEnv = {
    ...env,
    // After a decision: the next card's heading, never one of its buttons.
    focusAfter(card) {
      const waiting = [...cards.values()].filter((other) => other.pending());
      const next = waiting.find((other) => other.number > card.number) || waiting[0];
      (next ? next.heading : heading).focus();
    },
  };

  function remove(card) {
    card.stop();
    card.root.remove();
    cards.delete(card.approval().id);
    state.items.delete(card.approval().id);
  }

  function dismiss(card) {
    const hadFocus = card.root.contains(document.activeElement);
    remove(card);
    rearm();
    refresh();
    if (hadFocus) ownEnv.focusAfter(card);
  }

  function item(id) {
    const known = state.items.get(id);
    const card = cards.get(id);
    if (card) {
      card.update(known);
    } else if (known.approval.state === 'pending') {
      numbered += 1;
      const made = makeCard(known, numbered, ownEnv, dismiss);
      cards.set(id, made);
      list.append(made.root);
      env.announce.arrived(known.approval);
    }
    refresh();
  }

  function refresh() {
    const n = state.pendingCount();
    const receipts = [...cards.values()].filter((card) => !card.pending()).length;
    if (!state.loaded) heading.textContent = 'Loading\u2026';
    else heading.textContent = n ? `${n} waiting` : 'Nothing is waiting.';
    clear.hidden = receipts < 2;
    document.title = state.auth ? `${n ? `(${n}) ` : ''}${state.host} \u2013 gatehouse` : 'gatehouse';
  }

  function rearm() {
    for (const card of cards.values()) card.arm();
  }

  // The places that receipts keep are given back when nobody is about to click.
  function settleDown() {
    const kept = [...cards.values()].filter((card) => card.root.style.minHeight);
    if (!kept.length || performance.now() - lastInput < IDLE_MS) return;
    if (state.pendingCount() && (list.matches(':hover') || list.contains(document.activeElement))) {
      return;
    }
    for (const card of kept) card.release();
    rearm();
  }

  for (const type of ['pointermove', 'pointerdown', 'keydown', 'scroll']) {
    addEventListener(type, () => (lastInput = performance.now()), { passive: true, capture: true });
  }
  addEventListener('focus', rearm);

  state.on('item', item);
  state.on('loaded', refresh);
  state.on('host', refresh);
  state.on('connection', () => {
    for (const card of cards.values()) {
      card.refresh();
      card.tick();
    }
  });
  state.on('reset', () => {
    for (const card of [...cards.values()]) {
      card.stop();
      card.root.remove();
    }
    cards.clear();
    refresh();
  });

  return {
    view,
    rearm,
    tick() {
      for (const card of cards.values()) card.tick();
      settleDown();
    },
  };
}
