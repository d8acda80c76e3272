import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeEach, expect, inject, it } from 'vitest';
import { Chromium, type Tab } from './browser.ts';
import { call, forgetSessions, type Session } from './calls.ts';

const url = inject('url');
const chromium = new Chromium();
let tab: Tab;
let story = '';
/** What no session of another test is called. */
let name = '';

afterAll(() => chromium.close());
beforeEach(async () => {
  await forgetSessions(url);
  name = `The old house ${randomUUID().slice(0, 4)}`;
  const session = await call<Session>(url, 'POST', '/v1/sessions', {
    model: 'novels',
    label: name,
    keep_transcript: true,
  });
  await call(url, 'POST', `/v1/sessions/${session.id}/append`, {
    text: 'It was late in the evening when the carriage stopped.',
  });
  story = session.id;
  tab = await chromium.open(url, `tree?session=${story}`);
  await tab.page.getByRole('heading', { name }).waitFor();
});
afterEach(async () => {
  await tab.close();
  expect(tab.errors).toEqual([]);
});

const position = async () => (await call<Session>(url, 'GET', `/v1/sessions/${story}`)).position;
const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
const item = (named: string | RegExp) => tab.page.getByRole('treeitem', { name: named });

it('forks, goes on with both branches, and compares them', async () => {
  await tab.page.getByLabel('copies').fill('2');
  await button('Fork').click();
  await item(`${name} / 2`).waitFor();
  await item(`${name} / 1`).click();
  await tab.page.getByLabel('compare with').selectOption({ label: `${name} / 2` });
  await tab.page.getByText('Both begin with the same').waitFor();
  await tab.page.getByRole('region', { name: 'Comparison' }).getByLabel('tokens').fill('30');
  await button('Continue both').click();
  // Each goes on in its own way: 30 tokens drawn twice.
  await expect.poll(() => tab.page.locator('.compare .left mark').count()).toBeGreaterThanOrEqual(1);
  await expect.poll(() => tab.page.locator('.compare .right mark').count()).toBeGreaterThanOrEqual(1);
  expect(tab.page.url()).toContain('with=');
});

it('draws the bars of all sessions from one line', async () => {
  const before = await position();
  await button('Continue').click();
  await item(`${name}, ${before + 60} tokens`).waitFor(); // wider than what stands beside the next
  const short = { model: 'novels', label: 'a', keep_transcript: true };
  await call<Session>(url, 'POST', '/v1/sessions', short);
  await button('Refresh').click();
  await item(/^a, 0 tokens/).waitFor();
  await tab.page.getByLabel('mark', { exact: true }).fill('at the door');
  await button('Mark').click();
  await item(/at the door/).waitFor();
  const begins = await tab.page
    .locator('.spine')
    .evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().left));
  expect(begins.length).toBeGreaterThanOrEqual(2);
  expect(new Set(begins).size).toBe(1);
});

it('marks, goes on, and rewinds', async () => {
  const before = await position();
  await tab.page.getByLabel('mark', { exact: true }).fill('at the door');
  await button('Mark').click();
  await item(/at the door/).waitFor();
  await button('Continue').click();
  await expect.poll(position).toBe(before + 60);
  await item(`${name}, ${before + 60} tokens`).waitFor();
  await button('Rewind to it').click();
  await item(`${name}, ${before} tokens`).waitFor();
  expect(await position()).toBe(before);
  const left = item(`before rewind: ${name}, ${before + 60} tokens`);
  await left.waitFor();
  await button('Fork from it').click();
  await item(`${name} / 1`).waitFor();
  await button('Forget').click();
  await expect.poll(() => item(/at the door/).count()).toBe(0);
});

