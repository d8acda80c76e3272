import { describe, expect, it } from 'vitest';
import type { ImageShape, Model } from '../src/api/types.ts';
import { colour, constraint, Levels, plan, tokensOf } from '../src/pages/draw/image.ts';
import { imagesOf, pack, unpack, type KeptImages } from '../src/pages/draw/kept.ts';
import { dab, digits, drawDigit, levelsOf, newGrid } from '../src/pages/draw/strokes.ts';

const grey: ImageShape = { height: 4, width: 3, channels: 1, levels: 16, first_token_id: 2 };
const rgb: ImageShape = { height: 2, width: 2, channels: 3, levels: 256, first_token_id: 0 };
const model = (more: Partial<Model>): Model => ({ vocab_size: 18, ...more }) as Model;

describe('Levels', () => {
  it('assembles an image from pieces of any size', () => {
    const ids = Array.from({ length: 12 }, (_, i) => i + 2);
    for (let size = 1; size <= 12; size += 1) {
      const image = new Levels(grey);
      const dots: number[] = [];
      for (let i = 0; i < ids.length; i += size) {
        const [from, to] = image.push(ids.slice(i, i + size));
        for (let at = from; at < to; at += 1) dots.push(at);
      }
      expect([...image.values]).toEqual(ids.map((id) => id - 2));
      expect(dots).toEqual(ids.map((_, i) => i));
      expect(image.whole).toBe(true);
    }
  });

  it('shows a pixel when all its channels are there', () => {
    const image = new Levels(rgb);
    expect(image.push([1, 2])).toEqual([0, 0]);
    expect(image.push([3, 4])).toEqual([0, 1]);
    expect(colour(image, 0, { ink: false })).toEqual([1, 2, 3, 255]);
  });

  it('ignores what is beyond the image, and levels that there are not', () => {
    const image = new Levels(grey);
    image.push(Array.from({ length: 20 }, () => 99));
    expect(image.known).toBe(12);
    expect(Math.max(...image.values)).toBe(15);
    image.push([0]);
    expect(colour(image, 0, { ink: true })).toEqual([0, 0, 0, 255]);
    expect(colour(image, 0, { ink: false })).toEqual([255, 255, 255, 255]);
  });
});

describe('plan', () => {
  it('begins from the token that the model begins from', () => {
    expect(plan(model({ bos_token_id: 1, eos_token_id: 0 }), grey, [])).toEqual({ prompt: [1], given: [], rest: 12 });
    expect(plan(model({ eos_token_id: 0 }), grey, [5, 6])).toEqual({ prompt: [0, 7, 8], given: [7, 8], rest: 10 });
  });

  it('gives the first corner where there is no such token', () => {
    expect(plan(model({ eos_token_id: null }), grey, [])).toEqual({ prompt: [2], given: [2], rest: 11 });
    expect(plan(model({ eos_token_id: null }), grey, [9])).toEqual({ prompt: [11], given: [11], rest: 11 });
  });

  it('allows levels only, where the vocabulary has more', () => {
    const fields = constraint(model({}), grey, 12);
    expect(fields['allowed_token_ids']).toEqual(Array.from({ length: 16 }, (_, i) => i + 2));
    expect([fields['min_tokens'], fields['max_tokens']]).toEqual([12, 12]);
    expect(constraint(model({ vocab_size: 16 }), grey, 12)).not.toHaveProperty('allowed_token_ids');
  });

  it('counts channels', () => expect(tokensOf(rgb)).toBe(12));
});

describe('images that are kept', () => {
  const kept: KeptImages = { shape: grey, given: 2, ink: true, images: ['0123456789ab', 'ff', ''] };

  it('come back level by level, whole and in part', () => {
    for (const levels of [2, 16, 17, 256, 257]) {
      const values = [0, 1, levels - 1];
      expect(unpack(levels, pack(levels, values), 3)).toEqual(values);
    }
    expect(pack(16, [0, 15, 3])).toBe('0f3');
    expect(imagesOf(JSON.parse(JSON.stringify(kept)) as KeptImages)).toEqual(kept);
  });

  it('are nothing where they are no images', () => {
    for (const text of [null, 5, 'xyz', '012', '00'.repeat(13)]) expect(unpack(256, text, 12)).toBeNull();
    for (const wrong of [
      { shape: null },
      { shape: 'large' },
      { shape: { ...grey, width: 0 } },
      { shape: { ...grey, height: 1e9 } },
      { shape: { ...grey, first_token_id: '2' } },
      { given: 5 },
      { ink: 'yes' },
      { images: '0' },
      { images: [null] },
      { images: [] },
      { images: ['0'.repeat(13)] },
    ])
      expect(imagesOf({ ...kept, ...wrong } as unknown as KeptImages)).toBeNull();
    expect(imagesOf(null)).toBeNull();
  });
});

describe('strokes', () => {
  it('are dark in the middle and stay on the grid', () => {
    const grid = newGrid(28, 28);
    dab(grid, 0, 0);
    dab(grid, 14.5, 10.5);
    expect(grid.values[10 * 28 + 14]).toBe(1);
    expect(grid.values[10 * 28 + 18]).toBe(0);
    dab(grid, 14.5, 10.5, true);
    expect(grid.values[10 * 28 + 14]).toBe(0);
  });

  it('make digits whose upper half has ink', () => {
    for (const digit of digits) {
      const grid = newGrid(14, 14);
      drawDigit(grid, digit);
      const levels = levelsOf(grid, 7, 16, 1);
      expect(levels.length).toBe(98);
      expect(Math.max(...levels), digit).toBe(15);
      expect(Math.min(...levels), digit).toBe(0);
    }
  });

  it('repeat each value for every channel', () => {
    const grid = newGrid(2, 1);
    grid.values[1] = 1;
    expect(levelsOf(grid, 1, 256, 3)).toEqual([0, 0, 0, 255, 255, 255]);
  });
});
