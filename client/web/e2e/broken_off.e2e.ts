// What Write has of a text that broke off since its server ended: all that was seen of it. What the session holds is on
// the paper; the rest is in the box, from where it goes on.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Chromium, type Tab } from './browser.ts';
import { call, type Session } from './calls.ts';
import { Service } from './processes.ts';

const MODELS = ['couplets', 'novels'];
const OPENING = 'The captain said';
const chromium = new Chromium();
let service: Service;
let tab: Tab;

beforeAll(async () => {
  service = await Service.start({ models: MODELS });
});
afterAll(async () => {
  await chromium.close();
  await service.stop();
});
beforeEach(async () => {
  await service.serveInstead(MODELS);
  tab = await chromium.open(service.url, 'write');
  for (const status of [404, 409, 500, 503]) tab.expectStatus(status);
  // A text ends here when its server does, and not by itself.
  await tab.page.getByText('More controls').click();
  await tab.page.getByLabel('ignore_eos').check();
});
afterEach(async () => {
  await tab.close();
  expect(tab.errors).toEqual([]);
});

const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
const box = () => tab.page.locator('.composer textarea');
const go = () => tab.page.getByRole('button', { name: /^(Write|Continue)$/ });
const paper = async () => (await tab.page.locator('.frame .text').textContent())!;
/** What the session holds, and what can be added to it. */
const all = () =>
  tab.evaluate(
    () => document.querySelector('.frame .text')!.textContent! + document.querySelector('textarea')!.value,
  ) as Promise<string>;

async function write(words: string, most: number): Promise<void> {
  await box().fill(words);
  await tab.page.getByLabel('max_tokens', { exact: true }).fill(String(most));
  await go().click();
}
async function writeOn(words: string): Promise<void> {
  const before = (await all()).length + words.length;
  await write(words, 100_000);
  await expect.poll(async () => (await all()).length).toBeGreaterThan(before + 300);
}
const alerts = () => tab.page.getByRole('alert').filter({ hasText: /\w/ });
/** What was seen when the text had broken off, as the page says. */
async function broken(): Promise<string> {
  await alerts().first().waitFor();
  expect(await button('Stop').count()).toBe(0);
  return all();
}
const serve = () => service.serveInstead(MODELS);
const ready = () => expect.poll(() => button('Continue').isEnabled()).toBe(true);
/** Has the server know the story as it is now after a crash. */
async function save(): Promise<void> {
  const id = await tab.evaluate(() => sessionStorage.getItem('tvq.write.session'));
  await call(service.url, 'POST', `/v1/sessions/${id}/save`, {});
}
/** The server ends at the call that `act` brings about, and is there again; answers what was seen meanwhile. */
async function diesWithin(url: RegExp, act: () => Promise<unknown>): Promise<string> {
  let death: Promise<void> | null = null;
  await tab.page.route(url, async (route) => {
    await (death ??= service.serverDies());
    await route.continue();
  });
  await act();
  const seen = await broken();
  await tab.page.unroute(url);
  await serve();
  return seen;
}

const ENDS: Record<string, () => Promise<void>> = {
  killed: () => service.serverDies(),
  terminated: () => service.serverEnds(),
};
const THEN: Record<string, (seen: string) => Promise<unknown>> = {
  'no reload': serve,
  'a reload while it was away': async (seen) => {
    await tab.page.reload();
    await expect.poll(all).toBe(seen);
    await serve();
  },
  'a reload after its start': async () => {
    await serve();
    await tab.page.reload();
  },
};

/** The server answers, nothing of `seen` is lost, and the text goes on after it. */
async function hasAndGoesOn(seen: string): Promise<void> {
  await expect.poll(() => go().isEnabled()).toBe(true);
  expect((await all()).slice(0, seen.length)).toBe(seen);
  await expect.poll(() => alerts().count()).toBe(0);
  await tab.page.getByLabel('max_tokens', { exact: true }).fill('8');
  await go().click();
  await expect.poll(async () => (await box().inputValue()) === '' && go().isEnabled()).toBe(true);
  expect((await paper()).slice(0, seen.length)).toBe(seen);
}

describe.each(Object.keys(ENDS))('the server was %s, and there was', (end) => {
  it.each(Object.keys(THEN))('%s: in the first turn', async (then) => {
    await writeOn(OPENING);
    await ENDS[end]!();
    const seen = await broken();
    expect(seen.length).toBeGreaterThan(OPENING.length + 300);
    await THEN[then]!(seen);
    await hasAndGoesOn(seen);
  });

  it.each(Object.keys(THEN))('%s: in a later turn', async (then) => {
    await write(OPENING, 8);
    await button('Continue').waitFor();
    await save();
    const first = await paper();
    await writeOn(' Then he');
    await ENDS[end]!();
    const seen = await broken();
    expect(seen.startsWith(`${first} Then he`)).toBe(true);
    await THEN[then]!(seen);
    await expect.poll(() => button('Continue').isEnabled()).toBe(true);
    expect(await paper()).toBe(first);
    expect(first + (await box().inputValue())).toBe(seen);
    await tab.page.getByText('What it does not hold is in the box below').waitFor();
    await hasAndGoesOn(seen);
  });
});

it('has the words before the first token', async () => {
  expect(await diesWithin(/\/v1\/completions$/, () => write(OPENING, 8))).toBe(OPENING);
  await expect.poll(() => box().inputValue()).toBe(OPENING);
  await hasAndGoesOn(OPENING);
});

