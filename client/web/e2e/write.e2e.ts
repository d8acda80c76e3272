import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, inject, it } from 'vitest';
import type { Field } from '../src/api/fields.ts';
import { aWord, type Tab } from './browser.ts';
import { call } from './calls.ts';
import { eachInTab } from './each_test.ts';

let tab: Tab;

eachInTab('write', (opened) => (tab = opened));

const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
const written = () =>
  tab.page
    .locator('.written')
    .allTextContents()
    .then((texts) => texts.join(''));
const figure = async (name: string): Promise<string> =>
  (await tab.page
    .locator('.live div', { has: tab.page.getByText(name, { exact: true }) })
    .locator('dd')
    .textContent()) ?? '';
const tokens = (text: string): number => Number(text.replace(/\D/g, ''));

async function write(opening: string, most: number): Promise<void> {
  await box('Opening').fill(opening);
  await tab.page.getByLabel('max_tokens', { exact: true }).fill(String(most));
  await button('Write').click();
}
const done = () => button('Continue').waitFor();
const box = (label: string) => tab.page.getByLabel(label);
const text = () => tab.page.locator('.frame .text').textContent();

it('writes, continues, and keeps the bytes of state while the context grows', async () => {
  await write('The captain said', 40);
  await done();
  expect(await written()).not.toBe('');
  const before = { context: tokens(await figure('context, tokens')), state: await figure('state') };
  expect(before.context).toBeGreaterThanOrEqual(41);
  await tab.page.getByLabel('Your words next').fill(' Then he');
  await button('Continue').click();
  await expect.poll(async () => tokens(await figure('context, tokens'))).toBeGreaterThan(before.context + 40);
  await done();
  expect(await figure('state')).toBe(before.state);
  expect(before.state).toMatch(/\d [kM]B/);
  expect(await tab.page.locator('.given').allTextContents()).toEqual(['The captain said', ' Then he']);
});

it('offers models that write texts before those that have a page of their own', async () => {
  const models = tab.page.getByLabel('Model').locator('option');
  await expect.poll(() => models.allTextContents()).toEqual(['novels', 'couplets']);
  expect(await tab.page.getByLabel('Model').inputValue()).toBe('novels');
});

interface Described {
  components: { schemas: { CompletionRequest: { properties: Record<string, Field> } } };
}

it('has controls with the ranges and words of /openapi.json', async () => {
  const rows = tab.page.locator('.sampling .control');
  const shown = await rows.evaluateAll((all) =>
    all.map((row) => {
      const input = row.querySelector('input, textarea')!;
      const [name, min, max] = ['name', 'min', 'max'].map((each) => input.getAttribute(each));
      return { name: name!, min, max, hint: row.querySelector('.hint')!.textContent };
    }),
  );
  expect(shown.slice(0, 4).map(({ name }) => name)).toEqual(['temperature', 'top_p', 'max_tokens', 'seed']);
  expect(shown.length).toBeGreaterThanOrEqual(12);
  const document = await call<Described>(inject('url'), 'GET', '/openapi.json');
  const fields = document.components.schemas.CompletionRequest.properties;
  const end = (number: number | undefined) => (number === undefined ? null : String(number));
  for (const { name, min, max, hint } of shown) {
    const { minimum, exclusiveMinimum, maximum, description } = fields[name]!;
    expect([name, min, max]).toEqual([name, end(minimum ?? exclusiveMinimum), end(maximum)]);
    if (name !== 'max_tokens') expect(hint).toContain(description); // which is of the call there
  }
});

it('repeats a text of the same seed, and changes it with another', async () => {
  await tab.page.getByLabel('seed', { exact: true }).fill('7');
  await write('The captain said', 30);
  await done();
  const first = await written();
  await button('Try again').click();
  await done();
  expect(await written()).toBe(first);
  await tab.page.getByLabel('seed', { exact: true }).fill('8');
  await button('Try again').click();
  await done();
  expect(await written()).not.toBe(first);
});

