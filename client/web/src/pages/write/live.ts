// The live line: speed, context, and the bytes of state, which stay the same while the context grows.

import type { Session } from '../../api/types.ts';
import { el, svg } from '../../dom.ts';
import { bytes, count, plain, short, significant } from '../../text/format.ts';
import { niceTop, path, type Point } from '../../ui/plot.ts';

const WIDTH = 300;
const HEIGHT = 72;
/** Samples kept; when there are more, every second one goes. */
const MOST_POINTS = 600;

export interface Scale {
  top: number;
  /** At its top, its middle and its zero. */
  marks: string[];
}

const scaleTo = (top: number, format: (value: number) => string): Scale => ({
  top,
  marks: [top, top / 2, 0].map((value) => plain(format(value))),
});

/** From zero; that of bytes so that their line is at six tenths of the height at most, and both are seen. */
export const scales = (tokens: number, stateBytes: number): { tokens: Scale; bytes: Scale } => ({
  tokens: scaleTo(niceTop(Math.max(tokens, 10)), short),
  bytes: scaleTo(niceTop(Math.max(stateBytes / 0.6, 10)), bytes),
});

const marksOf = (className: string): { node: HTMLElement; marks: HTMLElement[] } => {
  const marks = [0, 1, 2].map(() => el('li', {}, '–'));
  return { node: el('ul', { class: `scale ${className}`, 'aria-hidden': 'true' }, ...marks), marks };
};

export class LiveLine {
  readonly node: HTMLElement;
  private readonly figures = new Map<string, HTMLElement>();
  private readonly contextLine = svg('path', { class: 'line climbing', fill: 'none' });
  private readonly bytesLine = svg('path', { class: 'line flat', fill: 'none' });
  private readonly tokenMarks = marksOf('climbing');
  private readonly byteMarks = marksOf('flat');
  private context: Point[] = [];
  private bytes: Point[] = [];
  private clock = 0;
  private last = 0;

  constructor() {
    const figure = (key: string, label: string, className = '', title?: string): HTMLElement => {
      const value = el('dd', {}, '–');
      this.figures.set(key, value);
      return el('div', { class: className, title }, el('dt', {}, label), value);
    };
    this.node = el(
      'section',
      { class: 'live', 'aria-label': 'Live figures' },
      el(
        'dl',
        {},
        figure(
          'speed',
          'tokens/s',
          '',
          'From the first tokens to the last; of an answer that came within half a second, over the whole request',
        ),
        figure('each', 'ms a token'),
        figure('context', 'context, tokens', 'climbing'),
        figure('bytes', 'state', 'flat'),
      ),
      el(
        'figure',
        { class: 'duo' },
        el(
          'figcaption',
          { 'aria-hidden': 'true' },
          el('span', { class: 'climbing' }, 'tokens of context'),
          el('span', { class: 'flat' }, 'bytes of state'),
        ),
        this.tokenMarks.node,
        svg(
          'svg',
          {
            viewBox: `-3 -3 ${WIDTH + 6} ${HEIGHT + 6}`,
            preserveAspectRatio: 'none',
            role: 'img',
            'aria-label': 'The context climbs with every token; the bytes of state stay the same.',
          },
          ...[0, HEIGHT / 2, HEIGHT].map((y) => svg('line', { class: 'grid', x1: 0, x2: WIDTH, y1: y, y2: y })),
          this.contextLine,
          this.bytesLine,
        ),
        this.byteMarks.node,
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

  /** What the session holds, as the server told it last; nothing of what was on its way. */
  tell(session: Session | null): void {
    if (session) this.state(session.position, session.bytes);
    else this.reset();
  }

  private set(key: string, text: string): void {
    this.figures.get(key)!.textContent = text;
  }

  /** Each series on its own scale: tokens on the left one, bytes on the right one. */
  private draw(): void {
    const most = (points: Point[]): number => Math.max(0, ...points.map(({ y }) => y));
    const begin = this.context[0]?.x ?? 0;
    const end = Math.max(this.clock, begin + 1);
    const { tokens, bytes: ofState } = scales(most(this.context), most(this.bytes));
    this.contextLine.setAttribute('d', path(this.context, begin, end, tokens.top, WIDTH, HEIGHT));
    this.bytesLine.setAttribute('d', path(this.bytes, begin, end, ofState.top, WIDTH, HEIGHT));
    const say = (marks: HTMLElement[], points: Point[], scale: Scale): void =>
      marks.forEach((mark, i) => (mark.textContent = points.length > 0 ? scale.marks[i]! : '–'));
    say(this.tokenMarks.marks, this.context, tokens);
    say(this.byteMarks.marks, this.bytes, ofState);
  }
}
