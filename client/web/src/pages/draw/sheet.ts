// All images as one.

import type { ImageShape } from '../../api/types.ts';
import type { Tile } from './tile.ts';

/** Pixels between two images, which are transparent. */
const GAP = 1;

/** `across` in a row, pixel by pixel as large as they are. */
export function sheetOf(tiles: Tile[], { width, height }: ImageShape, across: number): HTMLCanvasElement {
  const sheet = document.createElement('canvas');
  sheet.width = across * (width + GAP) - GAP;
  sheet.height = Math.ceil(tiles.length / across) * (height + GAP) - GAP;
  const context = sheet.getContext('2d');
  tiles.forEach((tile, i) => {
    context?.drawImage(tile.canvas, (i % across) * (width + GAP), Math.floor(i / across) * (height + GAP));
  });
  return sheet;
}
