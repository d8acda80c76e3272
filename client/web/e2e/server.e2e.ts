import { createHash } from 'node:crypto';
import { afterAll, expect, inject, it } from 'vitest';
import { Chromium, PATIENCE_MS } from './browser.ts';
import { call } from './calls.ts';
import { Service } from './processes.ts';

const url = inject('url');
const chromium = new Chromium();

afterAll(() => chromium.close());

it('shows the models and plots what is done', async () => {
  const tab = await chromium.open(url, 'server');
  for (const name of ['novels', 'couplets', 'digits', 'prints'])
    await tab.page.getByRole('heading', { name, exact: true }).waitFor();
  const body = JSON.stringify({ model: 'novels', prompt: 'Once', max_tokens: 400, ignore_eos: true });
  await fetch(`${url}/v1/completions`, { method: 'POST', body, headers: { 'Content-Type': 'application/json' } });
  const generated = tab.page.locator('.facts.wide div', { hasText: 'tokens written' }).locator('dd');
  await expect
    .poll(async () => Number((await generated.textContent())?.replace(/\D/g, '')))
    .toBeGreaterThanOrEqual(400);
  await expect.poll(() => tab.page.locator('.plot .line').first().getAttribute('d')).toContain('L');
  expect(tab.errors).toEqual([]);
  await tab.close();
});

it('asks for the key of a server that has keys, and works with it', async () => {
  const key = 'a long and random key';
  const hash = createHash('sha256').update(key).digest('hex');
  const service = await Service.start({ keys: `ana ${hash}\n` });
  const tab = await chromium.open(service.url, 'write');
  try {
    await tab.page.getByRole('alert').filter({ hasText: 'This server wants a key' }).waitFor();
    const field = tab.page.getByLabel('API key');
    const isReady = (): Promise<boolean> => field.evaluate((node) => node === document.activeElement);
    for (const wrong of ['wrong', 'ключ']) {
      await tab.page.getByRole('button', { name: 'Enter the key' }).click();
      await expect.poll(isReady).toBe(true);
      await field.fill(wrong);
      await tab.page.keyboard.press('Tab');
      await tab.page.getByRole('alert').filter({ hasText: 'does not know the key' }).waitFor();
      await tab.page.getByRole('heading', { name: 'Write' }).click(); // the settings close
      await expect.poll(() => field.isVisible()).toBe(false);
    }
    await tab.page.getByRole('button', { name: 'Enter the key' }).click();
    await field.fill(key);
    await tab.page.keyboard.press('Tab');
    await tab.page.getByLabel('max_tokens', { exact: true }).fill('8');
    await expect.poll(() => tab.page.getByRole('button', { name: 'Write', exact: true }).isEnabled()).toBe(true);
    await tab.page.getByRole('button', { name: 'Write', exact: true }).click();
    await tab.page.getByRole('button', { name: 'Continue', exact: true }).waitFor();
    expect(await tab.evaluate(() => Object.keys(localStorage).join())).not.toContain('key');
  } finally {
    await tab.close();
    await service.stop();
  }
});

it('says when the gateway is gone, and keeps the words', async () => {
  const service = await Service.start();
  const tab = await chromium.open(service.url, 'write');
  await tab.page.getByLabel('Opening').fill('Words of mine');
  await expect.poll(() => tab.page.getByRole('button', { name: 'Write', exact: true }).isEnabled()).toBe(true);
  await service.stop();
  await tab.page.getByRole('button', { name: 'Write', exact: true }).click();
  await tab.page.getByRole('alert').filter({ hasText: 'does not answer' }).waitFor();
  await expect.poll(() => tab.page.getByLabel('Opening').inputValue()).toBe('Words of mine');
  await tab.close();
});

it('says once on the page of the server that nobody answers', async () => {
  const service = await Service.start();
  const tab = await chromium.open(service.url, 'server');
  const state = tab.page.locator('.facts.wide div', { hasText: 'state' }).locator('dd').first();
  await expect.poll(() => state.textContent()).toBe('serving');
  let failures = 0;
  tab.page.on('requestfailed', () => (failures += 1));
  await service.stop();
  const alert = tab.page.getByRole('alert').locator('p', { hasText: 'The gateway does not answer; asking again.' });
  await alert.waitFor();
  await expect.poll(() => state.textContent()).toBe('no answer');
  await alert.evaluate((node) => node.setAttribute('data-first', ''));
  const seen = failures;
  await expect.poll(() => failures, { timeout: PATIENCE_MS }).toBeGreaterThan(seen + 1);
  expect(await alert.getAttribute('data-first')).toBe('');
  await tab.close();
});

it("reaches back to the server's start", async () => {
  const service = await Service.start({ models: ['novels'] });
  const body = { model: 'novels', prompt: 'Once', max_tokens: 400, ignore_eos: true };
  await call(service.url, 'POST', '/v1/completions', body);
  const samples = async (): Promise<unknown[]> =>
    ((await (await fetch(`${service.url}/v1/server?include_history=true`)).json()) as { history: unknown[] }).history;
  await expect.poll(async () => (await samples()).length).toBeGreaterThan(5);
  const tab = await chromium.open(service.url, 'server');
  const requests = tab.page.locator('.plot', { hasText: 'Requests' }).locator('.line.b');
  // At the first look: the page itself has seen one moment alone.
  await expect.poll(async () => (await requests.getAttribute('d'))?.match(/[ML]/g)?.length ?? 0).toBeGreaterThan(5);
  const speed = tab.page.locator('.plot', { hasText: 'Tokens per second' });
  const written = await speed.locator('.line.b').getAttribute('d');
  expect(new Set([...written!.matchAll(/ ([\d.]+)/g)].map(([, y]) => y)).size).toBeGreaterThan(1); // what was before the page
  await tab.page.getByLabel('The last five minutes alone').check();
  await tab.page.reload();
  expect(await tab.page.getByLabel('The last five minutes alone').isChecked()).toBe(true);
  expect(tab.errors).toEqual([]);
  await tab.close();
  await service.stop();
});
