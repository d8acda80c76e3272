// The tree as rows that one walks by the arrow keys, as the ARIA pattern of a tree says.

import type { Mark, Session } from '../../api/types.ts';
import { el, fill, svg } from '../../dom.ts';
import { bytes, count, plural } from '../../text/format.ts';
import { forkPosition, layout, type Row } from './layout.ts';
import { forkPositions, nameOf } from './names.ts';

const STEP = 20;
const ROW = 44;
const SPINE = 100;

export class TreeView {
  readonly node: HTMLElement;
  private rows: Row[] = [];
  private items: HTMLElement[] = [];
  private selected = '';

  /** `onSelect` is told whether the person is there to stay: not while walking past by the arrow keys. */
  constructor(private readonly onSelect: (session: Session, stays: boolean) => void) {
    this.node = el('ul', {
      class: 'tree',
      role: 'tree',
      'aria-label': 'Sessions',
      onkeydown: (event) => this.key(event),
    });
  }

  /** Draws the tree anew; focus and selection stay where they were. */
  draw(sessions: Session[], compared: string | null): void {
    const focused = this.items.findIndex((item) => item === document.activeElement);
    const focusedKey = focused >= 0 ? keyOf(this.rows[focused]!) : null;
    this.rows = layout(sessions);
    const most = Math.max(1, ...sessions.map(({ position }) => position));
    const remembered = forkPositions();
    this.items = this.rows.map((row, i) => {
      const from = row.mark ? null : forkPosition(row.session, sessions, remembered);
      return this.item(row, i, most, from, row.session.id === compared);
    });
    fill(this.node, ...this.items);
    this.mark();
    if (focusedKey !== null) this.items[this.rows.findIndex((row) => keyOf(row) === focusedKey)]?.focus();
  }

  select(session: string): void {
    this.selected = session;
    this.mark();
  }

  private mark(): void {
    const selected = this.rows.findIndex((row) => keyOf(row) === this.selected);
    this.items.forEach((item, i) => {
      item.setAttribute('aria-selected', String(i === selected));
      item.tabIndex = i === Math.max(0, selected) ? 0 : -1;
    });
  }

  private item(row: Row, index: number, most: number, from: number | null, compared: boolean): HTMLElement {
    const { session, mark, depth } = row;
    const what = mark ? markText(session, mark) : sessionText(session);
    return el(
      'li',
      {
        role: 'treeitem',
        class: `${mark ? 'is-mark' : ''} ${compared ? 'compared' : ''}`,
        'aria-level': depth + 1,
        'aria-expanded': row.children > 0 ? 'true' : undefined,
        'aria-label': `${what.name}, ${what.detail}${row.orphan ? ', forked from a session that was deleted' : ''}`,
        onclick: () => {
          this.items[index]!.focus();
          this.choose(index, true);
        },
      },
      el('span', { class: 'stem' }, rails(row), el('span', { class: 'name' }, what.name)),
      mark ? null : spine(session, most, from),
      el('span', { class: 'detail' }, what.detail),
    );
  }

  private choose(index: number, stays: boolean): void {
    const row = this.rows[index];
    if (!row) return;
    this.selected = keyOf(row);
    this.mark();
    this.onSelect(row.session, stays);
  }

  private key(event: KeyboardEvent): void {
    const at = this.items.findIndex((item) => item === document.activeElement);
    if (at < 0) return;
    const to = this.target(event.key, at);
    if (to === null) return;
    event.preventDefault();
    const item = this.items[to];
    if (!item) return;
    item.focus();
    item.scrollIntoView({ block: 'nearest' });
    this.choose(to, to === at);
  }

  private target(key: string, at: number): number | null {
    const row = this.rows[at]!;
    switch (key) {
      case 'ArrowDown':
        return Math.min(at + 1, this.rows.length - 1);
      case 'ArrowUp':
        return Math.max(at - 1, 0);
      case 'Home':
        return 0;
      case 'End':
        return this.rows.length - 1;
      case 'ArrowRight':
        return row.children > 0 ? at + 1 : null;
      case 'ArrowLeft': {
        for (let i = at - 1; i >= 0; i -= 1) if (this.rows[i]!.depth < row.depth) return i;
        return null;
      }
      case 'Enter':
      case ' ':
        return at;
      default:
        return null;
    }
  }
}

const keyOf = (row: Row): string => (row.mark ? `${row.session.id}#${row.mark.name}` : row.session.id);

const sessionText = (session: Session): { name: string; detail: string } => ({
  name: nameOf(session),
  detail: `${plural(session.position, 'token')}, ${bytes(session.bytes)}`,
});

const markText = (session: Session, mark: Mark): { name: string; detail: string } => ({
  name: mark.name,
  detail:
    mark.position === session.position
      ? `mark at ${count(mark.position)}, where it is now`
      : `mark at ${count(mark.position)}`,
});

/** The lines from the row's ancestors, and its own knot. */
function rails({ depth, rails: goesOn, mark, children }: Row): SVGElement {
  const width = (depth + 1) * STEP;
  const x = (level: number): number => level * STEP + STEP / 2;
  const middle = ROW / 2;
  const lines: string[] = goesOn.slice(0, -1).flatMap((on, level) => (on ? [`M${x(level)} 0V${ROW}`] : []));
  if (depth > 0) {
    const from = x(depth - 1);
    lines.push(`M${from} 0V${middle - 10}Q${from} ${middle} ${from + 10} ${middle}H${x(depth)}`);
    if (goesOn[depth - 1]) lines.push(`M${from} 0V${ROW}`);
  }
  if (children > 0) lines.push(`M${x(depth)} ${middle}V${ROW}`);
  const knot = mark
    ? svg('rect', {
        class: 'knot',
        x: x(depth) - 4,
        y: middle - 4,
        width: 8,
        height: 8,
        transform: `rotate(45 ${x(depth)} ${middle})`,
      })
    : svg('circle', { class: 'knot', cx: x(depth), cy: middle, r: 5 });
  return svg(
    'svg',
    { class: 'rails', width, height: ROW, viewBox: `0 0 ${width} ${ROW}`, 'aria-hidden': 'true' },
    svg('path', { d: lines.join(''), fill: 'none' }),
    knot,
  );
}

/** How long the context is, against the longest; what is the branch's own stands out, marks are ticks. */
function spine(session: Session, most: number, from: number | null): SVGElement {
  const x = (position: number): number => (position / most) * SPINE;
  return svg(
    'svg',
    { class: 'spine', viewBox: `0 0 ${SPINE} 12`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('line', { class: 'shared', x1: 0, x2: x(from ?? 0), y1: 6, y2: 6 }),
    svg('line', { class: 'own', x1: x(from ?? 0), x2: x(session.position), y1: 6, y2: 6 }),
    ...session.marks.map(({ position }) =>
      svg('line', { class: 'tick-mark', x1: x(position), x2: x(position), y1: 1, y2: 11 }),
    ),
  );
}
