// Where the person writes. The browser keeps what is there, for a reload.

import { el } from '../../dom.ts';
import { visit } from '../../ui/store.ts';

export class Box {
  readonly node: HTMLTextAreaElement;
  private returned = false;

  constructor(id: string, text: string, onKey: (event: KeyboardEvent) => void) {
    this.node = el('textarea', {
      id,
      rows: 3,
      'aria-describedby': `${id}-hint`,
      oninput: () => visit.set('write.box', this.node.value),
      onkeydown: onKey,
    });
    this.node.value = text;
  }

  get text(): string {
    return this.node.value;
  }

  /** Whether there is text of a story that the page put before the person's words. */
  get hasReturned(): boolean {
    return this.returned && this.text !== '';
  }

  set(text: string): void {
    this.returned = false;
    this.node.value = text;
    visit.set('write.box', text);
  }

  putBefore(text: string): void {
    const returned = this.returned || text !== '';
    this.set(text + this.text);
    this.returned = returned;
  }
}
