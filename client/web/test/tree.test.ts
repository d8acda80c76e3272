import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Api } from '../src/api/client.ts';
import { createSession, getSession, listSessions, markSession } from '../src/api/sessions.ts';
import type { Mark, Session } from '../src/api/types.ts';
import { brokenOf, forgetBroken, forgetHeld, rememberBroken } from '../src/pages/tree/broken.ts';
import { forkPosition, layout } from '../src/pages/tree/layout.ts';
import { forkPositions, nameOf } from '../src/pages/tree/names.ts';
import { rewind } from '../src/pages/tree/rewind.ts';
import { continueSession, wordStart } from '../src/pages/tree/text.ts';
import { FakeGateway } from './fake_gateway.ts';
import { memory } from './memory.ts';

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

  it('believes what it remembers: a fork that a rewind left parts at the mark', () => {
    const parent = session('p', null, 0, [mark('m', 3), mark('later', 7)]);
    const left = session('left', 'p', 7);
    expect(forkPosition(left, [parent, left], { left: 30 })).toBe(30);
  });
});

describe('rewind', () => {
  const TEXT = 'It was late';
  const LATER = ' in the evening';
  let gateway: FakeGateway;
  let api: Api;

  beforeEach(() => {
    vi.stubGlobal('localStorage', memory());
    gateway = new FakeGateway();
    api = new Api({ fetch: gateway.fetch });
  });
  afterEach(() => vi.unstubAllGlobals());

  /** A session that is marked after TEXT, as the server tells it; and the mark. */
  async function marked(): Promise<{ id: string; mark: Mark }> {
    const { id } = await createSession(api, { model: 'm', label: 'story' });
    gateway.write(id, TEXT);
    await markSession(api, id, 'door');
    return { id, mark: (await getSession(api, id)).marks[0]! };
  }
  const back = async (id: string, mark: Mark, keep = true, others: Session[] = []): Promise<Session | null> =>
    rewind(api, await getSession(api, id), mark, { keep, others });

  it('leaves a branch that holds all the session held, and parts from it at the mark', async () => {
    const { id, mark } = await marked();
    gateway.write(id, LATER);
    const left = (await back(id, mark))!;
    expect(gateway.text(left.id)).toBe(TEXT + LATER);
    expect(gateway.text(id)).toBe(TEXT);
    const sessions = await listSessions(api, 'm');
    expect(forkPosition(left, sessions, forkPositions())).toBe(TEXT.length);
    expect(layout(sessions).map((row) => row.mark?.name ?? nameOf(row.session))).toEqual([
      'story',
      'door',
      'before rewind: story',
    ]);
  });

  it('leaves none where a mark has it all', async () => {
    const { id, mark } = await marked();
    expect(await back(id, mark)).toBeNull();
    expect(await back(id, mark)).toBeNull();
    expect(gateway.sessions.size).toBe(1);
  });

  it('leaves none when told so', async () => {
    const { id, mark } = await marked();
    gateway.write(id, LATER);
    expect(await back(id, mark, false)).toBeNull();
    expect(gateway.sessions.size).toBe(1);
    expect(gateway.text(id)).toBe(TEXT);
  });

  it('gives each of them a name of its own', async () => {
    const { id, mark } = await marked();
    gateway.write(id, LATER);
    const first = (await back(id, mark))!;
    gateway.write(id, LATER);
    const second = (await back(id, mark, true, [first]))!;
    expect([first, second].map(nameOf)).toEqual(['before rewind: story', 'before rewind: story 2']);
  });

  it('changes nothing where the session went on elsewhere', async () => {
    const { id, mark } = await marked();
    gateway.write(id, LATER);
    const seen = await getSession(api, id);
    gateway.write(id, LATER);
    await expect(rewind(api, seen, mark, { keep: true, others: [] })).rejects.toMatchObject({ status: 409 });
    expect(gateway.text(id)).toBe(TEXT + LATER + LATER);
    expect(gateway.sessions.size).toBe(1);
  });

  it('takes the branch back where the rewind is refused', async () => {
    const { id, mark } = await marked();
    gateway.write(id, LATER);
    const seen = await getSession(api, id);
    await expect(rewind(api, seen, { ...mark, name: 'gone' }, { keep: true, others: [] })).rejects.toMatchObject({
      status: 404,
    });
    expect([...gateway.sessions.keys()]).toEqual([id]);
  });
});

