// A session's text, as far as it is looked at, and its continuation.

import type { Api } from '../../api/client.ts';
import { complete } from '../../api/completions.ts';
import { isAbort } from '../../api/errors.ts';
import { detokenize, sessionOnce, withTranscript } from '../../api/sessions.ts';
import type { Session } from '../../api/types.ts';
import { commonPrefix } from '../../text/diff.ts';
import { forgetHeld, rememberBroken } from './broken.ts';

/** How often a session is asked for after a stop of what nothing may have come of. */
const TRIES_OF_NOTHING = 4;

/** The end of the session's text, `most` tokens of it; null where no transcript was kept. */
export async function tailOf(
  api: Api,
  session: Session,
  most: number,
): Promise<{ text: string; before: number } | null> {
  if (!session.has_transcript && session.position > 0) return null;
  const before = Math.max(0, session.position - most);
  const { transcript } = await withTranscript(api, session.id, before);
  return { text: await detokenize(api, session.model, transcript), before };
}

/**
 * Goes on with the session by `tokens`; a stop keeps what came. The server draws a new seed each time. Where it breaks
 * off, or the page goes meanwhile, the browser keeps what came, too.
 */
export async function continueSession(
  api: Api,
  session: Session,
  tokens: number,
  onText: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { id, version, position } = session;
  const request = {
    model: session.model,
    prompt: '',
    session_id: id,
    expected_version: version,
    commit_on_cancel: true,
    max_tokens: tokens,
  };
  let came = '';
  const keep = (): void => rememberBroken({ session: id, version, position, came });
  window.addEventListener('pagehide', keep);
  const show = (text: string): void => {
    came += text;
    onText(text);
  };
  try {
    await complete(api, request, ({ text }) => show(text), { signal });
  } catch (error) {
    keep();
    if (!isAbort(error)) throw error;
    const tries = came === '' ? TRIES_OF_NOTHING : undefined;
    await forgetHeld(api, await sessionOnce(api, id, (now) => now.version !== version, tries));
  } finally {
    window.removeEventListener('pagehide', keep);
  }
}

export interface Pair {
  /** Tokens that both begin with. */
  common: number;
  /** The end of what is common, an ellipsis before it where there is more. */
  shared: string;
  left: string;
  right: string;
  /** Tokens at the end of either that were too many to compare. */
  cut: boolean;
}

/** Tokens of the common text that are shown, and of each branch that are compared. */
const SHARED_TOKENS = 60;
const MOST_TOKENS = 4000;

/** Where the word begins within which texts part that go on with `a` and `b`; the end of `shared` if they part between words. */
export function wordStart(shared: string, a = ' ', b = ' '): number {
  const inWord = /^[\p{L}\p{N}'’]/u;
  const begun = /(?:(?!\p{Script=Han})[\p{L}\p{N}'’])+$/u.exec(shared);
  return begun && (inWord.test(a) || inWord.test(b)) ? begun.index : shared.length;
}

export async function pairOf(api: Api, left: Session, right: Session): Promise<Pair | null> {
  if (!left.has_transcript || !right.has_transcript) return null;
  const [a, b] = await Promise.all([withTranscript(api, left.id), withTranscript(api, right.id)]);
  const common = commonPrefix(a.transcript, b.transcript);
  const text = (ids: number[]): Promise<string> => detokenize(api, left.model, ids);
  const begin = Math.max(0, common - SHARED_TOKENS);
  const end = common + MOST_TOKENS;
  // Each with the common end before it, so that the text is decoded as it stands there.
  const [shared, leftText, rightText] = await Promise.all([
    text(a.transcript.slice(begin, common)),
    text(a.transcript.slice(begin, end)),
    text(b.transcript.slice(begin, end)),
  ]);
  const parting = wordStart(shared, leftText[shared.length], rightText[shared.length]);
  return {
    common,
    shared: begin > 0 ? `…${shared.slice(0, parting).trimStart()}` : shared.slice(0, parting),
    left: leftText.slice(parting),
    right: rightText.slice(parting),
    cut: a.transcript.length > end || b.transcript.length > end,
  };
}
