// Which session Write opens, and where the text of the story before goes.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Api } from '../src/api/client.ts';
import { createSession } from '../src/api/sessions.ts';
import type { Session } from '../src/api/types.ts';
import type { App } from '../src/app.ts';
import { Box } from '../src/pages/write/box.ts';
import { keep, storyOf, type KeptStory } from '../src/pages/write/kept.ts';
import { Manuscript } from '../src/pages/write/manuscript.ts';
import { Opener, OPENING, type Desk } from '../src/pages/write/opener.ts';
import { Story } from '../src/pages/write/story.ts';
import { visit } from '../src/ui/store.ts';
import { failure, FakeGateway } from './fake_gateway.ts';
import { memory } from './memory.ts';
import { plain, token } from './told.ts';

const BEGUN = 'It was late';
const TURN = ' Then he ran';
const OTHER = 'Another text';
/** Of A, after BEGUN. */
const VERSION = 2;

let gateway: FakeGateway;
let api: Api;
let storage: ReturnType<typeof memory>;
/** What calls of a session are answered instead. */
let refused: Map<string, number>;
/** What they wait for before. */
let waits: Map<string, Promise<void>>;
let a = '';
let b = '';

beforeEach(async () => {
  vi.useFakeTimers();
  storage = memory();
  vi.stubGlobal('sessionStorage', storage);
  vi.stubGlobal('location', { hash: '#/write' });
  vi.stubGlobal('history', { replaceState: (_: unknown, __: string, hash: string) => (location.hash = hash) });
  const element = { setAttribute: () => undefined, addEventListener: () => undefined, append: () => undefined };
  vi.stubGlobal('document', { hidden: false, createElement: () => ({ ...element, value: '' }) });
  for (const name of ['session', 'story', 'box']) visit.set(`write.${name}`, '');
  gateway = new FakeGateway();
  refused = new Map();
  waits = new Map();
  const fetch: typeof gateway.fetch = async (input, init) => {
    const id = /sessions\/(\w+)/.exec(String(input))?.[1] ?? '';
    await waits.get(id);
    const status = refused.get(id);
    return status === undefined ? gateway.fetch(input, init) : failure(status, 'it cannot be read');
  };
  api = new Api({ fetch, sleep: () => Promise.resolve() });
  [a, b] = [(await createSession(api, { model: 'm' })).id, (await createSession(api, { model: 'm' })).id];
  gateway.write(a, BEGUN);
  gateway.write(b, OTHER);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** The page after a reload that left a turn of A in its midst, if `writing`; the address asks for `wanted`. */
async function reloaded(wanted: string | null, writing = true) {
  const manuscript = new Manuscript();
  manuscript.add('given', [plain(BEGUN)]);
  manuscript.settle();
  manuscript.add('given', [plain(' Then he')]);
  manuscript.add('written', [token(' ran')]);
  visit.setJson(
    'write.story',
    keep({ id: a } as Session, { version: VERSION, position: BEGUN.length }, manuscript, writing),
  );
  visit.set('write.session', a);
  if (wanted !== null) location.hash = `#/write?session=${wanted}`;
  const told: string[] = [];
  const paper = {
    manuscript: new Manuscript(),
    show: (shown: Manuscript) => (paper.manuscript = shown),
    clear: () => (paper.manuscript = new Manuscript()),
  };
  const say = (...words: unknown[]): void => void told.splice(0, 1, words.filter(Boolean).join(''));
  const desk = {
    story: new Story(api),
    picker: { load: () => Promise.resolve(true), pick: () => true },
    paper,
    box: new Box('box', '', () => undefined),
    live: { reset: () => undefined, tell: () => undefined },
    notice: { say, fail: (error: Error) => say(error.message), clear: () => told.splice(0) },
    running: () => false,
    update: () => undefined,
    scrollToEnd: () => undefined,
  };
  const opener = new Opener(
    { models: () => Promise.resolve([]), forget: () => undefined } as unknown as App,
    desk as unknown as Desk,
  );
  opener.show(wanted);
  await vi.advanceTimersByTimeAsync(3500); // with the wait for a stream that was left
  return { opener, desk, text: () => paper.manuscript.text, notice: () => told[0] ?? '' };
}

const later = () => vi.advanceTimersByTimeAsync(4500);

describe('another session that is asked for', () => {
  const IS_OF_ANOTHER = 'The text in the box below is of another story: “Continue” adds it to this one.';

  it.each(['is gone', 'is there'])(
    'opens with a word on the text in the box where the story before %s',
    async (how) => {
      if (how === 'is gone') gateway.sessions.delete(a);
      const { desk, text, notice } = await reloaded(b);
      expect(text()).toBe(OTHER);
      expect(desk.box.text).toBe(how === 'is gone' ? BEGUN + TURN : TURN);
      expect(notice()).toBe(IS_OF_ANOTHER);
      expect(location.hash).toBe(`#/write?session=${b}`);
    },
  );

  it('opens with no word where nothing of the story before went into the box', async () => {
    gateway.write(a, TURN);
    const { desk, text, notice } = await reloaded(b);
    expect([text(), desk.box.text, notice()]).toEqual([OTHER, '', '']);
  });

  it('is asked for again, and named by the address, until the server can tell', async () => {
    gateway.sessions.delete(a);
    refused.set(b, 503);
    const { desk, text } = await reloaded(b);
    expect([text(), desk.box.text, location.hash]).toEqual(['', BEGUN + TURN, `#/write?session=${b}`]);
    refused.clear();
    await later();
    expect(text()).toBe(OTHER);
  });

  it('is not opened once the person starts over', async () => {
    refused.set(a, 503);
    const { opener, desk, text } = await reloaded(b);
    expect([opener.unsettled, text()]).toEqual([true, BEGUN + TURN]);
    opener.startOver();
    expect([desk.box.text, location.hash]).toEqual([BEGUN + TURN, '#/write']);
    refused.clear();
    await later();
    await opener.openWanted(); // as after a turn
    expect([text(), desk.story.session]).toEqual(['', null]);
  });

  it.each(['another one', 'none'])(
    'takes nothing of the story that is shown where it is gone and the address asks for %s meanwhile',
    async (what) => {
      const { opener, desk, text } = await reloaded(null, false);
      expect(text()).toBe(BEGUN);
      let answer = (): void => undefined;
      waits.set('gone', new Promise((resolve) => (answer = resolve)));
      opener.show('gone');
      await vi.advanceTimersByTimeAsync(0);
      opener.show(what === 'none' ? null : b);
      answer();
      await vi.advanceTimersByTimeAsync(0);
      expect([text(), desk.box.text]).toEqual([what === 'none' ? BEGUN : OTHER, '']);
      expect(desk.story.session!.id).toBe(what === 'none' ? a : b);
    },
  );

  it('is told of where it is gone, and the story before opens', async () => {
    gateway.sessions.delete(b);
    const { text, notice } = await reloaded(b, false);
    expect([text(), notice()]).toEqual([BEGUN, `no session ${b}`]);
  });
});

describe('a story of which the server cannot tell what it holds', () => {
  it('goes into the box where it never can, and another one opens', async () => {
    refused.set(a, 500);
    const alone = await reloaded(null);
    expect(alone.opener.unsettled).toBe(false);
    expect([alone.text(), alone.desk.box.text]).toEqual(['', BEGUN + TURN]);
    expect(alone.notice()).toMatch(/^It cannot be read\. The text is in the box below/);
    expect((await reloaded(b)).text()).toBe(OTHER);
  });

  it('stays where a key is wanted, until there is one', async () => {
    refused.set(a, 401);
    const { opener, desk, text } = await reloaded(null);
    expect([opener.unsettled, text(), desk.box.text]).toEqual([true, BEGUN + TURN, '']);
    refused.clear();
    opener.show(null); // as Settings have it
    await vi.advanceTimersByTimeAsync(3500);
    expect([opener.unsettled, text(), desk.box.text]).toEqual([false, BEGUN, TURN]);
  });

  it('gives way to a new one where nothing of it is known and it is gone', async () => {
    gateway.sessions.delete(a);
    const { opener, desk, text } = await reloaded(null, false);
    expect([text(), desk.box.text]).toEqual(['', BEGUN + TURN]);
    visit.set('write.session', a);
    visit.set('write.story', '');
    desk.box.set('');
    opener.show(null);
    await vi.advanceTimersByTimeAsync(0);
    expect([text(), desk.box.text, visit.get('write.session')]).toEqual(['', OPENING, null]);
  });
});

it('has the text of a turn once where the session got it late', async () => {
  const { opener, desk, text } = await reloaded(null);
  expect([text(), desk.box.text]).toEqual([BEGUN, TURN]);
  gateway.write(a, `${TURN} home`);
  await opener.reopen();
  expect([text(), desk.box.text]).toEqual([`${BEGUN}${TURN} home`, '']);
});

it('keeps the text alone where the browser has no room for more, and no older one where it has none', async () => {
  const { opener, desk } = await reloaded(null);
  const kept = () => storyOf(JSON.parse(storage.getItem('tvq.write.story') ?? 'null') as KeptStory | null);
  desk.paper.manuscript.add('written', [token(' and so')]);
  storage.room = 150;
  opener.keep();
  expect(kept()!.parts.at(-1)).toEqual(['written', [' and so']]);
  storage.room = 50;
  opener.keep();
  expect(kept()).toBeNull();
});

it('has room in the box for a story that ends', async () => {
  refused.set(a, 503);
  const { opener } = await reloaded(null);
  storage.room = storage.getItem('tvq.write.story')!.length + 10;
  opener.startOver();
  expect(storage.getItem('tvq.write.box')).toBe(BEGUN + TURN);
});
