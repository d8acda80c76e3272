import { describe, expect, it } from 'vitest';
import type { Model } from '../src/api/types.ts';
import {
  beginOf,
  cacheOf,
  messagesOf,
  newChat,
  pathTo,
  say,
  showVersion,
  shownPath,
  takeOver,
  titleOf,
  versionsOf,
  type Chat,
  type Held,
  type Said,
} from '../src/pages/chat/talk.ts';

/** A question and its answer after `parent`. */
function turn(chat: Chat, parent: string | null, text: string): [question: Said, answer: Said] {
  const question = say(chat, { parent, role: 'user', text });
  return [question, say(chat, { parent: question.id, role: 'assistant', text: `${text}!`, end: 'done' })];
}
const texts = (path: Said[]): string[] => path.map(({ text }) => text);
const hold = (chat: Chat, id: string, head: Said | null, more: Partial<Held> = {}): Held => {
  const held = { id, model: 'm', system: '', head: head?.id ?? null, version: 1, marked: null, ...more };
  chat.sessions.push(held);
  return held;
};

describe('what a cache would take', () => {
  const model = (state_grows: boolean, cache_bytes_per_token?: number): Model =>
    ({ state_grows, cache_bytes_per_token }) as Model;

  it('is told of a state that does not grow', () => {
    expect(cacheOf(model(false, 46080), 1000)).toBe(46_080_000);
  });
  it('is what the state takes where it grows', () => {
    expect(cacheOf(model(true, 46080), 1000)).toBeNull();
  });
  it('is unknown without a context, of a model without keys, and of an older server', () => {
    expect(cacheOf(model(false, 46080), null)).toBeNull();
    expect(cacheOf(model(false, 0), 1000)).toBeNull();
    expect(cacheOf(model(false), 1000)).toBeNull();
  });
});

describe('a title', () => {
  it('is the first words of the first message', () => {
    expect(titleOf('  What\n is  it? ')).toBe('What is it?');
    const long = titleOf('word '.repeat(40));
    expect([long.length <= 61, long.endsWith(' word…')]).toEqual([true, true]);
    expect(titleOf('x'.repeat(200))).toBe(`${'x'.repeat(30)}…`);
    const chat = newChat('');
    turn(chat, null, 'One');
    turn(chat, chat.leaf, 'Two');
    expect(chat.title).toBe('One');
  });
});

describe('branches', () => {
  it('of an edited message and of a second answer stay reachable', () => {
    const chat = newChat('');
    const [one, first] = turn(chat, null, 'one');
    const [two] = turn(chat, first.id, 'two');
    turn(chat, chat.leaf, 'three');
    expect(texts(shownPath(chat))).toEqual(['one', 'one!', 'two', 'two!', 'three', 'three!']);
    const [edited] = turn(chat, two.parent, 'TWO');
    expect(texts(shownPath(chat))).toEqual(['one', 'one!', 'TWO', 'TWO!']);
    expect(texts(versionsOf(chat, edited))).toEqual(['two', 'TWO']);
    showVersion(chat, two);
    expect(texts(shownPath(chat))).toEqual(['one', 'one!', 'two', 'two!', 'three', 'three!']);
    const other = say(chat, { parent: one.id, role: 'assistant', text: 'other' });
    expect(texts(shownPath(chat))).toEqual(['one', 'other']);
    expect(texts(versionsOf(chat, other))).toEqual(['one!', 'other']);
    showVersion(chat, first); // as it went on last
    expect(texts(shownPath(chat))).toEqual(['one', 'one!', 'TWO', 'TWO!']);
  });

  it('end where storage has parents that lead in a circle, or nowhere', () => {
    const chat = newChat('');
    const [one, first] = turn(chat, null, 'one');
    one.parent = first.id;
    expect(pathTo(chat, first.id).length).toBeLessThan(5);
    showVersion(chat, one);
    one.parent = 'nobody';
    expect(texts(pathTo(chat, first.id))).toEqual(['one', 'one!']);
    expect(pathTo(chat, 'nobody')).toEqual([]);
  });
});

it('tells a template no empty answer, and in a row one message', () => {
  const chat = newChat('');
  const [, none] = turn(chat, null, 'one');
  none.text = '';
  turn(chat, none.id, 'two');
  expect(messagesOf(' ', shownPath(chat))).toEqual([
    { role: 'user', content: 'one\n\ntwo' },
    { role: 'assistant', content: 'two!' },
  ]);
  expect(messagesOf('Be kind.', [])).toEqual([{ role: 'system', content: 'Be kind.' }]);
});

it('takes what another page kept, and shows what it showed', () => {
  const chat = newChat('');
  const [, first] = turn(chat, null, 'one');
  const other = structuredClone(chat);
  turn(other, first.id, 'elsewhere');
  other.said[1]!.text = 'one, longer!';
  other.system = 'Be kind.';
  hold(other, 'a', null);
  takeOver(chat, other);
  expect(texts(shownPath(chat))).toEqual(['one', 'one, longer!']);
  expect(chat.said[1]).toBe(first);
  expect({ ...chat, leaf: '' }).toEqual({ ...other, leaf: '' });
});

describe('a request begins', () => {
  const chat = newChat('');
  const [, first] = turn(chat, null, 'one');
  const [, second] = turn(chat, first.id, 'two');
  const [three] = turn(chat, second.id, 'three');
  const begin = (path: Said[], cuts: boolean, model = 'm') => beginOf(chat, path, model, cuts);
  const to = (said: Said): Said[] => pathTo(chat, said.id);
  const again = (): Said[] => to(chat.said.find(({ text }) => text === 'two')!);

  it('in the session that has most of it', () => {
    chat.sessions = [];
    hold(chat, 'a', first);
    const most = hold(chat, 'b', second);
    hold(chat, 'c', null);
    for (const cuts of [true, false]) expect(begin(to(three), cuts)).toEqual({ kind: 'session', held: most });
  });

  it('in a copy of one that went on otherwise: at its mark, or where it is cut', () => {
    chat.sessions = [];
    const held = hold(chat, 'a', second, { marked: first.id });
    expect(begin(again(), false)).toEqual({ kind: 'fork', held, mark: true });
    expect(begin(again(), true)).toEqual({ kind: 'fork', held, mark: false });
    const before = hold(chat, 'b', first); // it needs no copy, but lacks the question
    expect(begin(again(), false)).toEqual({ kind: 'session', held: before });
    expect(begin(again(), true)).toEqual({ kind: 'fork', held, mark: false });
  });

  it('anew where no session has any of it', () => {
    chat.sessions = [];
    expect(begin(to(three), true)).toEqual({ kind: 'new' });
    hold(chat, 'a', second, { model: 'other' });
    hold(chat, 'b', second, { system: 'Be kind.' });
    hold(chat, 'c', second); // which has no mark
    expect(begin(to(three), true, 'nobody')).toEqual({ kind: 'new' });
    expect(begin(again(), false)).toEqual({ kind: 'new' });
    const edited = say(chat, { parent: null, role: 'user', text: 'ONE' });
    for (const cuts of [true, false]) expect(begin(to(edited), cuts)).toEqual({ kind: 'new' });
  });
});
