import { describe, expect, it } from 'vitest';
import { pieceOf } from '../src/api/completions.ts';
import { surprise } from '../src/pages/write/tokens.ts';
import { parseHash } from '../src/shell.ts';
import type { Field } from '../src/api/fields.ts';
import { kindOf, parse, rangeOf } from '../src/ui/sampling.ts';

describe('a control of sampling', () => {
  it('sends nothing when it is empty', () => {
    expect(parse('number', ' ', false)).toBeUndefined();
    expect(parse('number', '-', false)).toBeUndefined();
    expect(parse('lines', '\n\n', false)).toBeUndefined();
    expect(parse('boolean', '', false)).toBeUndefined();
  });

  it('sends zero, and what is out of range: the server says what is right', () => {
    expect(parse('number', '0', false)).toBe(0);
    expect(parse('integer', '-5', false)).toBe(-5);
    expect(parse('boolean', '', true)).toBe(true);
  });

  it('reads a stop string a line, with \\n for the end of a line', () => {
    expect(parse('lines', 'THE END\n\\n\\n', false)).toEqual(['THE END', '\n\n']);
  });

  it('is of the kind that its field has', () => {
    const texts: Field = { description: '' };
    expect(kindOf(texts)).toBe('lines');
    for (const kind of ['number', 'integer', 'boolean'] as const) {
      expect(kindOf({ type: [kind, 'null'], description: '' })).toBe(kind);
    }
  });

  it('slides within the range of its field, or to twice the default', () => {
    const range = (field: Omit<Field, 'description'>) => rangeOf({ ...field, description: '' });
    expect(range({ minimum: -2, maximum: 2, default: 0 })).toEqual({ min: -2, max: 2 });
    expect(range({ exclusiveMinimum: 0, maximum: 1, default: 1 })).toEqual({ min: 0.05, max: 1 });
    expect(range({ minimum: 0, default: 1 })).toEqual({ min: 0, max: 2 });
  });
});

describe('pieceOf', () => {
  it('puts the likeliest alternatives first', () => {
    const logprobs = { tokens: ['a'], token_logprobs: [-2], top_logprobs: [{ a: -2, b: -0.3, c: -1 }] };
    const piece = pieceOf({ index: 3, text: 'a', logprobs, token_ids: [7], finish_reason: 'stop' });
    expect(piece.tokens[0]!.top.map(({ text }) => text)).toEqual(['b', 'c', 'a']);
    expect(piece).toMatchObject({ index: 3, ids: [7], finish: 'stop' });
  });

  it('does without probabilities and ids', () => {
    expect(pieceOf({ index: 0, text: 'a', finish_reason: null })).toEqual({
      index: 0,
      text: 'a',
      tokens: [],
      ids: [],
      finish: null,
    });
  });
});

it('counts bits of surprise, of several tokens together', () => {
  const token = (p: number) => ({ text: '', logprob: Math.log(p), top: [] });
  expect([0.9, 0.4, 0.1, 0.01, 0.0001].map((p) => surprise([token(p)]))).toEqual([0, 1, 2, 3, 4]);
  expect(surprise([token(0.1), token(0.1)])).toBe(3);
  expect(surprise([{ text: '', logprob: null, top: [] }])).toBe(0);
});

it('reads the address', () => {
  const read = (hash: string): [string, Record<string, string>] => {
    const { name, parameters } = parseHash(hash);
    return [name, Object.fromEntries(parameters)];
  };
  expect(read('')).toEqual(['', {}]);
  expect(read('#/tree?session=a%20b&with=c')).toEqual(['tree', { session: 'a b', with: 'c' }]);
  expect(read('#/draw/')).toEqual(['draw', {}]);
});
