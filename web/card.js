// One approval on the page, from its appearance to its receipt.
import { el, visible, visibleLine } from './dom.js';
import { actionOf } from './words.js';
import { actionView, watchRest } from './action.js';
import { Controls } from './decide.js';
import { receiptView } from './receipt.js';
import { clock, words } from './time.js';

const WARN_AT_MS = [60000, 20000];
const GONE =
  'The agent is not waiting any more. If it asks again, an allow given now counts for 15 minutes.';
const SUBSTANCE = [
  'display',
  'preview',
  'target',
  'parts',
  'narration',
  'why',
  'warning',
  'taint',
  'offered',
  'digest',
];

// What a person judges by. When it moves, the card is drawn anew and has to be armed again.
const substance = (approval) => JSON.stringify(SUBSTANCE.map((key) => approval[key]));

const digestText = (digest) => `Digest ${String(digest).replace('sha256-', '').slice(0, 12)}`;

function taintText(taint) {
  if (typeof taint === 'string') return visible(taint);
  const known = ['source', 'marker', 'excerpt'].filter((key) => taint[key]);
  return known.map((key) => visible(taint[key])).join(' \u00b7 ');
}

function hiddenText(n) {
  const what = n === 1 ? '1 hidden character is' : `${n} hidden characters are`;
  return `\u25b2 ${what} shown as an escape such as \\u{202e}.`;
}

// Narration last, and marked: it is what the agent wants us to believe.
function factsView(approval, gone) {
  const { warning, taint, why, narration, display, digest } = approval;
  const hidden = display?.hidden_characters || 0;
  return el(
    'div',
    { class: 'facts' },
    hidden > 0 && el('p', { class: 'warn' }, hiddenText(hidden)),
    warning && el('p', { class: 'warn' }, '\u25b2 ', visible(warning.text || warning.code)),
    taint && el('p', { class: 'warn' }, '\u2691 Untrusted input was read: ', taintText(taint)),
    el('p', {}, el('b', {}, 'Asked because '), visible(why)),
    gone,
    el('p', { class: 'digest' }, digestText(digest)),
    narration &&
      el(
        'p',
        { class: 'says' },
        el('b', {}, 'The agent says (unverified): '),
        el('q', {}, visible(narration))
      )
  );
}

function metaView(approval, number) {
  const { title, session, agent, working_dir: dir, created_at: created } = approval;
  const names = [title || session, agent, dir].filter(Boolean).map(visibleLine);
  return el(
    'p',
    { class: 'meta' },
    [...names, `request ${number}`, ''].join(' \u00b7 '),
    el('time', { datetime: created }, clock(created))
  );
}

function watchView(rest) {
  const line = 'You can watch. To decide, ask for an approver token.';
  return el('div', { class: 'foot watch' }, rest, el('p', {}, line));
}

export class Card {
  // `env`: { api, state, sync, announce, focusAfter(card), dismiss(card) }.
  constructor(item, number, env) {
    this.approval = item.approval;
    this.deadline = item.deadline; // on performance.now()
    this.number = number;
    this.env = env;
    this.controls = null;
    this.unwatch = () => {};
    this.warned = new Set();
    const id = `head-${number}`;
    this.gone = el('p', {}, GONE);
    this.heading = el('h2', { id, tabindex: -1 });
    this.timer = el('p', { class: 'timer', role: 'timer' });
    this.root = el('article', { class: 'card', 'aria-labelledby': id });
    this.draw('');
    this.tick();
  }

  get pending() {
    return this.approval.state === 'pending';
  }

