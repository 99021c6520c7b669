// The service is the truth, events are hints. All reads go through one queue, one after the other,
// so that an older answer can never overwrite a newer one.

const GATHER_MS = 30; // a burst of events becomes one read
const FEW = 4; // more changed approvals than this are read as a snapshot
const RETRY_MS = 2000;

export function makeSync(api, state) {
  let all = false;
  const changed = new Map(); // approval id -> those who wait for its next reading
  let running = false;
  let timer = 0;
  let epoch = 0; // moves when the sign-in does: answers of an older one are dropped

  // Counted from before the request: what is shown errs towards too little time.
  function keep(approval, asked) {
    const known = state.items.get(approval.id);
    if (!known && approval.state !== 'pending') return;
    if (known && known.approval.state !== 'pending') return; // settled is final
    state.items.set(approval.id, { approval, deadline: asked + (approval.remaining_ms || 0) });
    state.emit('item', approval.id);
  }

  function forget(id) {
    const known = state.items.get(id);
    if (!known || known.approval.state !== 'pending') return;
    state.items.set(id, { ...known, approval: { ...known.approval, state: 'unknown' } });
    state.emit('item', id);
  }

  async function readOne(id) {
    const now = epoch;
    const asked = performance.now();
    try {
      const approval = await api.approval(id);
      if (now === epoch) keep(approval, asked);
    } catch (error) {
      if (error.status !== 404) throw error;
      if (now === epoch) forget(id);
    }
  }

  async function readAll() {
    const now = epoch;
    const asked = performance.now();
    const before = [...state.items.values()].filter((i) => i.approval.state === 'pending');
    const list = await api.pending();
    if (now !== epoch) return;
    list.sort((a, b) => (a.id < b.id ? -1 : 1));
    const ids = new Set(list.map((approval) => approval.id));
    for (const approval of list) keep(approval, asked);
    for (const { approval } of before) if (!ids.has(approval.id)) await readOne(approval.id);
    if (now !== epoch) return;
    state.loaded = true;
    state.emit('loaded');
  }

  async function step() {
    const whole = all || changed.size > FEW;
    const taken = whole ? [...changed] : [...changed].slice(0, 1);
    for (const [id] of taken) changed.delete(id);
    if (whole) all = false;
    try {
      if (whole) await readAll();
      else await readOne(taken[0][0]);
    } finally {
      for (const [, waiting] of taken) waiting.forEach((resolve) => resolve());
    }
  }

  async function run() {
    running = true;
    let wait = 0;
    while (!wait && state.auth && (all || changed.size)) {
      try {
        await step();
      } catch (error) {
        all = true;
        wait = Math.max(RETRY_MS, (error.retryAfterS || 0) * 1000);
        state.emit('sync-failed', error);
      }
    }
    running = false;
    if (wait) kick(wait);
  }

  function kick(delay) {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (!running) run();
    }, delay);
  }

  return {
    snapshot() {
      all = true;
      kick(0);
    },
    // Resolves when the approval was read again, or could not be.
    touch(id) {
      const known = state.items.get(id);
      if (known && known.approval.state !== 'pending') return Promise.resolve();
      return new Promise((resolve) => {
        changed.set(id, [...(changed.get(id) || []), resolve]);
        kick(GATHER_MS);
      });
    },
    // The answer to a decision may be the settled approval itself.
    accept(approval) {
      if (approval?.id && approval.state && approval.display) keep(approval, performance.now());
    },
    reset() {
      epoch += 1;
      clearTimeout(timer);
      all = false;
      for (const waiting of changed.values()) waiting.forEach((resolve) => resolve());
      changed.clear();
      state.items.clear();
      state.loaded = false;
      state.emit('reset');
    },
    // An event names what changed; when it does not, everything is read.
    event({ type, data }) {
      const id = [data?.approval?.id, data?.approval, data?.id].find(
        (value) => typeof value === 'string' && value.startsWith('apr_')
      );
      if (id) this.touch(id);
      else if (type === 'resync' || type.startsWith('approval.')) this.snapshot();
    },
  };
}
