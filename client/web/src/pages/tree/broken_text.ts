// Shows what came for a session and is not of it, to copy or to throw away.

import { el, fill } from '../../dom.ts';
import { copyButton } from '../../ui/copy.ts';
import { brokenOf, forgetBroken } from './broken.ts';

export class BrokenText {
  readonly node = el('div', { class: 'broken' });

  clear(): void {
    fill(this.node);
  }

  show(session: string): void {
    const came = brokenOf(session).map((broken) => broken.came);
    if (came.length === 0) return this.clear();
    const discard = (): void => {
      forgetBroken(session);
      this.clear();
    };
    fill(
      this.node,
      el('p', { class: 'hint' }, 'This came as well, but the session does not hold it.'),
      ...came.map((text) => el('p', { class: 'lost' }, text)),
      el(
        'div',
        { class: 'row' },
        copyButton(() => came.join('\n'), 'Copy what the session does not hold'),
        el('button', { type: 'button', onclick: discard }, 'Discard'),
      ),
    );
  }
}