describe('a continuation that breaks off', () => {
  const TEXT = 'It was late';
  let gateway: FakeGateway;
  let api: Api;
  let id: string;
  let shown: string;

  beforeEach(async () => {
    vi.stubGlobal('sessionStorage', memory());
    vi.stubGlobal('window', new EventTarget());
    gateway = new FakeGateway();
    api = new Api({ fetch: gateway.fetch });
    ({ id } = await createSession(api, { model: 'm', label: 'story' }));
    gateway.write(id, TEXT);
    shown = '';
  });
  afterEach(() => vi.unstubAllGlobals());

  /** Does `work` when three characters have come, and `later` as more do. */
  const goOn = async (
    work: () => void,
    signal = new AbortController().signal,
    later: () => void = () => undefined,
  ): Promise<void> =>
    continueSession(
      api,
      await getSession(api, id),
      50,
      (text) => {
        shown += text;
        if (shown.length === 3) work();
        else later();
      },
      signal,
    );

  const left = (of = id): string[] => brokenOf(of).map(({ came }) => came);
  /** As it is after the session was looked at. */
  const unheld = async (): Promise<string[]> => {
    await forgetHeld(api, await getSession(api, id));
    return left();
  };
  const breaksOff = (came: string, position = TEXT.length): void =>
    rememberBroken({ session: id, version: 2, position, came });

  it('is there still, until it is thrown away', async () => {
    await expect(goOn(() => (gateway.away = true))).rejects.toMatchObject({ status: 0 });
    gateway.away = false;
    expect(await unheld()).toEqual([shown]);
    expect(left('other')).toEqual([]);
    gateway.write(id, ' at night');
    expect(await unheld()).toEqual([shown]);
    gateway.sessions.get(id)!.transcript.length = 3; // as a rewind does
    gateway.sessions.get(id)!.position = 3;
    expect(await unheld()).toEqual([shown]);
    forgetBroken(id);
    expect(left()).toEqual([]);
  });

  it('is there when the page goes in its midst, once, with what came afterwards', async () => {
    const leave = (): void => {
      window.dispatchEvent(new Event('pagehide'));
      expect(left()).toEqual([shown]);
    };
    const later = (): void => {
      if (shown.length === 5) gateway.away = true;
    };
    await expect(goOn(leave, undefined, later)).rejects.toMatchObject({ status: 0 });
    expect(left()).toEqual([shown]);
    expect(shown.length).toBe(5);
  });

  it('is told of no longer once the session holds it', async () => {
    for (const turn of [1, 2]) {
      const before = gateway.text(id);
      const stop = new AbortController();
      await goOn(() => stop.abort(), stop.signal);
      expect(gateway.text(id).startsWith(before + shown)).toBe(true);
      expect([turn, left()]).toEqual([turn, []]);
      shown = '';
    }
  });

  it('is held where the session goes on with it from there, however much it holds besides', async () => {
    breaksOff(' in the');
    gateway.write(id, ` in the evening${' and on'.repeat(2000)}`);
    expect(await unheld()).toEqual([]);
    breaksOff('and', TEXT.length); // elsewhere
    expect(await unheld()).toEqual(['and']);
  });

  it('is looked for each by itself, and without the space that a text lacks which begins there', async () => {
    breaksOff(' at noon');
    breaksOff(' in the evening');
    gateway.write(id, 'in the evening when');
    expect(await unheld()).toEqual([' at noon']);
  });

  it('is taken for held where there is no transcript and the session went on', async () => {
    breaksOff(' in the evening');
    gateway.sessions.get(id)!.has_transcript = false;
    expect(await unheld()).toEqual([' in the evening']);
    gateway.write(id, ' in the evening when');
    expect(await unheld()).toEqual([]);
  });

  it('takes bounded room: the oldest goes first, the newest never', () => {
    const long = (letter: string, length: number): string => letter.repeat(length);
    breaksOff('');
    for (const letter of ['a', 'b', 'c']) breaksOff(long(letter, 400_000));
    expect(left().map((came) => came[0])).toEqual(['b', 'c']);
    breaksOff(long('d', 2_000_000));
    expect(left().map((came) => came[0])).toEqual(['d']);
  });

  it('is nothing where storage has something else', () => {
    for (const other of ['{"s1":"text"}', '[null,5,{"session":"s1","came":"text"}]', 'x']) {
      sessionStorage.setItem('tvq.tree.broken', other);
      expect(left('s1')).toEqual([]);
    }
  });
});

it('lets texts part between words', () => {
  expect(wordStart('he is l', 'y', 'a')).toBe(6);
  expect(wordStart('he is ', 'y', 'a')).toBe(6);
  expect(wordStart('he is', ' ', '.')).toBe(5);
  expect(wordStart('he is', undefined, 'l')).toBe(3);
  expect(wordStart('风月', '山', '水')).toBe(2);
});