  draw(oldDigest) {
    const { approval } = this;
    const { activeElement: focused } = document;
    const hadFocus = this.root.contains(focused);
    this.stop();
    this.drawn = substance(approval);
    this.heading.textContent = actionOf(approval).title;
    this.controls = this.env.state.mayDecide ? new Controls(this, this.env) : null;
    const box = actionView(approval);
    const rest = el('p', { class: 'rest' });
    const high = approval.warning || approval.taint;
    this.root.replaceChildren(
      el(
        'header',
        {},
        high ? el('p', { class: 'high' }, '\u25b2 High risk') : '',
        this.heading,
        this.timer,
        metaView(approval, this.number)
      ),
      oldDigest ? el('p', { class: 'warn' }, this.changedText(oldDigest)) : '',
      box,
      // The controls stay in sight within this part only: they never cover the action.
      el(
        'div',
        {},
        factsView(approval, this.gone),
        ...(this.controls ? this.controls.views(rest) : [watchView(rest)])
      )
    );
    this.unwatch = watchRest(box, rest);
    this.arm();
    // Typing goes on where it was; whoever was at a button is taken away from it.
    if (hadFocus && focused.tagName === 'TEXTAREA') this.controls.reply.focus();
    else if (hadFocus) this.heading.focus();
  }

  changedText(old) {
    const digests = `${digestText(old)} is now ${digestText(this.approval.digest)}`;
    return `The request changed since you opened it. ${digests}.`;
  }

  // The service refused the digest: what is shown is not what would be decided.
  async changed() {
    const { digest, id } = this.approval;
    await this.env.sync.touch(id);
    if (this.pending) this.draw(digest);
  }

  async update(item) {
    const old = this.approval;
    if (item.deadline > this.deadline + 1000) this.warned.clear();
    this.approval = item.approval;
    this.deadline = item.deadline;
    if (this.pending) {
      const { digest } = this.approval;
      if (substance(this.approval) !== this.drawn)
        this.draw(digest === old.digest ? '' : old.digest);
      this.tick();
    } else if (old.state === 'pending') {
      await this.settle();
    }
  }

  async settle() {
    const { root, approval } = this;
    const hadFocus = root.contains(document.activeElement);
    const { height } = root.getBoundingClientRect();
    this.stop();
    this.controls = null;
    root.classList.add('settled');
    root.removeAttribute('aria-labelledby');
    // The place is kept, so that nothing moves under a pointer on its way to another card.
    root.style.minHeight = `${Math.floor(height)}px`;
    this.showReceipt(null);
    if (hadFocus) this.env.focusAfter(this);
    if (approval.code && !approval.state.startsWith('allowed')) return;
    try {
      this.showReceipt(await this.env.api.decision(approval.session, approval.decision));
    } catch {
      // The receipt without the reason is still right.
    }
  }

  showReceipt(decision) {
    const dismiss = () => this.env.dismiss(this);
    this.root.replaceChildren(receiptView(this.approval, decision, this.number, dismiss));
  }

  tick() {
    if (!this.pending) return;
    const { sync, state } = this.env;
    const left = this.deadline - performance.now();
    const estimate = state.offline ? ' (estimated)' : '';
    const text = left > 0 ? `Denies itself in ${words(left)}${estimate}` : 'The time is up';
    this.timer.textContent = text;
    this.timer.classList.toggle('soon', left <= WARN_AT_MS[0]);
    this.gone.hidden = this.approval.caller !== 'gone';
    this.refresh();
    if (left <= 0 && !state.offline) sync.touch(this.approval.id);
    WARN_AT_MS.forEach((at) => this.warn(at, left));
  }

  warn(at, left) {
    if (this.warned.has(at) || left > at || left < at - 2000) return;
    this.warned.add(at);
    this.env.announce.polite(`Request ${this.number} denies itself in ${at / 1000} seconds.`);
  }

  arm() {
    if (this.controls) this.controls.arm();
  }

  refresh() {
    if (this.controls) this.controls.refresh();
  }

  get keepsPlace() {
    return this.root.style.minHeight !== '';
  }

  releasePlace() {
    this.root.style.minHeight = '';
  }

  stop() {
    this.unwatch();
    if (this.controls) this.controls.stop();
  }
}
