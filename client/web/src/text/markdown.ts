// Markdown as models write it, read into blocks. Text that is added at the end changes the last block alone, or adds
// others after it, so that a view of a growing text reads it from there. A text takes time in proportion to its length.

import { parseInline, type Inline } from './inline.ts';

export type Align = 'left' | 'center' | 'right' | null;

export type Block = { /** Where it begins in the text, of a block that is in no other. */ start: number } & (
  | { kind: 'paragraph'; of: Inline[] }
  | { kind: 'heading'; level: number; of: Inline[] }
  | { kind: 'code'; language: string; text: string }
  | { kind: 'list'; first: number | null; loose: boolean; items: Block[][] }
  | { kind: 'quote'; of: Block[] }
  | { kind: 'table'; align: Align[]; head: Inline[][]; rows: Inline[][][] }
  | { kind: 'rule' }
);

interface Line {
  text: string;
  start: number;
}

/** Lists and quotes within each other; what is deeper is a paragraph. */
const DEEPEST = 8;
const MARKER = /^( *)([-*+]|\d{1,9}[.)])(?: +(?=\S)|[ ]*$)/;

/** `partial`: more is to come. */
export function parseMarkdown(text: string, partial = false): Block[] {
  const lines: Line[] = [];
  let start = 0;
  for (const line of text.split('\n')) {
    lines.push({ text: line.replace(/\r$/, '').replace(/\t/g, '    '), start });
    start += line.length + 1;
  }
  return new Reader(lines, 0, partial).blocks();
}

const isBlank = ({ text }: Line): boolean => text.trim() === '';
const indentOf = (text: string): number => text.length - text.trimStart().length;

function fenceOf(text: string): { char: string; length: number; language: string } | null {
  const bare = text.trimStart();
  const char = bare[0];
  if (char !== '`' && char !== '~') return null;
  let length = 0;
  while (bare[length] === char) length += 1;
  const rest = bare.slice(length).trim();
  return length < 3 || (char === '`' && rest.includes('`')) ? null : { char, length, language: rest.split(/\s/)[0]! };
}

function isRule(text: string): boolean {
  const bare = text.replace(/ /g, '');
  return bare.length >= 3 && '-*_'.includes(bare[0]!) && bare === bare[0]!.repeat(bare.length);
}

interface Marker {
  indent: number;
  /** Columns before the item's text. */
  width: number;
  /** The sign, or what stands after the number. */
  kind: string;
  number: number | null;
  empty: boolean;
}

function markerOf(text: string): Marker | null {
  if (isRule(text)) return null;
  const found = MARKER.exec(text);
  if (!found) return null;
  const [all, indent, sign] = found as unknown as [string, string, string];
  const number = /\d/.test(sign) ? Number.parseInt(sign, 10) : null;
  const empty = all.length === text.length;
  const width = empty ? indent.length + sign.length + 1 : all.length;
  return { indent: indent.length, width, kind: sign.at(-1)!, number, empty };
}

class Reader {
  private at = 0;

  constructor(
    private readonly lines: Line[],
    private readonly depth: number,
    private readonly partial: boolean,
  ) {}

  blocks(): Block[] {
    const all: Block[] = [];
    while (this.at < this.lines.length) {
      if (isBlank(this.line)) this.at += 1;
      else all.push(this.block());
    }
    return all;
  }

  private get line(): Line {
    return this.lines[this.at]!;
  }

  private block(): Block {
    const { text, start } = this.line;
    const fence = fenceOf(text);
    if (fence) return this.code(fence, start);
    const heading = /^ {0,3}(#{1,6})(?: |$)/.exec(text);
    if (heading) return this.heading(heading[1]!.length, start);
    if (isRule(text)) {
      this.at += 1;
      return { kind: 'rule', start };
    }
    if (this.depth < DEEPEST) {
      if (/^ {0,3}>/.test(text)) return this.quote(start);
      const marker = markerOf(text);
      if (marker) return this.list(marker, start);
    }
    return this.isTable(this.at) ? this.table(start) : this.paragraph(start);
  }

  private code({ char, length, language }: { char: string; length: number; language: string }, start: number): Block {
    const indent = indentOf(this.line.text);
    const inside: string[] = [];
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const { text } = this.line;
      const bare = text.trim();
      if (bare.length >= length && bare === char.repeat(bare.length)) {
        this.at += 1;
        break;
      }
      inside.push(text.slice(Math.min(indent, indentOf(text))));
    }
    return { kind: 'code', language, text: inside.join('\n'), start };
  }

  private heading(level: number, start: number): Block {
    const bare = this.line.text.trim().slice(level);
    let end = bare.length;
    while (bare[end - 1] === '#') end -= 1;
    const text = end === 0 || bare[end - 1] === ' ' ? bare.slice(0, end) : bare;
    this.at += 1;
    return { kind: 'heading', level, of: this.inline(text.trim()), start };
  }

