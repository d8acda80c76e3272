// A story of two turns, for tests.

import type { Mark, Session } from '../src/api/types.ts';
import { keep, type KeptStory } from '../src/pages/write/kept.ts';
import { Manuscript } from '../src/pages/write/manuscript.ts';
import type { Piece } from '../src/text/align.ts';

export const at = (version: number, more: Partial<Session> = {}): Session =>
  ({ id: 's', parent_id: null, version, position: TEXT.length, marks: [] as Mark[], ...more }) as Session;
export const plain = (text: string): Piece => ({ text, tokens: [] });
export const token = (text: string, logprob = -0.5): Piece => ({
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
export function told(): Manuscript {
  const manuscript = new Manuscript();
  manuscript.add('given', [plain('Once')]);
  manuscript.add('written', [token(' it'), token(' was.', -7)]);
  manuscript.settle();
  manuscript.add('given', [plain(' Then he')]);
  manuscript.add('written', [token(' ran')]);
  manuscript.add('written', [token(' home')]);
  return manuscript;
}
export const TEXT = 'Once it was. Then he ran home';
/** As the browser's storage gives it back. */
export const reloaded = (kept: KeptStory): KeptStory => JSON.parse(JSON.stringify(kept)) as KeptStory;
/** Where the second turn begins, and where it ends. */
export const [TURN, END] = ['Once it was.'.length, TEXT.length];
export const kept = (version = 4, writing = false): KeptStory =>
  reloaded(keep(at(0), { version, position: writing ? TURN : END }, told(), writing));
export const authors = ({ parts }: Manuscript): [string, string][] =>
  parts.map(({ by, pieces }) => [by, pieces.map(({ text }) => text).join('')]);
