import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, it } from 'vitest';
import { launch, Tab } from './browser.ts';

const url = inject('url');
let browser: Browser;
let tab: Tab;

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());
beforeEach(async () => {
  tab = await Tab.open(browser, url, 'write');
});
afterEach(async () => {
  expect(tab.errors).toEqual([]);
  await tab.close();
});

const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
const written = () =>
  tab.page
    .locator('.written')
    .allTextContents()
    .then((texts) => texts.join(''));
const figure = async (name: string): Promise<string> =>
  (await tab.page
    .locator('.live div', { has: tab.page.getByText(name, { exact: true }) })
    .locator('dd')
    .textContent()) ?? '';
const tokens = (text: string): number => Number(text.replace(/\D/g, ''));

async function write(opening: string, most: number): Promise<void> {
  await tab.page.getByLabel('Opening').fill(opening);
  await tab.page.getByLabel('max_tokens', { exact: true }).fill(String(most));
  await button('Write').click();
}
const done = () => button('Continue').waitFor();

it('writes, continues, and keeps the bytes of state while the context grows', async () => {
  await write('The captain said', 40);
  await done();
  expect((await written()).length).toBeGreaterThan(20);
  const before = { context: tokens(await figure('context, tokens')), state: await figure('state') };
  expect(before.context).toBeGreaterThanOrEqual(41);
  await tab.page.getByLabel('Your words next').fill(' Then he');
  await button('Continue').click();
  await expect.poll(async () => tokens(await figure('context, tokens'))).toBeGreaterThan(before.context + 40);
  await done();
  expect(await figure('state')).toBe(before.state);
  expect(before.state).toMatch(/\d [kM]B/);
  expect(await tab.page.locator('.given').allTextContents()).toEqual(['The captain said', ' Then he']);
});

it('repeats a text of the same seed, and changes it with another', async () => {
  await tab.page.getByLabel('seed', { exact: true }).fill('7');
  await write('The captain said', 30);
  await done();
  const first = await written();
  await button('Try again').click();
  await done();
  expect(await written()).toBe(first);
  await tab.page.getByLabel('seed', { exact: true }).fill('8');
  await button('Try again').click();
  await done();
  expect(await written()).not.toBe(first);
});

it('stops, and the session holds what is shown', async () => {
  await write('The captain said', 100_000);
  await expect.poll(async () => (await written()).length).toBeGreaterThan(100);
  await button('Stop').click();
  await done();
  const shown = `The captain said${await written()}`;
  const context = tokens(await figure('context, tokens'));
  const session = await tab.page.evaluate(async (): Promise<{ position: number; text: string }> => {
    const id = sessionStorage.getItem('tvq.write.session');
    const found = await (await fetch(`/v1/sessions/${id}?include_transcript=true`)).json();
    const body = JSON.stringify({ model: found.model, tokens: found.transcript });
    const headers = { 'Content-Type': 'application/json' };
    const { prompt } = await (await fetch('/detokenize', { method: 'POST', headers, body })).json();
    return { position: found.position, text: prompt };
  });
  expect(session).toEqual({ position: context, text: shown });
});

it('shows what else a token might have been, by mouse and by keys', async () => {
  await write('The captain said', 12);
  await done();
  const card = tab.page.getByRole('tooltip');
  await tab.page.locator('.token').nth(3).hover();
  await expect.poll(() => card.locator('li').count()).toBeGreaterThanOrEqual(5);
  expect(await card.textContent()).toMatch(/\d%/);
  await tab.page.locator('.token').first().focus();
  await tab.page.keyboard.press('ArrowRight');
  expect(
    await tab.page
      .locator('.token')
      .nth(1)
      .evaluate((node) => node === document.activeElement),
  ).toBe(true);
  expect(await card.isVisible()).toBe(true);
  await tab.page.keyboard.press('Escape');
  expect(await card.isVisible()).toBe(false);
});

it('comes back to its text after a reload, and goes on', async () => {
  await write('The captain said', 20);
  await done();
  const before = `The captain said${await written()}`;
  await tab.page.reload();
  await done();
  await expect.poll(() => tab.page.locator('.text').textContent()).toBe(before);
  await button('Continue').click();
  await expect.poll(async () => (await written()).length).toBeGreaterThan(10);
  await done();
});

it('makes a new session of its text when the server has lost the old one', async () => {
  await write('The captain said', 8);
  await done();
  const before = `The captain said${await written()}`;
  await tab.page.evaluate(() =>
    fetch(`/v1/sessions/${sessionStorage.getItem('tvq.write.session')}`, { method: 'DELETE' }),
  );
  await button('Continue').click();
  await tab.page.getByText('has this session no more').waitFor();
  expect(await tab.page.getByLabel('Opening').inputValue()).toBe(before);
  await button('Write').click();
  await done();
  expect(await tab.page.locator('.given').textContent()).toBe(before);
  tab.errors.splice(0); // the browser logs the 404 that this test asked for
});

it('saves a branch that the tree shows', async () => {
  await write('The captain said', 8);
  await done();
  await button('Save as a branch').click();
  await tab.page.getByLabel('Name of the branch').fill('another way');
  await button('Save').click();
  await tab.page.getByRole('link', { name: 'Show it in the tree' }).click();
  await tab.page.getByRole('treeitem', { name: /another way/, selected: true }).waitFor();
});

it('says what is wrong at the control, and keeps the words', async () => {
  await tab.page.getByLabel('top_p', { exact: true }).fill('7');
  await write('Words of mine', 8);
  await tab.page.locator('.control', { hasText: 'top_p' }).locator('.problem', { hasText: 'top_p' }).waitFor();
  expect(await tab.page.getByLabel('Opening').inputValue()).toBe('Words of mine');
  await tab.page.getByLabel('top_p', { exact: true }).fill('0.9');
  await button('Write').click();
  await done();
  tab.errors.splice(0); // the browser logs the 400 that this test asked for
});