  private quote(start: number): Block {
    const inside: Line[] = [];
    for (; this.at < this.lines.length; this.at += 1) {
      const found = /^ {0,3}> ?/.exec(this.line.text);
      if (!found) break;
      inside.push({ text: this.line.text.slice(found[0].length), start: 0 });
    }
    return { kind: 'quote', of: this.within(inside), start };
  }

  private list(first: Marker, start: number): Block {
    const items: Block[][] = [];
    let loose = false;
    for (let marker: Marker | null = first; marker; ) {
      const { lines, blankWithin } = this.item(marker);
      items.push(this.within(lines));
      const blankBefore = this.skipBlank();
      const next = this.at < this.lines.length ? markerOf(this.line.text) : null;
      const goesOn: boolean = next !== null && next.kind === first.kind && next.indent < marker.indent + 2;
      loose ||= blankWithin || (goesOn && blankBefore);
      marker = goesOn ? next : null;
    }
    return { kind: 'list', first: first.number, loose, items, start };
  }

  /** The lines of the item that begins here, without what sets them off. */
  private item({ indent, width, empty }: Marker): { lines: Line[]; blankWithin: boolean } {
    const lines: Line[] = [{ text: empty ? '' : this.line.text.slice(width), start: 0 }];
    let blankWithin = false;
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const begin = this.at;
      const blanks = this.skipBlank();
      if (this.at === this.lines.length) break;
      const { text } = this.line;
      const inner = indentOf(text);
      const belongs = inner >= indent + 2 || (!blanks && !this.beginsBlock(this.at, true));
      if (!belongs) {
        this.at = begin;
        break;
      }
      if (blanks) lines.push({ text: '', start: 0 });
      // A blank line before a list or code within the item sets nothing apart.
      blankWithin ||= blanks && markerOf(text) === null && fenceOf(text) === null;
      lines.push({ text: text.slice(Math.min(inner, width)), start: 0 });
    }
    return { lines, blankWithin };
  }

  private skipBlank(): boolean {
    const begin = this.at;
    while (this.at < this.lines.length && isBlank(this.line)) this.at += 1;
    return this.at > begin;
  }

  private paragraph(start: number): Block {
    const inside: string[] = [];
    do {
      inside.push(this.line.text.trim());
      this.at += 1;
    } while (this.at < this.lines.length && !isBlank(this.line) && !this.beginsBlock(this.at, false));
    return { kind: 'paragraph', of: this.inline(inside.join('\n')), start };
  }

  /** Whether the line ends the paragraph before it; in a list any marker does, else no number but 1, which a sentence may end with. */
  private beginsBlock(at: number, inList: boolean): boolean {
    const { text } = this.lines[at]!;
    if (fenceOf(text) || /^ {0,3}#{1,6} /.test(text) || isRule(text) || this.isTable(at)) return true;
    if (this.depth >= DEEPEST) return false;
    if (/^ {0,3}>/.test(text)) return true;
    const marker = markerOf(text);
    return marker !== null && (inList || (!marker.empty && (marker.number ?? 1) === 1));
  }

  private isTable(at: number): boolean {
    const head = this.lines[at]!.text;
    const under = this.lines[at + 1]?.text ?? '';
    if (!head.includes('|') || !under.includes('-') || !/^[ |:-]+$/.test(under)) return false;
    const cells = cellsOf(under);
    return cells.every((cell) => /^:?-+:?$/.test(cell)) && cellsOf(head).length === cells.length;
  }

  private table(start: number): Block {
    const head = cellsOf(this.line.text);
    const align = cellsOf(this.lines[this.at + 1]!.text).map(alignOf);
    const rows: Inline[][][] = [];
    for (this.at += 2; this.at < this.lines.length && this.line.text.includes('|'); this.at += 1) {
      const cells = cellsOf(this.line.text);
      rows.push(head.map((_, i) => this.inline(cells[i] ?? '')));
    }
    return { kind: 'table', align, head: head.map((cell) => this.inline(cell)), rows, start };
  }

  private within(lines: Line[]): Block[] {
    return new Reader(lines, this.depth + 1, this.isOpen).blocks();
  }

  private inline(text: string): Inline[] {
    return parseInline(text, this.isOpen);
  }

  /** What was read last may go on. */
  private get isOpen(): boolean {
    return this.partial && this.at >= this.lines.length;
  }
}

/** The texts between the bars of a row. */
function cellsOf(row: string): string[] {
  const cells: string[] = [];
  let cell = '';
  for (let i = 0; i < row.length; i += 1) {
    if (row[i] === '\\' && row[i + 1] === '|') {
      cell += '|';
      i += 1;
    } else if (row[i] === '|') {
      cells.push(cell.trim());
      cell = '';
    } else cell += row[i];
  }
  cells.push(cell.trim());
  const bare = row.trim();
  if (bare.startsWith('|')) cells.shift();
  if (cells.length > 1 && bare.endsWith('|') && !bare.endsWith('\\|')) cells.pop();
  return cells;
}

function alignOf(cell: string): Align {
  if (cell.startsWith(':') && cell.endsWith(':')) return 'center';
  if (cell.endsWith(':')) return 'right';
  return cell.startsWith(':') ? 'left' : null;
}
