// Deciding: what a click does, and every way in which it can go wrong.
import test from 'node:test';
import assert from 'node:assert/strict';
import { useFake } from './fixture.mjs';
import { armed, card, press } from './browser.mjs';

const t = useFake();
const { signIn, sees, waiting, until, asked, decisions } = t;

test('typing goes on undisturbed, and no key decides anything', async () => {
  await signIn();
  t.fake.ask();
  await waiting(1);
  const reply = card(t.page).getByLabel('Reply to the agent');
  await reply.click();
  const typed = 'yes a 1 allow y\nenter yyy 111';
  for (const [i, key] of [...typed].entries()) {
    if (i % 6 === 5) t.fake.ask();
    await t.page.keyboard.press(key === '\n' ? 'Enter' : key === ' ' ? 'Space' : key);
  }
  await waiting(5);
  assert.equal(await reply.inputValue(), typed);
  assert.equal(await reply.evaluate((node) => node === document.activeElement), true);
  await t.page.locator('body').click({ position: { x: 5, y: 5 } });
  for (const key of ['Enter', 'Space', 'y', 'a', '1', 'Control+Enter', 'Escape'])
    await t.page.keyboard.press(key);
  assert.equal(decisions(), 0);
});

test('allowing is armed anew after appearing, changing and refocusing; denying always works', async () => {
  await signIn();
  const first = t.fake.ask();
  t.fake.ask();
  await waiting(2);
  const ignored = await t.page.evaluate(() => {
    dispatchEvent(new Event('focus'));
    const row = document.querySelector('article .row');
    const allow = row.querySelector('.allow:last-child');
    allow.click();
    return [allow.getAttribute('aria-disabled'), row.innerText.includes('Arming')];
  });
  assert.deepEqual(ignored, ['true', true]);
  assert.equal(decisions(), 0);
  await t.page.evaluate(() => {
    dispatchEvent(new Event('focus'));
    document.querySelectorAll('article')[1].querySelector('.deny').click();
  });
  await sees('Denied by ana');
  await armed(card(t.page, 0));
  await press(card(t.page, 0), 'Run command once');
  await sees('Allowed by ana');
  assert.equal(t.fake.approvals.get(first.id).approval.state, 'allowed');
  assert.equal(decisions(), 2);
});

test('a held key does not press twice, a modified one not at all', async () => {
  await signIn();
  t.fake.ask();
  await waiting(1);
  await armed(card(t.page));
  const allow = card(t.page).getByRole('button', { name: 'Run command once' });
  await allow.focus();
  await t.page.keyboard.press('Control+Enter');
  assert.equal(decisions(), 0);
  const prevented = await allow.evaluate(
    (node) =>
      !node.dispatchEvent(
        new KeyboardEvent('keydown', { key: 'Enter', repeat: true, cancelable: true })
      )
  );
  assert.equal(prevented, true);
  await t.page.keyboard.press('Enter');
  await sees('Allowed by ana');
});

test('denying with a reply, and the focus afterwards', async () => {
  await signIn();
  const one = t.fake.ask();
  t.fake.ask();
  await waiting(2);
  const words = 'use "lockfile"\n</script> \u{1f600} \u05d0\u05d1';
  await card(t.page).getByLabel('Reply to the agent').fill(words);
  await press(card(t.page), 'Deny');
  await sees('Denied by ana');
  assert.equal(t.fake.approvals.get(one.id).approval.feedback, words);
  await sees('Reply: use "lockfile"');
  assert.equal(await t.page.evaluate(() => document.activeElement.id), 'head-2');
  await card(t.page, 1).getByRole('button', { name: 'Deny' }).focus();
  await t.page.keyboard.press('Enter');
  await waiting(0);
  assert.equal(
    await t.page.evaluate(() => document.activeElement.textContent),
    'Nothing is waiting.'
  );
});

test('always: offered only when offered, with what it covers', async () => {
  await signIn();
  const one = t.fake.ask({
    display: { text: "npm test 'a b'", words: ['npm', 'test', "'a b'"], hidden_characters: 0 },
  });
  t.fake.ask({ offered: ['allow', 'deny'] });
  await waiting(2);
  assert.equal(await card(t.page, 1).getByRole('button', { name: 'Always' }).count(), 0);
  assert.equal(await card(t.page, 1).getByRole('button', { name: 'Allow always' }).count(), 0);
  await press(card(t.page), 'Always\u2026');
  const panel = card(t.page).locator('.panel');
  assert.match(await panel.innerText(), /exactly:\s+npm test 'a b'\s+in \/home\/ana\/src\/api/);
  await armed(card(t.page));
  await press(panel, 'Allow always');
  await sees('always for this exact target');
  assert.equal(t.fake.approvals.get(one.id).approval.state, 'allowed_always');
});

