// What the page knows, in one place. Views read it and are told of changes; only sync.js and app.js
// write it.

export function makeState() {
  const listeners = new Map();
  return {
    auth: null,
    host: location.host,
    identity: '',
    connection: { name: 'connecting', since: Date.now(), reason: '' },
    loaded: false, // a whole snapshot was seen since sign-in
    items: new Map(), // approval id -> { approval, deadline }: deadline on performance.now()
    drafts: new Map(), // approval id -> typed reply; outlives an expired sign-in

    get role() {
      return this.auth ? this.auth.role : '';
    },
    get mayDecide() {
      return this.role === 'approver';
    },
    get offline() {
      return this.connection.name === 'offline';
    },
    pendingCount() {
      let n = 0;
      for (const { approval } of this.items.values()) n += approval.state === 'pending' ? 1 : 0;
      return n;
    },

    on(kind, fn) {
      if (!listeners.has(kind)) listeners.set(kind, []);
      listeners.get(kind).push(fn);
    },
    emit(kind, detail) {
      for (const fn of listeners.get(kind) || []) fn(detail);
    },
  };
}
