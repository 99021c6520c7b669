// Signing in, and staying in step with the service: streams, restarts, tabs.
import test from 'node:test';
import assert from 'node:assert/strict';
import { useFake } from './fixture.mjs';
import { armed, card, openPage, press, untilLive } from './browser.mjs';

const t = useFake();
const { signIn, sees, waiting, until, asked, decisions } = t;

test('without a token: the sign-in view, and the command that helps', async () => {
  await t.page.goto(t.fake.url);
  await sees('You are not signed in here.');
  await sees('gatehouse open');
  assert.equal(await t.page.title(), 'gatehouse');
  assert.equal(await t.page.locator('#strip').isVisible(), false);
  assert.equal(t.fake.log.filter((line) => line.includes('/v1/')).length, 0);
  await t.page.getByLabel('Code, or the whole link').fill('wrong');
  await press(t.page, 'Sign in');
  await sees('This code is not valid.');
  await t.page.getByLabel('Code, or the whole link').fill(` ${t.fake.url}/#code=${t.fake.code()} `);
  await press(t.page, 'Sign in');
  await untilLive(t.page);
  await sees('signed in as ana (approver)');
});

test('a code in the fragment is spent once and leaves no trace', async () => {
  const code = t.fake.code();
  await t.page.goto(`${t.fake.url}/#code=${code}`);
  await untilLive(t.page);
  assert.equal(t.page.url(), `${t.fake.url}/`);
  assert.equal(await t.page.evaluate(() => history.length), 2); // about:blank and the page
  await t.page.reload();
  await untilLive(t.page);
  assert.equal(asked('POST /v1/login'), 1);
  assert.deepEqual(await t.browser.context.cookies(), []);
  await t.page.evaluate(() => localStorage.clear());
  await t.page.goto('about:blank');
  await t.page.goto(`${t.fake.url}/#code=${code}`);
  await sees('This code is not valid.');
});

test('nothing in the address names another server', async () => {
  const hostile = 'http://127.0.0.1:9/';
  await t.page.goto(
    `${t.fake.url}/?url=${hostile}&server=${hostile}&api=${hostile}&token=approver-token`
  );
  await sees('You are not signed in here.');
  await t.page.goto(`${t.fake.url}/?url=${hostile}#code=${t.fake.code()}&url=${hostile}`);
  await untilLive(t.page);
  assert.equal(t.page.url(), `${t.fake.url}/`);
});

test('an ended sign-in keeps what was typed', async () => {
  await signIn();
  t.fake.ask();
  await waiting(1);
  await card(t.page).getByLabel('Reply to the agent').fill('use the lockfile');
  t.fake.tokens.delete('approver-token');
  await press(card(t.page), 'Deny');
  await sees('Your sign-in has ended');
  assert.equal(await t.page.locator('article').count(), 0);
  assert.equal(await t.page.evaluate(() => localStorage.length), 0);
  t.fake.tokens.set('approver-token', { name: 'ana', role: 'approver' });
  await t.page.getByLabel('Code, or the whole link').fill(t.fake.code());
  await press(t.page, 'Sign in');
  await waiting(1);
  assert.equal(
    await card(t.page).getByLabel('Reply to the agent').inputValue(),
    'use the lockfile'
  );
});

test('offline: cards stay, decisions are off; back: the right set without doubles', async () => {
  await signIn();
  const gone = t.fake.ask();
  t.fake.ask();
  await waiting(2);
  await t.fake.stop();
  await sees(/^Offline since \d\d:\d\d:\d\d \u2013 decisions are off\.$/);
  await sees('(estimated)');
  for (const name of ['Deny', 'Run command once']) {
    const node = card(t.page).getByRole('button', { name });
    assert.equal(await node.getAttribute('aria-disabled'), 'true');
    await node.evaluate((element) => element.click());
  }
  assert.equal(await t.page.locator('article').count(), 2);
  t.fake.settle(gone.id, 'expired', { code: 'expired', silent: true });
  t.fake.ask({ silent: true });
  await t.fake.restart();
  await press(t.page, 'Retry now');
  await untilLive(t.page);
  await waiting(2);
  await sees('Denied: nobody answered', card(t.page, 0));
  assert.equal(await t.page.locator('article').count(), 3);
  await armed(card(t.page, 1));
  assert.equal(decisions(), 0);
});

