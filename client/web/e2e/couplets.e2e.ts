import { readFileSync } from 'node:fs';
import { expect, inject, it, onTestFinished } from 'vitest';
import type { Tab } from './browser.ts';
import { completionsGivenUp, keepBusy, requestsRunning } from './calls.ts';
import { eachInTab } from './each_test.ts';

const url = inject('url');
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

it('stops at the server too, and answers again', async () => {
  const end = await keepBusy(url);
  onTestFinished(end);
  await expect.poll(() => requestsRunning(url)).toBe(1); // it is in the figures, too
  const givenUpBefore = await completionsGivenUp(url);
  // Longer than a person may write: no answer is whole before the page, where it waits for a processor, has stopped it.
  const line = tab.page.getByLabel('First line', { exact: true });
  await line.evaluate((input) => input.removeAttribute('maxlength'));
  await line.fill('晋世文章昌二陆'.repeat(400));
  await tab.page.getByLabel('candidates').fill('16');
  await answer().click();
  await tab.stopOnceTold('.second');
  await expect.poll(() => answer().isEnabled()).toBe(true);
  await expect.poll(() => requestsRunning(url)).toBe(1);
  await expect.poll(() => completionsGivenUp(url)).toBe(givenUpBefore + 1);
  await end();

  await tab.page.getByLabel('First line', { exact: true }).fill('风弦未拨心先乱');
  await tab.page.getByLabel('candidates').fill('3');
  await answer().click();
  await tab.page.getByText('likeliest').first().waitFor();
  expect((await tab.page.locator('.second').allTextContents()).map((line) => line.length)).toEqual([7, 7, 7]);
  await expect.poll(() => requestsRunning(url)).toBe(0);
  expect(await tab.page.getByRole('alert').count()).toBe(0);
});

it('has what came of the lines when the page is reloaded in their midst', async () => {
  onTestFinished(await keepBusy(url)); // else all may be there before
  const line = tab.page.getByLabel('First line', { exact: true });
  await line.evaluate((input) => input.removeAttribute('maxlength'));
  await line.fill('晋世文章昌二陆'.repeat(40));
  await answer().click();
  // Goes as soon as there is text: a hand would be too late.
  const seen = await tab.page.waitForFunction(() => {
    const here = window as Window & { leaves?: boolean };
    if (here.leaves) return null;
    const before = sessionStorage.getItem('test.seen');
    if (before !== null) return JSON.parse(before) as string[];
    const lines = [...document.querySelectorAll('.second')].map((node) => node.textContent ?? '');
    if (lines.every((text) => text === '')) return null;
    sessionStorage.setItem('test.seen', JSON.stringify(lines));
    here.leaves = true;
    location.reload();
    return null;
  });
  const lines = (await seen.jsonValue())!;
  await expect.poll(() => tab.page.locator('.second').count()).toBe(lines.length);
  const after = await tab.page.locator('.second').allTextContents();
  expect(after.map((text, i) => text.slice(0, lines[i]!.length))).toEqual(lines);
});

it('names the characters that the model does not know', async () => {
  await tab.page.getByLabel('First line', { exact: true }).fill('龍争虎鬥');
  await answer().click();
  await tab.page.getByText('does not know “龍”, “鬥”').waitFor();
});

it('has after a reload what was found and chosen, and takes nonsense for nothing', async () => {
  await tab.page.getByLabel('First line', { exact: true }).fill('风弦未拨心先乱');
  await tab.page.getByLabel('candidates').fill('3');
  await answer().click();
  await tab.page.getByText('likeliest').first().waitFor();
  await tab.page.getByText('How the model was trained').click();
  await tab.page.getByLabel('between the lines').selectOption('tab');
  await tab.page.getByLabel('As long as the first line').uncheck();
  const found = async () => [
    await tab.page.locator('.scrolls .first').textContent(),
    await tab.page.locator('.second').allTextContents(),
    await tab.page.locator('.note').allTextContents(),
  ];
  const before = await found();
  await tab.page.reload();
  await expect.poll(found).toEqual(before);
  expect(await tab.page.getByLabel('First line', { exact: true }).inputValue()).toBe('风弦未拨心先乱');
  expect(await tab.page.getByLabel('candidates').inputValue()).toBe('3');
  expect(await tab.page.getByLabel('As long as the first line').isChecked()).toBe(false);
  expect(await tab.page.locator('select', { hasText: 'newline' }).inputValue()).toBe('tab');
  for (const nonsense of ['null', '[5]', '{"first":"x","lines":[[5]],"candidates":{}}']) {
    await tab.evaluate((text) => {
      for (const name of ['couplets.lines', 'couplets.choices']) sessionStorage.setItem(`tvq.${name}`, text);
    }, nonsense);
    await tab.page.reload();
    await expect.poll(() => answer().isEnabled()).toBe(true);
    expect(await tab.page.locator('.second').count()).toBe(0);
    expect(await tab.page.getByLabel('candidates').inputValue()).toBe('6');
  }
});

it('copies the lines and hands them out as a file', async () => {
  await tab.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await tab.page.getByLabel('candidates').fill('3');
  await answer().click();
  await tab.page.getByText('likeliest').first().waitFor();
  const lines = await tab.page.locator('.second').allTextContents();
  const copied = async (name: string): Promise<string> => {
    await tab.page.getByRole('button', { name, exact: true }).click();
    await tab.page.getByText('Copied', { exact: true }).first().waitFor();
    return tab.evaluate(() => navigator.clipboard.readText());
  };
  expect(await copied('Copy second line 2')).toBe(lines[1]);
  const all = ['晋世文章昌二陆', ...lines, ''].join('\n');
  await expect.poll(() => copied('Copy all lines')).toBe(all);
  const coming = tab.page.waitForEvent('download');
  await tab.page.getByRole('button', { name: 'Download', exact: true }).click();
  expect(readFileSync(await (await coming).path(), 'utf8')).toBe(all);
});
