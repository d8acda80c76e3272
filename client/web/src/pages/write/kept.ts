// What the browser keeps of the story that is shown, so that a reload loses nothing of it.

import type { Token } from '../../api/completions.ts';
import type { Session } from '../../api/types.ts';
import type { Piece } from '../../text/align.ts';
import { Manuscript, type By } from './manuscript.ts';
import type { Moment } from './story.ts';

type KeptToken = [text: string, logprob: number | null, ...top: (string | number)[]];
/** The text alone where its tokens are not known, or are too many. */
type KeptPiece = string | [text: string, ...tokens: KeptToken[]];

export interface KeptStory {
  session: string;
  /** Of the session, before the turn if one is being written; the position is that of the text's end. */
  version: number;
  position: number;
  writing: boolean;
  turn: number;
  parts: [by: By, pieces: KeptPiece[]][];
}

/** So many of the last tokens are kept with their alternatives, some 100 characters each, ... */
const WITH_ALTERNATIVES = 5_000;
/** ... and so many with their likelihood, some 20 each: 1.5 million of the 5 that a browser has room for. */
const WITH_LIKELIHOOD = 50_000;
/** Where there is no room for them. */
export const TEXT_ALONE: [number, number] = [0, 0];

export function keep(
  { id }: Session,
  { version, position }: Moment,
  { parts, turn }: Manuscript,
  writing: boolean,
  [most, mostLikely] = [WITH_ALTERNATIVES, WITH_LIKELIHOOD],
): KeptStory {
  let after = 0;
  const packed = (piece: Piece): KeptPiece => {
    after += piece.tokens.length;
    if (piece.tokens.length === 0 || after > mostLikely) return piece.text;
    return [piece.text, ...piece.tokens.map((token) => packedToken(token, after <= most))];
  };
  const kept: KeptStory['parts'] = [];
  for (const { by, pieces } of [...parts].reverse())
    kept.push([by, joined([...pieces].reverse().map(packed).reverse())]);
  return { session: id, version, position, writing, turn, parts: kept.reverse() };
}

const rounded = (logprob: number): number => Math.round(logprob * 1000) / 1000;

function packedToken({ text, logprob, top }: Token, alternatives: boolean): KeptToken {
  const others = alternatives ? top.flatMap((other) => [other.text, rounded(other.logprob)]) : [];
  return [text, logprob === null ? null : rounded(logprob), ...others];
}

/** Neighbours that are text alone in one. */
function joined(pieces: KeptPiece[]): KeptPiece[] {
  const all: KeptPiece[] = [];
  for (const piece of pieces) {
    const last = all.at(-1);
    if (typeof piece === 'string' && typeof last === 'string') all[all.length - 1] = last + piece;
    else all.push(piece);
  }
  return all;
}

function unpacked(piece: KeptPiece): Piece {
  if (typeof piece === 'string') return { text: piece, tokens: [] };
  const [text, ...tokens] = piece;
  return { text, tokens: tokens.map(unpackedToken) };
}

function unpackedToken([text, logprob, ...others]: KeptToken): Token {
  const top: Token['top'] = [];
  for (let i = 0; i < others.length; i += 2) top.push({ text: others[i] as string, logprob: others[i + 1] as number });
  return { text, logprob, top };
}

const isText = (value: unknown): boolean => typeof value === 'string';
const isNumber = (value: unknown): boolean => typeof value === 'number';
/** Its alternatives are a text and a number in turn. */
const isToken = (token: unknown): boolean =>
  Array.isArray(token) &&
  token.length >= 2 &&
  token.every((value, i) => (i % 2 === 0 ? isText(value) : isNumber(value) || (i === 1 && value === null)));
const isPiece = (piece: unknown): boolean =>
  isText(piece) || (Array.isArray(piece) && isText(piece[0]) && piece.slice(1).every(isToken));
const isPart = (part: unknown): boolean =>
  Array.isArray(part) &&
  ['given', 'written', 'unknown'].includes(part[0] as string) &&
  Array.isArray(part[1]) &&
  part[1].every(isPiece);

/** What is kept, if it is a story. */
export function storyOf(kept: KeptStory | null): KeptStory | null {
  if (kept === null) return null;
  const { session, version, position, writing, turn, parts } = kept;
  const isWhole =
    isText(session) &&
    isNumber(version) &&
    isNumber(position) &&
    typeof writing === 'boolean' &&
    Array.isArray(parts) &&
    parts.every(isPart) &&
    Number.isInteger(turn) &&
    turn >= 0 &&
    turn <= parts.length;
  return isWhole ? kept : null;
}

/** What was shown. */
export const manuscriptOf = ({ parts, turn }: KeptStory): Manuscript =>
  new Manuscript(
    parts.map(([by, pieces]) => ({ by, pieces: pieces.map(unpacked) })),
    turn,
  );
