// Chat, with a model whose own files have a template and one that has it in generation_config.json.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { hasNoBarriers, VIEWS } from './barriers.ts';
import { Chromium, type Tab } from './browser.ts';
import { call, type Session } from './calls.ts';
import { Service } from './processes.ts';

const MODELS = ['talker', 'tutor', 'novels'];
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
  tab = await chromium.open(service.url, 'chat');
});
afterEach(async () => {
  await tab.close();
  expect(tab.errors).toEqual([]);
});

const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
const box = () => tab.page.getByLabel('Your message');
const send = () => tab.page.locator('.composer').getByRole('button', { name: 'Send' });
const done = () => send().waitFor();
const answers = () => tab.page.locator('.answer .markdown').allTextContents();
const last = async () => (await answers()).at(-1) ?? '';
const questions = () => tab.page.locator('.question .words').allTextContents();
const limit = (tokens: number) => tab.page.getByLabel('max_tokens', { exact: true }).fill(String(tokens));
const chats = () => tab.page.locator('.chats a').allTextContents();

async function ask(text: string, tokens = 12): Promise<void> {
  await limit(tokens);
  await box().fill(text);
  const before = (await answers()).length;
  await box().press('Enter');
  await expect.poll(async () => (await answers()).length).toBe(before + 1);
  await done();
}

/** Asks for more than comes within the test, and waits for some of it. */
async function askForLong(text: string): Promise<void> {
  // So that it ends when it is stopped, and not by itself.
  await limit(100_000);
  await box().fill(text);
  await box().press('Enter');
  await expect.poll(async () => (await last()).length).toBeGreaterThan(100);
}

interface Body {
  messages: { role: string; content: string }[];
  session_id?: string;
}
const bodyOf = (request: { postDataJSON: () => unknown }): Body => request.postDataJSON() as Body;
const nextRequest = () => tab.page.waitForRequest('**/v1/chat/completions');
const sessionsOf = async (): Promise<Session[]> =>
  (await call<{ data: Session[] }>(service.url, 'GET', '/v1/sessions?limit=1000')).data;
/** The sessions of the chat that is shown. */
const held = () =>
  tab.evaluate(() => {
    const chat = localStorage.getItem(`tvq.chat.${sessionStorage.getItem('tvq.chat.current')}`);
    return (JSON.parse(chat ?? '{"sessions":[]}') as { sessions: { id: string }[] }).sessions.map(({ id }) => id);
  });
const pick = (model: string) => tab.page.getByLabel('Model').selectOption(model);

describe('the navigation', () => {
  const links = () => tab.page.getByRole('navigation').getByRole('link').allTextContents();

  it('has the page first where a model has a template', async () => {
    await expect.poll(links).toEqual(['Chat', 'Write', 'Tree', 'Couplets', 'Draw', 'Server']);
    await tab.page.getByRole('link', { name: 'tvq' }).click();
    await tab.page.getByRole('heading', { name: 'Chat', level: 1 }).waitFor();
    await tab.close();
    tab = await chromium.open(service.url, ''); // whose browser knows nothing yet
    await tab.page.getByRole('heading', { name: 'Chat', level: 1 }).waitFor();
  });

  it('has no such page where none has', async () => {
    await tab.close();
    tab = await chromium.open(inject('url'), 'chat');
    await tab.page.getByText('No model on this server was made for conversations').waitFor();
    expect(await send().isDisabled()).toBe(true);
    await expect.poll(links).toEqual(['Write', 'Tree', 'Couplets', 'Draw', 'Server']);
  });
});

it('answers, with what it took, and offers no model that has no template', async () => {
  await expect
    .poll(() => tab.page.getByLabel('Model').locator('option').allTextContents())
    .toEqual(['talker', 'tutor']);
  await ask('Hello');
  expect(await last()).not.toBe('');
  const figures = await tab.page.locator('.took').last().textContent();
  expect(figures).toMatch(/^12 tokens · [\d.,]+ tokens\/s · context \d+ of 8,192 · state [\d.]+ [kM]?B$/);
  const [id] = await held();
  const { position } = await call<Session>(service.url, 'GET', `/v1/sessions/${id}`);
  expect(figures).toContain(`context ${position} of`);
  await tab.page.getByText('Ended at max_tokens.').waitFor();
});

it('computes what is new alone, in one session', async () => {
  await ask('Hello');
  const [id] = await held();
  let reused = 0;
  await tab.page.route('**/v1/chat/completions', async (route) => {
    const answer = await route.fetch();
    reused = Number(/"prompt_tokens":(\d+)/.exec(await answer.text())?.[1]);
    await route.fulfill({ response: answer });
  });
  await ask('And then?');
  const { position } = await call<Session>(service.url, 'GET', `/v1/sessions/${id}`);
  expect(await held()).toEqual([id]);
  expect(reused).toBeLessThan(position - 24);
});