it('keeps what a rewind leaves as a branch that is read, compared and continued', async () => {
  const before = await position();
  const reading = () => tab.page.locator('.reading .text').textContent();
  await tab.page.getByLabel('mark', { exact: true }).fill('at the door');
  await button('Mark').click();
  await item(/at the door/).waitFor();
  await button('Continue').click();
  await item(`${name}, ${before + 60} tokens`).waitFor();
  await expect.poll(async () => ((await reading()) ?? '').length).toBeGreaterThan(60);
  const abandoned = await reading();
  await button('Rewind to it').click();
  await tab.page.getByText('What it held before is a branch now').waitFor();
  await expect.poll(reading).not.toBe(abandoned);

  // As good a branch as others: what it holds, where it left, and how it goes on.
  await tab.page
    .getByRole('status')
    .getByRole('link', { name: `before rewind: ${name}` })
    .click();
  await tab.page.getByRole('heading', { name: `before rewind: ${name}` }).waitFor();
  await expect.poll(reading).toBe(abandoned);
  await tab.page.getByText(`${name}, from ${before} on`).waitFor();
  await tab.page.getByLabel('compare with').selectOption({ label: name });
  await tab.page.getByText(`Both begin with the same ${before} tokens`).waitFor();
  await button('Continue both').click();
  await item(`before rewind: ${name}, ${before + 120} tokens`).waitFor();
  await item(`${name}, ${before + 60} tokens`).waitFor();

  // Not if it is not wanted, and not once there is nothing to keep.
  await item(`${name}, ${before + 60} tokens`).click();
  await tab.page.getByLabel('A rewind keeps what it leaves').uncheck();
  await button('Rewind to it').click();
  await item(`${name}, ${before} tokens`).waitFor();
  await tab.page.getByLabel('A rewind keeps what it leaves').check();
  await button('Rewind to it').click();
  await expect.poll(() => tab.page.locator('.branches .hint').textContent()).toContain('2 sessions');
});

/** What the page tells of as not held, and what the tab remembers. */
const unheld = () => tab.page.locator('.broken .lost').allTextContents();
const remembered = () => tab.evaluate(() => sessionStorage.getItem('tvq.tree.broken'));
const details = () => tab.page.getByRole('region', { name: 'The chosen session' });
const goOnForLong = async () => {
  await details().getByLabel('tokens').fill('100000');
  await button('Continue').click();
};

it.each([true, false])('tells of nothing as not held that came before a stop, with a transcript: %s', async (kept) => {
  const body = { model: 'novels', label: `kept ${kept}`, keep_transcript: kept };
  const { id } = await call<Session>(url, 'POST', '/v1/sessions', body);
  await call(url, 'POST', `/v1/sessions/${id}/append`, { text: 'It was late.' });
  await tab.go(`tree?session=${id}`);
  await tab.page.getByRole('heading', { name: `kept ${kept}` }).waitFor();
  for (const turn of [1, 2]) {
    await goOnForLong();
    await tab.stopOnceTold('.fresh');
    await button('Continue').waitFor();
    await expect.poll(() => tab.page.locator('.fresh').count()).toBe(0);
    await expect.poll(async () => [turn, await remembered(), await unheld()]).toEqual([turn, '[]', []]);
  }
});

it('answers a person while a long text comes', async () => {
  // So that it ends by the click alone.
  await tab.page.route('**/v1/completions', (route) =>
    route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true }) }),
  );
  await goOnForLong();
  await expect.poll(async () => (await tab.page.locator('.fresh').textContent())!.length).toBeGreaterThan(15_000);
  await button('Stop').click();
  await button('Continue').waitFor();
});

it('tells of nothing as not held that came before a reload', async () => {
  await goOnForLong();
  await expect.poll(async () => (await tab.page.locator('.fresh').textContent())!.length).toBeGreaterThan(50);
  await tab.page.reload();
  await expect.poll(remembered).toBe('[]');
  await expect.poll(() => tab.page.locator('.reading .text').textContent()).toMatch(/.{100}/s); // its end alone, if it is long
  expect(await unheld()).toEqual([]);
});

