// One session: its text, and all that can be done with it.

import * as calls from '../../api/sessions.ts';
import type { Api } from '../../api/client.ts';
import { isAway } from '../../api/errors.ts';
import type { Session } from '../../api/types.ts';
import { el, fill, newId, type Attributes, type Child } from '../../dom.ts';
import { ago, bytes, count, duration, plural } from '../../text/format.ts';
import { Action } from '../../ui/action.ts';
import { copyButton } from '../../ui/copy.ts';
import { download, downloadText, fileName } from '../../ui/download.ts';
import { Lines } from '../../ui/lines.ts';
import { announce, Notice } from '../../ui/notice.ts';
import { brokenOf, forgetBroken, forgetHeld } from './broken.ts';
import { BrokenText } from './broken_text.ts';
import { giveName, nameOf, rememberForks } from './names.ts';
import { rewind } from './rewind.ts';
import { continueSession, tailOf } from './text.ts';

/** Tokens of the text's end that are shown at first. */
const TAIL = 1200;

export interface PanelHost {
  api: Api;
  /** The sessions have changed; with an id: show that one now. */
  changed(select?: string): Promise<void>;
  others(session: Session): Session[];
  /** The session that it was forked from, and where the two part if that is known; null if it is gone or was none. */
  origin(session: Session): { parent: Session; position: number | null } | null;
  /** The id of the one that it is compared with now. */
  compared(): string | null;
  /** Nobody answered: looks when somebody does. */
  away(): void;
  /** Shows both side by side; with no id, no longer. */
  compare(left: Session, right: string): void;
}

export class Panel {
  readonly node = el('section', { class: 'panel details', 'aria-label': 'The chosen session' });
  private readonly notice = new Notice();
  private readonly text = el('div', { class: 'text' });
  private readonly broken = new BrokenText();
  private readonly more = el('p', { class: 'hint' });
  /** Tokens of the session before the text that is shown. */
  private before = 0;
  private readonly copy = copyButton(() => this.whole(), 'Copy the text');
  private readonly download = button('Download', 'download', () => void this.handOut());
  private readonly takeAway = el('div', { class: 'row' }, this.copy, this.download);
  private session: Session | null = null;
  private running: AbortController | null = null;
  private shownVersion = '';
  /** Sessions, each with its version, that had the time to hear of a page which was left. */
  private readonly awaited = new Set<string>();
  /** What was typed for this session, by the field. */
  private readonly typed = new Map<string, string>();
  /** A rewind keeps what it leaves. */
  private keepsBranch = true;

  constructor(private readonly host: PanelHost) {
    this.copy.dataset['key'] = 'copy';
    this.show(null);
  }

  /** Shows the session as the server told it last; null: none is chosen. */
  show(session: Session | null): void {
    if (session?.id !== this.session?.id) {
      this.running?.abort();
      this.notice.clear();
      this.shownVersion = '';
      this.offer(false); // what is shown is another session's text still
      this.typed.clear();
    }
    this.session = session;
    if (!session) {
      fill(
        this.node,
        el('p', { class: 'hint' }, 'Choose a session to read it, go on with it, fork it, or compare it.'),
      );
      return;
    }
    if (this.running) return; // drawn when it ends
    const focus = document.activeElement;
    const held = focus instanceof HTMLElement && this.node.contains(focus) ? focus.dataset['key'] : undefined;
    const scrolled = this.text.parentElement?.scrollTop ?? 0;
    fill(
      this.node,
      this.title(session),
      this.facts(session),
      el(
        'div',
        { class: 'reading', tabindex: 0, role: 'region', 'aria-label': 'Text of the session' },
        this.more,
        this.text,
        this.broken.node,
      ),
      this.takeAway,
      this.notice.node,
      this.onward(session),
      this.branching(session),
      this.keeping(session),
    );
    this.text.parentElement!.scrollTop = scrolled; // where the same text was read
    if (held) this.node.querySelector<HTMLElement>(`[data-key="${CSS.escape(held)}"]`)?.focus();
    void this.read(session, TAIL);
  }

