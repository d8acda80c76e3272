// What is known of a story's text: which part came from whom, how likely each token was, and where the last turn
// begins. The server has the text alone.

import type { Piece } from '../../text/align.ts';

/** `unknown`: a session's text that this browser did not see come. */
export type By = 'given' | 'written' | 'unknown';

export interface Part {
  by: By;
  pieces: Piece[];
}

export const textOf = ({ pieces }: Part): string => pieces.map(({ text }) => text).join('');

export class Manuscript {
  /** `turn`: the part that the last turn begins with; without it there is none that could be taken back. */
  constructor(
    readonly parts: Part[] = [],
    public turn = parts.length,
  ) {}

  get text(): string {
    return this.parts.map(textOf).join('');
  }

  /** What the person gave the last turn. */
  get prompt(): string {
    return this.givenAt(this.turn);
  }

  /** All of the last turn: what the person gave, and what the model has written. */
  get lastTurn(): string {
    return this.parts.slice(this.turn).map(textOf).join('');
  }

  /** What the model has written in the last turn. */
  get written(): string {
    return this.parts
      .slice(this.turn)
      .filter(({ by }) => by === 'written')
      .map(textOf)
      .join('');
  }

  /** What the person began the story with. */
  get opening(): string {
    return this.givenAt(0);
  }

  /** From here on there is nothing to take back. */
  settle(): void {
    this.turn = this.parts.length;
  }

  add(by: By, pieces: Piece[]): void {
    const last = this.parts.at(-1);
    if (last?.by === by && this.parts.length > this.turn) last.pieces.push(...pieces);
    else this.parts.push({ by, pieces: [...pieces] });
  }

  takeBack(): void {
    this.parts.length = this.turn;
  }

  clear(): void {
    this.parts.length = 0;
    this.turn = 0;
  }

  private givenAt(part: number): string {
    const found = this.parts[part];
    return found?.by === 'given' ? textOf(found) : '';
  }
}
