// What the pages have after the server was killed and started anew: all that a person made.

import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { Chromium, type Tab } from './browser.ts';
import { call, type Session } from './calls.ts';
import { Service } from './processes.ts';

const MODELS = ['couplets', 'digits', 'novels'];
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
});
afterEach(async () => {
  await tab.close();
  expect(tab.errors).toEqual([]);
});

async function open(path: string): Promise<void> {
  tab = await chromium.open(service.url, path);
  for (const status of [404, 500, 503]) tab.expectStatus(status);
}

const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
const alerts = () => tab.page.getByRole('alert').filter({ hasText: /\w/ });

it('Tree shows the session again by itself', async () => {
  const session = await call<Session>(service.url, 'POST', '/v1/sessions', {
    model: 'novels',
    label: 'The old house',
    keep_transcript: true,
  });
  await call(service.url, 'POST', `/v1/sessions/${session.id}/append`, { text: 'It was late.' });
  await call(service.url, 'POST', `/v1/sessions/${session.id}/save`, {});
  await open(`tree?session=${session.id}`);
  await expect.poll(() => tab.page.locator('.reading .text').textContent()).toBe('It was late.');
  await service.serverDies();
  await button('Refresh').click();
  await alerts().first().waitFor();
  expect(await tab.page.locator('.reading .text').textContent()).toBe('It was late.');
  await service.serveInstead(MODELS);
  await expect.poll(() => alerts().count()).toBe(0);
  await button('Continue').click();
  await expect.poll(async () => (await tab.page.locator('.reading .text').textContent())!.length).toBeGreaterThan(20);
});

it('Tree has what came of a continuation that the session does not hold', async () => {
  const session = await call<Session>(service.url, 'POST', '/v1/sessions', { model: 'novels', keep_transcript: true });
  await call(service.url, 'POST', `/v1/sessions/${session.id}/append`, { text: 'It was late.' });
  await call(service.url, 'POST', `/v1/sessions/${session.id}/save`, {});
  await open(`tree?session=${session.id}`);
  // So that the text ends when its server does, and not by itself.
  await tab.page.route('**/v1/completions', (route) =>
    route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true }) }),
  );
  await tab.page.getByRole('region', { name: 'The chosen session' }).getByLabel('tokens').fill('100000');
  await button('Continue').click();
  const fresh = tab.page.locator('.fresh');
  await expect.poll(async () => (await fresh.textContent())!.length).toBeGreaterThan(100);
  await service.serverDies();
  await expect.poll(() => button('Stop').count()).toBe(0);
  const seen = await fresh.textContent();
  await alerts().first().waitFor();
  await service.serveInstead(MODELS);
  const unheld = () => tab.page.locator('.broken .lost').allTextContents();
  await expect.poll(unheld).toEqual([seen]);
  await expect.poll(() => alerts().count()).toBe(0);
  await tab.page.reload();
  await expect.poll(unheld).toEqual([seen]);
  expect(await tab.page.locator('.reading .text').textContent()).toBe('It was late.');
  await button('Discard').click();
  expect(await unheld()).toEqual([]);
});

it.each([
  ['Draw', 'draw'],
  ['Answer', 'couplets'],
])('%s says no longer that nobody answers when somebody does', async (name, page) => {
  await open(page);
  await expect.poll(() => button(name).isEnabled()).toBe(true);
  await service.serverDies();
  await button(name).click();
  await alerts().first().waitFor();
  await service.serveInstead(MODELS);
  await expect.poll(() => alerts().count()).toBe(0);
});

it('Draw has the drawing and the images, and draws again', async () => {
  await open('draw');
  await button('Draw the digit 3 as an example').click();
  await tab.page.getByRole('spinbutton', { name: 'images' }).fill('2');
  await button('Complete it').click();
  const whole = () => tab.page.getByRole('img', { name: /^Image \d+$/ }).count();
  await expect.poll(whole).toBe(2);
  await expect.poll(() => button('Complete it').isEnabled()).toBe(true);
  await service.serverDies();
  await button('Draw').click();
  await alerts().first().waitFor();
  expect(await whole()).toBe(2); // none came in their place
  await tab.page.reload();
  await alerts().first().waitFor();
  expect(await whole()).toBe(2);
  await service.serveInstead(MODELS);
  await expect.poll(() => button('Complete it').isEnabled()).toBe(true);
  await button('Complete it').click(); // the digit is on the pad still
  await expect.poll(() => button('Complete it').isEnabled()).toBe(true);
  expect(await alerts().count()).toBe(0);
  expect(await whole()).toBe(2);
});