  /** The server does not have the session: what was read of it stays. */
  gone(id: string): void {
    if (this.running) return; // asked for again when it ends
    const known = this.session?.id === id ? this.session : null;
    if (!known) this.show(null);
    this.notice.say('This session is not on the server any more.', known && ' What was read of it last is here still.');
    this.before = 0; // no more of it can be had
    this.shownVersion = '';
    if (known) fill(this.node, el('h2', {}, nameOf(known)), this.notice.node, this.text.parentElement, this.takeAway);
    else {
      this.broken.show(id);
      fill(this.node, this.notice.node, this.broken.node);
    }
  }

  /** The server answers again. */
  answered(): void {
    this.notice.answered();
  }

  /** A field whose text stays when the panel is drawn anew. */
  private field(key: string, value: string, attributes: Attributes): HTMLInputElement {
    const input = el('input', {
      id: newId(key),
      'data-key': key,
      ...attributes,
      oninput: () => this.typed.set(key, input.value),
    });
    input.value = this.typed.get(key) ?? value;
    return input;
  }

  private numberField(
    key: string,
    value: number,
    min: number,
    max: number,
  ): { node: HTMLElement; value: () => number } {
    const input = this.field(key, String(value), { type: 'number', min, max, step: 1 });
    const read = (): number => Math.min(max, Math.max(min, Math.round(Number(input.value)) || value));
    return { node: el('span', { class: 'field' }, el('label', { for: input.id }, key), input), value: read };
  }

  private async read(session: Session, most: number): Promise<void> {
    const version = `${session.id} ${session.version} ${most}`;
    if (version === this.shownVersion) return;
    try {
      const tail = await tailOf(this.host.api, session, most);
      if (session.id !== this.session?.id || this.running) return;
      this.shownVersion = version;
      this.text.textContent = tail?.text ?? '';
      this.before = tail?.before ?? 0;
      this.offer(this.text.textContent !== '');
      this.broken.clear();
      fill(this.more);
      if (!tail) fill(this.more, 'No transcript is kept of this session: its text cannot be shown.');
      else if (session.position === 0) fill(this.more, 'Still empty.');
      else if (tail.before > 0)
        fill(
          this.more,
          `${plural(tail.before, 'token')} before this. `,
          button('Show all', 'all', () => void this.read(session, session.position)),
        );
      const reading = this.text.parentElement!;
      reading.scrollTop = reading.scrollHeight;
      await this.readBroken(session);
    } catch (error) {
      if (session.id !== this.session?.id) return; // another one is shown by now
      this.shownVersion = ''; // read once more when somebody answers
      this.fail(error);
    }
  }

  /** What came for the session and is not of it; that of a page which was left may be on its way there. */
  private async readBroken(session: Session): Promise<void> {
    const { id, version } = session;
    const { api, changed } = this.host;
    await forgetHeld(api, session);
    const at = `${id} ${version}`;
    if (!this.awaited.has(at) && brokenOf(id).some((broken) => broken.version === version)) {
      this.awaited.add(at);
      if ((await calls.sessionOnce(api, id, (now) => now.version !== version)).version !== version) return changed();
    }
    if (id !== this.session?.id || this.running) return;
    const reading = this.text.parentElement!;
    const isAtEnd = reading.scrollTop + reading.clientHeight >= reading.scrollHeight - 1;
    this.broken.show(id);
    if (isAtEnd) reading.scrollTop = reading.scrollHeight;
  }

  /** Whether the text can be copied and downloaded. */
  private offer(can: boolean): void {
    this.copy.disabled = this.download.disabled = !can;
  }

