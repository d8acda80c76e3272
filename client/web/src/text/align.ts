// Which part of a text each token wrote.
//
// Text may lag behind its tokens: a server holds back half a character and what may become a stop string.
// Tokens that write a part of a character show as something else than the text has; they are joined with
// their neighbours to the piece that they wrote together.

import type { Token } from '../api/completions.ts';

export interface Piece {
  text: string;
  tokens: Token[];
}

export class Aligner {
  private text = '';
  private waiting: Token[] = [];

  /** The pieces that are certain now. */
  push(text: string, tokens: Token[]): Piece[] {
    this.text += text;
    this.waiting.push(...tokens);
    const pieces: Piece[] = [];
    while (this.waiting.length > 0 && this.text !== '') {
      const piece = this.next();
      if (!piece) break;
      pieces.push(piece);
    }
    return pieces;
  }

  /** What is left when nothing more comes: all of it as one piece. */
  finish(): Piece[] {
    const piece = { text: this.text, tokens: this.waiting };
    this.text = '';
    this.waiting = [];
    return piece.text === '' ? [] : [piece];
  }

  private next(): Piece | null {
    for (let count = 0; count < this.waiting.length; count += 1) {
      const known = this.waiting[count]!.text;
      if (known === '') continue;
      // The tokens before it wrote what stands before it, at most one character each.
      const at = this.text.indexOf(known);
      if (at < 0 || at > 2 * count) continue;
      return count === 0 ? this.take(1, known.length) : this.take(count, at);
    }
    return null;
  }

  private take(count: number, length: number): Piece {
    const piece = { text: this.text.slice(0, length), tokens: this.waiting.splice(0, count) };
    this.text = this.text.slice(length);
    return piece;
  }
}
