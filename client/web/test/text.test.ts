import { describe, expect, it } from 'vitest';
import type { Token } from '../src/api/completions.ts';
import { Aligner } from '../src/text/align.ts';
import { commonPrefix, diff, tidy, words } from '../src/text/diff.ts';
import { bytes, duration, percent, short, significant } from '../src/text/format.ts';
import { fileName } from '../src/ui/download.ts';

const token = (text: string): Token => ({ text, logprob: -1, top: [] });
const shape = (pieces: { text: string; tokens: Token[] }[]): [string, number][] =>
  pieces.map((piece) => [piece.text, piece.tokens.length]);

describe('Aligner', () => {
  it('gives each token its text', () => {
    expect(shape(new Aligner().push('a bc', [token('a'), token(' b'), token('c')]))).toEqual([
      ['a', 1],
      [' b', 1],
      ['c', 1],
    ]);
  });

  it('waits for text that lags behind', () => {
    const aligner = new Aligner();
    expect(shape(aligner.push('', [token('sto')]))).toEqual([]);
    expect(shape(aligner.push('stove', [token('ve')]))).toEqual([
      ['sto', 1],
      ['ve', 1],
    ]);
  });

  it('joins the tokens of one character, however they show', () => {
    for (const half of ['\ufffd', 'bytes:\\xe9', '']) {
      const aligner = new Aligner();
      expect(shape(aligner.push('', [token(half), token(half)]))).toEqual([]);
      expect(shape(aligner.push('風!', [token(half), token('!')]))).toEqual([
        ['風', 3],
        ['!', 1],
      ]);
    }
  });

  it('loses nothing at the end', () => {
    const aligner = new Aligner();
    aligner.push('', [token('\ufffd')]);
    expect(shape(aligner.push('é', []))).toEqual([]);
    expect(shape(aligner.finish())).toEqual([['é', 1]]);
    expect(aligner.finish()).toEqual([]);
  });

  it('keeps every character of a long mixture', () => {
    const text = 'The 風 went — où? 🖋 and so on'.repeat(20);
    const aligner = new Aligner();
    const pieces = [...text].flatMap((c) => aligner.push(c, [token(c.length > 1 || c > '\u2000' ? '\ufffd' : c)]));
    expect([...pieces, ...aligner.finish()].map((piece) => piece.text).join('')).toBe(text);
  });
});

describe('diff', () => {
  const side = (runs: ReturnType<typeof diff>, other: string): string =>
    runs
      .filter(({ change }) => change !== other)
      .map(({ text }) => text)
      .join('');

  it('finds the shortest change', () => {
    expect(diff(words('a b c d'), words('a x c d'))).toEqual([
      { change: 'same', text: 'a ' },
      { change: 'left', text: 'b' },
      { change: 'right', text: 'x' },
      { change: 'same', text: ' c d' },
    ]);
    expect(diff(words('a b'), words('a b'))).toEqual([{ change: 'same', text: 'a b' }]);
    expect(diff([], words('a'))).toEqual([{ change: 'right', text: 'a' }]);
  });

  it('gives both texts back, whatever they are', () => {
    let state = 7;
    const next = (n: number): number => {
      state = (state * 1103515245 + 12345) % 2147483648;
      return Math.floor(state / 65536) % n;
    };
    const make = (): string => Array.from({ length: next(40) }, () => 'abc '[next(4)]!).join('');
    for (let i = 0; i < 300; i += 1) {
      const [left, right] = [make(), make()];
      const runs = diff(words(left), words(right));
      expect(side(runs, 'right')).toBe(left);
      expect(side(runs, 'left')).toBe(right);
    }
  });

  it('does not search texts that have nothing in common', () => {
    const make = (from: number): string[] => Array.from({ length: 4000 }, (_, i) => `${from + i} `);
    const runs = diff(make(0), make(10_000));
    expect(runs.map(({ change }) => change)).toEqual(['left', 'right']);
  });

  it('knows words in other scripts, and joins to the text again', () => {
    const text = 'où l’on va, 風弦\n\tétait-ce?';
    expect(words(text).join('')).toBe(text);
    expect(words('où l’on')).toEqual(['où', ' ', 'l’on']);
    expect(words('風弦 a')).toEqual(['風', '弦', ' ', 'a']);
  });

  it('measures common beginnings', () => {
    expect(commonPrefix([1, 2, 3], [1, 2, 4, 5])).toBe(2);
    expect(commonPrefix([], [1])).toBe(0);
  });
});

describe('format', () => {
  it('keeps three digits that matter', () => {
    expect([1.234, 12.34, 99.96, 123.4, 1234, 0].map(significant)).toEqual([
      '1.23',
      '12.3',
      '100',
      '123',
      '1,234',
      '0',
    ]);
    expect([12, 999, 1000, 999_600, 6_635_520].map(bytes)).toEqual(['12 B', '999 B', '1.00 kB', '1.00 MB', '6.64 MB']);
    expect([9_999, 10_000, 3_184_896].map(short)).toEqual(['9,999', '10.0 k', '3.18 M']);
    expect([1, 0.9996, 0.5, 0.05, 0.0001].map(percent)).toEqual(['100%', '99.9%', '50%', '5.0%', '0.01%']);
    expect([5, 65, 3700, 90_000].map(duration)).toEqual(['5 s', '1 min 5 s', '1 h 1 min', '1 d 1 h']);
  });
});

describe('tidy', () => {
  it('joins changes that only a word in common parts', () => {
    const runs = tidy(diff(words('x one the two three, four five six'), words('x nine the ten eleven, four five six')));
    expect(runs.map(({ change }) => change)).toEqual(['same', 'left', 'right', 'same']);
    expect(runs.at(-1)!.text).toContain('four five six');
  });

  it('keeps what both have at their ends', () => {
    expect(tidy(diff(words('a b'), words('a c'))).map(({ change }) => change)).toEqual(['same', 'left', 'right']);
  });
});

it('names a file by the letters and digits of a title', () => {
  expect(fileName(' The old house / 2: "end"?', 'text')).toBe('The-old-house-2-end');
  expect(fileName('晋世文章 7', 'text')).toBe('晋世文章-7');
  expect(fileName('../..', 'text')).toBe('text');
});
