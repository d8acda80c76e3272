// A place on the page for what went wrong or was done, beside what it is about. It is there when it says nothing, too,
// so that nothing moves when a message comes or goes.

import { explain, isAbort, mayPass, serverCommand, wantsKey } from '../api/errors.ts';
import { el, fill, type Child } from '../dom.ts';
import { count, plural, significant } from '../text/format.ts';
import { keyButton } from './key.ts';

export class Notice {
  readonly node = el('div', { class: 'notice', role: 'status' });
  /** It says what is so no longer once the server answers. */
  private passes = false;

  clear(): void {
    this.passes = false;
    this.node.className = 'notice';
    this.node.setAttribute('role', 'status');
    fill(this.node);
  }

  /** Says what went wrong, and `more` after it; `more` alone where a person stopped it. */
  fail(error: unknown, more = ''): void {
    if (!isAbort(error)) this.show('bad', explain(error), more && ` ${more}`, ...help(error));
    else if (more !== '') this.say(more);
    this.passes = mayPass(error) || wantsKey(error);
  }

  /** The server answers. */
  answered(): void {
    if (this.passes) this.clear();
  }

  say(...children: Child[]): void {
    this.show('good', ...children);
  }

  /** How far something is after so many seconds; null: nobody knows. Not read aloud each time. */
  progress(what: string, done: number | null, of: number, seconds: number): void {
    const figures =
      done === null
        ? plural(of, 'token')
        : `${count(done)} of ${plural(of, 'token')}, ${significant(done / seconds)} a second`;
    this.show(
      'wait',
      what,
      el('progress', { 'aria-label': what, max: of, value: done }),
      el('span', { 'aria-hidden': 'true' }, figures),
    );
  }

  wait(ms: number): void {
    this.show('wait', `The server is full at the moment. Trying again in ${Math.max(1, Math.round(ms / 1000))} s.`);
  }

  private show(kind: string, ...children: Child[]): void {
    this.passes = false;
    const message = el('p', {}, ...children);
    // What is written anew is read aloud anew. Links differ where texts do not.
    const isSame = this.node.className === `notice ${kind}` && this.node.textContent === message.textContent;
    if (isSame && !message.querySelector('a')) return;
    this.node.className = `notice ${kind}`;
    this.node.setAttribute('role', kind === 'bad' ? 'alert' : 'status');
    fill(this.node, message);
  }
}

/** What a person can do about it, after the sentence that says what it is. */
function help(error: unknown): Child[] {
  if (wantsKey(error)) return [' ', keyButton()];
  const command = serverCommand(error);
  return command === null ? [] : [' Start one: ', el('code', {}, command)];
}

/** One line that screen readers read aloud; used for beginnings and ends, never for each token. */
let region: HTMLElement | null = null;

export function announcer(): HTMLElement {
  region ??= el('p', { class: 'unseen', role: 'status', 'aria-live': 'polite' });
  return region;
}

export function announce(text: string): void {
  announcer().textContent = text;
}
