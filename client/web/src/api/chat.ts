// Streams of answers in conversations.

import type { Api, CallOptions } from './client.ts';
import { followStream, type Outcome, type Piece } from './completions.ts';
import type { Model } from './types.ts';

export interface Message {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

export interface ChatRequest {
  model: string;
  messages: Message[];
  session_id?: string;
  [field: string]: unknown;
}

interface Choice {
  index: number;
  delta: { content?: string | null };
  token_ids?: number[] | null;
  finish_reason: string | null;
}

/** Whether a template of the model's own files writes its conversations: a session is sent all messages then, else new ones. */
export const writesOwn = (model: Model): boolean =>
  !model.has_chat_template && (model.conversation_templates ?? []).length > 0;

/** Whether conversations can be had with the model. */
export const converses = (model: Model): boolean => model.has_chat_template === true || writesOwn(model);

const pieceOf = ({ index, delta, token_ids, finish_reason }: Choice): Piece => ({
  index,
  text: delta.content ?? '',
  tokens: [],
  ids: token_ids ?? [],
  finish: finish_reason,
});

/** Answers the messages and hands on each piece as it comes. */
export const converse = (
  api: Api,
  request: ChatRequest,
  onPiece: (piece: Piece) => void,
  options: CallOptions = {},
): Promise<Outcome> =>
  followStream<Choice>(api, '/v1/chat/completions', request, (choice) => onPiece(pieceOf(choice)), options);