it('takes Enter for sending, and Shift with Enter for a line', async () => {
  await limit(4);
  await box().fill('one');
  await box().press('Shift+Enter');
  await box().pressSequentially('two');
  const request = nextRequest();
  await box().press('Enter');
  expect(bodyOf(await request).messages).toEqual([{ role: 'user', content: 'one\ntwo' }]);
  await done();
  expect(await box().inputValue()).toBe('');
  await box().press('Enter'); // there is nothing to send
  expect(await questions()).toEqual(['one\ntwo']);
});

it.each(['talker', 'tutor'])('stops by its button and by Escape, and goes on from what came: %s', async (model) => {
  await pick(model);
  for (const stop of [() => button('Stop').click(), () => tab.page.keyboard.press('Escape')]) {
    await askForLong('Hello');
    await stop();
    await done();
    await tab.page.getByText('Stopped.').last().waitFor();
  }
  const came = await answers();
  const request = nextRequest();
  await ask('More');
  const { messages } = bodyOf(await request);
  expect(messages.at(-2)!.role).toBe('assistant');
  expect(messages.at(-2)!.content.length).toBeGreaterThan(100);
  expect((await answers()).slice(0, 2)).toEqual(came);
  expect((await held()).length).toBe(1);
});

it('has all of it after a reload', async () => {
  await ask('Hello');
  await ask('And then?');
  const before = [await questions(), await answers(), await tab.page.locator('.took').allTextContents()];
  await box().fill('half a mess');
  await tab.page.reload();
  await expect.poll(() => send().isEnabled()).toBe(true);
  expect([await questions(), await answers(), await tab.page.locator('.took').allTextContents()]).toEqual(before);
  expect(await box().inputValue()).toBe('half a mess');
  const ids = await held();
  await ask('More');
  expect(await held()).toEqual(ids);
});

it('has what came of an answer that a reload cut off, and continues it', async () => {
  await askForLong('Hello');
  await tab.page.reload();
  await tab.page.getByText('The page went before this answer ended.').waitFor();
  const came = await last();
  expect(came.length).toBeGreaterThan(100);
  await limit(12);
  await button('Continue').click();
  await expect.poll(async () => (await last()).length).toBeGreaterThan(came.length);
  await done();
  expect((await last()).startsWith(came)).toBe(true);
  expect(await tab.page.getByText('The page went').count()).toBe(0);
  await ask('More');
});

it.each(['talker', 'tutor'])('has another answer, and the one before stays a version: %s', async (model) => {
  await pick(model);
  await ask('Hello');
  await ask('And then?');
  const first = await last();
  await button('Regenerate').last().click();
  await tab.page.getByText('2 of 2').waitFor();
  await done();
  const second = await last();
  expect(second).not.toBe(first);
  expect(await questions()).toEqual(['Hello', 'And then?']);
  await button('Version before').focus();
  await tab.page.keyboard.press('Enter');
  await expect.poll(last).toBe(first);
  await expect.poll(() => tab.evaluate(() => document.activeElement?.ariaLabel)).toBe('Version after');
  await ask('More'); // on the first
  await button('Version after').click();
  await expect.poll(last).toBe(second);
  expect((await held()).length).toBe(2);
  await tab.page.reload();
  await expect.poll(last).toBe(second);
});

it('answers an edited message as a branch', async () => {
  await ask('Hello');
  await ask('And then?');
  await button('Edit').first().click();
  const edit = tab.page.getByRole('textbox', { name: 'The message' });
  expect(await edit.inputValue()).toBe('Hello');
  await edit.press('Escape');
  expect(await questions()).toEqual(['Hello', 'And then?']);
  await button('Edit').first().click();
  await edit.fill('Good evening');
  const request = nextRequest();
  await edit.press('Enter');
  expect(bodyOf(await request).messages).toEqual([{ role: 'user', content: 'Good evening' }]);
  await done();
  expect(await questions()).toEqual(['Good evening']);
  await button('Version before').click();
  expect(await questions()).toEqual(['Hello', 'And then?']);
});

it('lists chats, begins another, and deletes one with its session', async () => {
  await ask('Hello to you');
  const [id] = await held();
  await tab.page.keyboard.press('Control+k');
  expect(await questions()).toEqual([]);
  await ask('Something else');
  expect(await chats()).toEqual(['Something else', 'Hello to you']);
  await tab.page.getByRole('link', { name: 'Hello to you' }).click();
  await expect.poll(questions).toEqual(['Hello to you']);
  await tab.page.goBack();
  await expect.poll(questions).toEqual(['Something else']);
  expect((await sessionsOf()).map((session) => session.id)).toContain(id);
  await button('Delete “Hello to you”').click();
  await button('Really delete “Hello to you”?').click();
  await expect.poll(chats).toEqual(['Something else']);
  await expect.poll(async () => (await sessionsOf()).map((session) => session.id)).not.toContain(id);
  await tab.page.reload();
  await expect.poll(questions).toEqual(['Something else']);
  expect(await chats()).toEqual(['Something else']);
});

