import { describe, expect, it } from 'vitest';
import { figuresText } from '../src/pages/chat/message.ts';
import type { Figures } from '../src/pages/chat/talk.ts';

const figures: Figures = { tokens: 12, speed: 34.5, context: 1000, most: 0, bytes: 2_000_000 };

describe('the figures of an answer', () => {
  it('have what a cache would take beside the state', () => {
    expect(figuresText({ ...figures, cache: 46_080_000 })).toBe(
      '12 tokens · 34.5 tokens/s · context 1,000 · state 2.00 MB · a cache would take 46.1 MB',
    );
  });
  it('have the state alone where it grows, and of answers that were kept without a cache', () => {
    const alone = '12 tokens · 34.5 tokens/s · context 1,000 · state 2.00 MB';
    expect(figuresText({ ...figures, cache: null })).toBe(alone);
    expect(figuresText(figures)).toBe(alone);
  });
  it('have no cache where there is no session', () => {
    expect(figuresText({ ...figures, most: 8192, bytes: null, cache: 46_080_000 })).toBe(
      '12 tokens · 34.5 tokens/s · context 1,000 of 8,192 · without a session',
    );
  });
});
