import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Again } from '../src/ui/again.ts';

const work = vi.fn();
let hidden = false;
let busy = false;
let again: Again;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('document', {
    get hidden() {
      return hidden;
    },
  });
  hidden = busy = false;
  work.mockClear();
  again = new Again(work, () => busy);
  again.show();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it('works once, after a while', () => {
  again.later();
  again.later();
  expect(work).not.toHaveBeenCalled();
  vi.advanceTimersByTime(60_000);
  expect(work).toHaveBeenCalledTimes(1);
});

it('waits while nobody looks at the tab, and while the page is busy', () => {
  again.later();
  hidden = true;
  vi.advanceTimersByTime(60_000);
  hidden = false;
  busy = true;
  vi.advanceTimersByTime(60_000);
  expect(work).not.toHaveBeenCalled();
  busy = false;
  vi.advanceTimersByTime(60_000);
  expect(work).toHaveBeenCalledTimes(1);
});

it('does nothing for a page that was left, also when an answer comes late', () => {
  again.later();
  again.hide();
  again.later();
  vi.advanceTimersByTime(60_000);
  expect(work).not.toHaveBeenCalled();
});
