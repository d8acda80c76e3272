import { readFileSync } from 'node:fs';
import { expect, inject, it, onTestFinished } from 'vitest';
import type { Tab } from './browser.ts';
import { completionsGivenUp, keepBusy, requestsRunning } from './calls.ts';
import { eachInTab } from './each_test.ts';
import { PRINT } from './processes.ts';

const SIDE = 28;
const url = inject('url');
let tab: Tab;

eachInTab('draw', (opened) => {
  tab = opened;
  return tab.page.locator('.tile').first().waitFor();
});

const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
/** RGBA of all pixels of an image. */
const pixels = (selector: string, at = 0): Promise<number[]> =>
  tab.page
    .locator(selector)
    .nth(at)
    .evaluate((node) => {
      const canvas = node as HTMLCanvasElement;
      return [...canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height).data];
    });
/** Those of the pad's upper half, which can be drawn on. */
const upper = async (): Promise<number[]> => (await pixels('.pad canvas')).slice(0, SIDE * (SIDE / 2) * 4);
const whole = () => tab.page.getByRole('img', { name: /^Image \d+$/ });
const seen = (data: number[]): number => data.filter((value, i) => i % 4 === 3 && value === 255).length;

it('draws a sheet of images at once, pixel by pixel', async () => {
  await tab.page.getByRole('spinbutton', { name: 'images' }).fill('4');
  await button('Draw').click();
  await expect.poll(() => whole().count()).toBe(4);
  const all = await Promise.all([0, 1, 2, 3].map((at) => pixels('.tile canvas', at)));
  for (const image of all) expect(seen(image)).toBe(SIDE * SIDE);
  expect(new Set(all.map(String)).size).toBeGreaterThan(1);
  const pixelsInAll = (SIDE * SIDE * 4).toLocaleString('en');
  // Told once a frame, which may come after the images.
  await expect
    .poll(() => tab.page.locator('.figures').textContent())
    .toContain(`${pixelsInAll} of ${pixelsInAll} pixels`);
});

it('draws in colours, with a model that has no token to begin from', async () => {
  await tab.page.getByLabel('Model').selectOption('prints');
  await tab.page.getByRole('spinbutton', { name: 'images' }).fill('2');
  await button('Draw').click();
  await expect.poll(() => whole().count()).toBe(2);
  const image = await pixels('.tile canvas');
  const { width, height, channels } = PRINT;
  expect(seen(image)).toBe(width * height);
  const colourful = (_: number, i: number): boolean => i % 4 === 0 && new Set(image.slice(i, i + 3)).size > 1;
  expect(image.filter(colourful).length).toBeGreaterThan(0);
  const all = (width * height * channels - 1) * 2; // the first is given
  await expect.poll(() => tab.page.locator('.figures').textContent()).toContain(`${all} of ${all} values`);
  await tab.page.getByRole('link', { name: 'Server' }).click();
  await tab.page.getByRole('link', { name: 'Draw' }).click();
  await expect.poll(() => whole().count()).toBe(2); // they are still there
});

it('completes what was begun with the mouse', async () => {
  const pad = tab.page.getByLabel('Drawing pad');
  await tab.evaluate(() => document.fonts.ready); // until then all may move
  await pad.scrollIntoViewIfNeeded();
  const box = (await pad.boundingBox())!;
  await tab.page.mouse.move(box.x + box.width * 0.3, box.y + box.height * 0.2);
  await tab.page.mouse.down();
  await tab.page.mouse.move(box.x + box.width * 0.7, box.y + box.height * 0.2, { steps: 8 });
  await tab.page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.45, { steps: 8 });
  await tab.page.mouse.up();
  const drawn = await upper();
  expect(Math.min(...drawn)).toBe(0);
  await tab.page.getByRole('spinbutton', { name: 'images' }).fill('2');
  await button('Complete it').click();
  await expect.poll(() => whole().count()).toBe(2);
  for (const at of [0, 1]) {
    const image = await pixels('.tile canvas', at);
    const given = image.slice(0, drawn.length);
    // As many levels as the pad has greys, but for rounding.
    expect(Math.max(...given.map((value, i) => Math.abs(value - drawn[i]!)))).toBeLessThanOrEqual(1);
    expect(seen(image)).toBe(SIDE * SIDE);
  }
});

it('can be drawn on by keys, and cleared', async () => {
  const pad = tab.page.getByLabel('Drawing pad');
  await pad.focus();
  for (const key of ['Space', 'ArrowRight', 'Shift+ArrowRight', 'Shift+ArrowRight']) await tab.page.keyboard.press(key);
  expect(Math.min(...(await upper()))).toBe(0);
  await button('Clear').click();
  expect(Math.min(...(await upper()))).toBe(255);
  await button('Complete it').click();
  await tab.page.getByText('Draw something on the pad first').waitFor();
});