  /** The session's text, also where its end alone is shown. */
  private async whole(): Promise<string> {
    const { session } = this;
    if (!session || this.before === 0) return this.text.textContent ?? '';
    try {
      return (await tailOf(this.host.api, session, session.position))?.text ?? '';
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  private async handOut(): Promise<void> {
    const title = this.session ? nameOf(this.session) : '';
    const text = await this.whole().catch(() => null);
    if (text !== null) downloadText(text, `${fileName(title, 'text')}.txt`);
  }

  private title(session: Session): HTMLElement {
    const form = el('form', { class: 'inline-form' });
    form.hidden = !this.typed.has('name');
    const name = this.field('name', nameOf(session), { maxlength: 120 });
    const rename = button('Rename', 'rename', () => {
      form.hidden = false;
      this.typed.set('name', name.value);
      name.select();
      name.focus();
    });
    form.append(
      el('label', { for: name.id }, 'Name (kept in this browser)'),
      name,
      el('button', { class: 'primary' }, 'Keep'),
    );
    form.onsubmit = (event) => {
      event.preventDefault();
      giveName(session, name.value);
      this.typed.delete('name');
      void this.host.changed();
    };
    return el('div', {}, el('div', { class: 'bar-head' }, el('h2', {}, nameOf(session)), rename), form);
  }

  private facts(session: Session): HTMLElement {
    const fact = (name: string, value: string, title?: string): HTMLElement =>
      el('div', {}, el('dt', {}, name), el('dd', { title }, value));
    const places = { device: 'on the device', host: 'in host memory', durable: 'on the durable tier' };
    const { persisted_version: saved, version } = session;
    const origin = this.host.origin(session);
    return el(
      'dl',
      { class: 'facts' },
      fact('context', plural(session.position, 'token')),
      fact('state', bytes(session.bytes), `${count(session.bytes)} bytes`),
      fact('kept', places[session.tier] ?? session.tier),
      fact(
        'version',
        saved === version ? `${version}, saved` : saved > 0 ? `${version}, ${saved} saved` : String(version),
      ),
      fact('last used', ago(session.last_used)),
      fact(
        'ends, if unused',
        session.expires === null ? 'never' : `in ${duration(session.expires - Date.now() / 1000)}`,
      ),
      origin &&
        fact(
          'branch of',
          nameOf(origin.parent) + (origin.position === null ? '' : `, from ${count(origin.position)} on`),
        ),
    );
  }

  private onward(session: Session): HTMLElement {
    const tokens = this.numberField('tokens', 60, 1, 100_000);
    const go: Action = new Action(
      'Continue',
      () => void this.goOn(session, tokens.value(), go),
      () => this.running?.abort(),
    );
    go.node.dataset['key'] = 'go';
    go.node.disabled = session.position === 0;
    const others = this.host.others(session);
    const id = newId('with');
    const select = el(
      'select',
      {
        id,
        'data-key': 'with',
        onchange: () => this.host.compare(session, select.value),
      },
      el('option', { value: '' }, 'choose…'),
      ...others.map((other) =>
        el('option', { value: other.id, selected: other.id === this.host.compared() }, nameOf(other)),
      ),
    );
    return group(
      'Go on',
      tokens.node,
      go.node,
      el('a', { class: 'button', href: `#/write?session=${encodeURIComponent(session.id)}` }, 'Open in Write'),
      others.length > 0 && el('span', { class: 'field' }, el('label', { for: id }, 'compare with'), select),
    );
  }

  private branching(session: Session): HTMLElement {
    const { api } = this.host;
    const copies = this.numberField('copies', 2, 1, 128);
    const name = this.field('mark', '', { maxlength: 120, placeholder: `at ${count(session.position)}` });
    const fork = (number: number, mark?: string) => async (): Promise<void> => {
      const label = `${nameOf(session).slice(0, 80)}, fork`;
      const ttl = session.expires === null ? {} : { ttl: calls.KEPT_SECONDS };
      const made = await calls.forkSession(api, session.id, {
        count: number,
        label,
        ...ttl,
        ...(mark ? { mark } : {}),
      });
      rememberForks(made);
      made.forEach((child, i) => giveName(child, `${nameOf(session)} / ${i + 1}`));
      this.done(`${plural(made.length, 'fork')} made.`);
    };
    const marks = session.marks.map((mark) =>
      el(
        'li',
        {},
        el('span', { class: 'mark-name' }, mark.name, ' ', el('span', { class: 'hint' }, `at ${count(mark.position)}`)),
        this.act('Rewind to it', `rewind-${mark.name}`, async () => {
          const others = this.host.others(session);
          const left = await rewind(api, session, mark, { keep: this.keepsBranch, others });
          const link = left && el('a', { href: `#/tree?session=${left.id}` }, nameOf(left));
          this.notice.say(`Back at ${mark.name}.`, link && ' What it held before is a branch now: ', link, link && '.');
        }),
        this.act('Fork from it', `fork-${mark.name}`, fork(1, mark.name)),
        this.act('Forget', `forget-${mark.name}`, async () => {
          await calls.unmarkSession(api, session.id, mark.name);
          this.done('Mark forgotten.');
        }),
      ),
    );
    const keep = el('input', {
      type: 'checkbox',
      checked: this.keepsBranch,
      'data-key': 'keep-branch',
      onchange: () => (this.keepsBranch = keep.checked),
    });
    return el(
      'div',
      {},
      group(
        'Branch',
        copies.node,
        this.act('Fork', 'fork', () => fork(copies.value())()),
        el('span', { class: 'field' }, el('label', { for: name.id }, 'mark'), name),
        this.act('Mark', 'make-mark', async () => {
          await calls.markSession(api, session.id, name.value.trim() || name.placeholder);
          this.typed.delete('mark');
          this.done('Marked.');
        }),
      ),
      marks.length > 0 && el('ul', { class: 'marks' }, ...marks),
      marks.length > 0 &&
        el('label', { class: 'tick' }, keep, el('span', {}, 'A rewind keeps what it leaves, as a branch')),
    );
  }

  private keeping(session: Session): HTMLElement {
    const { api } = this.host;
    const remove: HTMLButtonElement = button(
      'Delete',
      'delete',
      () => {
        if (remove.textContent === 'Delete') {
          remove.textContent = 'Really delete?';
          return;
        }
        void this.run(async () => {
          await calls.deleteSession(api, session.id);
          forgetBroken(session.id);
          announce('Deleted.');
          await this.host.changed('');
        });
      },
      'danger',
    );
    remove.addEventListener('blur', () => (remove.textContent = 'Delete'));
    return group(
      'Keep',
      this.act('Save to durable', 'save', async () => {
        await calls.saveSession(api, session.id);
        this.done('Saved.');
      }),
      this.act('Export', 'export', async () => {
        const name = fileName(nameOf(session), 'session');
        download(await calls.exportSession(api, session.id), `${name}.tvq`);
        this.done('Exported.');
      }),
      remove,
    );
  }

  private act(text: string, key: string, work: () => Promise<void>): HTMLButtonElement {
    return button(
      text,
      key,
      () =>
        void this.run(async () => {
          await work();
          await this.host.changed();
        }),
    );
  }

  private done(text: string): void {
    this.notice.say(text);
  }

  private async run(work: () => Promise<void>): Promise<void> {
    this.notice.clear();
    try {
      await work();
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.notice.fail(error);
    if (isAway(error)) this.host.away();
  }

  private async goOn(session: Session, tokens: number, go: Action): Promise<void> {
    const control = new AbortController();
    this.running = control;
    go.run(true);
    const reading = this.text.parentElement!;
    const fresh = new Lines('fresh', () => (reading.scrollTop = reading.scrollHeight));
    this.broken.clear();
    this.shownVersion = ''; // it is read anew, also where nothing was added
    this.text.append(fresh.node);
    await this.run(async () => {
      await continueSession(this.host.api, session, tokens, (text) => fresh.add(text), control.signal);
      announce('Continued.');
    });
    fresh.draw();
    if (this.running === control) this.running = null;
    go.run(false);
    await this.host.changed();
  }
}

function button(text: string, key: string, onclick: () => void, className = ''): HTMLButtonElement {
  return el('button', { type: 'button', class: className, 'data-key': key, onclick }, text);
}

function group(legend: string, ...children: Child[]): HTMLElement {
  return el('fieldset', { class: 'actions' }, el('legend', {}, legend), el('div', { class: 'row' }, ...children));
}
