// What screen readers are told. Polite, late enough for the card to be there, bundled, and never
// the command itself: it can be long, and it is the agent's text.
import { actionOf } from './words.js';
import { visibleLine } from './dom.js';

const DELAY_MS = 150;
const BUNDLE_MS = 2000;

export function makeAnnouncer(say, alarm, state) {
  let fresh = [];
  let timer = 0;
  let last = -BUNDLE_MS;

  function flush() {
    timer = 0;
    const count = `${state.pendingCount()} waiting.`;
    if (fresh.length === 1) {
      const [approval] = fresh;
      const risk = approval.warning || approval.taint ? ', high risk' : '';
      const title = visibleLine(approval.title || approval.agent).slice(0, 80);
      say.textContent = `New request${risk}: ${actionOf(approval).title}, ${title}. ${count}`;
    } else {
      say.textContent = `${fresh.length} new requests. ${count}`;
    }
    fresh = [];
    last = performance.now();
  }

  return {
    arrived(approval) {
      fresh.push(approval);
      const wait = Math.max(DELAY_MS, last + BUNDLE_MS - performance.now());
      if (!timer) timer = setTimeout(flush, wait);
    },
    polite(text) {
      say.textContent = text;
    },
    alarm(text) {
      if (alarm.textContent !== text) alarm.textContent = text;
    },
  };
}
