// What a session holds of the story that was shown, and what it does not: that is the person's text still.

import type { Session } from '../../api/types.ts';
import type { Piece } from '../../text/align.ts';
import { manuscriptOf, type KeptStory } from './kept.ts';
import { Manuscript, type Part } from './manuscript.ts';
import { BEFORE } from './story.ts';

/** Whether the session may hold what is kept: it is the same, or a branch of it. */
const isOf = (kept: KeptStory, session: Session): boolean =>
  kept.session === session.id || kept.session === session.parent_id;

/** Whether it has what the turn that was being written brought: each write adds one to the version. */
const hasTurn = ({ writing, version }: KeptStory, session: Session): boolean =>
  writing && session.version === version + 1;

/** Whether nothing wrote to the session since, but for the turn that was being written. */
export const isAsLeft = (kept: KeptStory, session: Session): boolean =>
  kept.session === session.id && (session.version === kept.version || hasTurn(kept, session));

/** The parts that the text begins with, as far as whole pieces of them go, and whether that is all of them. */
function agreed(parts: Part[], text: string): { parts: Part[]; length: number; whole: boolean } {
  const found: Part[] = [];
  let length = 0;
  for (const { by, pieces } of parts) {
    const same: Piece[] = [];
    for (const piece of pieces) {
      if (!text.startsWith(piece.text, length)) break;
      same.push(piece);
      length += piece.text.length;
    }
    if (same.length > 0) found.push({ by, pieces: same });
    if (same.length < pieces.length) return { parts: found, length, whole: false };
  }
  return { parts: found, length, whole: true };
}

/** What is known of a session's text; `kept` is whatever the browser has, a text of null what nobody can read. */
export function recall(kept: KeptStory | null, session: Session, text: string | null): Manuscript {
  const shown = kept && isOf(kept, session) ? manuscriptOf(kept) : new Manuscript();
  if (text === null) return unread(kept, session, shown);
  const { parts, length, whole } = agreed(shown.parts, text);
  // As it was here, and with what the turn that was being written brought.
  const asLeft =
    whole && kept?.session === session.id && (kept.writing ? hasTurn(kept, session) : session.version === kept.version);
  const known = new Manuscript(parts, asLeft ? kept!.turn : undefined);
  if (length < text.length)
    known.add(asLeft && kept!.writing ? 'written' : 'unknown', [{ text: text.slice(length), tokens: [] }]);
  if (!asLeft) known.settle();
  return known;
}

/** How much of what was shown a session holds whose text nobody can read, as its version and position tell. */
function extent(kept: KeptStory, session: Session): 'all' | 'all but the turn' | 'nothing' {
  const { version, position } = session;
  if (version < kept.version) return 'nothing'; // that is known: it lost its end
  if (version === kept.version) return kept.writing ? 'all but the turn' : 'all';
  if (kept.writing && position === kept.position) return 'all but the turn'; // for which a mark was made
  if (position >= kept.position) return 'all';
  const before = session.marks.find(({ name }) => name === BEFORE);
  const isTakenBack = !kept.writing && position === before?.position && manuscriptOf(kept).lastTurn !== '';
  return isTakenBack ? 'all but the turn' : 'nothing';
}

/** Of a session whose text the server did not keep: what was seen of it here, if it did not lose that. */
function unread(kept: KeptStory | null, session: Session, shown: Manuscript): Manuscript {
  if (kept?.session !== session.id) return new Manuscript();
  const held = extent(kept, session);
  if (held === 'nothing') return new Manuscript();
  if (held === 'all but the turn') shown.takeBack();
  if (!isAsLeft(kept, session)) shown.settle();
  return shown;
}

/** The text that was shown and that the session does not hold. */
export function unheld(kept: KeptStory | null, session: Session, text: string | null): string {
  if (kept?.session !== session.id) return '';
  const shown = manuscriptOf(kept);
  // At the version that is kept it holds all that was there before the turn, whatever its tokens read like.
  if (text === null || session.version === kept.version)
    return { all: '', 'all but the turn': shown.lastTurn, nothing: shown.text }[extent(kept, session)];
  const { length } = agreed(shown.parts, text);
  if (hasEnd(kept, session, text, length)) return '';
  // Where it ends too early, what comes after; where it goes on otherwise, from the token or the words that differ.
  return shown.text.slice(shown.text.startsWith(text) ? text.length : length);
}

/** So many characters are not the same by chance. */
const CERTAIN = 40;

/**
 * Whether `text` has after `from` the end of what was shown. What is before it may read otherwise there: what the
 * tokenizer does not know.
 */
function hasEnd(kept: KeptStory, session: Session, text: string, from: number): boolean {
  const shown = manuscriptOf(kept);
  if (hasTurn(kept, session)) return shown.written !== '' && text.includes(shown.written, from);
  const end = shown.text.slice(from).slice(-CERTAIN);
  return session.version > kept.version && end.length === CERTAIN && text.includes(end, from);
}

/** The words in the box but for those that the session holds after all: of a turn that seemed to be lost. */
export function wordsLeft(box: string, kept: KeptStory, text: string | null): string {
  const shown = manuscriptOf(kept).text;
  if (kept.writing || !text?.startsWith(shown)) return box;
  const more = text.slice(shown.length);
  if (more.startsWith(box)) return '';
  return box.startsWith(more) ? box.slice(more.length) : box;
}