it('shows a chat whose session is gone, and goes on', async () => {
  tab.expectStatus(404);
  for (const model of ['talker', 'tutor']) {
    await tab.page.keyboard.press('Control+k');
    await pick(model);
    await ask('Hello');
    const [id] = await held();
    await call(service.url, 'DELETE', `/v1/sessions/${id}`);
    await tab.page.reload();
    await expect.poll(() => send().isEnabled()).toBe(true);
    expect(await questions()).toEqual(['Hello']);
    await ask('And then?');
    expect((await answers()).length).toBe(2);
    expect(await held()).not.toContain(id);
    expect((await held()).length).toBe(1);
  }
});

it('has all that came when the server was killed in the midst of an answer, and goes on with the next one', async () => {
  for (const status of [404, 409, 500, 503]) tab.expectStatus(status);
  await pick('tutor');
  await ask('Hello');
  await askForLong('And then?');
  await service.serverDies();
  await tab.page.getByText('This answer broke off.').waitFor();
  const came = await answers();
  expect(came[1]!.length).toBeGreaterThan(100);
  await service.serveInstead(MODELS);
  await expect.poll(() => tab.page.getByRole('alert').filter({ hasText: /\w/ }).count()).toBe(0);
  await pick('tutor');
  await ask('More');
  expect((await answers()).slice(0, 2)).toEqual(came);
  expect(await last()).not.toBe('');
});

it('tells the model its system prompt, which a new chat begins with', async () => {
  await tab.page.getByLabel('System prompt').fill('Be kind.');
  const first = nextRequest();
  await ask('Hello');
  expect(bodyOf(await first).messages[0]).toEqual({ role: 'system', content: 'Be kind.' });
  await tab.page.reload();
  await button('New chat').click();
  expect(await tab.page.getByLabel('System prompt').inputValue()).toBe('Be kind.');
});

it('has one chat in two tabs', async () => {
  await ask('Hello');
  const other = await tab.context.newPage();
  await other.goto(tab.page.url());
  await other.getByLabel('max_tokens', { exact: true }).fill('4');
  await other.getByLabel('Your message').fill('From elsewhere');
  await other.getByLabel('Your message').press('Enter');
  await other.locator('.took').filter({ hasText: '4 tokens ·' }).waitFor();
  const texts = () =>
    tab.evaluate(() => localStorage.getItem(`tvq.chat.${sessionStorage.getItem('tvq.chat.current')}`));
  await ask('From here');
  expect(await questions()).toEqual(['Hello', 'From here']);
  expect(await texts()).toContain('From elsewhere');
  await button('Version before').click();
  expect(await questions()).toEqual(['Hello', 'From elsewhere']);
});

/** Has every answer be this one, which is cut off where `whole` is false. */
async function answerWith(text: string, whole = true): Promise<void> {
  const say = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
  const choice = (content: string, finish_reason: string | null) =>
    say({ choices: [{ index: 0, delta: { content }, finish_reason, token_ids: [1] }] });
  const body = text.match(/[^]{1,7}/g)!.map((part) => choice(part, null));
  if (whole) body.push(choice('', 'stop'), 'data: [DONE]\n\n');
  const answer = { contentType: 'text/event-stream', body: body.join('') };
  await tab.page.route('**/v1/chat/completions', (route) => route.fulfill(answer));
}

const MARKDOWN = `# Two ways

Add **two** numbers with \`+\`, or see [the *page*](https://example.org/a).

1. first
   - within
2. second

> quoted

| name | age |
|------|----:|
| Ada  | 36  |

\`\`\`python
def add(a, b):
    return a + b  # **no markup**
\`\`\`

<img src=x onerror="window.pwned = 1"> [bad](javascript:alert(1))
`;

