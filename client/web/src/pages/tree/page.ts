// Tree: the sessions of a model, their forks and marks.

import type { App, Page } from '../../app.ts';
import { ApiError, mayPass, wantsKey } from '../../api/errors.ts';
import { getSession, importSession, listSessions } from '../../api/sessions.ts';
import type { Model, Session } from '../../api/types.ts';
import { el, fill, newId } from '../../dom.ts';
import { plural } from '../../text/format.ts';
import { Again } from '../../ui/again.ts';
import { ModelPicker } from '../../ui/model_picker.ts';
import { Notice } from '../../ui/notice.ts';
import { Compare } from './compare.ts';
import { forkPosition } from './layout.ts';
import { forkPositions } from './names.ts';
import { Panel } from './panel.ts';
import { TreeView } from './view.ts';

export const treePage = (app: App): Page => new TreePage(app);

class TreePage implements Page {
  readonly title = 'Tree';
  readonly node: HTMLElement;
  private readonly notice = new Notice();
  private readonly picker: ModelPicker;
  private readonly view = new TreeView((session, stays) => {
    this.go(session.id, null);
    if (stays) this.reveal();
  });
  private readonly summary = el('p', { class: 'hint' });
  private readonly panel: Panel;
  private readonly compare: Compare;
  private sessions: Session[] = [];
  private chosen = '';
  private comparedWith: string | null = null;
  private loading = 0;
  /** The page was opened with a session chosen, which is still to be looked at. */
  private toReveal = false;
  private readonly again = new Again(() => void this.begin());

  constructor(private readonly app: App) {
    this.picker = new ModelPicker(
      app,
      'tree',
      (model) => !model.image,
      (model) => void this.picked(model),
    );
    this.panel = new Panel({
      api: app.api,
      changed: async (select) => {
        if (select !== undefined) this.go(select, null);
        await this.refresh();
      },
      others: (session) => this.sessions.filter(({ id }) => id !== session.id),
      origin: (session) => {
        const parent = this.sessions.find(({ id }) => id === session.parent_id);
        return parent ? { parent, position: forkPosition(session, this.sessions, forkPositions()) } : null;
      },
      compared: () => this.comparedWith,
      away: () => this.askAgain(),
      compare: (left, right) => this.go(left.id, right || null),
    });
    this.compare = new Compare(
      app.api,
      () => this.refresh(),
      () => this.askAgain(),
      () => this.go(this.chosen, null),
    );
    const id = newId('import');
    const file = el('input', {
      id,
      type: 'file',
      class: 'unseen',
      onchange: () => {
        const chosen = file.files?.[0];
        file.value = '';
        if (chosen) void this.import(chosen);
      },
    });
    const pick = el('button', { type: 'button', onclick: () => file.click() }, 'Import a file');
    file.tabIndex = -1;
    file.setAttribute('aria-label', 'Import a file');
    this.node = el(
      'div',
      { class: 'page tree-page' },
      el('div', { class: 'head' }, el('h1', {}, 'Tree'), this.picker.node),
      el(
        'p',
        { class: 'lede' },
        'Every text that is written is a session, which the server keeps. Fork it, mark a place to come back to, and read side by side how two of them go on.',
      ),
      this.notice.node,
      el(
        'div',
        { class: 'grove' },
        el(
          'section',
          { class: 'branches', 'aria-label': 'Branches' },
          this.view.node,
          this.summary,
          el(
            'div',
            { class: 'row' },
            el('button', { type: 'button', onclick: () => void this.refresh() }, 'Refresh'),
            pick,
            file,
          ),
        ),
        this.panel.node,
      ),
      this.compare.node,
    );
  }

  show(parameters: URLSearchParams): void {
    const chosen = parameters.get('session');
    if (chosen === null) this.tell();
    else [this.chosen, this.comparedWith] = [chosen, parameters.get('with')];
    this.toReveal = this.chosen !== '';
    this.again.show();
    void this.begin();
  }

  hide(): void {
    this.again.hide();
  }

