// The blocks of a text that grows at its end, in groups: where one is added, the browser goes through the groups and the
// blocks of the last one, and not through all blocks of a long text.

import { el } from '../dom.ts';

/** Blocks of a group: about as many as a text of 10,000 lines has groups. */
const MOST = 100;

export class Blocks {
  constructor(private readonly node: Element) {}

  get last(): Element | null {
    return this.node.lastElementChild?.lastElementChild ?? null;
  }

  add(block: Element): void {
    let group = this.node.lastElementChild;
    if (!group || group.childElementCount === MOST) {
      group = el('div');
      this.node.append(group);
    }
    group.append(block);
  }

  remove(block: Element): void {
    const group = block.parentElement;
    block.remove();
    if (!group?.hasChildNodes()) group?.remove();
  }
}
