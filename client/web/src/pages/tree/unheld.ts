// Shows what came for a session and is not of it, to copy or to throw away.

import { el, fill } from '../../dom.ts';
import { copyButton } from '../../ui/copy.ts';
import { forgetBroken, unheldBy } from './broken.ts';

export class UnheldText {
  readonly node = el('div', { class: 'unheld' });

  clear(): void {
    fill(this.node);
  }

  /** Beside `text`, the end of what the session holds, or with `whole` all of it; beside nothing if it is gone. */
  show(session: string, text = '', whole = true): void {
    const came = unheldBy(session, text, whole);
    if (came === '') return this.clear();
    const discard = (): void => {
      forgetBroken(session);
      this.clear();
    };
    fill(
      this.node,
      el('p', { class: 'hint' }, 'This came as well, but the session does not hold it.'),
      el('p', { class: 'lost' }, came),
      el(
        'div',
        { class: 'row' },
        copyButton(() => came, 'Copy what the session does not hold'),
        el('button', { type: 'button', onclick: discard }, 'Discard'),
      ),
    );
  }
}