test('the card says Sending until the service answers, and sends once', async () => {
  await signIn();
  t.fake.ask();
  await waiting(1);
  let answer;
  const held = new Promise((resolve) => (answer = resolve));
  t.fake.fail.set('/decision', async () => {
    await held;
    return false;
  });
  await armed(card(t.page));
  await press(card(t.page), 'Run command once');
  await sees('Sending\u2026');
  for (const name of ['Deny', 'Extend 5 min', 'Run command once']) {
    const node = card(t.page).getByRole('button', { name });
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
    t.fake.ask();
    t.fake.ask();
    await waiting(2);
    t.fake.fail.set('/decision', (req, res) => {
      t.fake.problem(res, status, code, 'told so', { 'Retry-After': '7' });
      return true;
    });
    await press(card(t.page, 1), 'Deny');
    await sees(words, card(t.page, 1));
    assert.equal(await card(t.page, 0).getByText(words).count(), 0);
    await waiting(2);
    t.fake.fail.clear();
    await press(card(t.page, 1), 'Deny');
    await sees('Denied by ana', card(t.page, 1));
  });
}

test('an answer that is lost: an error at first, then the true outcome', async () => {
  await signIn();
  const one = t.fake.ask();
  await waiting(1);
  t.fake.fail.set('/decision', (req, res) => {
    res.destroy();
    return true;
  });
  await press(card(t.page), 'Deny');
  await sees('The service did not answer.', card(t.page));
  await waiting(1);
  t.fake.fail.set('/decision', async (req, res) => {
    t.fake.settle(one.id, 'denied', { by: 'ana', via: 'web', silent: true });
    res.destroy();
    return true;
  });
  await press(card(t.page), 'Deny');
  await sees('Denied by ana', card(t.page));
});

test('decided elsewhere, expired, gone: receipts in place', async () => {
  await signIn();
  const asks = [1, 2, 3, 4, 5].map(() => t.fake.ask());
  await waiting(5);
  await armed(card(t.page, 4));
  t.fake.settle(asks[0].id, 'denied', { by: 'ben', via: 'cli', silent: true });
  await press(card(t.page, 0), 'Run command once');
  await sees('Denied by ben via the command line', card(t.page, 0));
  t.fake.settle(asks[1].id, 'expired', { code: 'expired', silent: true });
  await press(card(t.page, 1), 'Run command once');
  await sees('Denied: nobody answered', card(t.page, 1));
  t.fake.approvals.delete(asks[2].id);
  await press(card(t.page, 2), 'Run command once');
  await sees('Gone: the service no longer knows this request', card(t.page, 2));
  t.fake.settle(asks[3].id, 'cancelled', { code: 'agent_gone' });
  await sees('Cancelled: the agent stopped', card(t.page, 3));
  t.fake.settle(asks[4].id, 'allowed', { by: 'ben', via: 'cli', code: 'operand_changed' });
  await sees('a file it names has changed', card(t.page, 4));
  await waiting(0);
  assert.equal(await t.page.locator('article').count(), 5);
  assert.equal(await t.page.locator('article.settled .allow').count(), 0);
  await press(card(t.page, 4), 'Dismiss');
  assert.equal(await t.page.locator('article').count(), 4);
  await press(t.page, 'Clear receipts');
  assert.equal(await t.page.locator('article').count(), 0);
});

test('a receipt keeps the place of its card while others wait', async () => {
  await signIn();
  const one = t.fake.ask();
  t.fake.ask();
  await waiting(2);
  const top = () =>
    card(t.page, 1).evaluate((node) => Math.round(node.getBoundingClientRect().top));
  await card(t.page, 1).hover();
  const earlier = await top();
  t.fake.settle(one.id, 'expired', { code: 'expired' });
  await sees('Denied: nobody answered');
  assert.equal(await top(), earlier);
});

test('a changed request is shown anew and allows nothing', async () => {
  await signIn();
  const one = t.fake.ask();
  await waiting(1);
  await armed(card(t.page));
  const old = one.digest.slice(7, 19);
  Object.assign(one, {
    digest: 'sha256-' + 'f'.repeat(64),
    display: { text: 'rm -rf /', hidden_characters: 0 },
  });
  await press(card(t.page), 'Run command once');
  await sees(`Digest ${old} is now Digest ${'f'.repeat(12)}`);
  await sees('rm -rf /');
  assert.equal(one.state, 'pending');
  await armed(card(t.page));
  await press(card(t.page), 'Run command once');
  await sees('Allowed by ana');
});
