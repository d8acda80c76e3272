// Lines of a soft round pen on a grid of values from 0 to 1, and a few digits drawn with it.

export interface Grid {
  width: number;
  height: number;
  values: Float32Array;
}

export const newGrid = (width: number, height: number): Grid => ({
  width,
  height,
  values: new Float32Array(width * height),
});

/** Radius of the pen in pixels: what the strokes of handwritten digits have, a twentieth of the width. */
const radius = ({ width }: Grid): number => Math.max(0.6, width / 20);

/** A dab at (x, y) in pixels; pixel (i, j) has its centre at (i + 0.5, j + 0.5). */
export function dab(grid: Grid, x: number, y: number, erase = false): void {
  const r = radius(grid);
  const reach = r + 1;
  for (let j = Math.max(0, Math.floor(y - reach)); j < Math.min(grid.height, y + reach); j += 1) {
    for (let i = Math.max(0, Math.floor(x - reach)); i < Math.min(grid.width, x + reach); i += 1) {
      const distance = Math.hypot(i + 0.5 - x, j + 0.5 - y);
      const cover = Math.min(1, Math.max(0, r + 0.5 - distance));
      const at = j * grid.width + i;
      const value = grid.values[at]!;
      grid.values[at] = erase ? Math.min(value, 1 - cover) : Math.max(value, cover);
    }
  }
}

export function line(grid: Grid, x0: number, y0: number, x1: number, y1: number, erase = false): void {
  const steps = Math.max(1, Math.ceil(Math.hypot(x1 - x0, y1 - y0) * 2));
  for (let s = 0; s <= steps; s += 1) dab(grid, x0 + ((x1 - x0) * s) / steps, y0 + ((y1 - y0) * s) / steps, erase);
}

/** Points in thousandths of the grid. */
const DIGITS: Record<string, [number, number][]> = {
  '0': [
    [500, 180],
    [380, 250],
    [310, 400],
    [310, 600],
    [390, 770],
    [500, 820],
    [620, 760],
    [690, 600],
    [680, 400],
    [610, 240],
    [500, 180],
  ],
  '3': [
    [330, 250],
    [450, 190],
    [600, 200],
    [660, 290],
    [630, 400],
    [490, 480],
    [630, 550],
    [680, 660],
    [620, 780],
    [470, 820],
    [330, 770],
  ],
  '5': [
    [670, 200],
    [380, 200],
    [350, 460],
    [500, 430],
    [640, 500],
    [670, 640],
    [600, 770],
    [450, 820],
    [320, 770],
  ],
  '7': [
    [310, 220],
    [500, 210],
    [690, 210],
    [600, 420],
    [510, 620],
    [450, 820],
  ],
};

export const digits = Object.keys(DIGITS);

export function drawDigit(grid: Grid, digit: string): void {
  const points = DIGITS[digit] ?? [];
  const at = ([x, y]: [number, number]): [number, number] => [(x * grid.width) / 1000, (y * grid.height) / 1000];
  for (let i = 1; i < points.length; i += 1) line(grid, ...at(points[i - 1]!), ...at(points[i]!));
}

/** The levels of the first `rows` rows, every channel alike. */
export function levelsOf(grid: Grid, rows: number, levels: number, channels: number): number[] {
  return [...grid.values.slice(0, rows * grid.width)].flatMap((value) =>
    Array.from({ length: channels }, () => Math.round(value * (levels - 1))),
  );
}
