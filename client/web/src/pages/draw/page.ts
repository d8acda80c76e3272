// Draw: images as they are made, many at once, from nothing or from a half that the person draws.

import type { App, Page } from '../../app.ts';
import type { Piece } from '../../api/completions.ts';
import type { ImageShape, Model } from '../../api/types.ts';
import { el, fill, newId } from '../../dom.ts';
import { count, plural, significant } from '../../text/format.ts';
import { download } from '../../ui/download.ts';
import { Frames } from '../../ui/frames.ts';
import { announce } from '../../ui/notice.ts';
import { visit } from '../../ui/store.ts';
import { Workbench } from '../../ui/workbench.ts';
import { Meter } from '../../ui/meter.ts';
import { constraint, plan, tokensOf } from './image.ts';
import { imagesOf, unpack, type KeptImages } from './kept.ts';
import { Pad } from './pad.ts';
import { sheetOf } from './sheet.ts';
import { digits } from './strokes.ts';
import { Tile } from './tile.ts';

const MOST_IMAGES = 64;

export const drawPage = (app: App): Page => new DrawPage(app);

class DrawPage implements Page {
  readonly title = 'Draw';
  readonly node: HTMLElement;
  private readonly bench: Workbench;
  private readonly sheet = el('ul', { class: 'tiles', 'aria-label': 'Images' });
  private readonly figures = el('p', { class: 'hint figures' });
  private readonly pad: Pad;
  private readonly rows: HTMLInputElement;
  private readonly images: HTMLInputElement;
  private readonly white: HTMLInputElement;
  private readonly chosen = visit.getAll('draw.choices', 'string');
  private readonly all = button('Download all', () => this.download());
  private tiles: Tile[] = [];
  private drawn = false;
  private pickedKey = '';

  constructor(app: App) {
    this.bench = new Workbench(app, {
      title: this.title,
      name: 'draw',
      lede: 'The model draws pixel by pixel, row by row, many images at once: from nothing, or the rest of one that you begin.',
      fits: (model) => !!model.image,
      picked: (model) => this.picked(model),
      missing: [
        'No model on this server draws. One that does reads pixels: its ',
        el('code', {}, 'config.json'),
        ' names the tokenizer ',
        el('code', {}, 'pixels'),
        ' with height, width, channels and levels.',
      ],
      example: 'digits',
    });
    const [hint, rowsId, imagesId] = [newId('pad'), newId('rows'), newId('images')];
    this.pad = new Pad(hint);
    this.rows = el('input', {
      type: 'range',
      id: rowsId,
      min: 1,
      step: 1,
      oninput: () => this.pad.give(Number(this.rows.value)),
      onchange: () => this.keepChoices(),
    });
    this.images = el('input', {
      type: 'number',
      id: imagesId,
      min: 1,
      max: MOST_IMAGES,
      step: 1,
      value: this.chosen['images'] ?? 9,
      onchange: () => {
        this.keepChoices();
        this.blank();
      },
    });
    this.white = el('input', {
      type: 'checkbox',
      checked: this.chosen['paper'] === 'black',
      onchange: () => this.keepChoices(),
    });
    this.all.disabled = true;
    const eraser = el('input', { type: 'checkbox', onchange: () => (this.pad.erasing = eraser.checked) });
    const examples = digits.map((digit) =>
      el(
        'button',
        {
          type: 'button',
          'aria-label': `Draw the digit ${digit} as an example`,
          onclick: () => this.pad.example(digit),
        },
        digit,
      ),
    );
    const body = el(
      'div',
      { class: 'columns' },
      el(
        'div',
        {},
        el(
          'div',
          { class: 'row ask' },
          this.bench.action('Draw', () => this.draw([])),
          el('span', { class: 'field' }, el('label', { for: imagesId }, 'images'), this.images),
          el('label', { class: 'tick' }, this.white, el('span', {}, 'White on black')),
          this.all,
        ),
        this.bench.notice.node,
        this.figures,
        this.sheet,
      ),
      el(
        'aside',
        { 'aria-label': 'Pad and controls' },
        el(
          'section',
          { class: 'half', 'aria-label': 'Your half' },
          el('h2', {}, 'Begin it yourself'),
          el(
            'p',
            { class: 'hint', id: hint },
            'Draw the upper part; the model goes on below the line. ',
            'Keys: arrows move, space draws, shift with arrows draws a line, delete erases.',
          ),
          this.pad.node,
          el(
            'div',
            { class: 'row' },
            el('span', { class: 'small' }, 'Examples'),
            ...examples,
            button('Clear', () => this.pad.clear()),
            el('label', { class: 'tick' }, eraser, el('span', {}, 'Eraser')),
          ),
          el('div', { class: 'rows' }, el('label', { for: rowsId }, 'Rows that you give'), this.rows),
          el(
            'div',
            { class: 'row' },
            this.bench.action('Complete it', () => this.completeHalf()),
          ),
        ),
        this.bench.sampling.node,
      ),
    );
    this.node = this.bench.page(body);
    this.showKept();
  }

  show(): void {
    void this.bench.show();
  }

  hide(): void {
    this.bench.hide();
  }

