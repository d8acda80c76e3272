// The text as blocks, one for each of its lines: what is added makes the browser lay out the last one
// alone, however long the text has become. The text content of all blocks together is the text.

import { el } from '../../dom.ts';
import type { Piece } from '../../text/align.ts';
import { Blocks } from '../../ui/blocks.ts';
import { Manuscript, type By } from './manuscript.ts';
import type { TokenText } from './tokens.ts';

export class Paper {
  readonly node: HTMLElement;
  private readonly blocks: Blocks;
  private block: HTMLElement | null = null;
  private span: HTMLElement | null = null;
  /** `note`: of the page, and not of the text. */
  private kind: By | 'note' = 'given';
  private known = new Manuscript();
  /** What `undo` takes away. */
  private turn: HTMLElement[] = [];

  constructor(
    id: string,
    private readonly tokens: () => TokenText,
  ) {
    this.node = el('div', { class: 'text', id });
    this.blocks = new Blocks(this.node);
  }

  /** What is known of the text that is shown. */
  get manuscript(): Manuscript {
    return this.known;
  }

  get canUndo(): boolean {
    return this.turn.length > 0;
  }

  clear(): void {
    this.known.clear();
    this.wipe();
  }

  /** Shows this one in the place of what there is, after the note. */
  show(manuscript: Manuscript, note = ''): void {
    this.wipe();
    if (note !== '') this.lay('note', [{ text: note, tokens: [] }]);
    this.endTurn();
    this.known = manuscript;
    manuscript.parts.forEach(({ by, pieces }, i) => {
      if (i === manuscript.turn) this.endTurn();
      this.lay(by, pieces);
    });
    if (manuscript.turn === manuscript.parts.length) this.endTurn();
  }

  /** From here on there is nothing to undo. */
  settle(): void {
    this.known.settle();
    this.endTurn();
  }

  /** A turn begins with what the person gives. */
  begin(given: string): void {
    this.settle();
    this.add('given', given);
  }

  add(by: By, text: string): void {
    if (text === '') return;
    const pieces = [{ text, tokens: [] }];
    this.known.add(by, pieces);
    this.lay(by, pieces);
  }

  write(pieces: Piece[]): void {
    if (pieces.length === 0) return;
    this.known.add('written', pieces);
    this.lay('written', pieces);
  }

  /** Takes the turn away again. */
  undo(): void {
    this.known.takeBack();
    for (const span of this.turn) {
      const block = span.parentElement;
      span.remove();
      if (block && !block.hasChildNodes()) this.blocks.remove(block);
    }
    this.endTurn();
    const { last } = this.blocks;
    this.block = last instanceof HTMLElement && !last.textContent?.endsWith('\n') ? last : null;
  }

  private wipe(): void {
    this.node.replaceChildren();
    this.block = null;
    this.endTurn();
  }

  private endTurn(): void {
    this.turn = [];
    this.span = null;
  }

  private lay(kind: By | 'note', pieces: Piece[]): void {
    if (kind !== this.kind) this.span = null;
    this.kind = kind;
    for (const piece of pieces.flatMap(linesOf)) this.put((span) => this.tokens().append(span, piece), piece.text);
  }

  private put(append: (span: HTMLElement) => void, text: string): void {
    if (!this.block) {
      this.block = el('div', { class: 'para' });
      this.blocks.add(this.block);
      this.span = null;
    }
    if (!this.span) {
      this.span = el('span', { class: this.kind });
      this.block.append(this.span);
      this.turn.push(this.span);
    }
    append(this.span);
    if (text.endsWith('\n')) this.block = null;
  }
}

/** A piece that may be long, as no token of it is known, line by line. */
const linesOf = (piece: Piece): Piece[] =>
  piece.tokens.length > 0 ? [piece] : piece.text.split(/(?<=\n)/).map((text) => ({ text, tokens: [] }));
