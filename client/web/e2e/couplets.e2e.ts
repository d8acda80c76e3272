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

it('names the characters that the model does not know', async () => {
  await tab.page.getByLabel('First line', { exact: true }).fill('龍虎');
  await answer().click();
  await tab.page.getByText('does not know “龍”, “虎”').waitFor();
});
