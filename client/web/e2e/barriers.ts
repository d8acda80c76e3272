// What keeps people from a page: a window that is too narrow for it, and what axe-core knows.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import { expect } from 'vitest';
import type { Tab, View } from './browser.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const VIEWS: Record<string, View> = {
  light: { theme: 'light' },
  dark: { theme: 'dark' },
  narrow: { theme: 'light', width: 360, height: 780 },
  'narrow-dark': { theme: 'dark', width: 360, height: 780 },
};

/** Nothing is wider than the window, and axe knows no barrier; nor when all that can be unfolded is. */
export async function hasNoBarriers(tab: Tab): Promise<void> {
  await hasNoneAsItIs(tab);
  await tab.evaluate(() => document.querySelectorAll('main details').forEach((each) => each.setAttribute('open', '')));
  await tab.page.getByText('Settings').click();
  await hasNoneAsItIs(tab);
}

async function hasNoneAsItIs(tab: Tab): Promise<void> {
  expect(await tab.overflow()).toBeLessThanOrEqual(0);
  // Evaluated by the debugger, which the page's policy does not bind.
  await tab.evaluate(axe);
  const barriers = async (): Promise<string[]> => {
    const { violations } = await tab.evaluate<AxeResults>('axe.run()');
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' ')}`);
  };
  // Asked again: figures that are drawn anew while axe looks belong to no list any more.
  await expect.poll(barriers).toEqual([]);
}