it('waits for what was on its way to the session when the page was left', async () => {
  const held = await call<Session & { version: number }>(url, 'GET', `/v1/sessions/${story}`);
  await tab.evaluate(
    (broken) => sessionStorage.setItem('tvq.tree.broken', broken),
    JSON.stringify([{ session: story, version: held.version, position: held.position, came: ' It came.' }]),
  );
  await tab.page.reload();
  await tab.page.getByRole('heading', { name }).waitFor();
  await call(url, 'POST', `/v1/sessions/${story}/append`, { text: ' It came.' });
  await expect.poll(() => tab.page.locator('.reading .text').textContent()).toContain('It came.');
  await expect.poll(remembered).toBe('[]');
  expect(await unheld()).toEqual([]);
});

it('tells of nothing as not held that came before a stop of both', async () => {
  await button('Fork').click();
  await item(`${name} / 2`).waitFor();
  await details()
    .getByLabel('compare with')
    .selectOption({ label: `${name} / 2` });
  await tab.page.getByText('Both begin with the same').waitFor();
  const both = tab.page.getByRole('region', { name: 'Comparison' });
  await both.getByLabel('tokens').fill('100000');
  await button('Continue both').click();
  await tab.stopOnceTold('.compare .right .text > :last-child');
  await button('Continue both').waitFor();
  expect(await remembered()).toBe('[]');
});

it('forgets what a session did not hold when that is deleted', async () => {
  await tab.evaluate((session) => {
    const broken = { session, version: 1, position: 0, came: 'This came.' };
    sessionStorage.setItem('tvq.tree.broken', JSON.stringify([broken]));
  }, story);
  await tab.page.reload();
  await expect.poll(unheld).toEqual(['This came.']);
  await button('Delete').click();
  await button('Really delete?').click();
  await expect.poll(remembered).toBe('[]');
});

it('works with marks of any name', async () => {
  const mark = 'a"b\\c';
  await tab.page.getByLabel('mark', { exact: true }).fill(mark);
  await button('Mark').click();
  await item(mark).waitFor();
  await button('Rewind to it').click();
  await tab.page.getByText(`Back at ${mark}.`).waitFor();
  expect(await tab.page.getByRole('alert').count()).toBe(0);
  // The panel is drawn anew meanwhile, so the button may be a new one.
  await expect.poll(() => button('Rewind to it').evaluate((node) => node === document.activeElement)).toBe(true);
});

it.each(['null', '5', '[null, 5, {"session": 5}]', '{"STORY": null}'])(
  'takes nothing for what it remembers that is nothing of the kind: %s',
  async (nonsense) => {
    await tab.evaluate(
      (text) => {
        sessionStorage.setItem('tvq.tree.broken', text);
        for (const name of ['names', 'forks', 'rewound']) localStorage.setItem(`tvq.${name}`, text);
      },
      nonsense.replace('STORY', story),
    );
    await tab.page.reload();
    await tab.page.getByRole('heading', { name }).waitFor();
    await expect.poll(() => tab.page.locator('.reading .text').textContent()).toContain('the carriage stopped');
    await button('Fork').click();
    await item(`${name} / 2`).waitFor();
    expect(await unheld()).toEqual([]);
    expect(await tab.page.getByRole('alert').count()).toBe(0);
  },
);

it('copies the text and hands it out as a file, also when the session is gone', async () => {
  tab.expectStatus(404);
  await tab.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const words = 'It was late in the evening when the carriage stopped.';
  const copied = async (): Promise<string> => {
    await button('Copy the text').click();
    await tab.page.getByText('Copied', { exact: true }).waitFor();
    return tab.evaluate(() => navigator.clipboard.readText());
  };
  const handedOut = async (): Promise<string> => {
    const coming = tab.page.waitForEvent('download');
    await button('Download').click();
    const download = await coming;
    expect(download.suggestedFilename()).toBe(`${name.replaceAll(' ', '-')}.txt`);
    return readFileSync(await download.path(), 'utf8');
  };
  expect([await copied(), await handedOut()]).toEqual([words, words]);
  await call(url, 'DELETE', `/v1/sessions/${story}`);
  await button('Refresh').click();
  await tab.page.getByText('What was read of it last is here still').waitFor();
  expect([await copied(), await handedOut()]).toEqual([words, words]);
});

