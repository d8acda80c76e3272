// A button that copies a text.

import { el } from '../dom.ts';
import { announce } from './notice.ts';

/** How long the button says what it did. */
const TOLD_MS = 1500;

/** Whether `text` is on the clipboard now. Its interface is for pages of secure origins alone; a selection is for all. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

function copySelected(text: string): boolean {
  const focused = document.activeElement;
  const box = el('textarea', { class: 'unseen', 'aria-hidden': 'true', tabindex: -1 });
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand('copy');
  box.remove();
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  return done;
}

/** `label` says what is copied, where more than one thing can be. A `text` that fails says why itself. */
export function copyButton(text: () => string | Promise<string>, label?: string): HTMLButtonElement {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tell = (done: boolean): void => {
    button.textContent = done ? 'Copied' : 'Refused';
    announce(done ? 'Copied.' : 'The browser does not let this page copy.');
    clearTimeout(timer);
    timer = setTimeout(() => (button.textContent = 'Copy'), TOLD_MS);
  };
  const onclick = (): void =>
    void Promise.resolve(text())
      .then(copy)
      .then(tell, () => undefined);
  const button = el('button', { type: 'button', class: 'copy', 'aria-label': label, onclick }, 'Copy');
  return button;
}
