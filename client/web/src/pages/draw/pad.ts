// The pad on which one draws what the model is to complete: by mouse, finger or keys.

import { el } from '../../dom.ts';
import { visit } from '../../ui/store.ts';
import { pack, unpack } from './kept.ts';
import { dab, drawDigit, levelsOf, line, newGrid, type Grid } from './strokes.ts';

/** Greys of a drawing that is kept. */
const LEVELS = 256;

export class Pad {
  readonly node: HTMLElement;
  erasing = false;
  private readonly canvas: HTMLCanvasElement;
  private grid: Grid = newGrid(1, 1);
  private rows = 1;
  private last: [number, number] | null = null;
  private cursor: [number, number] | null = null;

  constructor(describedBy: string) {
    this.canvas = el('canvas', {
      tabindex: 0,
      role: 'application',
      'aria-label': 'Drawing pad',
      'aria-describedby': describedBy,
      onpointerdown: (event) => this.down(event),
      onpointermove: (event) => this.move(event),
      onpointerup: () => this.up(),
      onpointercancel: () => this.up(),
      onkeydown: (event) => this.key(event),
      onfocusout: () => {
        this.cursor = null;
        this.draw();
      },
    });
    this.node = el('div', { class: 'pad' }, this.canvas);
  }

  resize(width: number, height: number): void {
    if (this.grid.width === width && this.grid.height === height) return;
    this.grid = newGrid(width, height);
    const kept = unpack(LEVELS, visit.get(this.place), width * height);
    if (kept?.length === width * height) this.grid.values.set(kept.map((value) => value / (LEVELS - 1)));
    this.canvas.width = width;
    this.canvas.height = height;
    this.node.style.setProperty('--ratio', `${width} / ${height}`);
    this.give(Math.floor(height / 2));
  }

  /** How many rows are given to the model; only these can be drawn on. */
  give(rows: number): void {
    this.rows = rows;
    this.node.style.setProperty('--given', `${(rows / this.grid.height) * 100}%`);
    this.draw();
  }

  get empty(): boolean {
    return !this.grid.values.slice(0, this.rows * this.grid.width).some((value) => value > 0);
  }

  levels(levels: number, channels: number): number[] {
    return levelsOf(this.grid, this.rows, levels, channels);
  }

  clear(): void {
    this.grid.values.fill(0);
    this.draw();
    this.keep();
  }

  example(digit: string): void {
    this.grid.values.fill(0);
    drawDigit(this.grid, digit);
    this.draw();
    this.keep();
  }

  /** Where a drawing of this size is kept, for a reload. */
  private get place(): string {
    return `draw.pad.${this.grid.width}x${this.grid.height}`;
  }

  private keep(): void {
    visit.set(
      this.place,
      pack(
        LEVELS,
        this.grid.values.map((value) => Math.round(value * (LEVELS - 1))),
      ),
    );
  }

  private at(event: PointerEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * this.grid.width,
      ((event.clientY - box.top) / box.height) * this.grid.height,
    ];
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    this.cursor = null;
    this.last = this.at(event);
    dab(this.grid, ...this.last, this.erasing);
    this.draw();
  }

  private move(event: PointerEvent): void {
    if (!this.last) return;
    const to = this.at(event);
    line(this.grid, ...this.last, ...to, this.erasing);
    this.last = to;
    this.draw();
  }

  private up(): void {
    this.last = null;
    this.keep();
  }

  private key(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const step = steps[event.key];
    const from = this.cursor ?? [this.grid.width / 2, this.rows / 2];
    if (step) {
      const clamp = (value: number, most: number): number => Math.min(most - 0.5, Math.max(0.5, value));
      this.cursor = [clamp(from[0] + step[0], this.grid.width), clamp(from[1] + step[1], this.rows)];
      if (event.shiftKey) line(this.grid, ...from, ...this.cursor, this.erasing);
    } else if (event.key === ' ' || event.key === 'Enter') {
      this.cursor = from;
      dab(this.grid, ...from, this.erasing);
    } else if (event.key === 'Delete' || event.key === 'Backspace') {
      this.cursor = from;
      dab(this.grid, ...from, true);
    } else {
      return;
    }
    event.preventDefault();
    this.draw();
    this.keep();
  }

  private draw(): void {
    const context = this.canvas.getContext('2d');
    if (!context) return;
    const { width, height, values } = this.grid;
    context.clearRect(0, 0, width, height);
    for (let i = 0; i < width * this.rows; i += 1) {
      const grey = Math.round(255 * (1 - (values[i] ?? 0)));
      context.fillStyle = `rgb(${grey} ${grey} ${grey})`;
      context.fillRect(i % width, Math.floor(i / width), 1, 1);
    }
    if (!this.cursor) return;
    context.fillStyle = 'rgb(15 140 110 / 0.75)';
    context.fillRect(Math.floor(this.cursor[0]), Math.floor(this.cursor[1]), 1, 1);
  }
}
