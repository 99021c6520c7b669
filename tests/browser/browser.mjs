// Chromium for the tests: a fresh profile each time, and a record of everything a page complains of.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const ARGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export async function openBrowser(options = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-browser-'));
  const sandbox = process.getuid() === 0 ? ['--no-sandbox'] : [];
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
    headless: true,
    args: ['--headless=new', ...sandbox, ...ARGS],
    ...options,
  });
  context.setDefaultTimeout(10000);
  return {
    context,
    async close() {
      await context.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

// A page with `complaints`: console errors, exceptions, policy violations, dialogs, and requests to
// anywhere but `origin`.
export async function openPage(context, origin) {
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(`exception: ${error.message}`));
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.protocol !== 'data:' && url.origin !== origin) complaints.push(`request: ${url}`);
  });
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (event) =>
      window.violations.push(`${event.violatedDirective} ${event.blockedURI}`)
    );
  });
  return { page, complaints };
}

export const card = (page, n = 0) => page.locator('article.card').nth(n);
export const press = (where, name) => where.getByRole('button', { name }).click();

// The strip says Live: the stream is open, and a snapshot was asked for.
export const untilLive = (page) =>
  page.locator('#strip[data-state="live"]').waitFor({ state: 'visible' });

export const armed = (where) =>
  where.locator('.row > .allow:not([aria-disabled])').waitFor({ state: 'visible' });
