// Wires the parts together: sign-in, snapshot, stream, clock.
import { makeApi } from './api.js';
import { makeState } from './state.js';
import { Sync } from './sync.js';
import { Live } from './live.js';
import { Cards } from './cards.js';
import { makeStrip } from './strip.js';
import { makeSignIn } from './signin.js';
import { makeAnnouncer } from './announce.js';
import { dropAuth, loadAuth, onAuthChange, saveAuth, takeCode } from './auth.js';

const TICK_MS = 1000;
const READY_MS = 30000;
const JUMP_MS = 5000;
const AUDIT_TEXT =
  'Audit log cannot be written: everything is being denied. On the machine: gatehouse doctor';

const byId = (id) => document.getElementById(id);
const code = takeCode();
const state = makeState();
const api = makeApi(
  () => (state.auth ? state.auth.token : ''),
  () => leave('expired')
);
const sync = new Sync(api, state);
const announce = makeAnnouncer(byId('say'), byId('alarm'), state);
const live = new Live(api, {
  open: fresh,
  event: (event) => sync.event(event),
  state: (connection) => {
    state.connection = connection;
    state.emit('connection');
  },
});
const strip = makeStrip(state, announce, {
  onRetry: () => {
    live.retry();
    fresh();
  },
  onSignOut: () => leave('out'),
});
const cards = new Cards({ api, state, sync, announce });
const signIn = makeSignIn(exchange);

function show(view) {
  byId('main').replaceChildren(view);
}

// Everything is read again: after every (re)connect and whenever the page may have slept.
function fresh() {
  if (!state.auth) return;
  sync.snapshot();
  checkReady();
}

async function checkReady() {
  const { auth } = state;
  if (!auth) return;
  let text = '';
  try {
    await api.ready();
  } catch (error) {
    if (error.status === 503 && error.code !== 'stopping') text = AUDIT_TEXT;
  }
  if (state.auth === auth) strip.degraded(text);
}

async function readStatus() {
  const { auth } = state;
  try {
    const status = await api.status();
    if (state.auth !== auth) return;
    if (typeof status.host === 'string') state.host = status.host;
    if (typeof status.you?.name === 'string') state.identity = status.you.name;
    state.emit('host');
  } catch {
    // The address bar's host stands.
  }
}

function enter(auth) {
  state.auth = auth;
  state.identity = typeof auth.name === 'string' ? auth.name : '';
  sync.reset();
  state.emit('auth');
  show(cards.view);
  live.start();
  readStatus();
  fresh();
}

function leave(reason) {
  if (state.auth) dropAuth(state.auth.token);
  state.auth = null;
  live.stop();
  sync.reset();
  state.emit('auth');
  signIn.show(reason);
  show(signIn.view);
}

async function exchange(oneTime) {
  try {
    const { token, role, expires_at, name } = await api.login(oneTime);
    const auth = { token, role, expires_at, name };
    saveAuth(auth);
    enter(auth);
  } catch (error) {
    const kept = loadAuth();
    if (kept && !state.auth) enter(kept);
    else if (!kept) leave(error.status ? String(error.status) : 'failed');
  }
}

onAuthChange((auth) => {
  if (!auth) leave('none');
  else if (!state.auth || state.auth.token !== auth.token) enter(auth);
});

addEventListener('hashchange', () => {
  const another = takeCode();
  if (another) exchange(another);
});
addEventListener('online', () => {
  live.retry();
  fresh();
});
addEventListener('pagehide', () => live.stop());
addEventListener('pageshow', (event) => {
  if (event.persisted && state.auth) {
    live.start();
    fresh();
  }
});
document.addEventListener('visibilitychange', () => {
  live.check();
  if (document.hidden) return;
  cards.rearm();
  fresh();
});

// The two clocks drift apart when the machine slept: then the deadlines here are wrong.
let drift = Date.now() - performance.now();
setInterval(() => {
  const now = Date.now() - performance.now();
  if (Math.abs(now - drift) > JUMP_MS) fresh();
  drift = now;
  cards.tick();
}, TICK_MS);
setInterval(() => {
  if (!document.hidden) checkReady();
}, READY_MS);

const kept = loadAuth();
if (code) exchange(code);
else if (kept) enter(kept);
else leave('none');
