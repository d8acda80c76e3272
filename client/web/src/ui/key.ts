// The way from a message that a key is wanted to the field that takes it, wherever both are.

import { el } from '../dom.ts';

let open: () => void = () => undefined;

/** The field is there: `way` shows it and puts the cursor into it. */
export function keyIsEntered(way: () => void): void {
  open = way;
}

export const keyButton = (): HTMLButtonElement =>
  el('button', { type: 'button', class: 'to-key', onclick: () => open() }, 'Enter the key');
