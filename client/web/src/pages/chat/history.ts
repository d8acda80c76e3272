// The list of chats.

import { el, fill } from '../../dom.ts';
import type { Entry } from './kept.ts';

export class History {
  readonly node: HTMLElement;
  private readonly list = el('ul', {});
  private readonly summary = el('summary', {}, 'Chats');

  constructor(private readonly onDelete: (id: string) => void) {
    const wide = window.matchMedia('(min-width: 60.01rem)');
    this.node = el('details', { class: 'chats', open: wide.matches }, this.summary, this.list);
    wide.addEventListener('change', () => this.node.toggleAttribute('open', wide.matches));
  }

  draw(entries: Entry[], current: string): void {
    this.summary.textContent = `Chats (${entries.length})`;
    this.node.hidden = entries.length === 0;
    fill(this.list, ...entries.map((entry) => this.item(entry, entry.id === current)));
  }

  private item({ id, title }: Entry, isCurrent: boolean): HTMLElement {
    const remove = el(
      'button',
      {
        type: 'button',
        class: 'danger',
        'aria-label': `Delete “${title}”`,
        onclick: () => {
          if (remove.textContent === 'Really?') return this.onDelete(id);
          remove.textContent = 'Really?';
          remove.setAttribute('aria-label', `Really delete “${title}”?`);
        },
        onfocusout: () => {
          remove.textContent = '×';
          remove.setAttribute('aria-label', `Delete “${title}”`);
        },
      },
      '×',
    );
    const link = el('a', { href: `#/chat?chat=${id}`, 'aria-current': isCurrent && 'true', title }, title);
    return el('li', {}, link, remove);
  }
}