  private async begin(): Promise<void> {
    this.again.stop();
    try {
      const found = await this.picker.load(); // which picks a model, which refreshes
      this.panel.answered();
      this.compare.answered();
      if (found) return;
      this.notice.say('This server serves no model that writes text.');
      this.again.later();
    } catch (error) {
      this.notice.fail(error);
      if (!wantsKey(error)) this.again.later();
    }
  }

  private askAgain(): void {
    this.app.forget(); // a server that was started anew may have other models
    this.again.later();
  }

  private async picked(model: Model): Promise<void> {
    const chosen = this.find(this.chosen);
    if (chosen && chosen.model !== model.id) {
      [this.chosen, this.comparedWith] = ['', null];
      this.tell();
    }
    await this.refresh();
  }

  private find(id: string | null): Session | undefined {
    return this.sessions.find((session) => session.id === id);
  }

  private go(session: string, other: string | null): void {
    this.chosen = session;
    this.comparedWith = other;
    this.tell();
    this.draw();
    if (other) this.compare.node.scrollIntoView({ block: 'nearest' });
  }

  /** The address says what is shown, so that it can be kept and gone back to, and outlives a reload. */
  private tell(): void {
    const query = new URLSearchParams();
    if (this.chosen) query.set('session', this.chosen);
    if (this.comparedWith) query.set('with', this.comparedWith);
    const hash = `#/tree${query.size > 0 ? `?${query}` : ''}`;
    if (location.hash !== hash) history.replaceState(null, '', hash);
  }

  private async refresh(): Promise<void> {
    const { model } = this.picker;
    if (!model) return;
    this.loading += 1;
    const turn = this.loading;
    try {
      const sessions = await listSessions(this.app.api, model.id);
      if (turn !== this.loading) return; // a later answer is on its way
      this.notice.clear();
      this.sessions = sessions;
      if (this.chosen !== '' && !this.find(this.chosen) && (await this.isElsewhere(this.chosen))) return;
      if (turn === this.loading) this.draw();
    } catch (error) {
      if (turn !== this.loading) return;
      this.notice.fail(error);
      if (mayPass(error)) this.askAgain();
      else this.app.forget();
    }
  }

  /** Whether the session is one of another model, which is shown then. */
  private async isElsewhere(id: string): Promise<boolean> {
    try {
      const { model } = await getSession(this.app.api, id);
      if (id === this.chosen && model !== this.picker.model?.id) return this.picker.pick(model);
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 400 && error.status !== 404)) throw error;
    }
    return false;
  }

  /** Brings the chosen session into view where it stands below the tree, as on a phone. */
  private reveal(): void {
    this.toReveal = false;
    const { top } = this.panel.node.getBoundingClientRect();
    if (top > window.innerHeight / 2) this.panel.node.scrollIntoView({ block: 'start' });
  }

  private draw(): void {
    const session = this.find(this.chosen);
    const other = this.find(this.comparedWith);
    this.view.select(this.chosen);
    this.view.draw(this.sessions, other?.id ?? null);
    const none = this.sessions.length === 0;
    this.view.node.hidden = none;
    fill(
      this.summary,
      none ? 'No sessions yet. ' : `${plural(this.sessions.length, 'session')}.`,
      none && el('a', { href: '#/write' }, 'Write something first.'),
    );
    if (session || this.chosen === '') this.panel.show(session ?? null);
    else this.panel.gone(this.chosen);
    if (session && this.comparedWith && !other)
      this.notice.say('The session that this one was compared with is not on the server any more.');
    if (session && this.toReveal) this.reveal();
    if (session && other) void this.compare.show(session, other);
    else this.compare.close();
  }

  private async import(file: File): Promise<void> {
    const { model } = this.picker;
    if (!model) return;
    try {
      const made = await importSession(this.app.api, file, model.id, file.name.replace(/\.tvq$/, ''));
      [this.chosen, this.comparedWith] = [made.id, null];
      this.tell();
      await this.refresh();
      this.notice.say(`“${made.label}” is imported.`);
    } catch (error) {
      this.notice.fail(error);
    }
  }
}
