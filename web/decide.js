// The row of controls of one card: Deny first, Allow last, and what happens when one is pressed.
import { button, el, isOff, setOff } from './dom.js';
import { actionOf, failureOf } from './words.js';
import { alwaysView } from './action.js';

const ARM_MS = 600; // a click that was meant for something else must not allow
const SLOW_MS = 5000;
const EXTEND_S = 300;
const FIXED = 'It cannot be extended: the agent itself does not wait longer.';
const SETTLED_ELSEWHERE = [401, 404, 409, 410]; // told by the receipt or the sign-in, not here

export class Controls {
  constructor(card, env) {
    this.card = card;
    this.env = env;
    this.armedAt = Infinity;
    this.sending = false;
    this.timer = 0;
    this.guarded = []; // what allows: off until armed
    const { title, allow } = actionOf(card.approval);
    this.object = `${title}, request ${card.number}`;
    this.error = el('p', { class: 'error', id: `error-${card.number}` });
    this.status = el('p', { class: 'doing' });
    this.deny = this.control('Deny', 'deny', (pressed) => this.send(pressed, 'deny'));
    this.extend = this.control('Extend 5 min', '', (pressed) => this.more(pressed));
    this.row = el('div', { class: 'row' }, this.deny, this.extend);
    const offered = card.approval.offered || ['allow', 'deny'];
    if (offered.includes('allow_always')) this.row.append(...this.always());
    this.row.append(this.status);
    if (offered.includes('allow')) this.row.append(this.allowing(allow, 'allow'));
  }

  control(text, className, act) {
    const names = { 'aria-label': `${text}: ${this.object}`, 'aria-describedby': this.error.id };
    return button(text, { class: className || null, ...names }, ({ currentTarget }) => {
      if (!isOff(currentTarget)) act(currentTarget);
    });
  }

  allowing(text, decision) {
    const node = this.control(text, 'allow', (pressed) => {
      if (performance.now() >= this.armedAt) this.send(pressed, decision);
    });
    // A held key repeats its click; only a fresh press of the bare key counts.
    node.addEventListener('keydown', (event) => {
      if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) event.preventDefault();
    });
    this.guarded.push(node);
    return node;
  }

  always() {
    const id = `always-${this.card.number}`;
    const allow = this.allowing('Allow always', 'allow_always');
    const panel = el(
      'div',
      { class: 'panel', id, hidden: true },
      alwaysView(this.card.approval),
      allow
    );
    const toggle = this.control('Always\u2026', '', () => {
      panel.hidden = !panel.hidden;
      toggle.setAttribute('aria-expanded', String(!panel.hidden));
      this.arm();
    });
    toggle.setAttribute('aria-expanded', 'false');
    toggle.setAttribute('aria-controls', id);
    return [toggle, panel];
  }

  views(rest) {
    const { drafts } = this.env.state;
    const { id } = this.card.approval;
    const name = `reply-${this.card.number}`;
    this.reply = el('textarea', { rows: 1, maxlength: 4000, id: name });
    this.reply.value = drafts.get(id) || '';
    this.reply.addEventListener('input', () => drafts.set(id, this.reply.value));
    return [
      el(
        'div',
        { class: 'ask' },
        el('label', { for: name }, 'Reply to the agent (optional)'),
        this.reply
      ),
      el('div', { class: 'foot' }, rest, this.error, this.row),
    ];
  }

  refresh() {
    const now = performance.now();
    const { offline } = this.env.state;
    const over = now >= this.card.deadline;
    const off = this.sending || offline || over;
    const arming = now < this.armedAt;
    setOff(this.deny, off);
    setOff(this.extend, off);
    for (const node of this.guarded) setOff(node, off || arming);
    if (this.sending) return;
    if (offline) this.status.textContent = 'Offline: decisions are off.';
    else if (over) this.status.textContent = 'The time is up; waiting for the service.';
    else this.status.textContent = arming ? 'Arming\u2026' : '';
  }

  arm() {
    this.armedAt = performance.now() + ARM_MS;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), ARM_MS + 1);
    this.refresh();
  }

  stop() {
    clearTimeout(this.timer);
  }

  // "Sending" until `act` is done: only an answer of the service ends it.
  async busy(act) {
    this.error.textContent = '';
    this.status.textContent = 'Sending\u2026';
    this.sending = true;
    this.refresh();
    const slow = setTimeout(() => (this.status.textContent = 'Still sending\u2026'), SLOW_MS);
    try {
      await act();
    } finally {
      clearTimeout(slow);
      this.sending = false;
      this.refresh();
    }
  }

  refused(failure, pressed) {
    if (failure.status === 412) this.card.changed();
    else if (!SETTLED_ELSEWHERE.includes(failure.status))
      this.error.textContent = failureOf(failure);
    if (pressed.isConnected && document.activeElement === document.body) pressed.focus();
  }

  send(pressed, decision) {
    const { api, state, sync } = this.env;
    const { id, digest } = this.card.approval;
    const feedback = this.reply.value.trim() ? { feedback: this.reply.value } : {};
    return this.busy(async () => {
      try {
        sync.accept(await api.decide(id, digest, { decision, ...feedback }));
        state.drafts.delete(id);
      } catch (failure) {
        this.refused(failure, pressed);
      }
      await sync.touch(id);
    });
  }

  more(pressed) {
    const { api, sync } = this.env;
    const { id, extendable } = this.card.approval;
    const before = this.card.deadline;
    if (extendable === false) {
      this.error.textContent = FIXED;
      return undefined;
    }
    return this.busy(async () => {
      try {
        await api.extend(id, EXTEND_S);
        await sync.touch(id);
        if (this.card.deadline < before + 1000) this.error.textContent = FIXED;
      } catch (failure) {
        this.refused(failure, pressed);
        await sync.touch(id);
      }
    });
  }
}