it('shows Markdown as elements, and no markup of the model’s own', async () => {
  await answerWith(MARKDOWN);
  await ask('Hello');
  const within = (selector: string) => tab.page.locator(`.markdown ${selector}`);
  expect(await within('h3').textContent()).toBe('Two ways');
  expect(await within('strong').allTextContents()).toEqual(['two']);
  expect(await within('ol > li > ul > li').allTextContents()).toEqual(['within']);
  expect(await within('td').allTextContents()).toEqual(['Ada', '36']);
  expect(await within('blockquote').textContent()).toBe('quoted');
  expect(await within('pre').textContent()).toBe('def add(a, b):\n    return a + b  # **no markup**');
  const links = within('a').evaluateAll((all) =>
    all.map((each) => [each.getAttribute('href'), each.getAttribute('rel')]),
  );
  expect(await links).toEqual([['https://example.org/a', 'noopener noreferrer']]);
  expect(await last()).toContain('<img src=x onerror="window.pwned = 1"> [bad](javascript:alert(1))');
  expect(await within('img').count()).toBe(0);
  expect(await tab.evaluate(() => 'pwned' in window)).toBe(false);
  await tab.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await button('Copy the code').click();
  await button('Copy the code').filter({ hasText: 'Copied' }).waitFor();
  expect(await tab.evaluate(() => navigator.clipboard.readText())).toBe(
    'def add(a, b):\n    return a + b  # **no markup**',
  );
});

it('leaves elements in their place while a text grows', async () => {
  await tab.evaluate(() => {
    const usual = window.fetch;
    window.fetch = (input, init) => {
      if (!String(input).endsWith('/v1/chat/completions')) return usual(input, init);
      const encoder = new TextEncoder();
      const start = (controller: ReadableStreamDefaultController<Uint8Array>): void =>
        window.addEventListener('more', (event) => {
          const choice = { index: 0, delta: { content: (event as CustomEvent<string>).detail }, token_ids: [1] };
          controller.enqueue(encoder.encode(`data: ${JSON.stringify({ choices: [choice] })}\n\n`));
        });
      return Promise.resolve(new Response(new ReadableStream({ start })));
    };
  });
  const more = (text: string) =>
    tab.evaluate((detail) => window.dispatchEvent(new CustomEvent('more', { detail })), text);
  const within = (selector: string) => tab.page.locator(`.markdown ${selector}`);
  await box().fill('Hello');
  await box().press('Enter');
  await button('Stop').waitFor();
  await more('First **bo');
  await expect.poll(() => within('strong').allTextContents()).toEqual(['bo']);
  await more('ld**.\n\n```js\nlet a');
  await expect.poll(() => within('pre').allTextContents()).toEqual(['let a']);
  const all = await Promise.all(['p', 'pre'].map((selector) => within(selector).elementHandle()));
  for (const part of [' = 1;\n', 'let b', ' = 2;']) await more(part);
  await expect.poll(() => within('pre').allTextContents()).toEqual(['let a = 1;\nlet b = 2;']);
  expect(await Promise.all(all.map((each) => each!.evaluate((node) => node.isConnected)))).toEqual([true, true]);
  await more('\n```\nend');
  await expect.poll(() => within('p').allTextContents()).toEqual(['First bold.', 'end']);
});

it('keeps the end in view, unless the person looks elsewhere', async () => {
  const log = tab.page.getByRole('region', { name: 'The conversation' });
  const left = () => log.evaluate((node) => node.scrollHeight - node.clientHeight - node.scrollTop);
  await askForLong('Hello');
  await expect.poll(() => log.evaluate((node) => node.scrollHeight > node.clientHeight + 300)).toBe(true);
  await expect.poll(left).toBeLessThan(60);
  await log.evaluate((node) => node.scrollTo(0, 0));
  const before = (await last()).length;
  await expect.poll(async () => (await last()).length).toBeGreaterThan(before);
  await button('Stop').click();
  await done();
  expect(await log.evaluate((node) => node.scrollTop)).toBe(0);
  await tab.page.reload();
  await expect.poll(left).toBeLessThan(60);
  await tab.page.getByRole('link', { name: 'Server' }).click();
  await tab.page.getByRole('link', { name: 'Chat', exact: true }).click();
  await expect.poll(left).toBeLessThan(60);
  expect(await log.evaluate((node) => node.scrollTop)).toBeGreaterThan(100);
});

it('shows code as code before its fence is closed', async () => {
  await answerWith('Look:\n\n```js\nlet a = `**b**`;', false);
  await box().fill('Hello');
  await box().press('Enter');
  await tab.page.getByText('This answer broke off.').waitFor();
  expect(await tab.page.locator('.markdown pre').allTextContents()).toEqual(['let a = `**b**`;']);
  expect(await tab.page.locator('.markdown strong').count()).toBe(0);
});

describe.each(Object.keys(VIEWS))('in %s', (view) => {
  it('has no barriers', async () => {
    await tab.close();
    tab = await chromium.open(service.url, 'chat', VIEWS[view]!);
    await ask('Which words are these?', 40);
    await answerWith(MARKDOWN);
    await ask('How do I add two numbers in Python?');
    await tab.shoot(`chat-${view}`);
    await button('Regenerate').last().click();
    await tab.page.getByText('2 of 2').waitFor();
    await button('Edit').first().click();
    await hasNoBarriers(tab);
  });
});
