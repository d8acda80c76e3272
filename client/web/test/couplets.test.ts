import { describe, expect, it } from 'vitest';
import { Api } from '../src/api/client.ts';
import type { Model } from '../src/api/types.ts';
import { linesOf, type KeptLines } from '../src/pages/couplets/kept.ts';
import { allowedIds, constraint, unknownTo, vocabularyOf, type Vocabulary } from '../src/pages/couplets/vocabulary.ts';

const CHARACTERS = ['\n', '，', '！', '风', '月', '山', '水', 'a', '7'];
const FIRST_ID = 3;
const vocabulary: Vocabulary = new Map(CHARACTERS.map((c, i) => [c, FIRST_ID + i]));

/** As the server does it: special and padding ids have no text, and one of them begins a context. */
const server =
  (idOf: (c: string) => number[]): typeof fetch =>
  (url, init) => {
    const body = JSON.parse(String(init?.body)) as { tokens?: number[]; prompt?: string; add_special_tokens?: boolean };
    const answer = String(url).endsWith('/detokenize')
      ? { prompt: body.tokens!.map((id) => CHARACTERS[id - FIRST_ID] ?? '').join('') }
      : { tokens: [...(body.add_special_tokens === false ? [] : [1]), ...[...body.prompt!].flatMap(idOf)] };
    return Promise.resolve(new Response(JSON.stringify(answer)));
  };

describe('vocabularyOf', () => {
  const model = { id: 'c', vocab_size: 16 } as Model;

  it('finds every character and its id', async () => {
    const api = new Api({ fetch: server((c) => [FIRST_ID + CHARACTERS.indexOf(c)]) });
    expect(await vocabularyOf(api, model)).toEqual(vocabulary);
  });

  it('refuses a tokenizer that does not read one character a token', async () => {
    const api = new Api({ fetch: server(() => [1, 2]) });
    await expect(vocabularyOf(api, model)).rejects.toThrow('one character a token');
  });
});

describe('the second line', () => {
  it('has no signs but those of the first', () => {
    expect(allowedIds(vocabulary, '风月')).toEqual([6, 7, 8, 9, 10, 11]);
    expect(allowedIds(vocabulary, '风，月')).toContain(4);
    expect(allowedIds(vocabulary, '风，月')).not.toContain(5);
  });

  it('is as long as the first, or ends with its line', () => {
    expect(constraint(vocabulary, '风月', 2)).toMatchObject({ max_tokens: 2, min_tokens: 2 });
    expect(constraint(vocabulary, '风月', null)).toEqual({ max_tokens: 64, stop: ['\n'] });
  });

  it('cannot answer what the model does not know', () => {
    expect(unknownTo(vocabulary, '风雪月雪')).toEqual(['雪']);
  });
});

it('takes for lines only what is lines', () => {
  const kept: KeptLines = { first: '风月', lines: [['山水', -0.5, -1], ['']] };
  expect(linesOf(JSON.parse(JSON.stringify(kept)) as KeptLines)).toEqual(kept);
  for (const wrong of [{ first: 5 }, { lines: {} }, { lines: [5] }, { lines: [[]] }, { lines: [['山', null]] }])
    expect(linesOf({ ...kept, ...wrong } as unknown as KeptLines)).toBeNull();
  expect(linesOf(null)).toBeNull();
});
