import { describe, expect, it } from 'vitest';
import type { Mark, Session } from '../src/api/types.ts';
import { forkPosition, layout } from '../src/pages/tree/layout.ts';
import { wordStart } from '../src/pages/tree/text.ts';

let clock = 0;
const session = (id: string, parent: string | null = null, at = 0, marks: Mark[] = []): Session => ({
  id,
  model: 'm',
  parent_id: parent,
  parent_version: at,
  version: 9,
  persisted_version: 0,
  position: 90,
  bytes: 1,
  tier: 'device',
  created: (clock += 1),
  last_used: 0,
  expires: null,
  marks,
  has_transcript: true,
  label: id,
});
const mark = (name: string, version: number): Mark => ({ name, version, position: version * 10 });

/** Rows as "  name" with "|" where a line goes on and " " where it does not. */
const drawn = (sessions: Session[]): string[] =>
  layout(sessions).map((row) => row.rails.map((on) => (on ? '|' : ' ')).join('') + (row.mark?.name ?? row.session.id));

describe('layout', () => {
  it('puts forks and marks under their session, in the order in which they left it', () => {
    const sessions = [
      session('a', null, 0, [mark('m2', 2), mark('m5', 5)]),
      session('late', 'a', 5),
      session('early', 'a', 1),
      session('leaf', 'early', 1),
      session('b'),
    ];
    expect(drawn(sessions)).toEqual(['a', '|early', '| leaf', '|m2', '|m5', ' late', 'b']);
  });

  it('shows what was forked from a deleted session as a root, and says so', () => {
    const rows = layout([session('child', 'gone', 3)]);
    expect(rows.map(({ depth, orphan }) => [depth, orphan])).toEqual([[0, true]]);
  });

  it('counts what is below', () => {
    const rows = layout([session('a', null, 0, [mark('m', 1)]), session('x', 'a', 1)]);
    expect(rows.map(({ children }) => children)).toEqual([2, 0, 0]);
  });

  it('is not afraid of ten thousand forks of forks', () => {
    const chain = Array.from({ length: 3000 }, (_, i) => session(`s${i}`, i === 0 ? null : `s${i - 1}`, 1));
    expect(layout(chain).at(-1)!.depth).toBe(2999);
  });
});

describe('forkPosition', () => {
  it('knows it from a mark, from a parent that has not moved, or from memory', () => {
    const parent = session('p', null, 0, [mark('m', 3)]);
    const at = (version: number, memory = {}): number | null => {
      const child = session('c', 'p', version);
      return forkPosition(child, [parent, child], memory);
    };
    expect(at(3)).toBe(30);
    expect(at(9)).toBe(90);
    expect(at(7)).toBeNull();
    expect(at(7, { c: 70 })).toBe(70);
  });
});

it('lets texts part between words', () => {
  expect(wordStart('he is l', 'y', 'a')).toBe(6);
  expect(wordStart('he is ', 'y', 'a')).toBe(6);
  expect(wordStart('he is', ' ', '.')).toBe(5);
  expect(wordStart('he is', undefined, 'l')).toBe(3);
  expect(wordStart('风月', '山', '水')).toBe(2);
});
