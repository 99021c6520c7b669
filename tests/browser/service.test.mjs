// The page against the real service.
import test from 'node:test';
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { createServer as listen, connect } from 'node:net';
import { useService } from './fixture.mjs';
import { SKIP } from './service.mjs';
import { armed, card, openPage, press, untilLive } from './browser.mjs';

if (SKIP) console.log(`# the real service is not tested: ${SKIP}`);

const check = (name, fn) => test(name, { skip: SKIP }, fn);
const t = useService();
const { signIn, sees, waiting } = t;

check('signing in with a code, once; the address is clean; reload stays', async () => {
  const code = await t.service.code();
  await t.page.goto(`${t.service.url}/#code=${code}`);
  await untilLive(t.page);
  await sees('(approver)');
  await waiting(0);
  assert.equal(t.page.url(), `${t.service.url}/`);
  await t.page.reload();
  await untilLive(t.page);
  assert.deepEqual(await t.browser.context.cookies(), []);
  await t.page.evaluate(() => localStorage.clear());
  await t.page.goto('about:blank');
  await t.page.goto(`${t.service.url}/#code=${code}`);
  await sees('This code is not valid.');
  await sees('gatehouse open');
});

check('the policy is sent with the page and its files, and nothing breaks it', async () => {
  const answer = await t.page.goto(t.service.url);
  const headers = answer.headers();
  for (const part of [
    "default-src 'none'",
    "script-src 'self'",
    "frame-ancestors 'none'",
    "trusted-types 'none'",
  ]) {
    assert.ok(headers['content-security-policy'].includes(part), part);
  }
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['referrer-policy'], 'no-referrer');
  await sees('You are not signed in here.');
  assert.deepEqual(t.complaints, []);
  assert.deepEqual(await t.page.evaluate(() => window.violations), []);
  const script = await fetch(`${t.service.url}/app.js`);
  assert.match(script.headers.get('content-type'), /javascript/);
  assert.match(script.headers.get('content-security-policy'), /default-src 'none'/);
});

check('a request shows up live; allowing it answers the agent that waits', async () => {
  await signIn();
  const session = await t.service.session();
  const ask = await t.service.ask(session, { narration: 'just saying hello' });
  await waiting(1);
  assert.match(await t.page.title(), /^\(1\) .+ \u2013 gatehouse$/);
  assert.equal(await card(t.page).locator('.exact pre').innerText(), 'echo hello');
  await sees('The agent says (unverified):', card(t.page));
  const answer = ask.answer();
  await armed(card(t.page));
  await press(card(t.page), 'Run command once');
  await sees(/Allowed by/);
  const { decision, by, code } = await answer;
  assert.deepEqual([decision, by, code], ['allow', 'person', 'approved']);
});

check('a held request is answered in the request itself', async () => {
  await signIn();
  const session = await t.service.session();
  const held = t.service.call('agent', 'POST', `/v1/sessions/${session.id}/decisions`, {
    tool: 'run_command',
    action: 'execute',
    target: { program: 'echo', args: ['held'] },
    wait_s: 50,
  });
  await waiting(1);
  await armed(card(t.page));
  await press(card(t.page), 'Run command once');
  const { status, body } = await held;
  assert.deepEqual([status, body.decision], [200, 'allow']);
});

check('denying with a reply tells the agent', async () => {
  await signIn();
  const ask = await t.service.ask(await t.service.session());
  await waiting(1);
  await card(t.page).getByLabel('Reply to the agent').fill('use the lockfile');
  await press(card(t.page), 'Deny');
  await sees(/Denied by/);
  const { decision, code, reason } = await ask.answer();
  assert.deepEqual([decision, code], ['deny', 'denied_by_person']);
  assert.match(reason, /use the lockfile/);
});

check('a write shows its change with line numbers; the file stays as it was', async () => {
  await signIn();
  const session = await t.service.session();
  await t.service.ask(session, {
    tool: 'write_file',
    action: 'write',
    target: { path: 'notes.txt' },
    diff: { old: 'one\ntwo\nthree\n', new: 'one\n2\nthree\n' },
  });
  await waiting(1);
  const rows = await card(t.page)
    .locator('.diff tr:not(.hunk)')
    .evaluateAll((all) =>
      all.map((row) => [...row.cells].map((cell) => cell.textContent).join('|'))
    );
  assert.deepEqual(rows, ['1|1| |one', '2||\u2212|two', '|2|+|2', '3|3| |three']);
  await card(t.page).getByRole('button', { name: 'Write file once' }).waitFor();
});

check('always allows the same command from then on', async () => {
  await signIn();
  const session = await t.service.session();
  const ask = await t.service.ask(session);
  await waiting(1);
  await press(card(t.page), 'Always\u2026');
  await armed(card(t.page));
  await press(card(t.page), 'Allow always');
  await sees('always for this exact target');
  assert.equal((await ask.answer()).decision, 'allow_always');
  const again = await t.service.ask(session);
  assert.deepEqual([again.by, again.code], ['grant', 'granted']);
});