it('Couplets has its lines, and answers again', async () => {
  await open('couplets');
  await button('Answer').click();
  await tab.page.getByText('likeliest').first().waitFor();
  const lines = await tab.page.locator('.second').allTextContents();
  await service.serverDies();
  await button('Answer').click();
  await alerts().first().waitFor();
  await expect.poll(() => tab.page.locator('.second').allTextContents()).toEqual(lines);
  await tab.page.reload();
  await alerts().first().waitFor();
  expect(await tab.page.locator('.second').allTextContents()).toEqual(lines);
  await service.serveInstead(MODELS);
  await expect.poll(() => button('Answer').isEnabled()).toBe(true);
  await button('Answer').click();
  await expect.poll(() => tab.page.locator('.second').allTextContents()).not.toEqual(lines);
  expect(await alerts().count()).toBe(0);
});

it('Write has the text in the box where its model is served no more', async () => {
  await open('write');
  await tab.page.getByLabel('Opening').fill('The captain said');
  await tab.page.getByLabel('max_tokens', { exact: true }).fill('8');
  await button('Write').click();
  await button('Continue').waitFor();
  const text = await tab.page.locator('.frame .text').textContent();
  await service.serveInstead(['couplets']);
  await tab.page.getByRole('link', { name: 'Server' }).click();
  await expect.poll(() => tab.page.getByRole('heading', { name: 'novels' }).count()).toBe(0);
  await tab.page.getByRole('heading', { name: 'couplets' }).waitFor();
  await tab.page.getByRole('link', { name: 'Write', exact: true }).click();
  await tab.page.getByText('The server has the model “novels” no more').waitFor();
  expect(await tab.page.getByLabel('Opening').inputValue()).toBe(text);
});

it.each(['chat', 'write', 'tree', 'couplets', 'draw', 'server'])(
  'says at once that there is no server, how to start one, and goes on when there is: %s',
  async (name) => {
    await service.serverDies();
    await open('nope');
    let asked = 0;
    tab.page.on('request', (request) => {
      if (/v1\/(models|server)$/.test(request.url())) asked += 1;
    });
    await tab.go(name);
    const alert = alerts().filter({ hasText: 'Is tvq-server running? Start one:' });
    await alert.waitFor();
    expect(asked).toBeLessThan(3);
    expect(await alert.locator('code').textContent()).toMatch(/^tvq-server --model NAME=DIRECTORY --port \d+$/);
    await service.serveInstead(MODELS);
    await expect.poll(() => alerts().count()).toBe(0);
  },
);

it('Write tells the context that the session holds when the server was killed in the midst of a text', async () => {
  await open('write');
  const context = async (): Promise<string | null> =>
    tab.page.locator('.live div', { hasText: 'context, tokens' }).locator('dd').textContent();
  await tab.page.getByLabel('max_tokens', { exact: true }).fill('20');
  await button('Write').click();
  await button('Continue').waitFor();
  const id = await tab.evaluate(() => sessionStorage.getItem('tvq.write.session'));
  await call(service.url, 'POST', `/v1/sessions/${id}/save`, {});
  const { position } = await call<Session>(service.url, 'GET', `/v1/sessions/${id}`);
  await expect.poll(context).toBe(position.toLocaleString('en'));
  const text = await tab.page.locator('.frame .text').textContent();
  await tab.page.getByLabel('max_tokens', { exact: true }).fill('100000');
  await button('Continue').click();
  await expect.poll(async () => Number((await context())!.replace(/\D/g, ''))).toBeGreaterThan(position + 50);
  await service.serverDies();
  await button('Continue').waitFor();
  await expect.poll(context).toBe(position.toLocaleString('en'));
  await service.serveInstead(MODELS);
  await tab.page.reload();
  await expect.poll(() => tab.page.locator('.frame .text').textContent()).toBe(text);
  await expect.poll(context).toBe(position.toLocaleString('en'));
});