it('stops, and the session holds what is shown', async () => {
  await write('The captain said', 100_000);
  await expect.poll(async () => (await written()).length).toBeGreaterThan(100);
  await button('Stop').click();
  await done();
  const shown = `The captain said${await written()}`;
  const context = tokens(await figure('context, tokens'));
  const session = await tab.evaluate(async (): Promise<{ position: number; text: string }> => {
    const id = sessionStorage.getItem('tvq.write.session');
    const found = await (await fetch(`/v1/sessions/${id}?include_transcript=true`)).json();
    const body = JSON.stringify({ model: found.model, tokens: found.transcript });
    const headers = { 'Content-Type': 'application/json' };
    const { prompt } = await (await fetch('/detokenize', { method: 'POST', headers, body })).json();
    return { position: found.position, text: prompt };
  });
  expect(session).toEqual({ position: context, text: shown });
});

it('shows what else a token might have been, by mouse and by keys', async () => {
  await write('The captain said', 40);
  await done();
  const card = tab.page.getByRole('tooltip');
  await aWord(tab).hover();
  await expect.poll(() => card.locator('li').count()).toBeGreaterThanOrEqual(2);
  await expect.poll(() => card.textContent()).toMatch(/\d%/);
  await tab.page.locator('.token').first().focus();
  await tab.page.keyboard.press('ArrowRight');
  const second = tab.page.locator('.token').nth(1);
  await expect.poll(() => second.evaluate((node) => node === document.activeElement)).toBe(true);
  await card.waitFor();
  await tab.page.keyboard.press('Escape');
  await card.waitFor({ state: 'hidden' });
});

it('tells of each token in as much room: without others, of a long name, and of several', async () => {
  const id = await otherSession('It was late, sir');
  await tab.evaluate((session) => {
    const likely = ['a', 'b', 'c', 'd', 'e', 'f'].flatMap((text, i) => [text, -1 - i]);
    const long = ['captain '.repeat(20), -1, ...likely];
    const several = (count: number) => Array.from({ length: count }, () => ['?', -1, ...likely]);
    const pieces = [
      ['It', ['It', null]],
      [' was', [' was', -1, ...likely]],
      [' la', long],
      ['te', ...several(2)],
      [',', ...several(3)],
      [' si', ...several(4)],
      ['r', ...several(7)],
    ];
    const story = { session, version: 1, position: 16, writing: false, turn: 1, parts: [['written', pieces]] };
    sessionStorage.setItem('tvq.write.story', JSON.stringify(story));
    sessionStorage.setItem('tvq.write.session', session);
  }, id);
  await tab.page.reload();
  await expect.poll(text).toBe('It was late, sir');
  const card = tab.page.getByRole('tooltip');
  const heights = new Set<number>();
  const tokens = await tab.page.locator('.token').all();
  expect(tokens.length).toBe(7);
  for (const token of tokens) {
    await token.focus();
    await card.waitFor();
    heights.add((await card.boundingBox())!.height);
    expect(await card.evaluate((node) => node.scrollHeight <= node.clientHeight)).toBe(true);
    expect(await card.evaluate((node) => node.scrollWidth <= node.clientWidth)).toBe(true);
  }
  expect(heights.size).toBe(1);
});

it('makes a new session of its text when the server has lost the old one', async () => {
  tab.expectStatus(404);
  await write('The captain said', 8);
  await done();
  const before = `The captain said${await written()}`;
  await tab.evaluate(() => fetch(`/v1/sessions/${sessionStorage.getItem('tvq.write.session')}`, { method: 'DELETE' }));
  await button('Continue').click();
  await tab.page.getByText('has this session no more').waitFor();
  await expect.poll(() => box('Opening').inputValue()).toBe(before);
  await button('Write').click();
  await done();
  // A line each, if the model has written several.
  await expect.poll(async () => (await tab.page.locator('.given').allTextContents()).join('')).toBe(before);
});

it('keeps the text through a reload when the server has lost the session', async () => {
  tab.expectStatus(404);
  await write('The captain said', 8);
  await done();
  const before = `The captain said${await written()}`;
  await box('Your words next').fill(' and so');
  await tab.evaluate(() => fetch(`/v1/sessions/${sessionStorage.getItem('tvq.write.session')}`, { method: 'DELETE' }));
  await tab.page.reload();
  await tab.page.getByText('has this session no more').waitFor();
  await expect.poll(() => box('Opening').inputValue()).toBe(`${before} and so`);
  await button('Write').click();
  await done();
});

