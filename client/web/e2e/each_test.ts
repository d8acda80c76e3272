// A browser for a file of tests and a tab for each of them.

import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject } from 'vitest';
import { launch, Tab } from './browser.ts';

/** Opens `path` before each test and hands the tab to `use`; after it the tab must have logged no error. */
export function eachInTab(path: string, use: (tab: Tab) => unknown): void {
  let browser: Browser;
  let tab: Tab;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());
  beforeEach(async () => {
    tab = await Tab.open(browser, inject('url'), path);
    await use(tab);
  });
  afterEach(async () => {
    await tab.close();
    expect(tab.errors).toEqual([]);
  });
}
