import { readFileSync } from 'node:fs';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, it } from 'vitest';
import { launch, Tab } from './browser.ts';

const url = inject('url');
let browser: Browser;
let tab: Tab;
let story = '';

interface Session {
  id: string;
  position: number;
}

/** A call of the gateway, beside the page. */
async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const init =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
  const response = await fetch(url + path, { method, ...init });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());
beforeEach(async () => {
  const session = await call<Session>('POST', '/v1/sessions', {
    model: 'novels',
    label: 'The old house',
    keep_transcript: true,
  });
  await call('POST', `/v1/sessions/${session.id}/append`, {
    text: 'It was late in the evening when the carriage stopped.',
  });
  story = session.id;
  tab = await Tab.open(browser, url, `tree?session=${story}`);
  await tab.page.getByRole('heading', { name: 'The old house' }).waitFor();
});
afterEach(async () => {
  expect(tab.errors).toEqual([]);
  await tab.close();
  const { data } = await call<{ data: Session[] }>('GET', '/v1/sessions?limit=1000');
  for (const { id } of data) await call('DELETE', `/v1/sessions/${id}`);
});

const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
const item = (name: string | RegExp) => tab.page.getByRole('treeitem', { name });

it('forks, goes on with both branches, and compares them', async () => {
  await tab.page.getByLabel('copies').fill('2');
  await button('Fork').click();
  await item('The old house / 2').waitFor();
  await item('The old house / 1').click();
  await tab.page.getByLabel('compare with').selectOption({ label: 'The old house / 2' });
  await tab.page.getByText('Both begin with the same').waitFor();
  await tab.page.getByRole('region', { name: 'Comparison' }).getByLabel('tokens').fill('30');
  await button('Continue both').click();
  await expect.poll(() => tab.page.locator('.compare mark').count()).toBeGreaterThanOrEqual(2);
  const [left, right] = await Promise.all(
    ['left', 'right'].map((side) => tab.page.locator(`.compare .${side} .text`).textContent()),
  );
  expect(left).not.toBe(right);
  expect(tab.page.url()).toContain('with=');
});

it('marks, goes on, and rewinds', async () => {
  const { position } = await call<Session>('GET', `/v1/sessions/${story}`);
  await tab.page.getByLabel('mark', { exact: true }).fill('at the door');
  await button('Mark').click();
  await item(/at the door/).waitFor();
  await button('Continue').click();
  await expect.poll(async () => (await call<Session>('GET', `/v1/sessions/${story}`)).position).toBe(position + 60);
  await item(`The old house, ${position + 60} tokens`).waitFor();
  await button('Rewind to it').click();
  await item(`The old house, ${position} tokens`).waitFor();
  expect((await call<Session>('GET', `/v1/sessions/${story}`)).position).toBe(position);
  await button('Fork from it').click();
  await item('The old house / 1').waitFor();
  await button('Forget').click();
  await expect.poll(() => item(/mark at/).count()).toBe(0);
});

it('works with marks of any name', async () => {
  const name = 'a"b\\c';
  await tab.page.getByLabel('mark', { exact: true }).fill(name);
  await button('Mark').click();
  await item(/mark at/).waitFor();
  await button('Rewind to it').click();
  await tab.page.getByText(`Back at ${name}.`).waitFor();
  expect(await tab.page.getByRole('alert').count()).toBe(0);
  // The panel is drawn anew meanwhile, so the button may be a new one.
  await expect.poll(() => button('Rewind to it').evaluate((node) => node === document.activeElement)).toBe(true);
});

it('is walked by the arrow keys', async () => {
  await button('Fork').click();
  await item('The old house / 2').waitFor();
  await item(/^The old house,/).focus();
  await tab.page.keyboard.press('ArrowRight');
  await tab.page.getByRole('heading', { name: 'The old house / 1' }).waitFor();
  await tab.page.keyboard.press('ArrowDown');
  await tab.page.getByRole('heading', { name: 'The old house / 2' }).waitFor();
  await tab.page.keyboard.press('ArrowLeft');
  await tab.page.getByRole('heading', { name: 'The old house', exact: true }).waitFor();
});

it('exports to a file, imports it, renames and deletes', async () => {
  const coming = tab.page.waitForEvent('download');
  await button('Export').click();
  const download = await coming;
  expect(download.suggestedFilename()).toBe('The-old-house.tvq');
  const file = await download.path();
  expect(readFileSync(file).length).toBeGreaterThan(1000);
  await tab.page
    .locator('input[type=file]')
    .setInputFiles({ name: 'copy.tvq', mimeType: '', buffer: readFileSync(file) });
  await tab.page.getByRole('heading', { name: 'copy' }).waitFor();
  await expect.poll(() => tab.page.locator('.reading .text').textContent()).toContain('the carriage stopped');
  await button('Rename').click();
  await tab.page.getByLabel('Name (kept in this browser)').fill('renamed');
  await button('Keep').click();
  await item(/renamed/).waitFor();
  await button('Delete').click();
  await button('Really delete?').click();
  await expect.poll(() => item(/renamed/).count()).toBe(0);
});

it('saves to the durable tier, and opens in Write', async () => {
  await button('Save to durable').click();
  await tab.page.getByText(/\d, saved/).waitFor();
  await tab.page.getByRole('link', { name: 'Open in Write' }).click();
  await expect.poll(() => tab.page.locator('.frame .text').textContent()).toContain('the carriage stopped');
});

it('refuses a file that is no session, in a sentence', async () => {
  await tab.page
    .locator('input[type=file]')
    .setInputFiles({ name: 'x.tvq', mimeType: '', buffer: Buffer.from('nonsense') });
  await tab.page.getByRole('alert').filter({ hasText: /\w+\./ }).first().waitFor();
  tab.errors.splice(0); // the browser logs the 400 that this test asked for
});
