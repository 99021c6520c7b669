// The real service on a state folder of its own, and its API as an agent or a person uses it.
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const BINARY = process.env.GATEHOUSE_BIN;
export const SKIP = BINARY ? false : 'GATEHOUSE_BIN does not name a gatehouse program';

const START_MS = 20000;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Service {
  static async create() {
    const service = new Service();
    service.folder = await mkdtemp(join(tmpdir(), 'gatehouse-service-'));
    service.state = join(service.folder, 'state');
    // The home and the temp folder themselves are refused as working directories.
    service.work = join(service.folder, 'home', 'work');
    await mkdir(service.work, { recursive: true });
    // The socket's folder is denied to agents, so nothing else lies below it.
    await mkdir(join(service.folder, 'run'), { mode: 0o700 });
    await writeFile(join(service.work, 'notes.txt'), 'one\ntwo\nthree\n');
    await service.start('127.0.0.1:0');
    return service;
  }

  async start(listen) {
    this.errors = '';
    const args = [
      'serve',
      '--state-dir',
      this.state,
      '--listen',
      listen,
      '--socket',
      join(this.folder, 'run', 's.sock'),
    ];
    this.child = spawn(BINARY, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: {
        ...process.env,
        HOME: join(this.folder, 'home'),
        XDG_CONFIG_HOME: join(this.folder, 'config'),
      },
    });
    this.child.stderr.on('data', (chunk) => (this.errors += chunk));
    this.ended = new Promise((resolve) => this.child.on('exit', (code) => resolve(code)));
    this.listen = await this.address();
    this.url = `http://${this.listen}`;
    this.tokens = { approver: await this.token('approver'), agent: await this.token('agent') };
  }

  // run.json is there once connections are accepted, and names this process.
  async address() {
    const end = Date.now() + START_MS;
    while (Date.now() < end && this.child.exitCode === null) {
      const text = await readFile(join(this.state, 'run.json'), 'utf8').catch(() => '');
      if (text && JSON.parse(text).pid === this.child.pid) return JSON.parse(text).listen;
      await sleep(20);
    }
    throw new Error(`the service did not start: ${this.errors}`);
  }

  async token(name) {
    return (await readFile(join(this.state, 'tokens', `${name}.token`), 'utf8')).trim();
  }

  async halt(signal = 'SIGTERM') {
    this.child.kill(signal);
    return this.ended;
  }

  // The same state folder and port.
  async restart(signal) {
    await this.halt(signal);
    await this.start(this.listen);
  }

  async close() {
    if (this.child.exitCode === null) await this.halt();
    await rm(this.folder, { recursive: true, force: true });
  }

  async call(role, method, path, body, headers = {}) {
    const response = await fetch(this.url + path, {
      method,
      headers: {
        Authorization: `Bearer ${this.tokens[role]}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, body: text ? JSON.parse(text) : null };
  }

  async must(...args) {
    const answer = await this.call(...args);
    if (answer.status >= 300) throw new Error(`${args[1]} ${args[2]}: ${JSON.stringify(answer)}`);
    return answer.body;
  }

  async code(role = 'approver') {
    return (await this.must('approver', 'POST', '/v1/login/codes', { role })).code;
  }

  async session(fields = {}) {
    return this.must('agent', 'POST', '/v1/sessions', {
      agent: 'test-agent',
      title: 'fix the parser',
      working_dir: this.work,
      mode: 'act',
      ...fields,
    });
  }

  // An agent that asks and does not hold: { approval, answer() } where answer() waits for the end.
  async ask(session, fields = {}) {
    const decision = await this.must('agent', 'POST', `/v1/sessions/${session.id}/decisions`, {
      tool: 'run_command',
      action: 'execute',
      target: { program: 'echo', args: ['hello'] },
      detached: true,
      ...fields,
    });
    const path = `/v1/sessions/${session.id}/decisions/${decision.id}`;
    return { ...decision, answer: () => this.settled(path) };
  }

  async settled(path) {
    for (let i = 0; i < 10; i++) {
      const { body } = await this.call('agent', 'GET', `${path}?wait_s=10`);
      if (body?.decision && body.decision !== 'ask') return body;
    }
    throw new Error('never settled');
  }
}