  private picked(model: Model): void {
    const key = `${model.id} ${model.fingerprint}`;
    if (key === this.pickedKey) return; // the page is shown again: what is drawn stays
    this.pickedKey = key;
    const { height, width, channels } = model.image!;
    this.pad.resize(width, height);
    this.rows.max = String(height - 1);
    const rows = Number(this.chosen['rows']);
    this.rows.value = String(rows >= 1 && rows < height ? rows : Math.floor(height / 2));
    this.pad.give(Number(this.rows.value));
    this.white.closest('label')!.hidden = channels !== 1;
    this.blank();
  }

  private keepChoices(): void {
    this.chosen['rows'] = this.rows.value;
    this.chosen['images'] = this.images.value;
    this.chosen['paper'] = this.white.checked ? 'black' : 'white';
    visit.setJson('draw.choices', this.chosen);
  }

  /** Sheets of paper, until something is drawn on them. */
  private blank(): void {
    const shape = this.bench.picker.model?.image;
    if (shape && !this.drawn) this.lay(shape, 0, this.wanted, !this.white.checked);
  }

  /** How many images. */
  private get wanted(): number {
    return Math.min(MOST_IMAGES, Math.max(1, Math.round(Number(this.images.value)) || 1));
  }

  private lay(shape: ImageShape, given: number, n: number, ink: boolean): Tile[] {
    const tiles = Array.from({ length: n }, (_, i) => new Tile(shape, i + 1, given, { ink }));
    fill(this.sheet, ...tiles.map(({ node }) => node));
    this.sheet.style.setProperty('--across', String(across(n)));
    this.tiles = tiles;
    return tiles;
  }

  private download(): void {
    const { shape } = this.tiles[0]!;
    sheetOf(this.tiles, shape, across(this.tiles.length)).toBlob((blob) => blob && download(blob, 'images.png'));
  }

  private showKept(): void {
    const kept = imagesOf(visit.getJson<KeptImages | null>('draw.images', null));
    if (!kept) return;
    const { shape, given, ink, images } = kept;
    const tiles = this.lay(shape, given, images.length, ink);
    images.forEach((image, i) => {
      const levels = unpack(shape.levels, image, tokensOf(shape)) ?? [];
      tiles[i]!.push(levels.map((level) => shape.first_token_id + level));
    });
    this.begun();
  }

  /** What lies there is images from now on. */
  private begun(): void {
    this.drawn = true;
    this.all.disabled = false;
  }

  private async completeHalf(): Promise<void> {
    const shape = this.bench.picker.model?.image;
    if (!shape) return;
    if (this.pad.empty) {
      this.bench.notice.say('Draw something on the pad first, or take one of the examples.');
      return;
    }
    await this.draw(this.pad.levels(shape.levels, shape.channels));
  }

  private async draw(given: number[]): Promise<void> {
    const { model } = this.bench.picker;
    const shape = model?.image;
    if (!model || !shape || this.bench.busy) return;
    const { prompt, given: ids, rest } = plan(model, shape, given);
    const rows = Math.floor(given.length / (shape.width * shape.channels));
    const ink = !this.white.checked;
    const n = this.wanted;
    const tiles = this.lay(shape, rows, n, ink);
    tiles.forEach((tile) => tile.push(ids));
    this.begun();
    announce(`Drawing ${plural(n, 'image')}.`);
    const meter = new Meter();
    const frames = new Frames(() => this.tell(tiles, shape, ids.length, meter));
    const request = { prompt, n, return_token_ids: true, ...constraint(model, shape, rest) };
    const show = (piece: Piece): void => {
      meter.add(piece.ids.length);
      tiles[piece.index]?.push(piece.ids);
      frames.ask();
    };
    /** Whether there is anything to keep. */
    const keep = (): boolean => {
      const came = tiles.some(({ known }) => known > ids.length);
      const images = tiles.map(({ packed }) => packed);
      if (came) visit.setJson('draw.images', { shape, given: rows, ink, images } satisfies KeptImages);
      return came;
    };
    const well = await this.bench.run((signal) => this.bench.complete(model, request, show, signal), keep);
    if (!keep()) this.showKept(); // nothing came: those before are there still
    announce(well ? `${plural(n, 'image')} drawn.` : 'Stopped.');
  }

  private tell(tiles: Tile[], shape: ImageShape, given: number, meter: Meter): void {
    const whole = shape.height * shape.width * shape.channels - given;
    const done = tiles.reduce((sum, tile) => sum + tile.known - given, 0);
    const rate = meter.recent() ?? meter.overall();
    const unit = shape.channels > 1 ? 'values' : 'pixels';
    const speed = rate === null ? '' : `, ${significant(rate)} ${unit}/s together`;
    this.figures.textContent = `${count(done)} of ${count(whole * tiles.length)} ${unit}${speed}`;
  }
}

/** Square numbers lie as squares, as far as there is room. */
const across = (images: number): number => Math.min(8, Math.ceil(Math.sqrt(images)));

function button(text: string, onclick: () => void): HTMLButtonElement {
  return el('button', { type: 'button', onclick }, text);
}
