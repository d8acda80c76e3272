// Chat with a published model beside those that are shipped, as `scripts/run --model smollm2` serves it: a
// picture for the documents, which `scripts/web pictures` alone takes.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VIEWS } from './barriers.ts';
import { Chromium } from './browser.ts';
import { Service } from './processes.ts';

const EARLIER = 'Give me three tips for sleeping well, as a list.';
const SHOWN = ['Write a Python function that reverses a string.', 'And one that tells whether it is a palindrome.'];
/** Tall enough that nothing of the conversation is scrolled away. */
const HEIGHT = 1160;

const chromium = new Chromium();
let service: Service;

beforeAll(async () => {
  service = await Service.start({ models: ['couplets', 'digits', 'novels', 'smollm2'] });
});
afterAll(async () => {
  await chromium.close();
  await service.stop();
});

describe.each(['light', 'dark'])('in %s', (view) => {
  it('chat', async () => {
    const tab = await chromium.open(service.url, 'chat', { ...VIEWS[view], height: HEIGHT });
    const { page } = tab;
    const ask = async (text: string): Promise<void> => {
      await page.getByLabel('Your message').fill(text);
      await page.getByLabel('Your message').press('Enter');
      await page.locator('.answer.writing').waitFor();
      await page.locator('.composer').getByRole('button', { name: 'Send' }).waitFor();
    };
    await page.getByLabel('temperature', { exact: true }).fill('0');
    await ask(EARLIER);
    await page.getByRole('button', { name: 'New chat' }).click();
    for (const text of SHOWN) await ask(text);
    expect(await page.locator('.answer pre').count()).toBe(SHOWN.length);
    expect(await page.locator('.answer .took').allTextContents()).toEqual(
      SHOWN.map(() => expect.stringContaining('tokens/s')),
    );
    const hidden = await page.locator('.log').evaluate((log) => log.scrollHeight - log.clientHeight);
    expect(hidden).toBe(0);
    await tab.shoot(`chat-${view}`);
    await tab.close();
    expect(tab.errors).toEqual([]);
  });
});
