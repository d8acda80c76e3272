// Where the person writes the next message, and the button that sends it or stops the answer.

import { el, newId } from '../../dom.ts';
import { Action } from '../../ui/action.ts';
import { visit } from '../../ui/store.ts';
import { sends } from './message.ts';

const ROWS = 2;

export class Composer {
  readonly node: HTMLElement;
  private readonly box: HTMLTextAreaElement;
  private readonly action: Action;

  constructor(
    private readonly send: (text: string) => boolean,
    stop: () => void,
  ) {
    const id = newId('box');
    this.box = el('textarea', {
      id,
      rows: ROWS,
      'aria-describedby': `${id}-hint`,
      oninput: () => this.typed(),
      onkeydown: (event) => {
        if (!sends(event)) return;
        event.preventDefault();
        this.go();
      },
    });
    this.box.value = visit.get('chat.box') ?? '';
    this.action = new Action('Send', () => this.go(), stop);
    this.node = el(
      'div',
      { class: 'composer' },
      el(
        'div',
        { class: 'bar-head' },
        el('label', { for: id }, 'Your message'),
        el(
          'span',
          { class: 'hint keys', id: `${id}-hint` },
          'Enter sends, Shift + Enter makes a line, Esc stops, Ctrl + K begins a new chat',
        ),
      ),
      el('div', { class: 'send' }, this.box, this.action.node),
    );
  }

  focus(): void {
    this.box.focus();
  }

  update(running: boolean, ready: boolean): void {
    this.action.run(running);
    this.action.node.disabled = !running && !ready;
  }

  private go(): void {
    if (this.box.value.trim() === '' || !this.send(this.box.value)) return;
    this.box.value = '';
    this.typed();
  }

  private typed(): void {
    visit.set('chat.box', this.box.value);
    this.box.rows = Math.min(8, Math.max(ROWS, this.box.value.split('\n').length));
  }
}
