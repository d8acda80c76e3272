// One message: what was said, and what can be done with it.

import { el, fill, newId, type Child } from '../../dom.ts';
import { bytes, count, plural, significant } from '../../text/format.ts';
import { copyButton } from '../../ui/copy.ts';
import { MarkdownView } from '../../ui/markdown_view.ts';
import type { Figures, Said } from './talk.ts';

export interface MessageHost {
  /** Those that stand at the same place. */
  versions: (said: Said) => Said[];
  showVersion: (said: Said) => void;
  /** Another answer in the place of this one, which stays a version. */
  again: (said: Said) => void;
  /** Another message in the place of this one, and an answer to it. */
  edit: (said: Said, text: string) => void;
  goOn: (said: Said) => void;
  canGoOn: (said: Said) => boolean;
  /** Whether the answer is being written here and now. */
  isWritten: (said: Said) => boolean;
  /** Nothing can be begun at the moment. */
  busy: () => boolean;
}

export class MessageView {
  readonly node: HTMLElement;
  private readonly body: HTMLElement;
  private readonly foot = el('div', { class: 'foot' });
  private readonly markdown: MarkdownView | null;

  constructor(
    readonly said: Said,
    private readonly host: MessageHost,
  ) {
    const id = newId('message');
    const isAnswer = said.role === 'assistant';
    this.markdown = isAnswer ? new MarkdownView() : null;
    this.body = this.markdown?.node ?? el('div', { class: 'words' }, said.text);
    const name = isAnswer ? (said.model ?? 'Answer') : 'You';
    this.node = el(
      'article',
      { class: `message ${isAnswer ? 'answer' : 'question'}`, 'aria-labelledby': id },
      el('h2', { id }, name),
      this.body,
      this.foot,
    );
    this.update();
  }

  /** Shows what was said so far. */
  grow(): void {
    this.markdown?.show(this.said.text, this.host.isWritten(this.said));
  }

  update(): void {
    this.grow();
    const isWritten = this.host.isWritten(this.said);
    this.node.classList.toggle('writing', isWritten);
    this.node.setAttribute('aria-busy', String(isWritten));
    fill(this.foot, ...(this.said.role === 'user' ? this.ofQuestion() : this.ofAnswer(isWritten)));
  }

  /** Says the figures alone anew, as they change with every token. */
  tell(figures: Figures): void {
    const line = this.foot.querySelector('.took');
    if (line) line.textContent = figuresText(figures);
  }

  private ofQuestion(): Child[] {
    return [
      this.switcher(),
      this.button('Edit', () => this.ask()),
      copyButton(() => this.said.text, 'Copy the message'),
    ];
  }

  private ofAnswer(isWritten: boolean): Child[] {
    const { figures } = this.said;
    const line = el('span', { class: 'took' }, figures ? figuresText(figures) : '');
    if (isWritten) return [line];
    return [
      noteOf(this.said),
      this.switcher(),
      this.said.text !== '' && copyButton(() => this.said.text, 'Copy the answer'),
      this.button(this.said.text === '' ? 'Try again' : 'Regenerate', () => this.host.again(this.said)),
      this.host.canGoOn(this.said) && this.button('Continue', () => this.host.goOn(this.said)),
      line,
    ];
  }

  private button(text: string, onclick: () => void, label?: string, disabled = this.host.busy()): HTMLElement {
    return el('button', { type: 'button', disabled, 'aria-label': label, onclick }, text);
  }

  private switcher(): Child {
    const versions = this.host.versions(this.said);
    if (versions.length < 2) return null;
    const at = versions.indexOf(this.said);
    const to = (i: number, sign: string, label: string): HTMLElement =>
      this.button(sign, () => this.host.showVersion(versions[i]!), label, this.host.busy() || !versions[i]);
    return el(
      'span',
      { class: 'versions' },
      to(at - 1, '‹', 'Version before'),
      el('span', {}, `${at + 1} of ${versions.length}`),
      to(at + 1, '›', 'Version after'),
    );
  }

  /** Has the message edited in its place. */
  private ask(): void {
    const id = newId('edit');
    const box = el('textarea', { id, rows: Math.min(10, this.said.text.split('\n').length + 1) });
    box.value = this.said.text;
    const end = (): void => {
      fill(this.body, this.said.text);
      this.update();
      this.foot.querySelector('button')?.focus();
    };
    const form = el(
      'form',
      {
        onsubmit: (event) => {
          event.preventDefault();
          if (box.value.trim() === '' || this.host.busy()) return;
          end();
          this.host.edit(this.said, box.value);
        },
        onkeydown: (event) => {
          if (event.key === 'Escape') {
            event.stopPropagation();
            end();
          } else if (sends(event)) {
            event.preventDefault();
            form.requestSubmit();
          }
        },
      },
      el('label', { class: 'unseen', for: id }, 'The message'),
      box,
      el(
        'div',
        { class: 'row' },
        el('button', { class: 'primary' }, 'Send'),
        el('button', { type: 'button', onclick: end }, 'Cancel'),
      ),
    );
    fill(this.body, form);
    fill(this.foot);
    box.focus();
  }
}

/** Enter alone, but for one that ends the writing of a character. */
export const sends = (event: KeyboardEvent): boolean =>
  event.key === 'Enter' && !event.shiftKey && !event.isComposing && event.target instanceof HTMLTextAreaElement;

function noteOf({ end, text }: Said): Child {
  const note = {
    writing: 'The page went before this answer ended.',
    broken: 'This answer broke off.',
    stopped: 'Stopped.',
    length: 'Ended at max_tokens.',
    done: '',
  }[end ?? 'done'];
  const said = text === '' && end !== 'done' ? `${end === 'stopped' ? note : 'No answer came.'}` : note;
  return said !== '' && el('span', { class: 'note' }, said);
}

export function figuresText({ tokens, speed, context, most, bytes: state, cache }: Figures): string {
  const of = most > 0 ? ` of ${count(most)}` : '';
  const all = [
    plural(tokens, 'token'),
    speed !== null && `${significant(speed)} tokens/s`,
    context !== null && `context ${count(context)}${of}`,
    state === null ? context !== null && 'without a session' : `state ${bytes(state)}`,
    state !== null && cache != null && `a cache would take ${bytes(cache)}`,
  ];
  return all.filter((each) => each !== false).join(' · ');
}
