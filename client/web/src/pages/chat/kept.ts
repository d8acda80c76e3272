// The chats as the browser keeps them: each by itself, and a list of them. Two tabs may be at the same chat: nothing that
// one of them kept is lost when the other keeps its own.

import { browser } from '../../ui/store.ts';
import type { Chat, Held, Said } from './talk.ts';

export interface Entry {
  id: string;
  title: string;
  at: number;
}

const LIST = 'chats';
const nameOf = (id: string): string => `chat.${id}`;

const isText = (value: unknown): value is string => typeof value === 'string';
const isTextOrNull = (value: unknown): boolean => value === null || isText(value);
const isNumber = (value: unknown): boolean => typeof value === 'number';
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

const isEntry = (value: unknown): value is Entry =>
  isObject(value) && isText(value['id']) && isText(value['title']) && isNumber(value['at']);
const isSaid = (value: unknown): value is Said =>
  isObject(value) &&
  isText(value['id']) &&
  isTextOrNull(value['parent']) &&
  (value['role'] === 'user' || value['role'] === 'assistant') &&
  isText(value['text']) &&
  isNumber(value['at']);
const isHeld = (value: unknown): value is Held =>
  isObject(value) &&
  [value['id'], value['model'], value['system']].every(isText) &&
  [value['head'], value['marked']].every(isTextOrNull) &&
  isNumber(value['version']);

/** Newest first. */
export const listChats = (): Entry[] =>
  browser
    .getJson<unknown[]>(LIST, [])
    .filter(isEntry)
    .sort((a, b) => b.at - a.at);

/** The chat as it is kept; null if it is not, or is none. */
export function loadChat(id: string): Chat | null {
  const kept = browser.getJson<Chat | null>(nameOf(id), null);
  if (!isObject(kept) || kept.id !== id || !isText(kept.title) || !isNumber(kept.at) || !isText(kept.system))
    return null;
  if (!Array.isArray(kept.said) || !Array.isArray(kept.sessions) || !isTextOrNull(kept.leaf)) return null;
  return { ...kept, said: kept.said.filter(isSaid), sessions: kept.sessions.filter(isHeld) };
}

/** False where the browser has no room for it, so that a reload would lose it. */
export function keepChat(chat: Chat): boolean {
  const others = loadChat(chat.id)?.said ?? [];
  const known = new Set(chat.said.map(({ id }) => id));
  chat.said.push(...others.filter(({ id }) => !known.has(id)));
  const isKept = browser.setJson(nameOf(chat.id), chat);
  const { id, title, at } = chat;
  const list = [{ id, title, at }, ...listChats().filter((entry) => entry.id !== id)];
  return browser.setJson(LIST, list) && isKept;
}

export function forgetChat(id: string): void {
  browser.set(nameOf(id), '');
  browser.setJson(
    LIST,
    listChats().filter((entry) => entry.id !== id),
  );
}