check('always settles what asks the same, and its cards say so', async () => {
  await signIn();
  const session = await t.service.session();
  const asks = [await t.service.ask(session), await t.service.ask(session)];
  await t.service.ask(session, { target: { program: 'echo', args: ['other'] } });
  await waiting(3);
  await press(card(t.page, 0), 'Always\u2026');
  await armed(card(t.page, 0));
  await press(card(t.page, 0), 'Allow always');
  await sees('always for this exact target', card(t.page, 0));
  await sees('Allowed by an always-allow', card(t.page, 1));
  await waiting(1);
  assert.equal((await asks[1].answer()).by, 'grant');
});

check('an unanswered request is denied by time, and the page says so', async () => {
  await signIn();
  const session = await t.service.session({ ask_timeout_s: 3 });
  const ask = await t.service.ask(session);
  await waiting(1);
  await sees(/^Denies itself in \d s$/);
  await sees('Denied: nobody answered');
  const { decision, by, code } = await ask.answer();
  assert.deepEqual([decision, by, code], ['deny', 'timeout', 'expired']);
});

check('the countdown agrees with the service, and extending moves it', async () => {
  await signIn();
  const ask = await t.service.ask(await t.service.session({ ask_timeout_s: 100 }));
  await waiting(1);
  const shown = await card(t.page).locator('.timer').innerText();
  const [, minutes, seconds] = /(\d+) min (\d+) s$/.exec(shown);
  const { remaining_ms } = await t.service.must('approver', 'GET', `/v1/approvals/${ask.approval}`);
  assert.ok(Math.abs(Number(minutes) * 60 + Number(seconds) - remaining_ms / 1000) < 3, shown);
  await press(card(t.page), 'Extend 5 min');
  await sees(/Denies itself in 6 min/);
});

check('an agent that withdraws, and a session that ends', async () => {
  await signIn();
  const session = await t.service.session();
  const one = await t.service.ask(session);
  await t.service.ask(session, { target: { program: 'echo', args: ['two'] } });
  await waiting(2);
  await t.service.call('agent', 'DELETE', `/v1/approvals/${one.approval}`);
  await sees('Cancelled:', card(t.page, 0));
  await t.service.call('agent', 'DELETE', `/v1/sessions/${session.id}`);
  await sees('Cancelled:', card(t.page, 1));
  await waiting(0);
});

check('requests made before the page opened are there; reload keeps them', async () => {
  const session = await t.service.session();
  for (const word of ['one', 'two', 'three']) {
    await t.service.ask(session, { target: { program: 'echo', args: [word] } });
  }
  await signIn();
  await waiting(3);
  assert.deepEqual(await t.page.locator('.exact pre').allInnerTexts(), [
    'echo one',
    'echo two',
    'echo three',
  ]);
  await t.page.reload();
  await waiting(3);
});

for (const signal of ['SIGTERM', 'SIGKILL']) {
  check(
    `the page comes back by itself after a restart (${signal}), the request is still there`,
    async () => {
      await signIn();
      const session = await t.service.session();
      const ask = await t.service.ask(session);
      await waiting(1);
      const digest = await card(t.page).locator('.digest').innerText();
      await t.service.halt(signal);
      await sees('decisions are off.');
      await t.service.start(t.service.listen);
      await untilLive(t.page);
      await waiting(1);
      assert.equal(await t.page.locator('article').count(), 1);
      assert.equal(await card(t.page).locator('.digest').innerText(), digest);
      await armed(card(t.page));
      await press(card(t.page), 'Run command once');
      await sees(/Allowed by/);
      assert.equal((await ask.answer()).decision, 'allow');
    }
  );
}

check('two pages: what one decides the other shows', async () => {
  await signIn();
  const { page: other } = await openPage(t.browser.context, t.service.url);
  await signIn('approver', other);
  const session = await t.service.session();
  await t.service.ask(session);
  await waiting(1);
  await waiting(1, other);
  await press(card(other), 'Deny');
  await other.getByText(/Denied by/).waitFor();
  await sees(/Denied by/);
  await waiting(0);
});

check('decided elsewhere at the same moment: a receipt, and one answer', async () => {
  await signIn();
  const ask = await t.service.ask(await t.service.session());
  await waiting(1);
  const { digest } = await t.service.must('approver', 'GET', `/v1/approvals/${ask.approval}`);
  // The page learns of it from the refusal of its own click, not from the event.
  await t.page.route('**/v1/events', (route) => route.abort());
  await t.page.route('**/decision', async (route) => {
    const headers = { 'If-Match': `"${digest}"` };
    await t.service.must(
      'approver',
      'PUT',
      `/v1/approvals/${ask.approval}/decision`,
      { decision: 'deny' },
      headers
    );
    await route.continue();
  });
  await armed(card(t.page));
  await press(card(t.page), 'Run command once');
  await sees(/Denied by/);
  assert.equal((await ask.answer()).code, 'denied_by_person');
});

