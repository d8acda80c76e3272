// Two branches side by side: what they share, then where they part.

import type { Api } from '../../api/client.ts';
import { isAway } from '../../api/errors.ts';
import type { Session } from '../../api/types.ts';
import { el, fill, newId } from '../../dom.ts';
import { diff, tidy, words, type Run } from '../../text/diff.ts';
import { plural } from '../../text/format.ts';
import { Action } from '../../ui/action.ts';
import { Lines } from '../../ui/lines.ts';
import { announce, Notice } from '../../ui/notice.ts';
import { nameOf } from './names.ts';
import { continueSession, pairOf } from './text.ts';

export class Compare {
  readonly node = el('section', { class: 'compare panel', 'aria-label': 'Comparison' });
  private readonly notice = new Notice();
  private running: AbortController | null = null;

  constructor(
    private readonly api: Api,
    private readonly onChange: () => Promise<void>,
    private readonly onAway: () => void,
    private readonly onClose: () => void,
  ) {
    this.node.hidden = true;
  }

  /** The server answers again. */
  answered(): void {
    this.notice.answered();
  }

  close(): void {
    this.running?.abort();
    this.node.hidden = true;
    fill(this.node);
  }

  async show(left: Session, right: Session): Promise<void> {
    this.node.hidden = false;
    this.node.setAttribute('aria-busy', 'true');
    try {
      const pair = await pairOf(this.api, left, right);
      if (!pair) {
        this.notice.say('One of the two has no transcript: its text was not kept.');
        fill(this.node, this.head([]), this.notice.node);
        return;
      }
      const runs = tidy(diff(words(pair.left), words(pair.right)));
      const columns = [column(left, pair.shared, runs, 'left'), column(right, pair.shared, runs, 'right')];
      const note =
        pair.common > 0
          ? `Both begin with the same ${plural(pair.common, 'token')}.`
          : 'They have no beginning in common.';
      fill(
        this.node,
        this.head(
          [left, right],
          columns.map(({ fresh }) => fresh),
        ),
        el('p', { class: 'hint' }, note, pair.cut && ' Only the beginning of what differs is shown.'),
        this.notice.node,
        el('div', { class: 'sides' }, ...columns.map(({ node }) => node)),
      );
    } catch (error) {
      this.fail(error);
      fill(this.node, this.head([]), this.notice.node);
    } finally {
      this.node.removeAttribute('aria-busy');
    }
  }

  private fail(error: unknown): void {
    this.notice.fail(error);
    if (isAway(error)) this.onAway();
  }

  private head(sessions: Session[], fresh: Lines[] = []): HTMLElement {
    const id = newId('tokens');
    const tokens = el('input', { id, type: 'number', min: 1, step: 1, value: 60 });
    const go: Action = new Action(
      'Continue both',
      () => void this.continueBoth(sessions, fresh, Number(tokens.value) || 60, go),
      () => this.running?.abort(),
    );
    return el(
      'div',
      { class: 'bar-head' },
      el('h2', {}, 'Side by side'),
      sessions.length > 0 && el('div', { class: 'row' }, el('label', { for: id }, 'tokens'), tokens, go.node),
      el('button', { type: 'button', onclick: () => this.onClose() }, 'Close'),
    );
  }

  private async continueBoth(sessions: Session[], fresh: Lines[], tokens: number, go: Action): Promise<void> {
    const control = new AbortController();
    this.running = control;
    this.notice.clear();
    go.run(true);
    try {
      await Promise.all(
        sessions.map((session, i) =>
          continueSession(this.api, session, tokens, (text) => fresh[i]!.add(text), control.signal),
        ),
      );
      announce('Both continued.');
    } catch (error) {
      control.abort();
      this.fail(error);
    }
    for (const each of fresh) each.draw();
    this.running = null;
    go.run(false);
    await this.onChange();
  }
}

function column(
  session: Session,
  shared: string,
  runs: Run[],
  side: 'left' | 'right',
): { node: HTMLElement; fresh: Lines } {
  const fresh = new Lines();
  const parts = runs
    .filter(({ change }) => change === 'same' || change === side)
    .map(({ change, text }) => (change === 'same' ? el('span', { class: 'alike' }, text) : el('mark', {}, text)));
  const node = el(
    'article',
    { class: side },
    el('h3', {}, nameOf(session)),
    el('p', { class: 'hint' }, plural(session.position, 'token')),
    el('div', { class: 'text' }, el('span', { class: 'alike' }, shared), ...parts, fresh.node),
  );
  return { node, fresh };
}
