import { describe, expect, it } from 'vitest';
import { Api } from '../src/api/client.ts';
import type { Model } from '../src/api/types.ts';
import { BEFORE, Story, type Ending, type TurnWatch } from '../src/pages/write/story.ts';
import { failure, FakeGateway, textOf } from './fake_gateway.ts';

const model = { id: 'm' } as Model;

class Watched implements TurnWatch {
  text = '';
  states: [number, number][] = [];
  after: () => void = () => undefined;
  onSend: TurnWatch['onSend'] = () => undefined;
  read: (number | null)[] = [];
  onRead: TurnWatch['onRead'] = (tokens) => this.read.push(tokens);
  onPiece: TurnWatch['onPiece'] = (piece) => {
    this.text += piece.text;
    this.after();
  };
  onState: TurnWatch['onState'] = (tokens, bytes) => this.states.push([tokens, bytes]);
  onWait: TurnWatch['onWait'] = () => undefined;
}

async function turn(
  story: Story,
  prompt: string,
  most: number,
  watch = new Watched(),
  signal?: AbortSignal,
): Promise<Ending> {
  return story.turn(model, prompt, { max_tokens: most }, watch, signal ?? new AbortController().signal);
}

const LOOK_MS = 5;

/** `after`: what happens once a call of this path is answered, and what is answered then if not the same. */
function fresh(after: (path: string, gateway: FakeGateway) => Response | undefined = () => undefined): {
  gateway: FakeGateway;
  story: Story;
} {
  const gateway = new FakeGateway();
  const fetch: typeof gateway.fetch = async (input, init) => {
    const answer = await gateway.fetch(input, init);
    return after(String(input), gateway) ?? answer;
  };
  return { gateway, story: new Story(new Api({ fetch, sleep: () => Promise.resolve() }), LOOK_MS) };
}

/** Calls `work` once so many characters have come. */
function watchUntil(length: number, work: () => void): Watched {
  const watch = new Watched();
  watch.after = () => {
    if (watch.text.length === length) work();
  };
  return watch;
}

