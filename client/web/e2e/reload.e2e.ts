// What Write has after a reload: all that was there before it.

import { beforeEach, describe, expect, inject, it } from 'vitest';
import { aWord, type Tab } from './browser.ts';
import { call, type Session } from './calls.ts';
import { eachInTab } from './each_test.ts';

const url = inject('url');
let tab: Tab;

eachInTab('write', (opened) => (tab = opened));

const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
const box = () => tab.page.locator('.composer textarea');
const done = () => button('Continue').waitFor();
const text = () => tab.page.locator('.frame .text').textContent();
const of = (kind: string) => tab.page.locator(`.frame .${kind}`).allTextContents();
/** Each token's text and how surprising it was. */
const tokens = () =>
  tab.page.locator('.token').evaluateAll((all) => all.map((each) => [each.textContent, each.className]));

async function write(words: string, most: number): Promise<void> {
  await box().fill(words);
  await tab.page.getByLabel('max_tokens', { exact: true }).fill(String(most));
  await tab.page.getByRole('button', { name: /^(Write|Continue)$/ }).click();
}

const go = () => tab.page.getByRole('button', { name: /^(Write|Continue)$/ });
/** What the session holds, and what can be added to it. */
const all = async () => (await text())! + (await box().inputValue());

async function reload(): Promise<void> {
  await tab.page.reload();
  await expect.poll(() => go().isEnabled()).toBe(true);
}

/** Reloads the page while it waits for the answer to a call that `act` brings about, which may be `done`. */
async function reloadWithin(method: string, url: RegExp, act: () => Promise<unknown>, done = false): Promise<void> {
  let first = true;
  let tell = (): void => undefined;
  const held = new Promise<void>((resolve) => (tell = resolve));
  await tab.page.route(url, async (route) => {
    if (!first || route.request().method() !== method) return route.fallback();
    first = false;
    if (done) await route.fetch();
    tell(); // never answered
  });
  await act();
  await held;
  await reload();
  await tab.page.unroute(url);
}

it('shows who wrote what, and how surprising it was', async () => {
  await write('The captain said', 30);
  await done();
  await write(' Then he', 30);
  await done();
  const before = { given: await of('given'), written: await of('written'), tokens: await tokens() };
  expect(before.given).toEqual(['The captain said', ' Then he']);
  await reload();
  expect({ given: await of('given'), written: await of('written'), tokens: await tokens() }).toEqual(before);
  expect(new Set(before.tokens.map(([, name]) => name)).size).toBeGreaterThan(1);
  await aWord(tab).hover();
  await expect.poll(() => tab.page.getByRole('tooltip').locator('li').count()).toBeGreaterThanOrEqual(2);
});

it('has nothing among the next words that nobody wrote, and goes on', async () => {
  await write('The captain said', 20);
  await done();
  const before = await text();
  await reload();
  await tab.page.getByText('Your words next').waitFor();
  expect(await box().inputValue()).toBe('');
  await button('Continue').click();
  await expect.poll(async () => (await of('written')).length).toBeGreaterThan(0);
  await done();
  await expect.poll(async () => (await text())!.length).toBeGreaterThan(before!.length);
  expect((await text())!.startsWith(before!)).toBe(true);
  expect(await of('given')).toEqual(['The captain said']);
  await box().fill(' Then he');
  await reload();
  expect(await box().inputValue()).toBe(' Then he');
});

it('tries the last turn again: the first, and a later one', async () => {
  await tab.page.getByLabel('seed', { exact: true }).fill('7');
  for (const words of ['The captain said', ' Then he']) {
    await write(words, 20);
    await done();
    const before = await text();
    await reload();
    await tab.page.getByLabel('seed', { exact: true }).fill('8');
    await button('Try again').click();
    await done();
    await expect.poll(text).not.toBe(before);
    expect((await of('given')).at(-1)).toBe(words);
    await tab.page.getByLabel('seed', { exact: true }).fill('7');
    await button('Try again').click();
    await done();
    await expect.poll(text).toBe(before);
  }
});

it('has what came of a turn that it broke off, which can be tried again', async () => {
  await write('The captain said', 100_000);
  await expect.poll(async () => (await of('written')).join('').length).toBeGreaterThan(100);
  await reload();
  expect(await of('given')).toEqual(['The captain said']);
  expect((await of('written')).join('').length).toBeGreaterThan(100);
  expect((await tokens()).length).toBeGreaterThan(20);
  const id = await tab.evaluate(() => sessionStorage.getItem('tvq.write.session'));
  const { position } = await call<Session>(url, 'GET', `/v1/sessions/${id}`);
  await expect.poll(() => tab.page.locator('.live').textContent()).toContain(position.toLocaleString('en'));
  await tab.page.getByLabel('max_tokens', { exact: true }).fill('8');
  await button('Try again').click();
  await done();
  await expect.poll(async () => (await tokens()).length).toBeLessThan(10);
  expect(await of('given')).toEqual(['The captain said']);
});

