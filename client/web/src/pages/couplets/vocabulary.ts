// What a model that reads characters can write: each character and its id.

import type { Api } from '../../api/client.ts';
import { detokenize, tokenize } from '../../api/sessions.ts';
import type { Model } from '../../api/types.ts';

export type Vocabulary = Map<string, number>;

/** All characters of the model. Ids without text, special and padding ones, are not among them. */
export async function vocabularyOf(api: Api, model: Model): Promise<Vocabulary> {
  const ids = Array.from({ length: model.vocab_size }, (_, id) => id);
  const text = await detokenize(api, model.id, ids);
  const characters = [...text];
  const known = await tokenize(api, model.id, text, false);
  if (known.length !== characters.length) throw new Error(`The model ${model.id} does not read one character a token.`);
  return new Map(characters.map((character, i) => [character, known[i]!]));
}

export const unknownTo = (vocabulary: Vocabulary, line: string): string[] => [
  ...new Set([...line].filter((character) => !vocabulary.has(character))),
];

const isWord = (character: string): boolean => /^[\p{L}\p{N}]$/u.test(character);

/** What the second line may consist of: characters of words, and of the other signs those that the first has. */
export function allowedIds(vocabulary: Vocabulary, first: string): number[] {
  const signs = new Set([...first].filter((character) => !isWord(character)));
  return [...vocabulary].filter(([character]) => isWord(character) || signs.has(character)).map(([, id]) => id);
}

export interface Constraint {
  max_tokens: number;
  min_tokens?: number;
  allowed_token_ids?: number[];
  stop?: string[];
}

/** As long as the first line, or as long as the model likes, up to `most`. */
export function constraint(vocabulary: Vocabulary, first: string, length: number | null, most = 64): Constraint {
  if (length === null) return { max_tokens: most, stop: ['\n'] };
  return { max_tokens: length, min_tokens: length, allowed_token_ids: allowedIds(vocabulary, first) };
}
