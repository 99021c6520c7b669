// One stream for all tabs of this browser: browsers allow about six connections to a host, and a
// stream holds one. The tab that holds the lock reads; the others listen to it. A visible tab takes
// the lock from a hidden or silent one, since browsers slow and freeze hidden tabs.

import { readStream } from './stream.js';

const LOCK = 'gatehouse.live';
const FIRST_DELAY_MS = 500;
const LAST_DELAY_MS = 10000;
const ANSWER_MS = 1500;

const CONNECTING = { name: 'connecting', since: 0, reason: '' };

export class Live {
  // `on`: { event(event), open(), state({ name, since, reason }) }.
  constructor(api, on) {
    this.api = api;
    this.on = on;
    this.isShared = 'locks' in navigator && 'BroadcastChannel' in window;
    this.channel = null;
    this.turn = null; // AbortController of our place in the queue, and of the stream while we lead
    this.leads = false;
    this.wake = () => {}; // ends the pause before the next try
    this.lastId = null;
    this.heard = 0; // when a leading tab last spoke
    this.state = CONNECTING;
  }

  start() {
    this.stop();
    this.lastId = null;
    this.show({ ...CONNECTING, since: Date.now() });
    if (!this.isShared) {
      this.turn = new AbortController();
      this.lead(this.turn.signal);
      return;
    }
    this.channel = new BroadcastChannel(LOCK);
    this.channel.onmessage = (event) => this.hear(event.data);
    this.join(false);
    this.check();
  }

  stop() {
    const place = this.turn;
    this.turn = null;
    this.leads = false;
    if (place) place.abort();
    if (this.channel) this.channel.close();
    this.channel = null;
  }

  retry() {
    this.wake();
    this.tell({ kind: 'retry' });
    this.check();
  }

  // Asks the leading tab for a sign of life and takes over when there is none.
  check() {
    if (!this.channel) return;
    if (this.leads) {
      this.tellState();
      return;
    }
    const asked = Date.now();
    const place = this.turn;
    this.tell({ kind: 'who' });
    setTimeout(() => {
      const isSilent = this.turn === place && !this.leads && this.heard < asked;
      if (isSilent && !document.hidden) this.join(true);
    }, ANSWER_MS);
  }

  // ---- the tabs among themselves ----

  tell(message) {
    if (this.channel) this.channel.postMessage(message);
  }

  tellState() {
    this.tell({ kind: 'state', state: this.state, hidden: document.hidden });
  }

  hear(message) {
    if (message.kind === 'retry') this.wake();
    if (message.kind === 'who' && this.leads) this.tellState();
    if (this.leads || message.kind === 'retry' || message.kind === 'who') return;
    this.heard = Date.now();
    if (message.kind === 'event') this.deliver(message.event);
    if (message.kind === 'open') this.on.open();
    if (message.kind === 'state') {
      this.show(message.state);
      if (message.hidden && !document.hidden) this.join(true);
    }
  }

  // One request for the lock at a time: a queued one is given up before stealing.
  async join(steal) {
    if (this.turn) this.turn.abort();
    const mine = new AbortController();
    this.turn = mine;
    const { signal } = mine;
    try {
      const options = steal ? { steal: true } : { signal };
      await navigator.locks.request(LOCK, options, () =>
        signal.aborted ? null : this.lead(signal)
      );
    } catch {
      // Taken by a visible tab, or given up.
    }
    if (this.turn !== mine) return;
    this.leads = false;
    this.join(false);
  }

  // ---- the stream ----

  show(state) {
    this.state = state;
    this.on.state(state);
  }

  // `reason`: why the service, which was reached, refuses to stream.
  become(name, reason = '') {
    const { state } = this;
    if (state.name !== name || state.reason !== reason) {
      const wasDown = state.name === 'reconnecting' || state.name === 'offline';
      const since = name === 'offline' && wasDown ? state.since : Date.now();
      this.show({ name, since, reason });
    }
    this.tellState();
  }

  deliver(event) {
    if (event.id) this.lastId = event.id;
    this.on.event(event);
  }

  pause(ms, signal) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
      signal.addEventListener('abort', this.wake, { once: true });
    });
  }

  opened() {
    this.become('live');
    this.tell({ kind: 'open' });
    this.on.open();
  }

  passOn(event) {
    this.tell({ kind: 'event', event });
    this.deliver(event);
  }

  async lead(signal) {
    this.leads = true;
    let delay = FIRST_DELAY_MS;
    while (!signal.aborted) {
      const { isOpen, waitMs } = await this.once(signal);
      if (signal.aborted) return;
      if (isOpen) delay = FIRST_DELAY_MS;
      await this.pause(Math.max(waitMs, delay * (0.8 + 0.4 * Math.random())), signal);
      delay = Math.min(LAST_DELAY_MS, delay * 2);
    }
  }

  // One stream from its opening to its end.
  async once(signal) {
    let isOpen = false;
    const onOpen = () => {
      isOpen = true;
      this.opened();
    };
    try {
      await readStream(this.api, this.lastId, signal, {
        onOpen,
        onEvent: (event) => this.passOn(event),
      });
      if (!signal.aborted) this.become('reconnecting');
      return { isOpen, waitMs: 0 };
    } catch (error) {
      if (signal.aborted) return { isOpen, waitMs: 0 };
      const isReached = error.status !== undefined;
      this.become(isOpen || isReached ? 'reconnecting' : 'offline', isReached ? error.message : '');
      return { isOpen, waitMs: (error.retryAfterS || 0) * 1000 };
    }
  }
}
