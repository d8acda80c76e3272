import { describe, expect, it } from 'vitest';
import { isAsLeft, recall, unheld, wordsLeft } from '../src/pages/write/held.ts';
import { keep } from '../src/pages/write/kept.ts';
import { Manuscript } from '../src/pages/write/manuscript.ts';
import { BEFORE } from '../src/pages/write/story.ts';
import { at, authors, END, kept, plain, reloaded, TEXT, token, told, TURN } from './told.ts';

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
  });

  it('comes back without a turn of which the session has nothing', () => {
    const known = recall(kept(4, true), at(4), 'Once it was.');
    expect(authors(known)).toEqual([
      ['given', 'Once'],
      ['written', ' it was.'],
    ]);
    expect(known.turn).toBe(2); // there is none to take back
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
});

describe('what the session does not hold of it', () => {
  const held = 'Once it was.';

  it('is nothing at the version that it was left at, whatever its tokens read like', () => {
    expect(unheld(kept(4), at(4), TEXT)).toBe('');
    expect(unheld(kept(4), at(4), 'Once � was.\n Then he ran home')).toBe('');
  });

  it('is all of a turn that broke off: its words, and what came after them', () => {
    expect(unheld(kept(4, true), at(4), held)).toBe(' Then he ran home');
    const first = new Manuscript();
    first.add('given', [plain('Once')]);
    first.add('written', [token(' it')]);
    expect(unheld(reloaded(keep(at(0), { version: 4, position: 0 }, first, true)), at(4), '')).toBe('Once it');
  });

  it('is nothing where the session has the turn, also among what reads otherwise', () => {
    expect(unheld(kept(4, true), at(5), `${TEXT} at night`)).toBe('');
    expect(unheld(kept(4, true), at(5), 'Once � was.\n Then he ran home')).toBe('');
  });

  it('is the turn where another one came in its place, whatever that has in common with it', () => {
    const manuscript = new Manuscript();
    manuscript.add('given', [plain('In the house')]);
    manuscript.settle();
    manuscript.add('given', [plain(' Then she')]);
    manuscript.add('written', [token(' the')]);
    const turn = reloaded(keep(at(0), { version: 4, position: TURN }, manuscript, true));
    expect(unheld(turn, at(5), 'In the house he slept')).toBe(' Then she the');
  });

  it('is nothing where the session went on after all of it, also after what reads otherwise', () => {
    const manuscript = told();
    const long = ' and slept in the old house until the carriage came';
    manuscript.add('written', [token(long)]);
    const story = reloaded(keep(at(0), { version: 4, position: END }, manuscript, false));
    const held = `Once � was. Then he ran home${long}`;
    expect(unheld(story, at(7), `${held} at noon`)).toBe('');
    expect(unheld(story, at(3), `${held} at noon`)).not.toBe('');
    expect(unheld(story, at(7), 'Once � was. Then he slept')).toBe(` it was. Then he ran home${long}`);
  });

  it('is the words that were on their way when only a mark was made for them', () => {
    const manuscript = told();
    manuscript.takeBack();
    manuscript.add('given', [plain(' Then she')]);
    expect(unheld(reloaded(keep(at(0), { version: 4, position: TURN }, manuscript, true)), at(5), held)).toBe(
      ' Then she',
    );
  });

  it('is what comes after the end of a session that lost its own', () => {
    expect(unheld(kept(4), at(2), held)).toBe(' Then he ran home');
    expect(unheld(kept(4, true), at(2), 'Once')).toBe(' it was. Then he ran home');
    expect(unheld(kept(4), at(2), 'On')).toBe('ce it was. Then he ran home');
    expect(unheld(kept(4), at(1), '')).toBe(TEXT);
  });

  it('is whole words and tokens where the session went on otherwise', () => {
    expect(unheld(kept(4, true), at(5), `${held} nothing`)).toBe(' Then he ran home');
    expect(unheld(kept(4), at(7), `${held} Then he rested`)).toBe(' ran home');
    expect(unheld(kept(4), at(7), `${TEXT} alone`)).toBe('');
  });

  it('is nothing of another session, nor where nothing is kept', () => {
    expect(unheld(kept(4, true), at(4, { id: 'other' }), '')).toBe('');
    expect(unheld(kept(4, true), at(4, { id: 'branch', parent_id: 's' }), '')).toBe('');
    expect(unheld(null, at(4), TEXT)).toBe('');
  });

  it('and what is shown are together all that was shown', () => {
    for (const writing of [false, true])
      for (let end = 0; end <= TEXT.length; end += 1) {
        const text = TEXT.slice(0, end);
        const version = end === TEXT.length ? 5 : 3;
        const kept4 = kept(4, writing);
        expect(recall(kept4, at(version), text).text + unheld(kept4, at(version), text)).toBe(TEXT);
      }
  });
});

