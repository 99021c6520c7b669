// A small stand-in for the service, after the API contract, for states that are hard to provoke in
// the real one: failures, delays, changed digests, a log that cannot be written.
import { createServer } from 'node:http';
import { createHash, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';

const WEB = new URL('../../web/', import.meta.url);
const TYPES = {
  html: 'text/html; charset=utf-8',
  css: 'text/css',
  js: 'text/javascript',
  svg: 'image/svg+xml',
};

export const PAGE_HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
    "trusted-types 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-cache',
};

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function readBody(req) {
  let text = '';
  for await (const chunk of req) text += chunk;
  return text ? JSON.parse(text) : {};
}

export class Fake {
  constructor() {
    this.tokens = new Map([
      ['approver-token', { name: 'ana', role: 'approver' }],
      ['viewer-token', { name: 'vic', role: 'viewer' }],
    ]);
    this.codes = new Map();
    this.approvals = new Map();
    this.streams = new Set();
    this.streamTokens = [];
    this.log = []; // "METHOD path" of every request
    this.events = [];
    this.boot = 'boot1';
    this.pageSize = 200;
    this.degraded = false;
    this.fail = new Map(); // "METHOD path-suffix" -> function(req, res) that answers instead
    this.n = 0;
  }

  async start(port = 0) {
    this.server = createServer((req, res) =>
      this.handle(req, res).catch((error) => {
        if (!res.headersSent) this.problem(res, 500, 'internal', String(error));
      })
    );
    this.server.keepAliveTimeout = 1000;
    await new Promise((resolve) => this.server.listen(port, '127.0.0.1', resolve));
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}`;
    this.beat = setInterval(() => this.streams.forEach((res) => res.write(': beat\n\n')), 5000);
    return this;
  }

  async stop() {
    clearInterval(this.beat);
    this.dropStreams();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  // The same state behind the same port, as after a restart.
  async restart() {
    this.boot = `boot${Math.random()}`;
    this.events = [];
    await this.start(this.port);
  }

  dropStreams() {
    for (const res of this.streams) res.destroy();
    this.streams.clear();
  }

  code(role = 'approver', code = randomBytes(16).toString('hex')) {
    this.codes.set(code, role);
    return code;
  }

  emit(type, data) {
    const id = `${this.boot}-${this.events.length + 1}`;
    const text = `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
    this.events.push({ id, text });
    for (const res of this.streams) res.write(text);
  }

  ask(fields = {}) {
    this.n += 1;
    const n = String(this.n).padStart(4, '0');
    const { life_ms: lifeMs = 300000, silent = false, ...rest } = fields;
    const text = rest.display?.text ?? 'npm test';
    const approval = {
      id: `apr_${n}`,
      decision: `dec_${n}`,
      session: 'ses_0001',
      agent: 'claude-code',
      title: 'fix the parser',
      state: 'pending',
      caller: 'waiting',
      tool: 'run_command',
      action: 'execute',
      target: { program: 'npm', args: ['test'], cwd: '/home/ana/src/api' },
      parts: [],
      display: { text, hidden_characters: 0 },
      preview: { kind: 'none', files: [], text: null },
      narration: null,
      why: 'tier ask: no grant matches',
      warning: null,
      taint: null,
      offered: ['allow', 'allow_always', 'deny'],
      digest:
        'sha256-' +
        createHash('sha256')
          .update(n + text)
          .digest('hex'),
      created_at: new Date().toISOString(),
      expires_at: new Date(Date.now() + lifeMs).toISOString(),
      settled_at: null,
      settled_by: null,
      via: null,
      feedback: null,
      ...rest,
    };
    const kept = { approval, deadline: Date.now() + lifeMs, code: null };
    this.approvals.set(approval.id, kept);
    this.schedule(kept);
    if (!silent) this.emit('approval.created', { id: approval.id });
    return approval;
  }

  schedule(kept) {
    clearTimeout(kept.timer);
    kept.timer = setTimeout(() => {
      this.settle(kept.approval.id, 'expired', { code: 'expired' });
    }, kept.deadline - Date.now());
    kept.timer.unref();
  }

  settle(id, state, { by = null, via = null, feedback = null, code = null, silent = false } = {}) {
    const kept = this.approvals.get(id);
    if (!kept || kept.approval.state !== 'pending') return;
    clearTimeout(kept.timer);
    const settled_at = new Date().toISOString();
    Object.assign(kept.approval, { state, settled_at, settled_by: by, via, feedback });
    kept.code = code;
    if (!silent) this.emit('approval.settled', { id });
  }

  view({ approval, deadline }) {
    const pending = approval.state === 'pending';
    return { ...approval, remaining_ms: pending ? Math.max(0, deadline - Date.now()) : 0 };
  }

  json(res, status, body, headers = {}) {
    res.writeHead(status, {
      'Content-Type': 'application/json',
      'Cache-Control': 'no-store',
      ...headers,
    });
    res.end(JSON.stringify(body));
  }

  problem(res, status, code, detail, headers = {}) {
    const body = {
      type: 'about:blank',
      title: code,
      status,
      detail,
      code,
      trace_id: '0'.repeat(32),
    };
    this.json(res, status, body, { 'Content-Type': 'application/problem+json', ...headers });
  }

  async page(res, path) {
    const name = path === '/' ? 'index.html' : path.slice(1);
    if (!/^[a-z-]+\.[a-z]+$/.test(name)) return this.problem(res, 404, 'not_found', 'no such page');
    const data = await readFile(new URL(name, WEB)).catch(() => null);
    if (!data) return this.problem(res, 404, 'not_found', 'no such page');
    res.writeHead(200, { 'Content-Type': TYPES[name.split('.').pop()], ...PAGE_HEADERS });
    return res.end(data);
  }

  foreign(req) {
    const site = req.headers['sec-fetch-site'];
    const { origin } = req.headers;
    if (origin && origin !== `http://${req.headers.host}`) return true;
    return site === 'cross-site' || site === 'same-site';
  }

  async handle(req, res) {
    const url = new URL(req.url, this.url);
    const path = url.pathname;
    this.log.push(`${req.method} ${path}`);
    if (this.foreign(req) && path !== '/')
      return this.problem(res, 403, 'origin', 'foreign origin');
    for (const [where, answer] of this.fail) {
      if (`${req.method} ${path}`.endsWith(where) || where === `${req.method} ${path}`) {
        if (await answer(req, res)) return undefined;
      }
    }
    if (path === '/' || /^\/[a-z-]+\.[a-z]+$/.test(path)) return this.page(res, path);
    if (path === '/v1/login') return this.login(req, res);
    const who = this.tokens.get((req.headers.authorization || '').replace(/^Bearer /, ''));
    if (!who) return this.problem(res, 401, 'unauthorized', 'no valid token');
    if (path === '/readyz') {
      if (this.degraded)
        return this.problem(res, 503, 'audit_unavailable', 'the log cannot be written');
      return this.json(res, 200, { ready: true });
    }
    if (path === '/v1/status')
      return this.json(res, 200, { version: '0', host: 'dev-3', you: who });
    if (path === '/v1/events') return this.stream(req, res);
    if (path === '/v1/approvals') return this.list(url, res);
    return this.one(req, res, path, who);
  }

  async login(req, res) {
    const { code } = await readBody(req);
    const role = this.codes.get(code);
    if (!role) return this.problem(res, 401, 'unauthorized', 'no such code');
    this.codes.delete(code);
    const expires_at = new Date(Date.now() + 12 * 3600e3).toISOString();
    return this.json(res, 200, { token: `${role}-token`, role, expires_at });
  }

  stream(req, res) {
    res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    res.write(': hello\n\n');
    const last = req.headers['last-event-id'];
    if (last) {
      const at = this.events.findIndex((event) => event.id === last);
      if (at < 0) res.write('event: resync\ndata: {}\n\n');
      else this.events.slice(at + 1).forEach((event) => res.write(event.text));
    }
    this.streams.add(res);
    res.on('close', () => this.streams.delete(res));
  }

  list(url, res) {
    const after = url.searchParams.get('cursor') || '';
    const all = [...this.approvals.values()].filter(
      ({ approval }) => approval.state === 'pending' && approval.id > after
    );
    const items = all.slice(0, this.pageSize).map((kept) => this.view(kept));
    const next_cursor = all.length > items.length ? items[items.length - 1].id : null;
    return this.json(res, 200, { items, next_cursor });
  }

  async one(req, res, path, who) {
    const decision = /^\/v1\/sessions\/[^/]+\/decisions\/dec_(\w+)$/.exec(path);
    if (decision) {
      const kept = this.approvals.get(`apr_${decision[1]}`);
      const allowed = kept.approval.state.startsWith('allowed') && !kept.code;
      return this.json(res, 200, { decision: allowed ? 'allow' : 'deny', code: kept.code });
    }
    const [, id, rest] = /^\/v1\/approvals\/(\w+)(\/\w+)?$/.exec(path) || [];
    const kept = this.approvals.get(id);
    if (!kept) return this.problem(res, 404, 'not_found', 'no such approval');
    if (req.method === 'GET') return this.json(res, 200, this.view(kept), { ETag: '"r1"' });
    if (who.role !== 'approver')
      return this.problem(res, 403, 'forbidden', 'a viewer changes nothing');
    if (rest === '/decision') return this.decide(req, res, kept, who);
    if (rest === '/extend') return this.extend(req, res, kept);
    return this.problem(res, 405, 'method_not_allowed', 'no such method');
  }

  async decide(req, res, kept, who) {
    const { decision, feedback = null } = await readBody(req);
    const { approval } = kept;
    const match = req.headers['if-match'];
    if (!match) return this.problem(res, 428, 'precondition_required', 'If-Match is missing');
    if (match !== `"${approval.digest}"`) return this.problem(res, 412, 'digest', 'another digest');
    const state = { allow: 'allowed', allow_always: 'allowed_always', deny: 'denied' }[decision];
    if (approval.state === 'expired') return this.problem(res, 410, 'expired', 'expired');
    if (approval.state !== 'pending' && approval.state !== state) {
      return this.problem(res, 409, 'already_settled', `already ${approval.state}`);
    }
    this.settle(approval.id, state, { by: who.name, via: 'web', feedback });
    return this.json(res, 200, this.view(kept));
  }

  async extend(req, res, kept) {
    const { seconds } = await readBody(req);
    if (kept.approval.state !== 'pending')
      return this.problem(res, 409, 'already_settled', 'settled');
    if (!kept.fixed) {
      kept.deadline += seconds * 1000;
      kept.approval.expires_at = new Date(kept.deadline).toISOString();
      this.schedule(kept);
      this.emit('approval.updated', { id: kept.approval.id });
    }
    return this.json(res, 200, this.view(kept));
  }

  // Makes the next matching request wait before it goes on.
  slow(where, ms) {
    this.fail.set(where, async () => {
      await sleep(ms);
      return false;
    });
  }
}

export async function startFake() {
  return new Fake().start();
}
