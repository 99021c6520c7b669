// The row of controls of one card: Deny first, Allow last, and what happens when one is pressed.
import { button, el, isOff, setOff } from './dom.js';
import { actionOf, failureOf } from './words.js';
import { alwaysView } from './action.js';

const ARM_MS = 600; // a click that was meant for something else must not allow
const SLOW_MS = 5000;
const EXTEND_S = 300;
const FIXED = 'It cannot be extended: the agent itself does not wait longer.';

// `card`: { approval(), deadline(), number, changed() }; `env`: { api, state, sync }.
export function makeControls(card, env) {
  const { api, state, sync } = env;
  const approval = card.approval();
  const names = actionOf(approval);
  const object = `${names.title}, request ${card.number}`;
  const errorId = `error-${card.number}`;
  const reply = el('textarea', { rows: 1, maxlength: 4000, id: `reply-${card.number}` });
  const error = el('p', { class: 'error', id: errorId });
  const status = el('p', { class: 'doing' });
  const rest = el('p', { class: 'rest' });
  let armedAt = Infinity;
  let sending = false;
  let timer = 0;

  const press = (decision) => (event) => {
    if (isOff(event.currentTarget)) return;
    if (decision !== 'deny' && performance.now() < armedAt) return;
    send(event.currentTarget, decision);
  };
  const named = (text, extra) => ({ 'aria-label': `${text}: ${object}`, 'aria-describedby': errorId, ...extra });

  const deny = button('Deny', named('Deny', { class: 'deny' }), press('deny'));
  const extend = button('Extend 5 min', named('Extend 5 min'), (event) => {
    if (!isOff(event.currentTarget)) more(event.currentTarget);
  });
  const allow = button(names.allow, named(names.allow, { class: 'allow' }), press('allow'));
  const guarded = [allow];
  const offered = approval.offered || ['allow', 'deny'];
  const row = el('div', { class: 'row' }, deny, extend);
  if (offered.includes('allow_always')) row.append(...alwaysControls());
  row.append(status);
  if (offered.includes('allow')) row.append(allow);

  function alwaysControls() {
    const id = `always-${card.number}`;
    const always = button('Allow always', named('Allow always', { class: 'allow' }), press('allow_always'));
    const panel = el('div', { class: 'panel', id, hidden: true }, alwaysView(approval), always);
    const toggle = button(
      'Always\u2026',
      named('Always\u2026', { 'aria-expanded': 'false', 'aria-controls': id }),
      () => {
        panel.hidden = !panel.hidden;
        toggle.setAttribute('aria-expanded', String(!panel.hidden));
        arm();
      }
    );
    guarded.push(always);
    return [toggle, panel];
  }

  // A held key repeats its click; only a fresh press counts.
  for (const node of guarded) {
    node.addEventListener('keydown', (event) => {
      if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) event.preventDefault();
    });
  }

  reply.value = state.drafts.get(approval.id) || '';
  reply.addEventListener('input', () => state.drafts.set(approval.id, reply.value));

  function refresh() {
    const over = performance.now() >= card.deadline();
    const off = sending || state.offline || over;
    const arming = performance.now() < armedAt;
    setOff(deny, off);
    setOff(extend, off);
    for (const node of guarded) setOff(node, off || arming);
    if (sending) return;
    if (state.offline) status.textContent = 'Offline: decisions are off.';
    else if (over) status.textContent = 'The time is up; waiting for the service.';
    else status.textContent = arming ? 'Arming\u2026' : '';
  }

  function arm() {
    armedAt = performance.now() + ARM_MS;
    clearTimeout(timer);
    timer = setTimeout(refresh, ARM_MS + 1);
    refresh();
  }

  function busy(on) {
    sending = on;
    status.textContent = on ? 'Sending\u2026' : '';
    refresh();
  }

  async function during(fn) {
    error.textContent = '';
    busy(true);
    const slow = setTimeout(() => (status.textContent = 'Still sending\u2026'), SLOW_MS);
    try {
      await fn();
    } finally {
      clearTimeout(slow);
      busy(false);
    }
  }

  // What is settled otherwise is read from the service; only the rest is an error of this card.
  function refused(failure, pressed) {
    if (failure.status === 412) card.changed();
    else if (![404, 409, 410, 401].includes(failure.status)) error.textContent = failureOf(failure);
    if (pressed.isConnected && document.activeElement === document.body) pressed.focus();
  }

  function send(pressed, decision) {
    const { id, digest } = card.approval();
    const body = { decision };
    if (reply.value.trim()) body.feedback = reply.value;
    return during(async () => {
      try {
        sync.accept(await api.decide(id, digest, body));
        state.drafts.delete(id);
      } catch (failure) {
        refused(failure, pressed);
      }
      await sync.touch(id);
    });
  }

  function more(pressed) {
    const { id, extendable } = card.approval();
    const before = card.deadline();
    if (extendable === false) {
      error.textContent = FIXED;
      return undefined;
    }
    return during(async () => {
      try {
        await api.extend(id, EXTEND_S);
        await sync.touch(id);
        if (card.deadline() < before + 1000) error.textContent = FIXED;
      } catch (failure) {
        refused(failure, pressed);
        await sync.touch(id);
      }
    });
  }

  return {
    nodes: [
      el(
        'div',
        { class: 'ask' },
        el('label', { for: `reply-${card.number}` }, 'Reply to the agent (optional)'),
        reply
      ),
      el('div', { class: 'foot' }, rest, error, row),
    ],
    rest,
    arm,
    refresh,
    stop: () => clearTimeout(timer),
  };
}
