import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Lines } from '../src/ui/lines.ts';
import { FakeElement } from './fake_element.ts';

let frames: (() => void)[];
const nextFrame = (): void => frames.splice(0).forEach((draw) => draw());
const elementsOf = ({ node }: Lines): FakeElement[] => {
  const within = (element: FakeElement): FakeElement[] => [element, ...element.elements.flatMap(within)];
  return within(node as unknown as FakeElement);
};
const blocks = (lines: Lines): string[] =>
  elementsOf(lines)
    .filter(({ children }) => children.some((child) => typeof child === 'string'))
    .map(({ textContent }) => textContent);

beforeEach(() => {
  frames = [];
  vi.stubGlobal('document', { createElement: () => new FakeElement(), hidden: false });
  vi.stubGlobal('requestAnimationFrame', (draw: () => void) => frames.push(draw));
});
afterEach(() => void vi.unstubAllGlobals());

it('shows what comes between two frames at once', () => {
  const drawn = vi.fn();
  const lines = new Lines('', drawn);
  for (let token = 0; token < 100; token += 1) lines.add('a');
  expect([blocks(lines), drawn.mock.calls.length]).toEqual([[], 0]);
  nextFrame();
  expect([blocks(lines), drawn.mock.calls.length]).toEqual([['a'.repeat(100)], 1]);
});

it('shows the last of it when nothing more comes', () => {
  const lines = new Lines();
  lines.add('the end');
  lines.draw();
  nextFrame();
  expect(blocks(lines)).toEqual(['the end']);
});

it('leaves the lines before the last one as they are', () => {
  const lines = new Lines();
  for (const text of ['It was', ' late.\n', '\nThe', ' end\nof', ' it\n']) {
    lines.add(text);
    nextFrame();
  }
  expect(blocks(lines)).toEqual(['It was late.\n', '\n', 'The end\n', 'of it\n']);
});

it('has no element of many others, however many lines there are', () => {
  const lines = new Lines();
  lines.add('a line\n'.repeat(5000));
  nextFrame();
  expect(blocks(lines).length).toBe(5000);
  expect(Math.max(...elementsOf(lines).map(({ childElementCount }) => childElementCount))).toBeLessThanOrEqual(100);
});
