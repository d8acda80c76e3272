// The live line: speed, context, and the bytes of state, which stay the same while the context grows.

import { el, svg } from '../../dom.ts';
import { bytes, count, significant } from '../../text/format.ts';
import { path, type Point } from '../../ui/plot.ts';

const WIDTH = 300;
const HEIGHT = 72;
/** Samples kept; when there are more, every second one goes. */
const MOST_POINTS = 600;

export class LiveLine {
  readonly node: HTMLElement;
  private readonly figures = new Map<string, HTMLElement>();
  private readonly contextLine = svg('path', { class: 'line climbing', fill: 'none' });
  private readonly bytesLine = svg('path', { class: 'line flat', fill: 'none' });
  private context: Point[] = [];
  private bytes: Point[] = [];
  private clock = 0;
  private last = 0;

  constructor() {
    const figure = (key: string, label: string, className = ''): HTMLElement => {
      const value = el('dd', {}, '–');
      this.figures.set(key, value);
      return el('div', { class: className }, el('dt', {}, label), value);
    };
    this.node = el(
      'section',
      { class: 'live', 'aria-label': 'Live figures' },
      el(
        'dl',
        {},
        figure('speed', 'tokens/s'),
        figure('each', 'ms a token'),
        figure('context', 'context, tokens', 'climbing'),
        figure('bytes', 'state', 'flat'),
      ),
      el(
        'figure',
        { class: 'duo' },
        svg(
          'svg',
          {
            viewBox: `-3 -3 ${WIDTH + 6} ${HEIGHT + 6}`,
            preserveAspectRatio: 'none',
            role: 'img',
            'aria-label': 'The context climbs with every token; the bytes of state stay the same.',
          },
          svg('line', { class: 'grid', x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
          this.contextLine,
          this.bytesLine,
        ),
        el(
          'figcaption',
          { 'aria-hidden': 'true' },
          el('span', { class: 'climbing' }, 'context'),
          el('span', { class: 'flat' }, 'bytes of state'),
        ),
      ),
    );
  }

  reset(): void {
    this.context = [];
    this.bytes = [];
    this.clock = 0;
    for (const figure of this.figures.values()) figure.textContent = '–';
    this.draw();
  }

  /** A run begins: the plot's clock goes on from where it stood, pauses take no room. */
  begin(): void {
    this.last = performance.now();
  }

  speed(perSecond: number | null): void {
    this.set('speed', perSecond === null ? '–' : significant(perSecond));
    this.set('each', perSecond ? significant(1000 / perSecond) : '–');
  }

  /** The context's tokens, and the state's bytes as the server told them last. */
  state(tokens: number, stateBytes: number | null): void {
    const now = performance.now();
    this.clock += Math.min(now - this.last, 1000);
    this.last = now;
    this.set('context', count(tokens));
    this.context.push({ x: this.clock, y: tokens });
    if (stateBytes !== null) {
      this.set('bytes', bytes(stateBytes));
      this.figures.get('bytes')!.title = `${count(stateBytes)} bytes`;
      this.bytes.push({ x: this.clock, y: stateBytes });
    }
    if (this.context.length > MOST_POINTS) {
      this.context = this.context.filter((_, i) => i % 2 === 0);
      this.bytes = this.bytes.filter((_, i) => i % 2 === 0);
    }
    this.draw();
  }

  private set(key: string, text: string): void {
    this.figures.get(key)!.textContent = text;
  }

  /** Each series on its own scale, from zero; bytes at six tenths of the height, so that both are seen. */
  private draw(): void {
    const most = (points: Point[]): number => Math.max(1, ...points.map(({ y }) => y));
    const begin = this.context[0]?.x ?? 0;
    const end = Math.max(this.clock, begin + 1);
    this.contextLine.setAttribute('d', path(this.context, begin, end, most(this.context), WIDTH, HEIGHT));
    this.bytesLine.setAttribute('d', path(this.bytes, begin, end, most(this.bytes) / 0.6, WIDTH, HEIGHT));
  }
}