describe('words in the box', () => {
  it('are less what the session holds of a turn that seemed to be lost', () => {
    expect(wordsLeft(' at night', kept(4), `${TEXT} at night when`)).toBe('');
    expect(wordsLeft(' at night when she', kept(4), `${TEXT} at night when`)).toBe(' she');
  });

  it('stay where it holds something else, or they were not put there', () => {
    for (const text of [null, TEXT, `${TEXT} at noon`, 'Once it was. at night'])
      expect(wordsLeft(' at night', kept(4), text)).toBe(' at night');
    expect(wordsLeft(' at night', kept(4, true), `${TEXT} at night`)).toBe(' at night');
  });
});

describe('a session whose text the server does not keep', () => {
  it('is shown as far as it came here, and has what it has not lost', () => {
    const all = (version: number, writing: boolean): [string, string] => [
      recall(kept(4, writing), at(version), null).text,
      unheld(kept(4, writing), at(version), null),
    ];
    expect(all(4, false)).toEqual([TEXT, '']);
    expect(all(5, true)).toEqual([TEXT, '']);
    expect(all(4, true)).toEqual(['Once it was.', ' Then he ran home']);
    expect(all(2, false)).toEqual(['', TEXT]);
    expect(all(9, false)).toEqual([TEXT, '']);
  });

  const before = { name: BEFORE, version: 3, position: TURN };
  it.each([
    ['the last turn was taken back', kept(), 5, TURN, ['Once it was.', ' Then he ran home']],
    [
      'a mark alone was made for the turn that was being written',
      kept(4, true),
      5,
      TURN,
      ['Once it was.', ' Then he ran home'],
    ],
    ['it was rewound to elsewhere', kept(), 5, 4, ['', TEXT]],
    ['it was rewound while a turn was being written', kept(4, true), 6, 4, ['', TEXT]],
    ['marks alone were made', kept(), 6, END, [TEXT, '']],
  ])('is shown without what it has not where %s', (_, story, version, position, expected) => {
    const session = at(version, { position, marks: [before] });
    expect([recall(story, session, null).text, unheld(story, session, null)]).toEqual(expected);
    expect(recall(story, session, null).lastTurn).toBe('');
  });

  it('is not known where a turn was taken back of which nothing is known here', () => {
    const settled = told();
    settled.settle();
    const story = reloaded(keep(at(0), { version: 4, position: END }, settled, false));
    const session = at(5, { position: TURN, marks: [before] });
    expect([recall(story, session, null).text, unheld(story, session, null)]).toEqual(['', TEXT]);
  });

  it('has a turn that can be taken back where nothing came after it', () => {
    const turn = (version: number): number => recall(kept(4), at(version), null).turn;
    expect([turn(4), turn(5)]).toEqual([2, 4]);
  });
});

it('knows a session that it was left so', () => {
  expect([3, 4, 5].map((version) => isAsLeft(kept(4), at(version)))).toEqual([false, true, false]);
  expect([3, 4, 5, 6].map((version) => isAsLeft(kept(4, true), at(version)))).toEqual([false, true, true, false]);
  expect(isAsLeft(kept(4), at(4, { id: 'other' }))).toBe(false);
});