it.each(['null', '5', '[null]', '{"stop":5,"max_tokens":null,"parts":[[5]]}'])(
  'takes nothing for a story that is none: %s',
  async (nonsense) => {
    await tab.evaluate((text) => {
      for (const name of ['write.story', 'sampling.write', 'names', 'forks', 'rewound']) {
        sessionStorage.setItem(`tvq.${name}`, text);
        localStorage.setItem(`tvq.${name}`, text);
      }
    }, nonsense);
    await tab.page.reload();
    expect(await tab.page.getByLabel('max_tokens', { exact: true }).inputValue()).toBe('200');
    await write('The captain said', 8);
    await done();
  },
);

it('shows what the session holds when that is not what was written here', async () => {
  tab.expectStatus(409);
  await write('The captain said', 8);
  await done();
  const before = `The captain said${await written()}`;
  await tab.evaluate(() =>
    fetch(`/v1/sessions/${sessionStorage.getItem('tvq.write.session')}/append`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ text: ' nothing' }),
    }),
  );
  await box('Your words next').fill(' more');
  await button('Continue').click();
  await tab.page.getByText('This is what it holds now').waitFor();
  expect(await text()).toBe(`${before} nothing`);
  expect(await box('Your words next').inputValue()).toBe(' more');
  await button('Continue').click();
  await done();
  await expect.poll(text).toContain(`${before} nothing more`);
});

it('saves a branch that the tree shows', async () => {
  await write('The captain said', 8);
  await done();
  await button('Save as a branch').click();
  const name = `another way ${randomUUID().slice(0, 4)}`;
  await tab.page.getByLabel('Name of the branch').fill(name);
  await button('Save').click();
  await tab.page.getByRole('link', { name: 'Show it in the tree' }).click();
  await tab.page.getByRole('treeitem', { name, selected: true }).waitFor();
});

it('asks for no name of a branch any more when the text is written anew', async () => {
  await write('The captain said', 8);
  await done();
  const name = tab.page.getByLabel('Name of the branch');
  for (const next of ['Try again', 'Continue', 'Start over']) {
    await button('Save as a branch').click();
    await name.waitFor();
    await button(next).click();
    await name.waitFor({ state: 'hidden' });
    if (next !== 'Start over') await done();
  }
});

it('says what is wrong at the control, and keeps the words', async () => {
  tab.expectStatus(400);
  await tab.page.getByLabel('top_p', { exact: true }).fill('7');
  await write('Words of mine', 8);
  await tab.page.locator('.control', { hasText: 'top_p' }).locator('.problem', { hasText: 'top_p' }).waitFor();
  await expect.poll(() => box('Opening').inputValue()).toBe('Words of mine');
  await tab.page.getByLabel('top_p', { exact: true }).fill('0.9');
  await button('Write').click();
  await done();
});

/** Holds the calls that match until what it answers is called; what they are answered then. */
async function hold(pattern: string | RegExp, refusal?: number): Promise<() => void> {
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  await tab.page.route(pattern, async (route) => {
    await released;
    const body = JSON.stringify({ error: { message: 'refused by the test', type: 'error' } });
    await (refusal ? route.fulfill({ status: refusal, contentType: 'application/json', body }) : route.continue());
  });
  return release;
}

/** A session that the page has not made, with its text. */
async function otherSession(text: string): Promise<string> {
  return tab.evaluate(async (words) => {
    const post = async (path: string, body: unknown): Promise<{ id: string }> => {
      const headers = { 'Content-Type': 'application/json' };
      return (await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })).json();
    };
    const { id } = await post('/v1/sessions', { model: 'novels', keep_transcript: true });
    await post(`/v1/sessions/${id}/append`, { text: words });
    return id;
  }, text);
}

it('keeps the next words while the last turn is tried again', async () => {
  await write('The captain said', 8);
  await done();
  await tab.page.getByLabel('Your words next').fill(' Then he');
  await button('Try again').click();
  await done();
  await expect.poll(() => box('Your words next').inputValue()).toBe(' Then he');
});

it('puts the words of a turn that failed before those that were typed meanwhile', async () => {
  tab.expectStatus(400);
  const release = await hold('**/v1/completions', 400);
  await write('The captain said', 8);
  await button('Stop').waitFor();
  await tab.page.locator('.composer textarea').fill(' and more');
  release();
  await tab.page.getByRole('alert').filter({ hasText: 'Refused by the test' }).waitFor();
  await expect.poll(() => box('Opening').inputValue()).toBe('The captain said and more');
});