test('a broken stream comes back with its last id and misses nothing', async () => {
  await signIn();
  t.fake.ask();
  await waiting(1);
  t.fake.dropStreams();
  t.fake.ask({ silent: true });
  await waiting(2);
  await untilLive(t.page);
  assert.ok(asked('GET /v1/events') >= 2);
  t.fake.ask();
  await waiting(3);
});

test('resync reads the whole list again', async () => {
  await signIn();
  await waiting(0);
  t.fake.ask({ silent: true });
  t.fake.emit('resync', {});
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
    t.fake.ask({ silent: true });
    await t.page.evaluate(wake);
    await waiting(t.fake.approvals.size);
  }
});

test('every page of the list is shown, oldest first', async () => {
  t.fake.pageSize = 2;
  for (let i = 0; i < 5; i++) t.fake.ask({ title: `t${i}` });
  await signIn();
  await waiting(5);
  const titles = await t.page.locator('article .meta').allInnerTexts();
  assert.deepEqual(
    titles.map((title) => title.slice(0, 2)),
    ['t0', 't1', 't2', 't3', 't4']
  );
});

test('a failing list is tried again', async () => {
  let failures = 1;
  t.fake.ask();
  t.fake.fail.set('GET /v1/approvals', (req, res) => {
    if (failures-- <= 0) return false;
    t.fake.problem(res, 500, 'internal', 'no');
    return true;
  });
  await signIn();
  await waiting(1);
});

test('a log that cannot be written is said on top', async () => {
  t.fake.degraded = true;
  await signIn();
  await sees('Audit log cannot be written: everything is being denied');
  assert.match(await t.page.locator('#alarm').textContent(), /everything is being denied/);
  t.fake.degraded = false;
  await t.page.evaluate(() => dispatchEvent(new Event('online')));
  await t.page.locator('#banner').waitFor({ state: 'hidden' });
});

test('eight tabs share one stream; when its tab closes another takes over', async () => {
  await signIn();
  const tabs = [t.page];
  for (let i = 1; i < 8; i++) {
    const { page: tab } = await openPage(t.browser.context, t.fake.url);
    await tab.goto(t.fake.url);
    await untilLive(tab);
    tabs.push(tab);
  }
  await until(() => t.fake.streams.size === 1, 'one stream');
  t.fake.ask();
  for (const tab of tabs) await waiting(1, tab);
  await press(card(tabs[7]), 'Deny');
  for (const tab of tabs) await tab.getByText('Denied by ana').waitFor();
  for (const tab of tabs.slice(1, 7)) await tab.close();
  await until(() => t.fake.streams.size === 1, 'one stream after closing');
  t.fake.ask();
  await waiting(1, tabs[0]);
  await waiting(1, tabs[7]);
});

test('a visible tab takes the stream from one that does not answer', async () => {
  await signIn();
  const { page: other } = await openPage(t.browser.context, t.fake.url);
  await other.goto(t.fake.url);
  await untilLive(other);
  const cdp = await t.browser.context.newCDPSession(t.page);
  await cdp.send('Debugger.enable');
  const paused = new Promise((resolve) => cdp.once('Debugger.paused', resolve));
  await cdp.send('Debugger.pause');
  await paused;
  const before = asked('GET /v1/events');
  await other.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await until(() => asked('GET /v1/events') > before, 'a stream of the other tab');
  t.fake.ask();
  await waiting(1, other);
  await cdp.send('Debugger.disable');
  await waiting(1, t.page);
  await until(() => t.fake.streams.size === 1, 'one stream');
});

test('signing out and in again reaches every tab', async () => {
  await signIn();
  const { page: other } = await openPage(t.browser.context, t.fake.url);
  await other.goto(t.fake.url);
  await untilLive(other);
  await press(t.page, 'Sign out');
  await sees('You are signed out.');
  await other.getByText('You are not signed in here.').waitFor();
  await until(() => t.fake.streams.size === 0, 'no stream');
  await t.page.goto(`${t.fake.url}/#code=${t.fake.code('viewer')}`);
  await other.getByText('signed in as vic (viewer)').waitFor();
});
