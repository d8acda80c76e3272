import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { visit } from '../src/ui/store.ts';

let full = false;

beforeEach(() => {
  const held = new Map<string, string>();
  full = false;
  vi.stubGlobal('sessionStorage', {
    getItem: (name: string) => held.get(name) ?? null,
    removeItem: (name: string) => held.delete(name),
    setItem: (name: string, value: string) => {
      if (full) throw new DOMException('no room', 'QuotaExceededError');
      held.set(name, value);
    },
  });
});
afterEach(() => void vi.unstubAllGlobals());

it('answers what was set last, when the browser has no room for it too', () => {
  visit.set('words', 'first');
  full = true;
  visit.set('words', 'second');
  expect(visit.get('words')).toBe('second');
  visit.set('words', '');
  expect(visit.get('words')).toBeNull();
  full = false;
  visit.set('words', 'third');
  expect(visit.get('words')).toBe('third');
});

it('leaves out entries of another type', () => {
  visit.set('names', '{"a":"one","b":5,"c":null,"d":["x"],"e":{}}');
  expect(visit.getAll('names', 'string')).toEqual({ a: 'one' });
  expect(visit.getAll('names', 'number')).toEqual({ b: 5 });
  visit.set('names', 'null');
  expect(visit.getAll('names', 'string')).toEqual({});
});

it('takes what is of another kind for nothing', () => {
  for (const text of ['null', '5', '"text"', '[1]', '{', '']) {
    visit.set('figures', text);
    expect(visit.getJson('figures', { one: 1 })).toEqual({ one: 1 });
  }
  visit.set('figures', '{"two":2}');
  expect(visit.getJson('figures', { one: 1 })).toEqual({ two: 2 });
});