it('has the words of a turn that the server never got', async () => {
  await write('The captain said', 8);
  await done();
  await tab.page.route('**/v1/completions', () => undefined); // never answered
  const sent = tab.page.waitForRequest('**/v1/completions');
  await write(' Then he', 8);
  await sent;
  expect(await box().inputValue()).toBe('');
  await reload();
  expect(await box().inputValue()).toBe(' Then he');
  expect(await of('given')).toEqual(['The captain said']);
});

it.each([
  ['session', /\/v1\/sessions$/],
  ['text', /\/v1\/completions$/],
])('has the words of the first turn that waited for its %s', async (_, url) => {
  await reloadWithin('POST', url, () => write('The captain said', 8));
  expect(await all()).toBe('The captain said');
  await go().click();
  await expect.poll(async () => (await of('written')).length).toBeGreaterThan(0);
  await done();
  expect(await of('given')).toEqual(['The captain said']);
});

const TAKING_BACK = { first: ['DELETE', /\/v1\/sessions\//], later: ['POST', /\/rewind$/] } as const;

describe.each(['first', 'later'] as const)('while the %s turn is tried again', (which) => {
  const words = which === 'first' ? 'The captain said' : ' Then he';
  let before = '';
  let seen = '';
  beforeEach(async () => {
    tab.expectStatus(404);
    before = '';
    if (which === 'later') {
      await write('The captain said', 8);
      await done();
      before = (await text())!;
    }
    await write(words, 8);
    await done();
    seen = (await text())!;
  });

  it.each([false, true])('has all of it when the server was asked to take it back, and did: %s', async (did) => {
    const [method, url] = TAKING_BACK[which];
    await reloadWithin(method, url, () => button('Try again').click(), did);
    expect([await text(), await all()]).toEqual([did ? before : seen, seen]);
  });

  it('has its words when the new text was not asked for yet', async () => {
    const url = which === 'first' ? /\/v1\/sessions$/ : /\/marks$/;
    await reloadWithin('POST', url, () => button('Try again').click());
    expect([await text(), await all()]).toEqual([before, before + words]);
  });
});

it('has the story when a branch of it was being saved', async () => {
  await write('The captain said', 8);
  await done();
  const before = await text();
  await button('Save as a branch').click();
  await reloadWithin('POST', /\/fork$/, () => button('Save').click());
  expect([await text(), await all()]).toEqual([before, before]);
});

it('opens the session that was being opened', async () => {
  await write('The captain said', 8);
  await done();
  await box().fill(' and so');
  const { id } = await call<Session>(url, 'POST', '/v1/sessions', { model: 'novels', keep_transcript: true });
  await call(url, 'POST', `/v1/sessions/${id}/append`, { text: 'Another text' });
  await reloadWithin('GET', new RegExp(`/v1/sessions/${id}`), () => tab.go(`write?session=${id}`));
  expect([await text(), await box().inputValue()]).toEqual(['Another text', ' and so']);
});

it('has the story when the session that the address asks for is gone', async () => {
  tab.expectStatus(404);
  await write('The captain said', 8);
  await done();
  const before = await text();
  const { id } = await call<Session>(url, 'POST', '/v1/sessions', { model: 'novels', keep_transcript: true });
  await call(url, 'DELETE', `/v1/sessions/${id}`);
  await tab.go(`write?session=${id}`);
  await tab.page.getByRole('alert').filter({ hasText: id }).waitFor();
  await reload();
  await expect.poll(text).toBe(before);
  await tab.page.getByRole('alert').filter({ hasText: id }).waitFor();
});

it('opens the story again when a server that was away is back', async () => {
  tab.expectStatus(503);
  await write('The captain said', 8);
  await done();
  const before = await text();
  const away = /\/v1\/sessions\//;
  const body = JSON.stringify({ error: { message: 'away', type: 'server_error', code: 'unavailable' } });
  await tab.page.route(away, (route) =>
    route.fulfill({ status: 503, contentType: 'application/json', headers: { 'Retry-After': '60' }, body }),
  );
  await tab.page.reload();
  await tab.page.getByRole('alert').filter({ hasText: 'Away.' }).waitFor();
  expect(await text()).toBe(before); // as the tab kept it
  expect(await button('Continue').isDisabled()).toBe(true);
  await tab.page.unroute(away);
  await expect.poll(() => button('Continue').isEnabled()).toBe(true);
  expect(await text()).toBe(before);
});

it('has the words in the box where the session is gone', async () => {
  tab.expectStatus(404);
  await write('The captain said', 8);
  await done();
  const before = await text();
  const id = await tab.evaluate(() => sessionStorage.getItem('tvq.write.session'));
  await call(url, 'DELETE', `/v1/sessions/${id}`);
  await tab.page.reload();
  await expect.poll(() => box().inputValue()).toBe(before);
  await button('Write').waitFor();
});

it('comes back to the story that was begun after the one that the address named', async () => {
  const { id } = await call<Session>(url, 'POST', '/v1/sessions', { model: 'novels', keep_transcript: true });
  await call(url, 'POST', `/v1/sessions/${id}/append`, { text: 'Another text' });
  await tab.go(`write?session=${id}`);
  await expect.poll(text).toBe('Another text');
  expect(await of('given')).toEqual([]); // nobody knows by whom
  await button('Start over').click();
  await write('The captain said', 8);
  await done();
  const before = await text();
  await reload();
  await expect.poll(text).toBe(before);
});

it('knows the text of a branch, too', async () => {
  await write('The captain said', 20);
  await done();
  const before = await tokens();
  await button('Save as a branch').click();
  await button('Save').click();
  await tab.page.getByRole('link', { name: 'Show it in the tree' }).click();
  await tab.page.getByRole('link', { name: 'Open in Write' }).click();
  await expect.poll(() => button('Try again').isDisabled()).toBe(true);
  expect(await tokens()).toEqual(before);
  expect(await of('given')).toEqual(['The captain said']);
});

it('has what was seen of a session whose text the server does not keep', async () => {
  const { id } = await call<Session>(url, 'POST', '/v1/sessions', { model: 'novels', keep_transcript: false });
  await call(url, 'POST', `/v1/sessions/${id}/append`, { text: 'Another text' });
  await tab.go(`write?session=${id}`);
  await tab.page.getByText('whose text was not kept').waitFor();
  await write(' Then he', 8);
  await expect.poll(async () => (await of('written')).length).toBeGreaterThan(0);
  await done();
  const before = { given: await of('given'), tokens: await tokens() };
  await reload();
  expect({ given: await of('given'), tokens: await tokens() }).toEqual(before);
  expect(await box().inputValue()).toBe('');
});

describe('of a session whose text the server does not keep', () => {
  let before = '';
  let came = '';
  /** But for the note. */
  const shown = async (): Promise<string> =>
    (await tab.page.locator('.frame .text span:is(.given, .written)').allTextContents()).join('');

  beforeEach(async () => {
    came = '';
    const { id } = await call<Session>(url, 'POST', '/v1/sessions', { model: 'novels', keep_transcript: false });
    await call(url, 'POST', `/v1/sessions/${id}/append`, { text: 'Another text' });
    await tab.go(`write?session=${id}`);
    await tab.page.getByText('whose text was not kept').waitFor();
    for (const words of ['The captain said', ' Then he']) {
      before = came;
      await write(words, 8);
      await expect.poll(async () => (await of('given')).at(-1)).toBe(words);
      await done();
      came = await shown();
    }
  });

  it.each([false, true])('does not show a turn that was taken back: %s', async (did) => {
    await reloadWithin('POST', /\/rewind$/, () => button('Try again').click(), did);
    expect(await shown()).toBe(did ? before : came);
    expect((await shown()) + (await box().inputValue())).toBe(came);
  });

  it.each([false, true])('does not show words for which a mark was made: %s', async (did) => {
    await reloadWithin('POST', /\/marks$/, () => button('Try again').click(), did);
    expect([await shown(), await box().inputValue()]).toEqual([before, ' Then he']);
  });
});

it('keeps no turn that was taken back, from the moment that it was', async () => {
  await write('The captain said', 8);
  await done();
  await write(' Then he', 8);
  await done();
  let held = (): void => undefined;
  const marks = new Promise<void>((resolve) => (held = resolve));
  await tab.page.route(/\/marks$/, () => held()); // never answered
  await button('Try again').click();
  await marks;
  const kept = await tab.evaluate(() => sessionStorage.getItem('tvq.write.story'));
  const { parts, writing } = JSON.parse(kept as string) as { parts: [string, unknown][]; writing: boolean };
  expect([parts.map(([by]) => by), writing]).toEqual([['given', 'written', 'given'], true]);
});
