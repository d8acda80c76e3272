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

/** Radius of the pen in pixels, a 24th of the width, as of handwritten digits; below 0.75 lines between pixels are grey. */
const radius = ({ width }: Grid): number => Math.max(0.75, width / 24);

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

/** Points in thousandths of the grid; with the pen's width they fill 20 of MNIST's 28 rows, as its digits do. */
const DIGITS: Record<string, [number, number][]> = {
  '0': [
    [500, 180],
    [390, 250],
    [325, 385],
    [325, 575],
    [400, 730],
    [500, 780],
    [610, 720],
    [675, 575],
    [665, 385],
    [600, 240],
    [500, 180],
  ],
  '3': [
    [340, 250],
    [455, 190],
    [595, 200],
    [650, 285],
    [620, 385],
    [490, 460],
    [620, 525],
    [665, 630],
    [610, 740],
    [470, 780],
    [340, 730],
  ],
  '5': [
    [660, 200],
    [390, 200],
    [360, 445],
    [500, 415],
    [630, 480],
    [660, 610],
    [595, 730],
    [455, 780],
    [335, 730],
  ],
  '7': [
    [325, 220],
    [500, 210],
    [675, 210],
    [595, 405],
    [510, 590],
    [455, 780],
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
