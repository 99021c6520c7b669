// What the tests share: one browser a file, one service and one page a test.
import { after, afterEach, before, beforeEach } from 'node:test';
import assert from 'node:assert/strict';
import { startFake } from './fake.mjs';
import { SKIP, Service } from './service.mjs';
import { openBrowser, openPage, untilLive } from './browser.mjs';

const EXPECTED = /Failed to load resource/; // answers other than 2xx, as the tests provoke them

async function until(condition, what) {
  for (let i = 0; i < 200; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`never happened: ${what}`);
}

// After every test: the policy was not broken, nothing was complained of, nothing left the origin.
async function checkQuiet(t) {
  const isOurs = t.page.url().startsWith(t.url());
  const violations = isOurs ? await t.page.evaluate(() => window.violations) : [];
  for (const page of t.browser.context.pages().slice(1)) await page.close();
  assert.deepEqual(violations, []);
  assert.deepEqual(
    t.complaints.filter((text) => !EXPECTED.test(text)),
    []
  );
}

async function openFirst(t) {
  ({ page: t.page, complaints: t.complaints } = await openPage(t.browser.context, t.url()));
}

function shared(t) {
  return Object.assign(t, {
    until,
    async signIn(role = 'approver', page = t.page) {
      await page.goto(`${t.url()}/#code=${await t.code(role)}`);
      await untilLive(page);
    },
    sees: (what, where = t.page) => where.getByText(what).first().waitFor({ state: 'visible' }),
    waiting: (n, page = t.page) =>
      page
        .locator('.count', { hasText: n ? `${n} waiting` : 'Nothing is waiting.' })
        .waitFor({ state: 'visible' }),
  });
}

export function useFake() {
  const t = shared({
    url: () => t.fake.url,
    code: (role) => t.fake.code(role),
    asked: (line) => t.fake.log.filter((entry) => entry.startsWith(line)).length,
    decisions: () => t.fake.log.filter((entry) => entry.endsWith('/decision')).length,
  });
  before(async () => {
    t.browser = await openBrowser();
  });
  after(() => t.browser.close());
  beforeEach(async () => {
    t.fake = await startFake();
    await openFirst(t);
  });
  afterEach(async () => {
    try {
      await checkQuiet(t);
    } finally {
      await t.fake.stop();
    }
  });
  return t;
}

// Does nothing where there is no service to test.
export function useService() {
  const t = shared({ url: () => t.service.url, code: (role) => t.service.code(role) });
  if (SKIP) return t;
  before(async () => {
    t.browser = await openBrowser();
  });
  after(() => t.browser.close());
  beforeEach(async () => {
    t.service = await Service.create();
    await openFirst(t);
  });
  afterEach(async () => {
    try {
      await checkQuiet(t);
    } finally {
      await t.service.close();
    }
  });
  return t;
}
