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

/** `label` says what is copied, where more than one thing can be. */
export function copyButton(text: () => string, label?: string): HTMLButtonElement {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const button = el(
    'button',
    {
      type: 'button',
      class: 'copy',
      'aria-label': label,
      onclick: () => {
        void copy(text()).then((done) => {
          button.textContent = done ? 'Copied' : 'Refused';
          announce(done ? 'Copied.' : 'The browser does not let this page copy.');
          clearTimeout(timer);
          timer = setTimeout(() => (button.textContent = 'Copy'), TOLD_MS);
        });
      },
    },
    'Copy',
  );
  return button;
}