it('has the text that was being stopped', async () => {
  await writeOn(OPENING);
  const seen = await all();
  // By the page itself: a click from outside waits for a frame, and the text may have broken off by then.
  const stopped = tab.evaluate(() => {
    const stop = [...document.querySelectorAll('button')].find(({ textContent }) => textContent === 'Stop');
    stop?.click();
    return stop !== undefined;
  });
  const died = service.serverDies();
  expect(await stopped).toBe(true);
  await died;
  await expect.poll(() => button('Stop').count()).toBe(0);
  await serve();
  await expect.poll(() => go().isEnabled()).toBe(true);
  expect((await all()).slice(0, seen.length)).toBe(seen);
});

it('has the text when the page was reloaded as the server ended', async () => {
  await writeOn(OPENING);
  const seen = await all();
  await Promise.all([service.serverDies(), tab.page.reload()]);
  expect((await all()).slice(0, seen.length)).toBe(seen);
  await serve();
  await hasAndGoesOn(seen);
});

it('has a turn that was done and that the server lost', async () => {
  await write(OPENING, 8);
  await button('Continue').waitFor();
  await save();
  await write(' Then he', 8);
  await ready();
  const seen = await paper();
  await service.serverDies();
  await serve();
  await box().fill(' and so');
  await button('Continue').click();
  await expect.poll(async () => (await all()).includes(' and so') && go().isEnabled()).toBe(true);
  expect((await all()).slice(0, seen.length + 7)).toBe(`${seen} and so`);
});

const TAKING_BACK = { first: /\/v1\/sessions\//, later: /\/rewind$/ };
const WRITING_ANEW = { first: /\/v1\/sessions$/, later: /\/v1\/completions$/ };

describe.each(['first', 'later'] as const)('the server was killed while the %s turn was tried again', (which) => {
  let before = '';
  beforeEach(async () => {
    before = '';
    await write(OPENING, 8);
    await ready();
    if (which === 'first') return save();
    before = await paper();
    await write(' Then he', 8);
    await ready();
    await save();
  });

  it('before it was taken back: has all of it, and tries again', async () => {
    const seen = await paper();
    expect(await diesWithin(TAKING_BACK[which], () => button('Try again').click())).toBe(seen);
    await expect.poll(() => alerts().count()).toBe(0);
    await button('Try again').click();
    await ready();
    await expect.poll(paper).toContain(which === 'first' ? OPENING : `${before} Then he`);
    expect(await alerts().count()).toBe(0);
  });

  it('before the new text: has its words', async () => {
    const words = which === 'first' ? OPENING : `${before} Then he`;
    expect(await diesWithin(WRITING_ANEW[which], () => button('Try again').click())).toBe(words);
    await hasAndGoesOn(words);
  });
});

it.each(['all', 'its beginning'])('saves a branch when the server was killed meanwhile and has %s', async (held) => {
  await write(OPENING, 8);
  await ready();
  if (held === 'its beginning') await save();
  await write(' Then he', 8);
  await ready();
  if (held === 'all') await save();
  const seen = await paper();
  const link = tab.page.getByRole('link', { name: 'Show it in the tree' });
  await button('Save as a branch').click();
  expect(await diesWithin(/\/fork$/, () => button('Save').click())).toBe(seen);
  await expect.poll(() => alerts().count()).toBe(0);
  await button('Save').click();
  if (held === 'its beginning') await tab.page.getByText('What it does not hold is in the box below').waitFor();
  else await link.waitFor();
  expect(await all()).toBe(seen);
});

it('has the story when the server was killed while another session was opened, and opens that', async () => {
  await write(OPENING, 8);
  await ready();
  const seen = await paper();
  const { id } = await call<Session>(service.url, 'POST', '/v1/sessions', { model: 'novels', keep_transcript: true });
  await call(service.url, 'POST', `/v1/sessions/${id}/append`, { text: 'Another text' });
  await call(service.url, 'POST', `/v1/sessions/${id}/save`, {});
  expect(await diesWithin(new RegExp(`/v1/sessions/${id}`), () => tab.go(`write?session=${id}`))).toBe(seen);
  await expect.poll(paper).toBe('Another text');
});

it.each(['no reload', 'a reload'])('has the text when its model is gone, with %s', async (then) => {
  await writeOn(OPENING);
  await service.serverDies();
  const seen = await broken();
  await service.serveInstead(['couplets']);
  if (then === 'a reload') await tab.page.reload();
  await expect.poll(() => box().inputValue()).toBe(seen);
  await tab.page.getByText('The text is in the box below').waitFor();
});

it('has the text in the box when a person starts over before the server answers', async () => {
  await writeOn(OPENING);
  await service.serverDies();
  const seen = await broken();
  expect(await button('Continue').isDisabled()).toBe(true);
  await button('Start over').click();
  expect(await box().inputValue()).toBe(seen);
  await tab.page.reload();
  await expect.poll(() => box().inputValue()).toBe(seen);
});

it('opens another session when what became of the text is known', async () => {
  await writeOn(OPENING);
  await service.serverDies();
  const seen = await broken();
  await serve();
  const { id } = await call<Session>(service.url, 'POST', '/v1/sessions', { model: 'novels', keep_transcript: true });
  await call(service.url, 'POST', `/v1/sessions/${id}/append`, { text: 'Another text' });
  await tab.go(`write?session=${id}`);
  await expect.poll(paper).toBe('Another text');
  expect(await box().inputValue()).toBe(seen);
  await tab.page.getByText('The text in the box below is of another story').waitFor();
});
