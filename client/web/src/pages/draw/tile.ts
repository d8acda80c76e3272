// One image of the sheet: a canvas that fills as its tokens come.

import type { ImageShape } from '../../api/types.ts';
import { el } from '../../dom.ts';
import { download } from '../../ui/download.ts';
import { colour, Levels, type Look } from './image.ts';
import { pack } from './kept.ts';

export class Tile {
  readonly node: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D;
  private readonly save: HTMLButtonElement;
  private readonly levels: Levels;

  constructor(
    shape: ImageShape,
    private readonly number: number,
    givenRows: number,
    private readonly look: Look,
  ) {
    this.levels = new Levels(shape);
    this.canvas = el('canvas', {
      width: shape.width,
      height: shape.height,
      role: 'img',
      'aria-label': `Image ${number}, not begun`,
    });
    const context = this.canvas.getContext('2d');
    if (!context) throw new Error('This browser gives the page no canvas to draw on.');
    this.context = context;
    this.save = el(
      'button',
      {
        type: 'button',
        class: 'save',
        hidden: true,
        'aria-label': `Save image ${number} as PNG`,
        onclick: () => this.download(),
      },
      'PNG',
    );
    this.node = el('li', { class: 'tile' }, this.canvas, this.save);
    if (givenRows > 0) {
      this.node.classList.add('completed');
      this.node.style.setProperty('--given', `${(givenRows / shape.height) * 100}%`);
    }
    this.node.style.setProperty('--ratio', `${shape.width} / ${shape.height}`);
  }

  get shape(): ImageShape {
    return this.levels.shape;
  }

  get known(): number {
    return this.levels.known;
  }

  /** What there is of the image, to be kept. */
  get packed(): string {
    return pack(this.levels.shape.levels, this.levels.values.slice(0, this.known));
  }

  push(ids: number[]): void {
    const [from, to] = this.levels.push(ids);
    for (let at = from; at < to; at += 1) this.dot(at);
    if (this.levels.whole && this.save.hidden) {
      this.save.hidden = false;
      this.canvas.setAttribute('aria-label', `Image ${this.number}`);
    }
  }

  private dot(at: number): void {
    const { width } = this.levels.shape;
    const [r, g, b] = colour(this.levels, at, this.look);
    this.context.fillStyle = `rgb(${r} ${g} ${b})`;
    this.context.fillRect(at % width, Math.floor(at / width), 1, 1);
  }

  private download(): void {
    this.canvas.toBlob((blob) => blob && download(blob, `image-${this.number}.png`));
  }
}
