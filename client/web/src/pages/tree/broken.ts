// What came of continuations that broke off. The server may have kept nothing of it, so that the browser does, until the
// session is seen to hold it, is deleted, or the person throws it away.

import type { Api } from '../../api/client.ts';
import { detokenize, withTranscript } from '../../api/sessions.ts';
import type { Session } from '../../api/types.ts';
import { visit } from '../../ui/store.ts';

const NAME = 'tree.broken';
/** Characters of all that is remembered, a fifth of what a browser has room for; the oldest goes first. */
const MOST = 1_000_000;

export interface Broken {
  /** The session's id, and its version and position before the continuation. */
  session: string;
  version: number;
  position: number;
  came: string;
}

const isBroken = (value: unknown): value is Broken => {
  const { session, version, position, came } = (value ?? {}) as Record<string, unknown>;
  return (
    typeof session === 'string' &&
    typeof version === 'number' &&
    typeof position === 'number' &&
    typeof came === 'string'
  );
};

const all = (): Broken[] => visit.getJson<unknown[]>(NAME, []).filter(isBroken);

/** Oldest first. */
export const brokenOf = (session: string): Broken[] => all().filter((broken) => broken.session === session);

/** In the place of what is remembered of the same continuation already: that is the beginning of it. */
export function rememberBroken(broken: Broken): void {
  const { session, position, came } = broken;
  if (came === '') return;
  const isBeginning = (other: Broken): boolean =>
    other.session === session && other.position === position && came.startsWith(other.came);
  let room = MOST;
  const newestFirst = [...all().filter((other) => !isBeginning(other)), broken].reverse();
  const kept = newestFirst.filter((each) => (room -= each.came.length) >= 0 || each === broken);
  visit.setJson(NAME, kept.reverse());
}

function forget(isSo: (broken: Broken) => boolean): void {
  const kept = all().filter((broken) => !isSo(broken));
  visit.setJson(NAME, kept);
}

export const forgetBroken = (session: string): void => forget((broken) => broken.session === session);

/**
 * Forgets what the session holds: its text goes on with it from where the continuation began, but for a space, which a
 * text may lack that begins there. Without a transcript it is taken to hold it if it goes on there at all.
 */
export async function forgetHeld(api: Api, { id, model, position, has_transcript }: Session): Promise<void> {
  const within = brokenOf(id).filter((broken) => broken.position < position);
  if (within.length === 0) return;
  if (!has_transcript) return forget((broken) => broken.session === id && broken.position < position);
  const start = Math.min(...within.map((broken) => broken.position));
  const { transcript } = await withTranscript(api, id, start);
  for (const { position, came } of within) {
    const text = await detokenize(api, model, transcript.slice(position - start));
    if (text.trimStart().startsWith(came.trimStart()))
      forget((broken) => broken.session === id && broken.position === position && broken.came === came);
  }
}
