// Text that comes at the end of another, shown once a frame, as blocks, one for each of its lines: what is added makes
// the browser lay out the last one alone, however long the text has become. The text content of all is the text.

import { el } from '../dom.ts';
import { Blocks } from './blocks.ts';
import { Frames } from './frames.ts';

export class Lines {
  /** Its first line goes on with the one that stands before it. */
  readonly node: HTMLElement;
  private line = el('span');
  private readonly others: Blocks;
  private came = '';
  private readonly frames = new Frames(() => this.draw());

  constructor(
    className = '',
    private readonly onDraw = (): void => undefined,
  ) {
    const others = el('div');
    this.others = new Blocks(others);
    this.node = el('div', { class: `growing ${className}` }, this.line, others);
  }

  add(text: string): void {
    this.came += text;
    this.frames.ask();
  }

  /** Shows what came since the last frame. */
  draw(): void {
    for (const part of this.came.split(/(?<=\n)/)) {
      this.line.append(part);
      if (!part.endsWith('\n')) continue;
      this.line = el('span');
      this.others.add(el('div', {}, this.line));
    }
    this.came = '';
    this.onDraw();
  }
}
