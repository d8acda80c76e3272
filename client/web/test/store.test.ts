import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { visit } from '../src/ui/store.ts';
import { memory } from './memory.ts';

let storage = memory();

beforeEach(() => {
  storage = memory();
  vi.stubGlobal('sessionStorage', storage);
});
afterEach(() => void vi.unstubAllGlobals());

it('answers what was set last, when the browser has no room for it too', () => {
  visit.set('words', 'first');
  storage.room = 3;
  expect(visit.set('words', 'second')).toBe(false);
  expect(visit.get('words')).toBe('second');
  expect(storage.getItem('tvq.words')).toBeNull(); // a reload must not find the first
  visit.set('words', '');
  expect(visit.get('words')).toBeNull();
  storage.room = Infinity;
  expect(visit.set('words', 'third')).toBe(true);
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
