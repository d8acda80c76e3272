import { describe, expect, it } from 'vitest';
import type { Piece } from '../src/text/align.ts';
import { recall } from '../src/pages/write/held.ts';
import { keep, manuscriptOf, storyOf, type KeptStory } from '../src/pages/write/kept.ts';
import { Manuscript } from '../src/pages/write/manuscript.ts';
import { at, kept, plain, reloaded, TEXT, token, told } from './told.ts';

describe('what is kept', () => {
  it('is the whole story, also without its session', () => {
    for (const writing of [false, true]) {
      expect(manuscriptOf(kept(4, writing))).toEqual(told());
      expect(manuscriptOf(kept(4, writing)).text).toBe(TEXT);
    }
  });

  it('needs bounded room: the oldest tokens lose their alternatives first, then all but their text', () => {
    const manuscript = new Manuscript();
    manuscript.add(
      'written',
      ['a', 'b', 'c', 'd'].map((text) => token(text)),
    );
    manuscript.add('given', [plain('!')]);
    manuscript.add('written', [token('e')]);
    const known = recall(
      reloaded(keep(at(0), { version: 1, position: 6 }, manuscript, false, [2, 3])),
      at(1),
      'abcd!e',
    );
    const pieces = known.parts.flatMap((part) => part.pieces);
    expect(pieces.map(({ text }) => text)).toEqual(['ab', 'c', 'd', '!', 'e']);
    const likely = (piece: Piece): number[] => piece.tokens.map(({ top }) => top.length);
    expect(pieces.map(likely)).toEqual([[], [0], [2], [], [2]]);
    expect(pieces[1]!.tokens[0]!.logprob).toBe(-0.5);
  });

  it('is nothing where it is no story', () => {
    expect(storyOf(kept())).toEqual(kept());
    for (const parts of [undefined, 5, [1], [null], [['given', 5]], [['given', [5]]], [['given', [['text', 5]]]]])
      expect(storyOf({ ...kept(), parts } as unknown as KeptStory)).toBeNull();
    for (const wrong of [
      { session: 5 },
      { version: '4' },
      { position: null },
      { writing: null },
      { turn: 'x' },
      { turn: -1 },
      { turn: 9 },
      { parts: [['nobody', ['text']]] },
      { parts: [['written', [['text', [5, -1]]]]] },
      { parts: [['written', [['text', ['t', 'x']]]]] },
      { parts: [['written', [['text', ['t', -1, 'other', null]]]]] },
    ])
      expect(storyOf({ ...kept(), ...wrong } as unknown as KeptStory)).toBeNull();
    expect(storyOf(null)).toBeNull();
  });
});
