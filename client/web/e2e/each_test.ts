// A browser for a file of tests and a tab for each of them.

import { afterAll, afterEach, beforeEach, expect, inject } from 'vitest';
import { Chromium, type Tab } from './browser.ts';

/** Opens `path` before each test and hands the tab to `use`; after it the tab must have logged no error. */
export function eachInTab(path: string, use: (tab: Tab) => unknown): void {
  const chromium = new Chromium();
  let tab: Tab;
  afterAll(() => chromium.close());
  beforeEach(async () => {
    tab = await chromium.open(inject('url'), path);
    await use(tab);
  });
  afterEach(async () => {
    await tab.close();
    expect(tab.errors).toEqual([]);
  });
}