check('a viewer watches; the service refuses a forged decision', async () => {
  await signIn('viewer');
  const ask = await t.service.ask(await t.service.session());
  await waiting(1);
  await sees('You can watch. To decide, ask for an approver token.');
  assert.equal(await t.page.locator('article button, article textarea').count(), 0);
  const status = await t.page.evaluate(async (id) => {
    const { token } = JSON.parse(localStorage.getItem('gatehouse.auth'));
    const all = { headers: { Authorization: `Bearer ${token}` } };
    const { digest } = await (await fetch(`/v1/approvals/${id}`, all)).json();
    const headers = {
      ...all.headers,
      'Content-Type': 'application/json',
      'If-Match': `"${digest}"`,
    };
    const body = JSON.stringify({ decision: 'allow' });
    return (await fetch(`/v1/approvals/${id}/decision`, { method: 'PUT', headers, body })).status;
  }, ask.approval);
  assert.equal(status, 403);
  await waiting(1);
});

check('hostile text is shown and does nothing', async () => {
  const markup = '<img src=x onerror="alert(1)">';
  const session = await t.service.session({ title: `${markup}\u202e`, agent: markup });
  await t.service.ask(session, {
    target: {
      program: 'echo',
      args: [markup, '\u202etxt.exe', '\u001b[31mred', 'a\nb', '</script>', 'javascript:alert(1)'],
    },
    narration: `${markup}\u202e\u001b[2J`,
    preview: `${markup}\u200b`,
  });
  await signIn();
  await waiting(1);
  const shown = await card(t.page).textContent();
  assert.ok(shown.includes(markup));
  assert.ok(shown.includes('\\u{202e}txt.exe'));
  assert.ok(shown.includes('\\x1b[31mred'));
  assert.equal(/[\u202e\u001b\u200b]/.test(shown), false);
  await sees('hidden characters are shown', card(t.page));
  assert.equal(await t.page.locator('main img, main a, main script').count(), 0);
  await press(card(t.page), 'Deny');
  await sees(/Denied by/);
});

check('nothing in the address names another server', async () => {
  await t.page.goto(`${t.service.url}/?url=http://127.0.0.1:9/&token=${t.service.tokens.approver}`);
  await sees('You are not signed in here.');
  assert.deepEqual(t.complaints, []);
});

check('a page of another origin gets nothing, in no way', async () => {
  const ask = await t.service.ask(await t.service.session());
  const server = createServer((req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/html' });
    res.end('<!doctype html><title>other</title><form method=post></form>');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const foreign = `http://127.0.0.1:${server.address().port}`;
  const { page: other } = await openPage(t.browser.context, foreign);
  await other.goto(foreign);
  const tries = await other.evaluate(
    async ([url, token, id]) => {
      const headers = { Authorization: `Bearer ${token}` };
      const put = {
        method: 'PUT',
        headers: { ...headers, 'Content-Type': 'application/json' },
        body: '{"decision":"allow"}',
      };
      const attempt = (path, options) =>
        fetch(url + path, options).then(
          (answer) => `${answer.type} ${answer.status}`,
          () => 'blocked'
        );
      const frame = document.createElement('iframe');
      const framed = new Promise((resolve) => {
        frame.onload = () => resolve(frame.contentDocument ? 'readable' : 'closed');
      });
      frame.src = url;
      document.body.append(frame);
      return {
        read: await attempt('/v1/approvals', { headers }),
        decide: await attempt(`/v1/approvals/${id}/decision`, put),
        blind: await attempt('/v1/login', {
          method: 'POST',
          mode: 'no-cors',
          body: '{"code":"x"}',
        }),
        framed: await framed,
      };
    },
    [t.service.url, t.service.tokens.approver, ask.approval]
  );
  assert.deepEqual([tries.read, tries.decide, tries.framed], ['blocked', 'blocked', 'closed']);
  assert.ok(['blocked', 'opaque 0'].includes(tries.blind), tries.blind);
  const after = await t.service.must('approver', 'GET', `/v1/approvals/${ask.approval}`);
  assert.equal(after.state, 'pending');
  await other.close();
  server.close();
});

check('the page works behind a forwarded port', async () => {
  const relay = listen((socket) => {
    const there = connect(Number(t.service.listen.split(':').pop()), '127.0.0.1');
    socket.pipe(there).pipe(socket);
    socket.on('error', () => there.destroy());
    there.on('error', () => socket.destroy());
  });
  await new Promise((resolve) => relay.listen(0, '127.0.0.1', resolve));
  const url = `http://localhost:${relay.address().port}`;
  const { page: far, complaints: said } = await openPage(t.browser.context, url);
  await far.goto(`${url}/#code=${await t.service.code()}`);
  await untilLive(far);
  const ask = await t.service.ask(await t.service.session());
  await waiting(1, far);
  await armed(card(far));
  await press(card(far), 'Run command once');
  assert.equal((await ask.answer()).decision, 'allow');
  assert.deepEqual(said, []);
  await far.close();
  relay.close();
});
