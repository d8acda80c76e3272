import { expect, it } from 'vitest';
import type { Tab } from './browser.ts';
import { eachInTab } from './each_test.ts';

let tab: Tab;

eachInTab('couplets', (opened) => (tab = opened));

const answer = () => tab.page.getByRole('button', { name: 'Answer', exact: true });

it('answers with several lines of the same length, without signs', async () => {
  await tab.page.getByLabel('First line', { exact: true }).fill('风弦未拨心先乱');
  await tab.page.getByLabel('candidates').fill('4');
  await answer().click();
  await tab.page.getByText('likeliest').first().waitFor(); // of two that are the same, both are
  const lines = await tab.page.locator('.second').allTextContents();
  expect(lines).toHaveLength(4);
  for (const line of lines) expect(line).toMatch(/^[\p{L}\p{N}]{7}$/u);
});

it('lets the lines be as long as the model likes', async () => {
  await tab.page.getByLabel('candidates').fill('3');
  await tab.page.getByLabel('As long as the first line').uncheck();
  await answer().click();
  await expect.poll(() => tab.page.locator('.second').count()).toBe(3);
  await expect.poll(() => answer().isEnabled()).toBe(true);
  await expect.poll(() => tab.page.getByRole('alert').count()).toBe(0);
});

it('stops', async () => {
  await tab.page.getByLabel('candidates').fill('16');
  await expect.poll(() => answer().isEnabled()).toBe(true);
  // Both at once: the small model would be done before a hand is.
  await tab.page.evaluate(() => {
    for (const name of ['Answer', 'Stop'])
      [...document.querySelectorAll('button')].find((each) => each.textContent === name)!.click();
  });
  await expect.poll(() => answer().isEnabled()).toBe(true);
  await expect.poll(() => tab.page.getByRole('alert').count()).toBe(0);
});

it('names the characters that the model does not know', async () => {
  await tab.page.getByLabel('First line', { exact: true }).fill('龍虎');
  await answer().click();
  await tab.page.getByText('does not know “龍”, “虎”').waitFor();
});
