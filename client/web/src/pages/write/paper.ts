// The text as blocks, one for each of its lines: what is added makes the browser lay out the last one
// alone, however long the text has become. The text content of all blocks together is the text.

import { el } from '../../dom.ts';
import type { Piece } from '../../text/align.ts';
import type { TokenText } from './tokens.ts';

type Kind = 'given' | 'written' | 'lost';

export class Paper {
  readonly node: HTMLElement;
  private block: HTMLElement | null = null;
  private span: HTMLElement | null = null;
  private kind: Kind = 'given';
  /** What `undo` takes away. */
  private turn: HTMLElement[] = [];

  constructor(
    id: string,
    private readonly tokens: () => TokenText,
  ) {
    this.node = el('div', { class: 'text', id });
  }

  get text(): string {
    return this.node.textContent ?? '';
  }

  /** What the model has written since `begin`. */
  get written(): string {
    return this.turn
      .filter((span) => span.classList.contains('written'))
      .map((span) => span.textContent)
      .join('');
  }

  get canUndo(): boolean {
    return this.turn.length > 0;
  }

  clear(): void {
    this.node.replaceChildren();
    this.block = null;
    this.settle();
  }

  /** From here on there is nothing to undo. */
  settle(): void {
    this.turn = [];
    this.span = null;
  }

  /** A turn begins with what the person gives. */
  begin(given: string): void {
    this.removeLost();
    this.settle();
    this.add('given', given);
  }

  add(kind: Kind, text: string): void {
    this.switchTo(kind);
    for (const line of text.split(/(?<=\n)/)) {
      if (line !== '') this.put((span) => span.append(line), line);
    }
  }

  write(pieces: Piece[]): void {
    if (pieces.length === 0) return;
    this.switchTo('written');
    for (const piece of pieces) this.put((span) => this.tokens().append(span, piece), piece.text);
  }

  /** Takes the turn away again. */
  undo(): void {
    for (const span of this.turn) {
      const block = span.parentElement;
      span.remove();
      if (block && !block.hasChildNodes()) block.remove();
    }
    this.settle();
    const last = this.node.lastElementChild;
    this.block = last instanceof HTMLElement && !last.textContent?.endsWith('\n') ? last : null;
  }

  private removeLost(): void {
    const lost = [...this.node.querySelectorAll<HTMLElement>('.lost')];
    if (lost.length === 0) return;
    this.turn = lost;
    this.undo();
  }

  private switchTo(kind: Kind): void {
    if (kind !== this.kind) this.span = null;
    this.kind = kind;
  }

  private put(append: (span: HTMLElement) => void, text: string): void {
    if (!this.block) {
      this.block = el('div', { class: 'para' });
      this.node.append(this.block);
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