describe('Story', () => {
  it('writes and continues in one session, whose bytes stay', async () => {
    const { gateway, story } = fresh();
    const watch = new Watched();
    expect(await turn(story, 'Once', 5, watch)).toEqual({ kind: 'done', finish: 'length', tokens: 5 });
    await turn(story, '', 7, watch);
    const session = gateway.sessions.get(story.session!.id)!;
    expect(session.position).toBe(16);
    expect(textOf(session.transcript)).toBe(`Once${watch.text}`);
    expect(watch.states.at(-1)).toEqual([16, session.bytes]);
    expect(new Set(watch.states.map(([, bytes]) => bytes)).size).toBe(1);
  });

  it.each([false, true])('shows after a stop what the session holds, with text that lags: %s', async (late) => {
    const { gateway, story } = fresh();
    gateway.late = late;
    const stop = new AbortController();
    const watch = new Watched();
    watch.after = () => {
      if (watch.text.length === 3) stop.abort();
    };
    const ending = await turn(story, 'Once', 50, watch, stop.signal);
    if (ending.kind !== 'stopped') throw new Error(`ended as ${ending.kind}`);
    expect(textOf(gateway.sessions.get(story.session!.id)!.transcript)).toBe(`Once${watch.text}${ending.rest}`);
  });

  it.each(['', 'Once'])('counts the id that begins a context before %j, once', async (opening) => {
    const { gateway, story } = fresh();
    gateway.begins = true;
    const watch = new Watched();
    await turn(story, opening, 5, watch);
    expect(watch.states.at(-2)![0]).toBe(1 + opening.length + 5);
    const stop = new AbortController();
    watch.after = () => {
      if (watch.text.length === 8) stop.abort();
    };
    const ending = await turn(story, ' more', 50, watch, stop.signal);
    if (ending.kind !== 'stopped') throw new Error(`ended as ${ending.kind}`);
    expect(gateway.text(story.session!.id)).toBe(
      `${opening}${watch.text.slice(0, 5)} more${watch.text.slice(5)}${ending.rest}`,
    );
    expect(ending.tokens).toBe(watch.text.length - 5 + ending.rest.length);
  });

  it('counts no id of its own in a session that was made without', async () => {
    const { gateway, story } = fresh();
    gateway.begins = true;
    const made = { method: 'POST', body: JSON.stringify({ model: 'm', add_special_tokens: false }) };
    await gateway.fetch('/v1/sessions', made);
    await story.open('s1');
    const stop = new AbortController();
    const watch = new Watched();
    watch.after = () => {
      if (watch.text.length === 8) stop.abort();
    };
    const ending = await turn(story, 'Once', 50, watch, stop.signal);
    if (ending.kind !== 'stopped') throw new Error(`ended as ${ending.kind}`);
    expect(gateway.text('s1')).toBe(`Once${watch.text}${ending.rest}`);
    expect(ending.tokens).toBe(watch.text.length + ending.rest.length);
  });

  it('goes on with nothing else than what is shown, whatever a server says that answers', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 5);
    gateway.loses = true;
    const shown = await turn(story, ' more', 5);
    expect(shown.kind).toBe('done');
    gateway.loses = false;
    const session = gateway.sessions.get(story.session!.id)!;
    expect(await turn(story, 'x', 5)).toEqual({ kind: 'parted' });
    expect(session.position).toBe(9);
    await expect(story.branch('b')).rejects.toMatchObject({ status: 409 });
    const error: unknown = await story.takeBack().catch((refused: unknown) => refused);
    expect(await story.parted(error)).toBe(true);
    expect(await story.open(session.id)).toBe(textOf(session.transcript));
    expect((await turn(story, 'x', 5)).kind).toBe('done');
  });

  it('knows after a break that the session has lost its end', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 5);
    const session = gateway.sessions.get(story.session!.id)!;
    gateway.breakAfter = 3;
    const watch = new Watched();
    watch.after = () => Object.assign(session, { transcript: session.transcript.slice(0, 4), position: 4, version: 2 });
    expect(await turn(story, 'x', 5, watch)).toEqual({ kind: 'parted' });
    expect(await story.open(session.id)).toBe('Once');
    expect(story.session!.position).toBe(4);
  });

  it.each([
    ['how far a long prompt is read', 5000, 0, [1000, 2000, 3000]],
    ['that it cannot tell, where others run', 5000, 1, [null, null, null]],
    ['nothing of a short one', 50, 0, []],
  ])('tells %s', async (_, length, others, expected) => {
    const { gateway, story } = fresh();
    const watch = new Watched();
    gateway.others = others;
    let paces = 0;
    gateway.pace = async () => {
      paces += 1;
      if (paces > 1) return;
      const seen = (): number => (others > 0 ? watch.read.length : new Set(watch.read).size);
      for (let tries = 0; tries < (expected.length > 0 ? 5000 : 50) && seen() < 3; tries += 1) {
        gateway.read = 1000 * (seen() + 1);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    };
    expect((await turn(story, 'x'.repeat(length), 5, watch)).kind).toBe('done');
    expect([...new Set(watch.read)]).toEqual([...new Set(expected)]);
    expect(watch.states.at(-1)![0]).toBe(length + 5);
  });

  it('tells how far the new text alone is read where the session holds text already', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 2000);
    const watch = new Watched();
    let paces = 0;
    gateway.pace = async () => {
      paces += 1;
      if (paces > 1) return;
      gateway.read = 1000;
      for (let tries = 0; tries < 5000 && watch.read.length === 0; tries += 1)
        await new Promise((resolve) => setTimeout(resolve, 1));
    };
    expect((await turn(story, 'x'.repeat(5000), 5, watch)).kind).toBe('done');
    expect(watch.read[0]).toBe(1000);
  });

  it('deletes no session that went on elsewhere', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 5);
    gateway.sessions.get(story.session!.id)!.version += 1;
    await expect(story.takeBack()).rejects.toMatchObject({ status: 409 });
    expect(gateway.sessions.size).toBe(1);
  });

  it('goes back before the last turn', async () => {
    const { story } = fresh();
    await turn(story, 'Once', 5);
    const position = story.session!.position;
    await turn(story, ' more', 5);
    expect(await story.takeBack()).toBe(true);
    expect(story.session!.position).toBe(position);
    expect(story.session!.marks.map(({ name }) => name)).toEqual([BEFORE]);
  });

  it('begins anew when the first turn is taken back', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 5);
    expect(await story.takeBack()).toBe(false);
    expect(story.session).toBeNull();
    expect(gateway.sessions.size).toBe(0);
  });

  it('says that nothing was added when a stream fails, and leaves no empty session', async () => {
    const { gateway, story } = fresh();
    gateway.breakAfter = 3;
    const ending = await turn(story, 'Once', 5);
    expect(ending.kind).toBe('undone');
    expect(gateway.sessions.size).toBe(0);
  });

  it('keeps the session of the turns before when a later one fails', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 5);
    gateway.breakAfter = 3;
    expect((await turn(story, 'x', 5)).kind).toBe('undone');
    expect(gateway.sessions.get(story.session!.id)!.position).toBe(9);
  });

  it('says that nothing was added when a later turn is refused before it is sent', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 5);
    gateway.queue.push(failure(409, 'the session is busy'));
    expect(await turn(story, 'x', 5)).toMatchObject({ kind: 'undone', error: { status: 409 } });
    expect(gateway.sessions.get(story.session!.id)!.position).toBe(9);
    expect((await turn(story, 'x', 5)).kind).toBe('done');
  });

  it('says that nothing was added when it is stopped before it is sent', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 5);
    expect((await turn(story, 'x', 5, new Watched(), AbortSignal.abort())).kind).toBe('undone');
    expect(gateway.sessions.get(story.session!.id)!.position).toBe(9);
    story.session = null;
    expect((await turn(story, 'x', 5, new Watched(), AbortSignal.abort())).kind).toBe('undone');
    expect([story.session, gateway.sessions.size]).toEqual([null, 1]);
  });

  it.each(['the first turn', 'a later one'])(
    'does not know what the session has of %s when the server is away',
    async (which) => {
      const { gateway, story } = fresh();
      if (which === 'a later one') await turn(story, 'Once', 5);
      const watch = watchUntil(3, () => (gateway.away = true));
      expect(await turn(story, 'x', 50, watch)).toMatchObject({ kind: 'unsure', error: { status: 0 } });
      const session = gateway.sessions.get(story.session!.id)!;
      expect(story.version).toBe(session.version); // as before the turn
      gateway.away = false;
      gateway.write(session.id, 'x and'); // it has had the turn
      expect(await story.open(session.id, story.version)).toMatch(/x and$/);
    },
  );

  it('does not know it either when it was stopped as the server went away', async () => {
    const { gateway, story } = fresh();
    const stop = new AbortController();
    const watch = watchUntil(3, () => {
      gateway.away = true;
      stop.abort();
    });
    expect(await turn(story, 'Once', 50, watch, stop.signal)).toMatchObject({ kind: 'unsure', error: { status: 0 } });
    expect(story.session).not.toBeNull();
  });

  it('knows that the session is gone: in the midst of a turn, and before one', async () => {
    for (const turns of [0, 1]) {
      const { gateway, story } = fresh();
      for (let n = 0; n < turns; n += 1) await turn(story, 'Once', 5);
      gateway.breakAfter = 3;
      const watch = watchUntil(3, () => gateway.sessions.clear());
      expect(await turn(story, 'x', 5, watch)).toEqual({ kind: 'gone' });
      expect(await turn(story, 'x', 5)).toEqual({ kind: 'gone' });
    }
  });

  it('takes a session whose model is gone for gone', async () => {
    let served = true;
    const { gateway, story } = fresh((path) =>
      !served && path === '/v1/completions' ? failure(404, 'no model m') : undefined,
    );
    await turn(story, 'Once', 5);
    served = false;
    expect(await turn(story, 'x', 5)).toEqual({ kind: 'gone' });
    story.session = null;
    expect(await turn(story, 'x', 5)).toMatchObject({ kind: 'undone', error: { status: 404 } });
    expect(gateway.sessions.size).toBe(1); // no empty one is left
  });

  it('has a turn whose end came, also when nobody answers after it', async () => {
    const { gateway, story } = fresh();
    const watch = watchUntil(5, () => (gateway.away = true));
    expect((await turn(story, 'Once', 5, watch)).kind).toBe('done');
    const { version, position } = gateway.sessions.get(story.session!.id)!;
    expect([story.version, story.session!.position]).toEqual([version, position]);
  });

  it('has taken back a turn, also when nobody answers after it', async () => {
    const { gateway, story } = fresh((path, gateway) => {
      gateway.away = path.endsWith('/rewind');
      return undefined;
    });
    await turn(story, 'Once', 5);
    await turn(story, ' more', 5);
    expect(await story.takeBack()).toBe(true);
    const { version } = gateway.sessions.get(story.session!.id)!;
    expect([story.version, story.session!.position]).toEqual([version, 9]);
  });

  it('stays at its session when another one cannot be read', async () => {
    const { gateway, story } = fresh((path, gateway) => {
      gateway.away = path === '/v1/sessions/s2?include_transcript=true&transcript_start=0';
      return undefined;
    });
    await turn(story, 'Once', 5);
    const branch = await story.branch('other');
    await expect(story.open(branch.id)).rejects.toMatchObject({ status: 0 });
    expect(story.session!.id).toBe('s1');
    gateway.away = false;
    expect((await turn(story, 'x', 5)).kind).toBe('done');
  });

  it('waits for no turn in a session that lost its end', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 5);
    const before = gateway.calls.length;
    await story.open(story.session!.id, story.version + 1);
    expect(gateway.calls.length - before).toBe(3);
  });

  it('hands on why no session could be made', async () => {
    const { gateway, story } = fresh();
    gateway.queue.push(failure(404, 'no model m'));
    const ending = await turn(story, 'Once', 5);
    expect(ending).toMatchObject({ kind: 'undone', error: { status: 404, message: 'no model m' } });
  });

  it('opens a session with its text', async () => {
    const { story } = fresh();
    const watch = new Watched();
    await turn(story, 'Once', 5, watch);
    const branch = await story.branch('other');
    expect(await story.open(branch.id)).toBe(`Once${watch.text}`);
    expect(story.session!.label).toBe('other');
  });

  it('opens a session that was left in the midst of a turn when it holds what came of it', async () => {
    const { gateway, story } = fresh();
    await turn(story, 'Once', 5);
    const { id } = story.session!;
    const left = story.version;
    const opening = story.open(id, left);
    await Promise.resolve();
    setTimeout(() => gateway.write(id, ' and on'), 100);
    expect(await opening).toMatch(/^Once.{5} and on$/);
    expect(story.version).toBe(left + 1);
  });
});
