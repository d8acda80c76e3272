// Where the person writes. The browser keeps what is there, for a reload.

import { el } from '../../dom.ts';
import { visit } from '../../ui/store.ts';

export class Box {
  readonly node: HTMLTextAreaElement;

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

  set(text: string): void {
    this.node.value = text;
    visit.set('write.box', text);
  }

  putBefore(text: string): void {
    this.set(text + this.text);
  }
}
