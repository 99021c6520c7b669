// One approval on the page, from its appearance to its receipt.
import { el, visible, visibleLine } from './dom.js';
import { actionOf } from './words.js';
import { actionView, watchRest } from './action.js';
import { makeControls } from './decide.js';
import { receiptView } from './receipt.js';
import { clock, words } from './time.js';

const WARN_AT_MS = [60000, 20000];

// What a person judges by. When it moves, the card is drawn anew and has to be armed again.
function substance(approval) {
  const { display, preview, target, parts, narration, why, warning, taint, offered, digest } = approval;
  return JSON.stringify([display, preview, target, parts, narration, why, warning, taint, offered, digest]);
}

function taintText(taint) {
  if (typeof taint === 'string') return visible(taint);
  return ['source', 'marker', 'excerpt'].filter((k) => taint[k]).map((k) => visible(taint[k])).join(' \u00b7 ');
}

function facts(approval) {
  const { warning, taint, why, narration, display, caller } = approval;
  const hidden = display?.hidden_characters || 0;
  const plural = hidden === 1 ? 'character is' : 'characters are';
  const shown = 'shown as an escape such as \\u{202e}';
  return [
    hidden > 0 && el('p', { class: 'warn' }, `\u25b2 ${hidden} hidden ${plural} ${shown}.`),
    warning && el('p', { class: 'warn' }, '\u25b2 ', visible(warning.text || warning.code)),
    taint && el('p', { class: 'warn' }, '\u2691 Untrusted input was read: ', taintText(taint)),
    el('p', {}, el('b', {}, 'Asked because '), visible(why)),
    caller === 'gone' &&
      el('p', {}, 'The agent has stopped waiting. Allowing counts when it asks again within 15 minutes.'),
    narration &&
      el('p', { class: 'says' }, el('b', {}, 'The agent says (unverified): '), el('q', {}, visible(narration))),
  ].filter(Boolean);
}

// `env`: { api, state, sync, announce }; `onDismiss(card)` after its receipt was taken away.
export function makeCard(item, number, env, onDismiss) {
  const { state } = env;
  let { approval, deadline } = item;
  let drawn = '';
  let controls = null;
  let unwatch = () => {};
  let warned = [];
  const headId = `head-${number}`;
  const heading = el('h2', { id: headId, tabindex: -1 });
  const timer = el('p', { class: 'timer', role: 'timer' });
  const root = el('article', { class: 'card', 'aria-labelledby': headId });

  function draw(changedFrom) {
    const hadFocus = root.contains(document.activeElement);
    drawn = substance(approval);
    const high = approval.warning || approval.taint;
    const title = visibleLine(approval.title || approval.session);
    heading.textContent = actionOf(approval).title;
    unwatch();
    if (controls) controls.stop();
    const box = actionView(approval);
    controls = state.mayDecide ? makeControls(handle, env) : null;
    root.replaceChildren(
      el(
        'header',
        {},
        high && el('p', { class: 'high' }, '\u25b2 High risk'),
        heading,
        timer,
        el(
          'p',
          { class: 'meta' },
          [title, visibleLine(approval.agent), visibleLine(approval.working_dir), `request ${number}`, '']
            .filter((text, i, all) => text || i === all.length - 1)
            .join(' \u00b7 '),
          el('time', { datetime: approval.created_at }, clock(approval.created_at))
        )
      ),
      ...(changedFrom ? [el('p', { class: 'warn' }, changedText(changedFrom))] : []),
      box,
      // The controls stay in sight within this part only: they never cover the action.
      el(
        'div',
        {},
        el('div', { class: 'facts' }, ...facts(approval), el('p', { class: 'digest' }, digestText(approval.digest))),
        ...(controls ? controls.nodes : [watchOnly(box)])
      )
    );
    if (controls) {
      unwatch = watchRest(box, controls.rest);
      controls.arm();
    }
    if (hadFocus) heading.focus();
  }

  function watchOnly(box) {
    const rest = el('p', { class: 'rest' });
    unwatch = watchRest(box, rest);
    const line = 'You can watch. To decide, ask for an approver token.';
    return el('div', { class: 'foot watch' }, rest, el('p', {}, line));
  }

  const digestText = (digest) => `Digest ${String(digest).replace(/^sha256-/, '').slice(0, 12)}`;

  function changedText(old) {
    return `The request changed since you opened it. ${digestText(old)} is now ${digestText(approval.digest)}.`;
  }

  function tick() {
    if (approval.state !== 'pending') return;
    const left = deadline - performance.now();
    const estimate = state.offline ? ' (estimated)' : '';
    timer.textContent = left > 0 ? `Denies itself in ${words(left)}${estimate}` : 'The time is up';
    timer.classList.toggle('soon', left <= WARN_AT_MS[0]);
    if (controls) controls.refresh();
    if (left <= 0 && !state.offline) env.sync.touch(approval.id);
    for (const at of WARN_AT_MS) {
      if (left > 0 && left <= at && left > at - 2000 && !warned.includes(at)) {
        warned.push(at);
        env.announce.polite(`Request ${number} denies itself in ${at / 1000} seconds.`);
      }
    }
  }

  function settle(decision) {
    const hadFocus = root.contains(document.activeElement);
    const { height } = root.getBoundingClientRect();
    unwatch();
    if (controls) controls.stop();
    controls = null;
    root.classList.add('settled');
    root.removeAttribute('aria-labelledby');
    root.setAttribute('tabindex', '-1');
    // The place is kept, so that nothing moves under a pointer on its way to another card.
    root.style.minHeight = `${Math.floor(height)}px`;
    root.replaceChildren(receiptView(approval, decision, number, () => onDismiss(handle)));
    return hadFocus;
  }

  async function update(next) {
    const old = approval;
    if (next.deadline > deadline + 1000) warned = [];
    ({ approval, deadline } = next);
    if (approval.state === 'pending') {
      if (substance(approval) !== drawn) draw(approval.digest !== old.digest ? old.digest : '');
      tick();
      return;
    }
    if (old.state !== 'pending') return;
    if (settle(null)) env.focusAfter(handle);
    if (approval.code && !approval.state.startsWith('allowed')) return;
    try {
      const decision = await env.api.decision(approval.session, approval.decision);
      root.replaceChildren(receiptView(approval, decision, number, () => onDismiss(handle)));
    } catch {
      // The receipt without the reason is still right.
    }
  }

  const handle = {
    root,
    heading,
    number,
    approval: () => approval,
    deadline: () => deadline,
    pending: () => approval.state === 'pending',
    update,
    tick,
    arm: () => controls && controls.arm(),
    refresh: () => controls && controls.refresh(),
    release: () => (root.style.minHeight = ''),
    async changed() {
      const { digest } = approval;
      await env.sync.touch(approval.id);
      if (approval.state === 'pending') draw(digest);
    },
    stop: () => {
      unwatch();
      if (controls) controls.stop();
    },
  };
  draw('');
  tick();
  return handle;
}