it('copies all of a long text of which it shows the end, and says why it cannot', async () => {
  tab.expectStatus(404);
  await tab.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const more = ' Then he said that it was late.'.repeat(200);
  await call(url, 'POST', `/v1/sessions/${story}/append`, { text: more });
  await button('Refresh').click();
  await button('Show all').waitFor();
  await button('Copy the text').click();
  await expect
    .poll(() => tab.evaluate(() => navigator.clipboard.readText()))
    .toBe(`It was late in the evening when the carriage stopped.${more}`);
  await call(url, 'DELETE', `/v1/sessions/${story}`);
  await button('Download').click();
  await tab.page.getByRole('alert').filter({ hasText: story }).waitFor();
});

it('is walked by the arrow keys', async () => {
  await button('Fork').click();
  await item(`${name} / 2`).waitFor();
  await item(`${name},`).focus();
  await tab.page.keyboard.press('ArrowRight');
  await tab.page.getByRole('heading', { name: `${name} / 1` }).waitFor();
  await tab.page.keyboard.press('ArrowDown');
  await tab.page.getByRole('heading', { name: `${name} / 2` }).waitFor();
  await tab.page.keyboard.press('ArrowLeft');
  await tab.page.getByRole('heading', { name, exact: true }).waitFor();
});

it('exports to a file, imports it, renames and deletes', async () => {
  const coming = tab.page.waitForEvent('download');
  await button('Export').click();
  const download = await coming;
  expect(download.suggestedFilename()).toBe(`${name.replaceAll(' ', '-')}.tvq`);
  const file = await download.path();
  expect(readFileSync(file).length).toBeGreaterThan(1000);
  await tab.page
    .locator('input[type=file]')
    .setInputFiles({ name: `copy of ${name}.tvq`, mimeType: '', buffer: readFileSync(file) });
  await tab.page.getByRole('heading', { name: `copy of ${name}` }).waitFor();
  await expect.poll(() => tab.page.locator('.reading .text').textContent()).toContain('the carriage stopped');
  await button('Rename').click();
  await tab.page.getByLabel('Name (kept in this browser)').fill(`renamed ${name}`);
  await button('Keep').click();
  await item(`renamed ${name}`).waitFor();
  await button('Delete').click();
  await button('Really delete?').click();
  await expect.poll(() => item(`renamed ${name}`).count()).toBe(0);
});

it('saves to the durable tier, and opens in Write', async () => {
  await button('Save to durable').click();
  await tab.page.getByText(/\d, saved/).waitFor();
  await tab.page.getByRole('link', { name: 'Open in Write' }).click();
  await expect.poll(() => tab.page.locator('.frame .text').textContent()).toContain('the carriage stopped');
});

it('says that the chosen session is gone, and leaves what was read of it', async () => {
  tab.expectStatus(404);
  const reading = tab.page.locator('.reading .text');
  await expect.poll(() => reading.textContent()).toContain('the carriage stopped');
  await call(url, 'DELETE', `/v1/sessions/${story}`);
  await button('Refresh').click();
  await tab.page.getByText('What was read of it last is here still').waitFor();
  expect(await reading.textContent()).toContain('the carriage stopped');
  await tab.page.reload();
  await tab.page.getByText('This session is not on the server any more').waitFor();
});

