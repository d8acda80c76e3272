// What holds for every page: nothing logged, nothing wider than the window, no barrier that axe knows, in
// both themes, at 1280 and at 360 pixels. Each is left as a picture in e2e/out.

import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { hasNoBarriers, VIEWS } from './barriers.ts';
import { aWord, Chromium, type Tab } from './browser.ts';
import { call, forgetSessions } from './calls.ts';
import { Service } from './processes.ts';

const url = inject('url');
const chromium = new Chromium();

afterAll(() => chromium.close());

/** Brings each page into a state worth looking at. */
const SCENES: Record<string, (tab: Tab) => Promise<void>> = {
  write: async (tab) => {
    const { page } = tab;
    await page.getByLabel('seed', { exact: true }).fill('5');
    await page.getByLabel('Colour by surprise').check();
    await page.getByRole('button', { name: 'Write', exact: true }).click();
    await page.getByRole('button', { name: 'Continue', exact: true }).waitFor();
    await aWord(tab).hover();
    await page.getByRole('tooltip').waitFor();
  },
  tree: async (tab) => {
    await forgetSessions(url);
    await SCENES['write']!(tab);
    await tab.page.getByRole('button', { name: 'Save as a branch' }).click();
    await tab.page.getByLabel('Name of the branch').fill('the other door');
    await tab.page.getByRole('button', { name: 'Save', exact: true }).click();
    await tab.page.getByRole('link', { name: 'Show it in the tree' }).click();
    await tab.page.getByLabel('mark', { exact: true }).fill('on the threshold');
    await tab.page.getByRole('button', { name: 'Mark', exact: true }).click();
    await tab.page.getByRole('treeitem', { name: /on the threshold/ }).waitFor();
    await tab.page.getByLabel('copies').fill('2');
    await tab.page.getByRole('button', { name: 'Fork', exact: true }).click();
    await tab.page.getByRole('treeitem', { name: 'the other door / 2' }).waitFor();
    await tab.page.getByLabel('compare with').selectOption({ label: 'the other door / 2' });
    await tab.page.getByText('Both begin with the same').waitFor();
    await tab.page.getByRole('button', { name: 'Continue both' }).click();
    await tab.page.locator('.compare mark').first().waitFor();
  },
  couplets: async ({ page }) => {
    await page.getByRole('button', { name: 'Answer' }).click();
    await page.getByText('likeliest').first().waitFor();
  },
  draw: async ({ page }) => {
    await page.getByRole('button', { name: 'Draw the digit 3 as an example' }).click();
    await page.getByRole('button', { name: 'Complete it' }).click();
    await expect.poll(() => page.getByRole('img', { name: /^Image \d+$/ }).count()).toBe(9);
  },
  server: async ({ page }) => {
    await page.getByRole('heading', { name: 'novels' }).waitFor();
    await call(url, 'POST', '/v1/completions', { model: 'novels', prompt: 'Once', max_tokens: 2000, ignore_eos: true });
    await expect.poll(() => page.locator('.plot .line:not(.mean)').first().getAttribute('d')).toContain('L');
  },
};

describe.each(Object.keys(VIEWS))('in %s', (view) => {
  it.each(Object.keys(SCENES))('%s', async (name) => {
    const tab = await chromium.open(url, name === 'tree' ? 'write' : name, VIEWS[view]!);
    await SCENES[name]!(tab);
    await tab.shoot(`${name}-${view}`);
    await hasNoBarriers(tab);
    await tab.close();
    expect(tab.errors).toEqual([]);
  });
});

const NONE = 'No model on this server';

describe('where no model is for them', () => {
  let service: Service;
  beforeAll(async () => {
    service = await Service.start({ models: ['novels'] });
  });
  afterAll(() => service.stop());

  describe.each(Object.keys(VIEWS))('in %s', (view) => {
    it.each(['chat', 'couplets', 'draw'])('%s says so', async (name) => {
      const tab = await chromium.open(service.url, name, VIEWS[view]!);
      await tab.page.getByText(NONE).waitFor();
      await expect.poll(() => tab.page.getByRole('button', { name: /^(Answer|Draw)$/ }).count()).toBe(0);
      await tab.shoot(`${name}-without-${view}`);
      await hasNoBarriers(tab);
      await tab.close();
      expect(tab.errors).toEqual([]);
    });
  });

  it('show one by themselves when the server has it', async () => {
    const tab = await chromium.open(service.url, 'couplets');
    await tab.page.getByText(NONE).waitFor();
    tab.expectStatus(503); // while the server is away
    await service.serveInstead(['novels', 'couplets']);
    await tab.page.getByRole('button', { name: 'Answer' }).click();
    await tab.page.getByText('likeliest').first().waitFor();
    await expect.poll(() => tab.page.getByText(NONE).isVisible()).toBe(false);
    await tab.close();
    expect(tab.errors).toEqual([]);
    await service.serveInstead(['novels']); // for whoever comes next
  });
});

it('says where there is no page', async () => {
  const tab = await chromium.open(url, 'nope', VIEWS['narrow']!);
  await tab.page.getByRole('heading', { name: 'No such page', level: 1 }).waitFor();
  await tab.page.getByText('There is no page “nope” here').waitFor();
  expect(await tab.page.locator('[aria-current]').count()).toBe(0);
  await hasNoBarriers(tab);
  await tab.page.getByRole('main').getByRole('link', { name: 'Write' }).click();
  await tab.page.getByRole('heading', { name: 'Write', level: 1 }).waitFor();
  await tab.go('');
  await tab.page.getByRole('heading', { name: 'Write', level: 1 }).waitFor();
  await tab.close();
  expect(tab.errors).toEqual([]);
});

it('tells when each paints first', async () => {
  const told: string[] = [];
  for (const name of Object.keys(SCENES)) {
    const tab = await chromium.open(url, name); // with an empty cache
    const paint = () =>
      tab.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null);
    await expect.poll(paint).not.toBeNull();
    told.push(`${name} ${Math.round((await paint())!)} ms`);
    await tab.close();
  }
  console.log(`first contentful paint: ${told.join(', ')}`);
});

it('leads past the navigation, and to the page by keys alone', async () => {
  const tab = await chromium.open(url, 'server');
  const focused = () => tab.evaluate(() => document.activeElement?.id);
  await tab.page.keyboard.press('Tab');
  await tab.page.keyboard.press('Enter');
  await expect.poll(focused).toBe('main');
  await tab.page.getByRole('link', { name: 'Draw' }).focus();
  await tab.page.keyboard.press('Enter');
  await tab.page.getByRole('heading', { name: 'Draw', level: 1 }).waitFor();
  await expect.poll(focused).toBe('main');
  await tab.close();
});
