import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { forgetChat, keepChat, listChats, loadChat } from '../src/pages/chat/kept.ts';
import { newChat, say, type Chat } from '../src/pages/chat/talk.ts';
import { memory } from './memory.ts';

let storage = memory();

beforeEach(() => {
  storage = memory();
  vi.stubGlobal('localStorage', storage);
});
afterEach(() => void vi.unstubAllGlobals());

function chat(text: string, at: number): Chat {
  const made = newChat('Be kind.');
  say(made, { parent: null, role: 'user', text });
  made.at = at;
  return made;
}

it('keeps chats, and lists the newest first', () => {
  const [old, young] = [chat('old', 1), chat('young', 2)];
  expect([keepChat(young), keepChat(old)]).toEqual([true, true]);
  expect(listChats().map(({ title }) => title)).toEqual(['young', 'old']);
  expect(loadChat(old.id)).toEqual(old);
  forgetChat(young.id);
  expect([listChats().map(({ title }) => title), loadChat(young.id)]).toEqual([['old'], null]);
});

it('keeps what two tabs say in one chat', () => {
  const here = chat('one', 1);
  keepChat(here);
  const there = loadChat(here.id)!;
  say(there, { parent: here.leaf, role: 'user', text: 'there' });
  keepChat(there);
  say(here, { parent: here.leaf, role: 'user', text: 'here' });
  keepChat(here);
  const texts = loadChat(here.id)!.said.map(({ text }) => text);
  expect(texts.sort()).toEqual(['here', 'one', 'there']);
  expect(listChats()).toHaveLength(1);
});

it('says where there is no room', () => {
  const small = chat('one', 1);
  keepChat(small);
  storage.room = 1500;
  const large = chat('x'.repeat(2000), 2);
  expect(keepChat(large)).toBe(false);
  expect(loadChat(large.id)?.said[0]?.text).toHaveLength(2000); // as long as the page is there
  expect(loadChat(small.id)).toEqual(small);
});

it('takes what storage has of another kind for nothing', () => {
  const whole = chat('one', 1);
  const put = (value: unknown): void => storage.setItem(`tvq.chat.${whole.id}`, JSON.stringify(value));
  const wrong = [null, 5, [], {}, { ...whole, id: 'other' }, { ...whole, said: {} }, { ...whole, leaf: 5 }];
  for (const value of wrong) {
    put(value);
    expect(loadChat(whole.id)).toBeNull();
  }
  put({ ...whole, said: [...whole.said, null, { id: 'x' }, { ...whole.said[0], role: 'tool' }], sessions: [5, {}] });
  expect(loadChat(whole.id)).toEqual(whole);
  storage.setItem('tvq.chats', JSON.stringify([5, { id: 'a' }, { id: 'b', title: 'c', at: 1 }]));
  expect(listChats()).toEqual([{ id: 'b', title: 'c', at: 1 }]);
});
