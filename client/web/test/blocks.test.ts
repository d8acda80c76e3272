import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Blocks } from '../src/ui/blocks.ts';
import { FakeElement } from './fake_element.ts';

const element = (fake: FakeElement): Element => fake as unknown as Element;

beforeEach(() => vi.stubGlobal('document', { createElement: () => new FakeElement() }));
afterEach(() => void vi.unstubAllGlobals());

it('knows the last one while they come and go', () => {
  const node = new FakeElement();
  const blocks = new Blocks(element(node));
  const added = Array.from({ length: 1000 }, (_, i) => {
    const block = new FakeElement();
    block.append(`${i} `);
    blocks.add(element(block));
    expect(blocks.last).toBe(block);
    return block;
  });
  expect(node.textContent).toBe(added.map((_, i) => `${i} `).join(''));
  for (let block = added.pop(); block; block = added.pop()) {
    blocks.remove(element(block));
    expect(blocks.last).toBe(added.at(-1) ?? null);
  }
  expect(node.hasChildNodes()).toBe(false);
});
