// Small line plots as SVG: series over time, each labelled with its newest value.

import { el, svg } from '../dom.ts';

export interface Point {
  x: number;
  y: number;
}

/** SVG path through `points`; x from `x0` to `x1` over `width`, y from 0 to `top` over `height`. */
export function path(points: Point[], x0: number, x1: number, top: number, width: number, height: number): string {
  const span = x1 - x0 || 1;
  return points
    .map(({ x, y }, i) => {
      const px = ((x - x0) / span) * width;
      const py = height - (Math.min(y, top) / (top || 1)) * height;
      return `${i === 0 ? 'M' : 'L'}${px.toFixed(1)} ${py.toFixed(1)}`;
    })
    .join('');
}

/** The next of 1, 2, 5, 10, ... that is not below `value`. */
export function niceTop(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 2, 5]) if (value <= factor * power) return factor * power;
  return 10 * power;
}

export interface SeriesSpec {
  name: string;
  className: string;
}

const WIDTH = 320;
const HEIGHT = 96;

/** What several series were at a time. */
export interface Row {
  x: number;
  values: number[];
}

/** Series on one scale; the caption says their newest values. */
export class TimePlot {
  readonly node: HTMLElement;
  private readonly lines: SVGPathElement[];
  private readonly values: HTMLElement[];
  private readonly topLabel = el('span', { class: 'plot-top', 'aria-hidden': 'true' });

  constructor(
    title: string,
    series: SeriesSpec[],
    private readonly format: (value: number) => string,
    private readonly integers = false,
  ) {
    this.lines = series.map(({ className }) => svg('path', { class: `line ${className}`, fill: 'none' }));
    this.values = series.map(() => el('b', {}, '–'));
    const grid = [0, 0.5, 1].map((at) =>
      svg('line', { class: 'grid', x1: 0, x2: WIDTH, y1: at * HEIGHT, y2: at * HEIGHT }),
    );
    const box = svg(
      'svg',
      { viewBox: `0 -2 ${WIDTH} ${HEIGHT + 4}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      ...grid,
      ...this.lines,
    );
    const legend = series.map(({ name, className }, i) =>
      el('li', { class: className }, el('span', {}, series.length > 1 ? name : 'now'), ' ', this.values[i]),
    );
    this.node = el(
      'figure',
      { class: 'plot' },
      el('figcaption', {}, el('h3', {}, title), el('ul', {}, ...legend)),
      el('div', { class: 'plot-box' }, this.topLabel, box),
    );
  }

  /** Draws rows, oldest first, of the time between `from` and `to`. */
  show(rows: Row[], from: number, to: number): void {
    const highest = Math.max(0, ...rows.flatMap(({ values }) => values));
    const top = niceTop(this.integers ? Math.max(highest, 1) : highest);
    this.topLabel.textContent = this.format(top);
    const newest = rows.at(-1);
    this.lines.forEach((line, i) => {
      const points = rows.map(({ x, values }) => ({ x, y: values[i]! }));
      line.setAttribute('d', path(points, from, to, top, WIDTH, HEIGHT));
      this.values[i]!.textContent = newest ? this.format(newest.values[i]!) : '–';
    });
  }
}
