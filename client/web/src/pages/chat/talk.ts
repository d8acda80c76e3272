// A chat: what was said, as a tree in which an edited message or a second answer is a branch, and the sessions of the server
// that hold parts of it. All of it is plain data, which the browser keeps.

import type { Message } from '../../api/chat.ts';
import type { Model } from '../../api/types.ts';

/** What is told of an answer, as far as it is known. */
export interface Figures {
  tokens: number;
  /** Tokens per second. */
  speed: number | null;
  /** Tokens of the context after it, and how many the model takes; 0: any number. */
  context: number | null;
  most: number;
  /** Of the session's state. */
  bytes: number | null;
  /** What a cache would take, where the state does not grow. */
  cache?: number | null;
}

/** What a cache would take of such a context. null: the state grows as one does, or the model has no keys. */
export function cacheOf(model: Model, context: number | null): number | null {
  const each = model.cache_bytes_per_token ?? 0;
  return model.state_grows || each === 0 || context === null ? null : context * each;
}

/**
 * How an answer ended. `writing`: it has not yet, or the page went meanwhile. `length`: at `max_tokens`. `stopped`: by the
 * person. `broken`: by an error.
 */
export type End = 'writing' | 'done' | 'length' | 'stopped' | 'broken';

export interface Said {
  id: string;
  /** What it follows; null at the beginning. */
  parent: string | null;
  role: 'user' | 'assistant';
  text: string;
  /** When it was said, in milliseconds. */
  at: number;
  /** Of an answer. */
  model?: string;
  end?: End;
  figures?: Figures;
}

/** A session of the server, and what it holds. */
export interface Held {
  id: string;
  model: string;
  system: string;
  /** The last of what it holds; null: nothing. */
  head: string | null;
  version: number;
  /** What it held when its mark was made, if it has one. */
  marked: string | null;
}

export interface Chat {
  id: string;
  title: string;
  /** When something was said last, in milliseconds. */
  at: number;
  system: string;
  said: Said[];
  /** The end of the branch that is shown. */
  leaf: string | null;
  sessions: Held[];
}

export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(3)), (word) => word.toString(16).padStart(8, '0')).join('');
}

export const newChat = (system: string): Chat => ({
  id: newId(),
  title: '',
  at: Date.now(),
  system,
  said: [],
  leaf: null,
  sessions: [],
});

const TITLE_LENGTH = 60;

/** The first words of the first message. */
export function titleOf(text: string): string {
  const words = text.trim().replace(/\s+/g, ' ');
  if (words.length <= TITLE_LENGTH) return words;
  const cut = words.slice(0, TITLE_LENGTH);
  return `${cut.slice(0, Math.max(cut.lastIndexOf(' '), TITLE_LENGTH / 2)).trimEnd()}…`;
}

/** From the beginning to `leaf`. */
export function pathTo(chat: Chat, leaf: string | null): Said[] {
  const known = new Map(chat.said.map((said) => [said.id, said]));
  const path: Said[] = [];
  // A chain of parents that leads back into itself is nobody's chat.
  for (let at = leaf; at !== null && path.length <= chat.said.length; ) {
    const said = known.get(at);
    if (!said) break;
    path.push(said);
    at = said.parent;
  }
  return path.reverse();
}

export const shownPath = (chat: Chat): Said[] => pathTo(chat, chat.leaf);

/** Those that stand at the same place, in the order in which they were said. */
export const versionsOf = (chat: Chat, { parent, role }: Said): Said[] =>
  chat.said.filter((other) => other.parent === parent && other.role === role).sort((a, b) => a.at - b.at);

/** Shows the branch that goes through `said`: to its end, as it went on last. */
export function showVersion(chat: Chat, said: Said): void {
  let end = said;
  for (let left = chat.said.length; left > 0; left -= 1) {
    const next = chat.said.filter(({ parent }) => parent === end.id).sort((a, b) => b.at - a.at)[0];
    if (!next) break;
    end = next;
  }
  chat.leaf = end.id;
}

export function say(chat: Chat, said: Omit<Said, 'id' | 'at'>): Said {
  const last = chat.said.at(-1)?.at ?? 0;
  const all = { ...said, id: newId(), at: Math.max(Date.now(), last + 1) };
  chat.said.push(all);
  chat.leaf = all.id;
  chat.at = all.at;
  if (chat.title === '') chat.title = titleOf(all.text);
  return all;
}

/** Takes what another page kept of the same chat; the branch that is shown here stays. */
export function takeOver(chat: Chat, { title, at, system, said, sessions }: Chat): void {
  const known = new Map(chat.said.map((each) => [each.id, each]));
  for (const each of said) {
    const own = known.get(each.id);
    if (own) Object.assign(own, each);
    else chat.said.push(each);
  }
  Object.assign(chat, { title, at, system, sessions });
}

/** As a template takes them: of answers that have no text nothing is told, and what one says in a row is one message. */
export function messagesOf(system: string, path: Said[]): Message[] {
  const messages: Message[] = system.trim() === '' ? [] : [{ role: 'system', content: system }];
  for (const { role, text } of path) {
    if (role === 'assistant' && text === '') continue;
    const last = messages.at(-1);
    if (last?.role === role) last.content += `\n\n${text}`;
    else messages.push({ role, content: text });
  }
  return messages;
}

/** Where a request begins: in a session that holds the beginning of it, or a copy of one. */
export type Begin =
  | { kind: 'session'; held: Held }
  /** Of the session at its mark, or as it is. */
  | { kind: 'fork'; held: Held; mark: boolean }
  | { kind: 'new' };

/** `cuts`: the server takes a session back to where it is still the same, without reading anything again. */
export function beginOf(chat: Chat, path: Said[], model: string, cuts: boolean): Begin {
  const place = new Map(path.map(({ id }, i) => [id, i]));
  const at = (id: string | null): number => (id === null ? -1 : (place.get(id) ?? -1));
  const shared = ({ head }: Held): number => Math.max(-1, ...pathTo(chat, head).map(({ id }) => at(id)));
  let best: Begin = { kind: 'new' };
  let most = -1;
  for (const held of chat.sessions) {
    if (held.model !== model || held.system !== chat.system) continue;
    const isWithin = held.head === null || place.has(held.head);
    const begin: Begin = isWithin ? { kind: 'session', held } : { kind: 'fork', held, mark: !cuts };
    const has = isWithin ? at(held.head) : cuts ? shared(held) : at(held.marked);
    if (has > most || (isWithin && has === most)) [best, most] = [begin, has];
  }
  return best;
}