it('stops at the server too, and draws again', async () => {
  const images = tab.page.getByRole('spinbutton', { name: 'images' });
  // A larger model computes between the steps: else the images may be whole before the page, where it waits for a
  // processor, has stopped them, and no call is given up.
  const end = await keepBusy(url);
  onTestFinished(end);
  await expect.poll(() => requestsRunning(url)).toBe(1); // it is in the figures, too
  const givenUpBefore = await completionsGivenUp(url);
  await images.fill('32');
  await button('Draw').click();
  await tab.stopOnceTold('.figures');
  await expect.poll(() => button('Draw').isEnabled()).toBe(true);
  await expect.poll(() => button('Stop').isVisible()).toBe(false);
  await expect.poll(() => requestsRunning(url)).toBe(1);
  await expect.poll(() => completionsGivenUp(url)).toBe(givenUpBefore + 1);
  expect(await whole().count()).toBe(0);
  await end();
  await expect.poll(() => requestsRunning(url)).toBe(0);
  await expect.poll(() => completionsGivenUp(url)).toBe(givenUpBefore + 2); // what kept it busy was, too

  await images.fill('4');
  await button('Draw').click();
  await expect.poll(() => whole().count()).toBe(4);
  await expect.poll(() => button('Draw').isEnabled()).toBe(true);
  expect(await completionsGivenUp(url)).toBe(givenUpBefore + 2);
  expect(await tab.page.getByRole('alert').count()).toBe(0);
});

it('hands the focus to Stop and back, for those who have keys alone', async () => {
  const focused = () => tab.evaluate(() => document.activeElement?.textContent);
  onTestFinished(await keepBusy(url)); // else all may be drawn before the focus is looked for
  await tab.page.getByRole('spinbutton', { name: 'images' }).fill('32');
  await button('Draw').focus();
  await tab.page.keyboard.press('Enter');
  await expect.poll(focused).toBe('Stop');
  await tab.page.keyboard.press('Enter');
  await expect.poll(focused).toBe('Draw');
});

it('has after a reload what was drawn, by hand and by the model, and takes nonsense for nothing', async () => {
  await button('Draw the digit 7 as an example').click();
  await tab.page.getByLabel('Rows that you give').fill('10');
  await tab.page.getByRole('spinbutton', { name: 'images' }).fill('2');
  await button('Complete it').click();
  await expect.poll(() => whole().count()).toBe(2);
  await expect.poll(() => button('Complete it').isEnabled()).toBe(true);
  const state = async () => ({
    pad: await pixels('.pad canvas'),
    tiles: [await pixels('.tile canvas', 0), await pixels('.tile canvas', 1)],
    rows: await tab.page.getByLabel('Rows that you give').inputValue(),
    images: await tab.page.getByRole('spinbutton', { name: 'images' }).inputValue(),
  });
  const before = await state();
  await tab.page.reload();
  await expect.poll(() => button('Complete it').isEnabled()).toBe(true);
  expect(await state()).toEqual(before);
  for (const nonsense of ['null', '{"shape":5,"images":[5],"rows":{}}', 'zz']) {
    await tab.evaluate((text) => {
      for (const name of ['draw.images', 'draw.choices', 'draw.pad.28x28']) sessionStorage.setItem(`tvq.${name}`, text);
    }, nonsense);
    await tab.page.reload();
    await expect.poll(() => button('Draw').isEnabled()).toBe(true);
    expect(await tab.page.locator('.tile').count()).toBe(9);
    expect(Math.min(...(await upper()))).toBe(255);
  }
});

it('has what came of images when the page is reloaded in their midst', async () => {
  onTestFinished(await keepBusy(url)); // else all may be drawn before
  await tab.page.getByRole('spinbutton', { name: 'images' }).fill('32');
  await button('Draw').click();
  await expect.poll(() => tab.page.locator('.figures').textContent()).toMatch(/^[1-9]/);
  await tab.page.reload();
  await expect.poll(() => button('Draw').isEnabled()).toBe(true);
  expect(seen(await pixels('.tile canvas'))).toBeGreaterThan(0);
  expect(await button('Download all').isEnabled()).toBe(true); // not sheets of paper
});

it('hands out each image, and all as one', async () => {
  await tab.page.getByRole('spinbutton', { name: 'images' }).fill('5');
  expect(await button('Download all').isDisabled()).toBe(true);
  await button('Draw').click();
  await expect.poll(() => whole().count()).toBe(5);
  /** Name, width and height of the PNG that a click brings. */
  const png = async (name: string): Promise<unknown[]> => {
    const coming = tab.page.waitForEvent('download');
    await button(name).click();
    const download = await coming;
    const file = readFileSync(await download.path());
    return [download.suggestedFilename(), file.readUInt32BE(16), file.readUInt32BE(20)];
  };
  expect(await png('Download all')).toEqual(['images.png', 3 * SIDE + 2, 2 * SIDE + 1]);
  expect(await png('Save image 5 as PNG')).toEqual(['image-5.png', SIDE, SIDE]);
});

it.each(['Draw', 'Complete it'])('stops where it was begun: %s', async (name) => {
  onTestFinished(await keepBusy(url)); // else all may be drawn before
  await button('Draw the digit 3 as an example').click();
  await tab.page.getByRole('spinbutton', { name: 'images' }).fill('32');
  const place = await button(name).boundingBox();
  await button(name).click();
  await button('Stop').waitFor();
  const stop = await button('Stop').boundingBox();
  expect([stop!.x, stop!.width]).toEqual([place!.x, place!.width]);
  await button('Stop').click();
  await expect.poll(() => button(name).isEnabled()).toBe(true);
});
