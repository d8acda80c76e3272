// A button that begins something and, while that runs, stops it: at the same place, so that a second click stops.

import { el } from '../dom.ts';

export class Action {
  readonly node: HTMLButtonElement;
  private text: string;
  private running = false;

  constructor(
    text: string,
    private readonly begin: () => void,
    private readonly stop: () => void,
  ) {
    this.text = text;
    this.node = el('button', { type: 'button', class: 'primary', onclick: (event) => this.click(event) }, text);
  }

  /** What the button says while nothing runs. */
  say(text: string): void {
    this.text = text;
    this.draw();
  }

  run(running: boolean): void {
    if (running === this.running) return;
    // As wide as before, so that nothing beside it moves.
    this.node.style.minWidth = running ? `${this.node.getBoundingClientRect().width}px` : '';
    this.running = running;
    this.draw();
  }

  private draw(): void {
    this.node.textContent = this.running ? 'Stop' : this.text;
    this.node.classList.toggle('primary', !this.running);
  }

  private click(event: MouseEvent): void {
    // The second click of a double click neither stops what the first began nor begins anew what it stopped.
    if (event.detail === 2) return;
    if (this.running) this.stop();
    else this.begin();
  }
}
