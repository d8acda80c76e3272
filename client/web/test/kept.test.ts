import { describe, expect, it } from 'vitest';
import type { Session } from '../src/api/types.ts';
import type { Piece } from '../src/text/align.ts';
import { keep, recall, storyOf, textOf, unheld, type KeptStory } from '../src/pages/write/kept.ts';
import { Manuscript } from '../src/pages/write/manuscript.ts';

const at = (version: number, more: Partial<Session> = {}): Session =>
  ({ id: 's', parent_id: null, version, ...more }) as Session;
const plain = (text: string): Piece => ({ text, tokens: [] });
const token = (text: string, logprob = -0.5): Piece => ({
  text,
  tokens: [
    {
      text,
      logprob,
      top: [
        { text, logprob },
        { text: 'other', logprob: -2 },
      ],
    },
  ],
});

/** Two turns: “Once it was. Then he ran home”. */
function told(): Manuscript {
  const manuscript = new Manuscript();
  manuscript.add('given', [plain('Once')]);
  manuscript.add('written', [token(' it'), token(' was.', -7)]);
  manuscript.settle();
  manuscript.add('given', [plain(' Then he')]);
  manuscript.add('written', [token(' ran')]);
  manuscript.add('written', [token(' home')]);
  return manuscript;
}
const TEXT = 'Once it was. Then he ran home';
/** As the browser's storage gives it back. */
const reloaded = (kept: KeptStory): KeptStory => JSON.parse(JSON.stringify(kept)) as KeptStory;
const kept = (version = 4, writing = false): KeptStory => reloaded(keep(at(0), version, told(), writing));
const authors = ({ parts }: Manuscript): [string, string][] =>
  parts.map(({ by, pieces }) => [by, pieces.map(({ text }) => text).join('')]);

describe('a story that is kept', () => {
  it('comes back whole: by whom, how likely, and the last turn', () => {
    const known = recall(kept(), at(4), TEXT);
    expect(known).toEqual(told());
    expect([known.prompt, known.written, known.opening]).toEqual([' Then he', ' ran home', 'Once']);
  });

  it('comes back with what the session got of the turn that was left', () => {
    const known = recall(kept(4, true), at(5), `${TEXT} at night`);
    expect(authors(known).slice(2)).toEqual([
      ['given', ' Then he'],
      ['written', ' ran home at night'],
    ]);
    expect([known.turn, known.text]).toEqual([2, `${TEXT} at night`]);
    expect(unheld(kept(4, true), at(5))).toBe('');
  });

  it('gives the words back of a turn of which the session has nothing', () => {
    const known = recall(kept(4, true), at(4), 'Once it was.');
    expect(authors(known)).toEqual([
      ['given', 'Once'],
      ['written', ' it was.'],
    ]);
    expect(known.turn).toBe(2); // there is none to take back
    expect(unheld(kept(4, true), at(4))).toBe(' Then he');
    expect(unheld(kept(4, false), at(4))).toBe('');
    expect(unheld(kept(4, true), at(4, { id: 'other' }))).toBe('');
    expect(unheld(null, at(4))).toBe('');
  });

  it('claims nothing of what came from elsewhere', () => {
    const known = recall(kept(), at(5), `${TEXT} alone`);
    expect(authors(known).at(-1)).toEqual(['unknown', ' alone']);
    expect(known.turn).toBe(known.parts.length);
    const rewritten = recall(kept(), at(7), 'Once it was. Then she slept');
    expect(authors(rewritten)).toEqual([
      ['given', 'Once'],
      ['written', ' it was.'],
      ['unknown', ' Then she slept'],
    ]);
    expect(rewritten.turn).toBe(3);
    // At the version that a turn would have brought, but not by it.
    const overtaken = recall(kept(4, true), at(5), 'Once it was. nothing');
    expect(authors(overtaken).at(-1)).toEqual(['unknown', ' nothing']);
    expect(overtaken.turn).toBe(3);
  });

  it('is known in a branch, where no turn can be taken back; and nowhere else', () => {
    const branch = recall(kept(), at(4, { id: 'b', parent_id: 's' }), TEXT);
    expect(authors(branch)).toEqual(authors(told()));
    expect(branch.turn).toBe(4);
    expect(authors(recall(kept(), at(4, { id: 'b' }), TEXT))).toEqual([['unknown', TEXT]]);
    expect(authors(recall(null, at(4), TEXT))).toEqual([['unknown', TEXT]]);
    expect(recall(null, at(1), '').parts).toEqual([]);
  });

  it('needs bounded room: the oldest tokens lose their alternatives first, then all but their text', () => {
    const manuscript = new Manuscript();
    manuscript.add(
      'written',
      ['a', 'b', 'c', 'd'].map((text) => token(text)),
    );
    manuscript.add('given', [plain('!')]);
    manuscript.add('written', [token('e')]);
    const known = recall(reloaded(keep(at(0), 1, manuscript, false, [2, 3])), at(1), 'abcd!e');
    const pieces = known.parts.flatMap((part) => part.pieces);
    expect(pieces.map(({ text }) => text)).toEqual(['ab', 'c', 'd', '!', 'e']);
    const likely = (piece: Piece): number[] => piece.tokens.map(({ top }) => top.length);
    expect(pieces.map(likely)).toEqual([[], [0], [2], [], [2]]);
    expect(pieces[1]!.tokens[0]!.logprob).toBe(-0.5);
  });
});

describe('what is kept', () => {
  it('is the whole text, also without its session', () => {
    expect(textOf(kept())).toBe(TEXT);
    expect(textOf(kept(4, true))).toBe(TEXT);
  });

  it('is nothing where it is no story', () => {
    expect(storyOf(kept())).toEqual(kept());
    for (const parts of [undefined, 5, [1], [null], [['given', 5]], [['given', [5]]], [['given', [['text', 5]]]]])
      expect(storyOf({ ...kept(), parts } as unknown as KeptStory)).toBeNull();
    for (const wrong of [
      { session: 5 },
      { version: '4' },
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
