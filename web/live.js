// One stream for all tabs of this browser: browsers allow about six connections to a host, and a
// stream holds one. The tab that holds the lock reads; the others listen to it. A visible tab takes
// the lock from a hidden or silent one, since browsers slow and freeze hidden tabs.

import { readStream } from './stream.js';

const LOCK = 'gatehouse.live';
const FIRST_DELAY_MS = 500;
const LAST_DELAY_MS = 10000;
const ANSWER_MS = 1500;

export function makeLive(api, { onEvent, onOpen, onState }) {
  const shared = 'locks' in navigator && 'BroadcastChannel' in window;
  let channel = null;
  let turn = null; // AbortController of our place in the queue, and of the stream while we lead
  let leads = false;
  let wake = null;
  let lastId = null;
  let heard = 0; // when a leading tab last spoke
  let state = { name: 'connecting', since: Date.now(), reason: '' };

  // `reason`: why the service, which was reached, refuses to stream.
  function setState(name, reason = '') {
    if (state.name !== name || state.reason !== reason) {
      const down = state.name === 'reconnecting' || state.name === 'offline';
      const since = name === 'offline' && down ? state.since : Date.now();
      state = { name, since, reason };
      onState(state);
    }
    tell({ kind: 'state', state, hidden: document.hidden });
  }

  function tell(message) {
    if (channel) channel.postMessage(message);
  }

  function deliver(event) {
    if (event.id) lastId = event.id;
    onEvent(event);
  }

  function pause(ms, signal) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
      signal.addEventListener('abort', wake, { once: true });
    });
  }

  function failed(error, opened) {
    const reached = error.status !== undefined;
    setState(opened || reached ? 'reconnecting' : 'offline', reached ? error.message : '');
    return (error.retryAfterS || 0) * 1000;
  }

  async function readForEver(signal) {
    let delay = FIRST_DELAY_MS;
    while (!signal.aborted) {
      let opened = false;
      let least = 0;
      try {
        await readStream(api, lastId, signal, {
          onOpen: () => {
            opened = true;
            delay = FIRST_DELAY_MS;
            setState('live');
            tell({ kind: 'open' });
            onOpen();
          },
          onEvent: (event) => {
            tell({ kind: 'event', event });
            deliver(event);
          },
        });
        if (!signal.aborted) setState('reconnecting');
      } catch (error) {
        if (signal.aborted) return;
        least = failed(error, opened);
      }
      await pause(Math.max(least, delay * (0.8 + 0.4 * Math.random())), signal);
      delay = Math.min(LAST_DELAY_MS, delay * 2);
    }
  }

  async function lead(signal) {
    leads = true;
    await readForEver(signal);
  }

  // One request for the lock at a time: a queued one is given up before stealing.
  async function join(steal) {
    if (turn) turn.abort();
    const mine = new AbortController();
    turn = mine;
    const { signal } = mine;
    try {
      const options = steal ? { steal: true } : { signal };
      await navigator.locks.request(LOCK, options, () => (signal.aborted ? null : lead(signal)));
    } catch {
      // Taken by a visible tab, or given up.
    }
    if (turn !== mine) return;
    leads = false;
    join(false);
  }

  // Asks the leading tab for a sign of life and takes over when there is none.
  function check() {
    if (!channel) return;
    if (leads) {
      tell({ kind: 'state', state, hidden: document.hidden });
      return;
    }
    const asked = Date.now();
    const place = turn;
    tell({ kind: 'who' });
    setTimeout(() => {
      if (turn === place && !leads && !document.hidden && heard < asked) join(true);
    }, ANSWER_MS);
  }

  function hear(message) {
    if (message.kind === 'who') {
      if (leads) tell({ kind: 'state', state, hidden: document.hidden });
      return;
    }
    if (message.kind === 'retry') {
      if (wake) wake();
      return;
    }
    if (leads) return;
    heard = Date.now();
    if (message.kind === 'event') deliver(message.event);
    if (message.kind === 'open') onOpen();
    if (message.kind === 'state') {
      state = message.state;
      onState(state);
      if (message.hidden && !document.hidden) join(true);
    }
  }

  return {
    start() {
      this.stop();
      lastId = null;
      state = { name: 'connecting', since: Date.now(), reason: '' };
      onState(state);
      if (!shared) {
        turn = new AbortController();
        lead(turn.signal);
        return;
      }
      channel = new BroadcastChannel(LOCK);
      channel.onmessage = (event) => hear(event.data);
      join(false);
      check();
    },
    stop() {
      const place = turn;
      turn = null;
      leads = false;
      if (place) place.abort();
      if (channel) channel.close();
      channel = null;
    },
    check,
    retry() {
      if (wake) wake();
      tell({ kind: 'retry' });
      check();
    },
  };
}