it('says of a session that was gone while it opened nothing where another one is shown by then', async () => {
  tab.expectStatus(404);
  const { id } = await call<Session>(url, 'POST', '/v1/sessions', {
    model: 'novels',
    label: 'a',
    keep_transcript: true,
  });
  await button('Refresh').click();
  const other = item(/^a, 0 tokens/);
  let goOn = (): void => undefined;
  const held = new Promise<void>((resolve) => (goOn = resolve));
  const reads = new RegExp(`/v1/sessions/${id}\\?include_transcript`);
  await tab.page.route(reads, async (route) => {
    await held;
    await route.continue();
  });
  const asked = tab.page.waitForRequest(reads);
  await other.click();
  await asked;
  await call(url, 'DELETE', `/v1/sessions/${id}`);
  await tab.page.goto(`${url}/#/tree?session=${story}`);
  await tab.page.getByRole('heading', { name }).waitFor();
  await tab.page.getByText('It was late in the evening').waitFor();
  const answered = tab.page.waitForResponse(reads);
  goOn();
  expect((await answered).status()).toBe(404);
  await tab.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  expect(await tab.page.getByRole('alert').allTextContents()).toEqual([]);
  await tab.page.getByText('It was late in the evening').waitFor();
});

it('shows the session that the address names, of whatever model, also after a visit to another page', async () => {
  const label = `couplet ${name}`;
  const { id } = await call<Session>(url, 'POST', '/v1/sessions', { model: 'couplets', label, keep_transcript: true });
  await tab.go(`tree?session=${id}`);
  await tab.page.getByRole('heading', { name: label }).waitFor();
  expect(await tab.page.getByLabel('Model').inputValue()).toBe('couplets');
  await tab.page.getByRole('link', { name: 'Server' }).click();
  await tab.page.getByRole('link', { name: 'Tree' }).click();
  await tab.page.getByRole('heading', { name: label }).waitFor();
  await tab.page.reload();
  await tab.page.getByRole('heading', { name: label }).waitFor();
});

it('keeps what is typed while the panel is drawn anew', async () => {
  const before = await position();
  const field = (label: string) => details().getByLabel(label);
  await field('mark').fill('at the door');
  await field('tokens').fill('5');
  await button('Rename').click();
  await field('Name').fill('another name');
  await button('Continue').click();
  await item(`${name}, ${before + 5} tokens`).waitFor();
  expect(await field('mark').inputValue()).toBe('at the door');
  expect(await field('tokens').inputValue()).toBe('5');
  expect(await field('Name').inputValue()).toBe('another name');
  await button('Mark').click();
  await item(/at the door/).waitFor();
  expect(await field('mark').inputValue()).toBe('');
});

it('refuses a file that is no session, in a sentence', async () => {
  tab.expectStatus(400);
  await tab.page
    .locator('input[type=file]')
    .setInputFiles({ name: 'x.tvq', mimeType: '', buffer: Buffer.from('nonsense') });
  const refused = 'snapshot: begins with "nonsense", must begin with "TVQSNAPS".';
  await tab.page.getByRole('alert').filter({ hasText: refused }).first().waitFor();
});

it('brings the chosen session into view on a phone, and stays at the tree while one walks by the arrow keys', async () => {
  const label = (i: number): string => `session ${i} of ${name}`;
  for (let i = 0; i < 12; i += 1)
    await call(url, 'POST', '/v1/sessions', { model: 'novels', label: label(i), keep_transcript: true });
  const phone = await chromium.open(url, 'tree', { width: 360, height: 740 });
  const inView = (text: string) =>
    phone.page.getByRole('heading', { name: text }).evaluate((node) => {
      const { top, bottom } = node.getBoundingClientRect();
      return top >= 0 && bottom <= window.innerHeight;
    });
  const node = (i: number) => phone.page.getByRole('treeitem', { name: label(i) });
  await node(2).click();
  await expect.poll(() => inView(label(2))).toBe(true);
  await phone.evaluate(() => window.scrollTo(0, 0));
  await node(2).focus();
  await phone.page.keyboard.press('ArrowDown');
  await phone.page.getByRole('heading', { name: label(3) }).waitFor();
  expect(await inView(label(3))).toBe(false);
  await phone.page.keyboard.press('Enter');
  await expect.poll(() => inView(label(3))).toBe(true);
  await phone.page.reload(); // the address names it
  await expect.poll(() => inView(label(3))).toBe(true);
  await phone.close();
  expect(phone.errors).toEqual([]);
});
