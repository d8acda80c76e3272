// Streams of generated tokens, brought from OpenAI's shape into the page's.

import type { Api, CallOptions } from './client.ts';
import type { Position } from './types.ts';

export interface Alternative {
  text: string;
  logprob: number;
}

export interface Token {
  text: string;
  logprob: number | null;
  /** The most likely tokens at this place, best first. */
  top: Alternative[];
}

export interface Piece {
  /** Which of the samples. */
  index: number;
  text: string;
  /** With logprobs asked for. */
  tokens: Token[];
  /** With return_token_ids. */
  ids: number[];
  finish: string | null;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens: number; reread_tokens?: number };
}

export interface Outcome {
  usage: Usage | null;
  session: Position | null;
}

export interface CompletionRequest {
  model: string;
  prompt: string | number[];
  session_id?: string;
  [field: string]: unknown;
}

interface Logprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs?: (Record<string, number> | null)[] | null;
}

interface Choice {
  index: number;
  text: string;
  logprobs?: Logprobs | null;
  token_ids?: number[] | null;
  finish_reason: string | null;
}

export interface Chunk<C = Choice> {
  choices: C[];
  usage?: Usage | null;
  session?: Position | null;
}

function alternatives(at: Record<string, number> | null | undefined): Alternative[] {
  return Object.entries(at ?? {})
    .map(([text, logprob]) => ({ text, logprob }))
    .sort((a, b) => b.logprob - a.logprob);
}

export function pieceOf(choice: Choice): Piece {
  const { logprobs } = choice;
  return {
    index: choice.index,
    text: choice.text,
    tokens: (logprobs?.tokens ?? []).map((text, i) => ({
      text,
      logprob: logprobs?.token_logprobs[i] ?? null,
      top: alternatives(logprobs?.top_logprobs?.[i]),
    })),
    ids: choice.token_ids ?? [],
    finish: choice.finish_reason,
  };
}

/** Generates and hands each piece to `onPiece` as it comes; what remains to be said comes at the end. */
export const complete = (
  api: Api,
  request: CompletionRequest,
  onPiece: (piece: Piece) => void,
  options: CallOptions = {},
): Promise<Outcome> =>
  followStream<Choice>(api, '/v1/completions', request, (choice) => onPiece(pieceOf(choice)), options);

/** Asks for a stream and hands on each of its choices. */
export async function followStream<C>(
  api: Api,
  path: string,
  request: object,
  onChoice: (choice: C) => void,
  options: CallOptions,
): Promise<Outcome> {
  const outcome: Outcome = { usage: null, session: null };
  const body = { ...request, stream: true, stream_options: { include_usage: true } };
  for await (const chunk of api.stream<Chunk<C>>(path, { ...options, body })) {
    for (const choice of chunk.choices) onChoice(choice);
    if (chunk.usage) outcome.usage = chunk.usage;
    if (chunk.session) outcome.session = chunk.session;
  }
  return outcome;
}
