// The images that were drawn last as the browser keeps them, so that a reload loses none.

import type { ImageShape } from '../../api/types.ts';
import { tokensOf } from './image.ts';

export interface KeptImages {
  shape: ImageShape;
  /** Rows that the person drew. */
  given: number;
  ink: boolean;
  /** The levels of each, as far as they came. */
  images: string[];
}

const digitsOf = (levels: number): number => (levels - 1).toString(16).length;

/** Hexadecimal, as many digits for each value as the highest level has. */
export const pack = (levels: number, values: ArrayLike<number>): string =>
  Array.from(values, (value) => value.toString(16).padStart(digitsOf(levels), '0')).join('');

/** The values; null where the text is none of theirs, or has more than `most`. */
export function unpack(levels: number, text: unknown, most: number): number[] | null {
  const digits = digitsOf(levels);
  if (typeof text !== 'string' || !/^[0-9a-f]*$/.test(text)) return null;
  if (text.length % digits !== 0 || text.length > most * digits) return null;
  return Array.from({ length: text.length / digits }, (_, i) =>
    Number.parseInt(text.slice(i * digits, (i + 1) * digits), 16),
  );
}

const isCount = (value: unknown, least: number, most: number): boolean =>
  Number.isInteger(value) && (value as number) >= least && (value as number) <= most;

/** What is kept, if it is images. */
export function imagesOf(kept: KeptImages | null): KeptImages | null {
  const { shape, given, ink, images } = (kept ?? {}) as Partial<KeptImages>;
  if (typeof shape !== 'object' || shape === null || typeof ink !== 'boolean' || !Array.isArray(images)) return null;
  const { height, width, channels, levels, first_token_id: first } = shape;
  const fits =
    [height, width].every((side) => isCount(side, 1, 4096)) &&
    isCount(channels, 1, 4) &&
    isCount(levels, 2, 65_536) &&
    isCount(first, 0, Number.MAX_SAFE_INTEGER) &&
    isCount(given, 0, height) &&
    isCount(images.length, 1, 64) &&
    images.every((image) => unpack(levels, image, tokensOf(shape)) !== null);
  return fits ? kept : null;
}
