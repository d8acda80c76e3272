// Small line plots as SVG: series over time, each labelled with its newest value.

import { el, fill, svg } from '../dom.ts';

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

/** Values of the last `seconds`, drawn on one scale; the caption says the newest ones. */
export class TimePlot {
  readonly node: HTMLElement;
  private readonly points: Point[][];
  private readonly lines: SVGPathElement[];
  /** Means of the time before the first point. */
  private earlier: { from: number; to: number; values: number[] } | null = null;
  private readonly earlierLines: SVGPathElement[];
  private readonly values: HTMLElement[];
  private readonly topLabel = el('span', { class: 'plot-top', 'aria-hidden': 'true' });

  constructor(
    title: string,
    private readonly series: SeriesSpec[],
    private readonly seconds: number,
    private readonly format: (value: number) => string,
    private readonly integers = false,
  ) {
    this.points = series.map(() => []);
    this.lines = series.map(({ className }) => svg('path', { class: `line ${className}`, fill: 'none' }));
    this.earlierLines = series.map(({ className }) => svg('path', { class: `line mean ${className}`, fill: 'none' }));
    this.values = series.map(() => el('b', {}, '–'));
    const grid = [0, 0.5, 1].map((at) =>
      svg('line', { class: 'grid', x1: 0, x2: WIDTH, y1: at * HEIGHT, y2: at * HEIGHT }),
    );
    const box = svg(
      'svg',
      { viewBox: `0 -2 ${WIDTH} ${HEIGHT + 4}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      ...grid,
      ...this.earlierLines,
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

  add(x: number, values: number[]): void {
    values.forEach((y, i) => {
      const points = this.points[i]!;
      points.push({ x, y });
      while (points.length > 0 && points[0]!.x < x - this.seconds) points.shift();
      this.values[i]!.textContent = this.format(y);
    });
    this.draw(x);
  }

  /** Begins anew with what is known of the time before `to`: the values' means since `from`. */
  begin(from: number, to: number, values: number[]): void {
    this.clear();
    this.earlier = { from, to, values };
    this.draw(to);
  }

  clear(): void {
    this.earlier = null;
    this.points.forEach((points) => points.splice(0));
    [...this.lines, ...this.earlierLines].forEach((line) => line.removeAttribute('d'));
    this.values.forEach((value) => fill(value, '–'));
  }

  private draw(now: number): void {
    if (this.earlier && this.earlier.to < now - this.seconds) this.earlier = null;
    const { earlier } = this;
    const highest = Math.max(...this.points.flat().map(({ y }) => y), ...(earlier?.values ?? []));
    const top = niceTop(this.integers ? Math.max(highest, 1) : highest);
    this.topLabel.textContent = this.format(top);
    // Until the time is full, what there is takes the room, but a minute at least.
    const first = earlier?.from ?? this.points[0]?.[0]?.x ?? now;
    const begin = Math.max(now - this.seconds, Math.min(first, now - 60));
    this.series.forEach((_, i) => {
      this.lines[i]!.setAttribute('d', path(this.points[i]!, begin, now, top, WIDTH, HEIGHT));
      const y = earlier?.values[i] ?? 0;
      const mean = earlier ? [Math.max(begin, earlier.from), earlier.to].map((x) => ({ x, y })) : [];
      this.earlierLines[i]!.setAttribute('d', path(mean, begin, now, top, WIDTH, HEIGHT));
    });
  }
}