it('leaves the words in the box when a session is opened', async () => {
  await box('Opening').fill('Words of mine');
  await tab.go(`write?session=${await otherSession('Another text')}`);
  await expect.poll(text).toBe('Another text');
  await expect.poll(() => box('Your words next').inputValue()).toBe('Words of mine');
});

it('opens the session that was chosen when the running text is done', async () => {
  const other = await otherSession('Another text');
  await write('The captain said', 100_000);
  await expect.poll(async () => (await written()).length).toBeGreaterThan(20);
  await tab.go(`write?session=${other}`);
  await tab.page.getByText('opens when this one is done').waitFor();
  await button('Stop').click();
  await expect.poll(text).toBe('Another text');
  await done();
});

it('writes nothing while a session is being opened', async () => {
  await write('The captain said', 8);
  await done();
  const other = await otherSession('Another text');
  const release = await hold(new RegExp(`/v1/sessions/${other}`));
  await tab.go(`write?session=${other}`);
  await expect.poll(() => button('Continue').isDisabled()).toBe(true);
  await tab.page.locator('.composer textarea').press('Control+Enter');
  expect(await button('Stop').isVisible()).toBe(false);
  release();
  await expect.poll(text).toBe('Another text');
  await expect.poll(() => button('Continue').isDisabled()).toBe(false);
});

it('copies the text and hands it out as a file', async () => {
  await tab.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  expect(await button('Copy').isDisabled()).toBe(true);
  await write('The captain said', 8);
  await done();
  const shown = await text();
  await button('Copy').click();
  await button('Copied').waitFor();
  expect(await tab.evaluate(() => navigator.clipboard.readText())).toBe(shown);
  const coming = tab.page.waitForEvent('download');
  await button('Download').click();
  const download = await coming;
  expect(download.suggestedFilename()).toBe('The-captain-said.txt');
  expect(readFileSync(await download.path(), 'utf8')).toBe(shown);
});

it('copies where the browser gives the page no clipboard, as without TLS', async () => {
  await write('The captain said', 8);
  await done();
  const shown = await text();
  await tab.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
  await button('Copy').click();
  await button('Copied').waitFor();
  await box('Your words next').focus();
  await tab.page.keyboard.press('Control+V');
  expect(await box('Your words next').inputValue()).toBe(shown);
});

it('stops where it was begun: a second click at the same place, which is no double click', async () => {
  const place = await button('Write').boundingBox();
  const beside = await button('Try again').boundingBox();
  await tab.page.getByLabel('max_tokens', { exact: true }).fill('100000');
  const centre = [place!.x + place!.width / 2, place!.y + place!.height / 2] as const;
  await tab.page.mouse.dblclick(...centre);
  await expect.poll(async () => (await written()).length).toBeGreaterThan(20); // it goes on
  expect(await button('Stop').boundingBox()).toEqual(place);
  expect(await button('Try again').boundingBox()).toEqual(beside);
  await tab.page.mouse.click(...centre);
  await done();
  expect(await tab.page.getByRole('alert').count()).toBe(0);
});

it('labels both scales of the plot', async () => {
  const marks = (kind: string) => tab.page.locator(`.scale.${kind} li`).allTextContents();
  expect(await marks('climbing')).toEqual(['–', '–', '–']);
  await write('The captain said', 60);
  await done();
  await expect.poll(() => marks('climbing')).toEqual(['100', '50', '0']);
  expect((await marks('flat'))[0]).toMatch(/^\d+ [kM]B$/);
  expect((await marks('flat'))[2]).toBe('0 B');
});

it('shows how far a long text is read, and in what time it was', async () => {
  let looks = 0;
  await tab.page.route('**/v1/server', (route) => {
    const json = {
      requests_running: looks > 0 ? 1 : 0,
      requests_waiting: 0,
      prefill_tokens_computed: looks * 1000,
      prefill_tokens_reused: 0,
    };
    looks += 1;
    return route.fulfill({ json });
  });
  const release = await hold('**/v1/completions');
  await write('The captain said that it was late. '.repeat(1000), 8);
  await tab.page.getByRole('progressbar', { name: 'Reading the text.' }).waitFor();
  await tab.page.getByText(/\d,000 of [\d,]+ tokens, [\d,.]+ a second$/).waitFor();
  release();
  await done();
  await tab.page.getByText(/^Read [\d,]+ tokens in [\d.]+ s\.$/).waitFor();
  expect(await tab.page.getByRole('progressbar').count()).toBe(0);
});
