// Images as models write them: pixel by pixel, row by row, a token for each channel of a pixel.

import type { ImageShape, Model } from '../../api/types.ts';

export const tokensOf = ({ height, width, channels }: ImageShape): number => height * width * channels;

/** Levels of an image, as far as they are known. */
export class Levels {
  readonly values: Uint16Array;
  known = 0;

  constructor(readonly shape: ImageShape) {
    this.values = new Uint16Array(tokensOf(shape));
  }

  /** Takes token ids in order; answers the pixels that are whole now, as [first, end). */
  push(ids: number[]): [number, number] {
    const { channels, levels, first_token_id: first } = this.shape;
    const before = Math.floor(this.known / channels);
    for (const id of ids) {
      if (this.known === this.values.length) break;
      this.values[this.known] = Math.min(levels - 1, Math.max(0, id - first));
      this.known += 1;
    }
    return [before, Math.floor(this.known / channels)];
  }

  get whole(): boolean {
    return this.known === this.values.length;
  }
}

export interface Look {
  /** One channel as ink on paper: the highest level is the darkest. */
  ink: boolean;
}

/** RGBA of pixel `at`. */
export function colour(levels: Levels, at: number, look: Look): [number, number, number, number] {
  const { channels, levels: count } = levels.shape;
  const value = (channel: number): number =>
    Math.round(((levels.values[at * channels + Math.min(channel, channels - 1)] ?? 0) * 255) / Math.max(1, count - 1));
  if (channels >= 3) return [value(0), value(1), value(2), 255];
  const grey = look.ink ? 255 - value(0) : value(0);
  return [grey, grey, grey, 255];
}

export interface Plan {
  prompt: number[];
  /** Tokens of the image that the prompt has. */
  given: number[];
  /** Tokens to generate. */
  rest: number;
}

/**
 * What to ask for, when the image begins with the levels `given`. A model without a token to begin from is
 * given the first level too: the lowest, which is a corner's.
 */
export function plan(model: Model, shape: ImageShape, given: number[]): Plan {
  const begin = model.bos_token_id ?? model.eos_token_id ?? null;
  const levels = given.length === 0 && begin === null ? [0] : given;
  const ids = levels.map((level) => shape.first_token_id + level);
  return { prompt: begin === null ? ids : [begin, ...ids], given: ids, rest: tokensOf(shape) - ids.length };
}

/** The fields that keep a model to the image: as many tokens as it has, all of them levels. */
export function constraint(model: Model, shape: ImageShape, rest: number): Record<string, unknown> {
  const only = Array.from({ length: shape.levels }, (_, level) => shape.first_token_id + level);
  return {
    max_tokens: rest,
    min_tokens: rest,
    ignore_eos: true,
    ...(model.vocab_size > shape.levels ? { allowed_token_ids: only } : {}),
  };
}
