// The service is the truth, events are hints. All reads go through one queue, one after the other,
// so that an older answer can never overwrite a newer one.

const GATHER_MS = 30; // a burst of events becomes one read
const FEW = 4; // more changed approvals than this are read as a snapshot
const RETRY_MS = 2000;

export class Sync {
  constructor(api, state) {
    this.api = api;
    this.state = state;
    this.all = false; // the whole list is to be read
    this.changed = new Map(); // approval id -> those who wait for its next reading
    this.running = false;
    this.timer = 0;
    this.notBefore = 0;
    this.epoch = 0; // moves when the sign-in does: answers to an older one are dropped
  }

  snapshot() {
    this.all = true;
    this.kick(0);
  }

  // Resolves when the approval was read again, or could not be.
  touch(id) {
    const known = this.state.items.get(id);
    const isSettled = known && known.approval.state !== 'pending';
    if (!this.state.auth || isSettled) return Promise.resolve();
    return new Promise((resolve) => {
      this.changed.set(id, [...(this.changed.get(id) || []), resolve]);
      this.kick(GATHER_MS);
    });
  }

  // The answer to a decision may be the settled approval itself.
  accept(approval) {
    if (approval?.id && approval.state && approval.display) this.keep(approval, performance.now());
  }

  // An event names what changed; when it does not, everything is read.
  event({ type, data }) {
    const id = [data?.approval?.id, data?.approval, data?.id].find(
      (value) => typeof value === 'string' && value.startsWith('apr_')
    );
    if (id) this.touch(id);
    else if (type === 'resync' || type.startsWith('approval.')) this.snapshot();
  }

  reset() {
    this.epoch += 1;
    clearTimeout(this.timer);
    this.timer = 0;
    this.notBefore = 0;
    this.all = false;
    this.answer([...this.changed]);
    this.changed.clear();
    this.state.items.clear();
    this.state.loaded = false;
    this.state.emit('reset');
  }

  answer(entries) {
    for (const [, waiting] of entries) waiting.forEach((resolve) => resolve());
  }

  // Counted from before the request: what is shown errs towards too little time.
  keep(approval, asked) {
    const { items } = this.state;
    const known = items.get(approval.id);
    if (!known && approval.state !== 'pending') return;
    if (known && known.approval.state !== 'pending') return; // settled is final
    items.set(approval.id, { approval, deadline: asked + (approval.remaining_ms || 0) });
    this.state.emit('item', approval.id);
  }

  forget(id) {
    const known = this.state.items.get(id);
    if (!known || known.approval.state !== 'pending') return;
    const approval = { ...known.approval, state: 'unknown' };
    this.state.items.set(id, { ...known, approval });
    this.state.emit('item', id);
  }

  async readOne(id) {
    const now = this.epoch;
    const asked = performance.now();
    try {
      const approval = await this.api.approval(id);
      if (now === this.epoch) this.keep(approval, asked);
    } catch (error) {
      if (error.status !== 404) throw error;
      if (now === this.epoch) this.forget(id);
    }
  }

  async readAll() {
    const now = this.epoch;
    const asked = performance.now();
    const before = [...this.state.items.values()].map((item) => item.approval);
    const list = await this.api.pending();
    if (now !== this.epoch) return;
    list.sort((a, b) => (a.id < b.id ? -1 : 1));
    list.forEach((approval) => this.keep(approval, asked));
    // What was pending and is not listed any more has an outcome.
    const ids = new Set(list.map((approval) => approval.id));
    const missing = before.filter(({ id, state }) => state === 'pending' && !ids.has(id));
    for (const { id } of missing) await this.readOne(id);
    if (now !== this.epoch) return;
    this.state.loaded = true;
    this.state.emit('loaded');
  }

  async step() {
    const whole = this.all || this.changed.size > FEW;
    const taken = [...this.changed].slice(0, whole ? undefined : 1);
    taken.forEach(([id]) => this.changed.delete(id));
    if (whole) this.all = false;
    try {
      if (whole) await this.readAll();
      else await this.readOne(taken[0][0]);
    } finally {
      this.answer(taken);
    }
  }

  async run() {
    this.running = true;
    while (this.state.auth && (this.all || this.changed.size)) {
      try {
        await this.step();
      } catch (error) {
        this.all = true;
        const wait = Math.max(RETRY_MS, (error.retryAfterS || 0) * 1000);
        this.notBefore = performance.now() + wait;
        break;
      }
    }
    this.running = false;
    if (this.state.auth && this.all) this.kick(0);
  }

  // A timer that runs is left alone: a flood of events must not put the reading off.
  kick(delay) {
    if (this.timer) return;
    const wait = Math.max(delay, this.notBefore - performance.now());
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (!this.running) this.run();
    }, wait);
  }
}
