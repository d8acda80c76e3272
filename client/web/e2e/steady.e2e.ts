// Nothing jumps: while texts come and messages come and go, all that is on a page stays where it is, but for a word whose
// end comes later and needs the next line.

import { afterAll, describe, expect, inject, it } from 'vitest';
import { Chromium, type Tab } from './browser.ts';
import { call, type Session } from './calls.ts';

const url = inject('url');
const chromium = new Chromium();

afterAll(() => chromium.close());

/** High enough that all of a page can be seen: what cannot is not watched. */
const VIEWS = { wide: { width: 1280, height: 1600 }, narrow: { width: 360, height: 2600 } };

/** Has the page note what moves from now on, also right after a click. */
async function watch(tab: Tab): Promise<() => Promise<string[]>> {
  await tab.evaluate(async () => {
    await document.fonts.ready;
    for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
    const told: string[] = [];
    (window as unknown as { shifts: string[] }).shifts = told;
    interface Shift extends PerformanceEntry {
      sources: { node: Node | null; previousRect: DOMRect; currentRect: DOMRect }[];
    }
    const place = ({ x, y, width, height }: DOMRect): string => `${x},${y} ${width}x${height}`;
    new PerformanceObserver((list) => {
      for (const { sources } of list.getEntries() as Shift[])
        for (const { node, previousRect, currentRect } of sources) {
          const at = node instanceof Element ? node : node?.parentElement;
          // The last word of a text that comes: more of it may not fit the line.
          if (at?.matches('.token') && currentRect.y > previousRect.y) continue;
          told.push(`${at?.tagName} .${at?.className}: ${place(previousRect)} to ${place(currentRect)}`);
        }
    }).observe({ type: 'layout-shift' });
  });
  return () =>
    tab.evaluate(async () => {
      for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
      return (window as unknown as { shifts: string[] }).shifts;
    });
}

const press = (tab: Tab, name: string) => tab.page.getByRole('button', { name, exact: true }).click();
const ready = (tab: Tab, name: string) =>
  expect.poll(() => tab.page.getByRole('button', { name, exact: true }).isEnabled()).toBe(true);

const SCENES: Record<string, (tab: Tab) => Promise<string[]>> = {
  write: async (tab) => {
    await ready(tab, 'Write');
    const shifts = await watch(tab);
    await press(tab, 'Write');
    await ready(tab, 'Continue');
    await press(tab, 'Continue');
    await expect.poll(() => tab.page.locator('.token').count()).toBeGreaterThan(250);
    await ready(tab, 'Continue');
    await press(tab, 'Start over');
    await tab.page.getByText('The text before is kept as a session').waitFor();
    return shifts();
  },
  tree: async (tab) => {
    const session = await call<Session>(url, 'POST', '/v1/sessions', {
      model: 'novels',
      label: 'steady',
      keep_transcript: true,
    });
    await call(url, 'POST', `/v1/sessions/${session.id}/append`, { text: 'It was late.' });
    await tab.go(`tree?session=${session.id}`);
    await tab.page.getByRole('heading', { name: 'steady' }).waitFor();
    const shifts = await watch(tab);
    await press(tab, 'Continue');
    await ready(tab, 'Continue');
    await press(tab, 'Save to durable');
    await tab.page.getByText('Saved.', { exact: true }).waitFor();
    return shifts();
  },
  couplets: async (tab) => {
    await ready(tab, 'Answer');
    await press(tab, 'Answer');
    await tab.page.getByText('likeliest').first().waitFor();
    const shifts = await watch(tab);
    await press(tab, 'Answer');
    await tab.page.getByText('likeliest').first().waitFor();
    await ready(tab, 'Answer');
    return shifts();
  },
  draw: async (tab) => {
    await ready(tab, 'Draw');
    const shifts = await watch(tab);
    await press(tab, 'Complete it');
    await tab.page.getByText('Draw something on the pad first').waitFor();
    await press(tab, 'Draw');
    await expect.poll(() => tab.page.getByRole('img', { name: /^Image \d+$/ }).count()).toBe(9);
    await ready(tab, 'Draw');
    return shifts();
  },
  server: async (tab) => {
    await tab.page.getByRole('heading', { name: 'novels' }).waitFor();
    const shifts = await watch(tab);
    await call(url, 'POST', '/v1/completions', { model: 'novels', prompt: 'Once', max_tokens: 2000, ignore_eos: true });
    await expect.poll(() => tab.page.locator('.plot .line:not(.mean)').first().getAttribute('d')).toContain('L');
    return shifts();
  },
};

describe.each(Object.keys(VIEWS) as (keyof typeof VIEWS)[])('in %s', (view) => {
  it.each(Object.keys(SCENES))('%s', async (name) => {
    const tab = await chromium.open(url, name, VIEWS[view]);
    expect(await SCENES[name]!(tab)).toEqual([]);
    await tab.close();
    expect(tab.errors).toEqual([]);
  });
});
