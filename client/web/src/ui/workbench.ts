// What the pages for one kind of model have in common: a choice among such models or, where none is
// served, how to serve one; controls of sampling; one request at a time, which can be stopped.

import { complete, type CompletionRequest, type Piece } from '../api/completions.ts';
import type { App } from '../app.ts';
import { isAway, wantsKey } from '../api/errors.ts';
import type { Model } from '../api/types.ts';
import { el, fill, type Child } from '../dom.ts';
import { Action } from './action.ts';
import { Again } from './again.ts';
import { ModelPicker } from './model_picker.ts';
import { Notice } from './notice.ts';
import { Sampling } from './sampling.ts';

export interface Kind {
  title: string;
  /** Under which the page keeps its choices, and its class. */
  name: string;
  /** What can be done here, in a sentence or two. */
  lede: string;
  fits: (model: Model) => boolean;
  picked?: (model: Model) => void;
  /** What a model must be for this page, where none is. */
  missing: Child[];
  /** A name for such a model. */
  example: string;
}

export class Workbench {
  readonly notice = new Notice();
  readonly sampling: Sampling;
  readonly picker: ModelPicker;
  private readonly none = el('div', { class: 'empty-note', hidden: true });
  private body: HTMLElement | null = null;
  /** What begins a request: the one that did stops it, the others rest meanwhile, and all until there is a model. */
  private readonly actions: Action[] = [];
  private begun: Action | null = null;
  private running: AbortController | null = null;
  private readonly again = new Again(
    () => void this.load(),
    () => this.busy,
  );

  constructor(
    private readonly app: App,
    private readonly kind: Kind,
  ) {
    this.sampling = new Sampling(kind.name, {}, ['temperature', 'top_p', 'top_k', 'seed']);
    this.picker = new ModelPicker(app, kind.name, kind.fits, (model) => {
      this.sampling.defaultsOf(model);
      kind.picked?.(model);
    });
  }

  /** A button that does `work`, which is to `run` something. */
  action(text: string, work: () => Promise<void>): HTMLButtonElement {
    const action = new Action(
      text,
      () => {
        this.begun = action;
        void work();
      },
      () => this.running?.abort(),
    );
    this.actions.push(action);
    return action.node;
  }

  /** The page around `body`, which is shown where there is a model for it. */
  page(body: HTMLElement): HTMLElement {
    this.body = body;
    body.inert = true; // until the models are known: they say what can be drawn on, and what is understood
    this.update();
    const head = el('div', { class: 'head' }, el('h1', {}, this.kind.title), this.picker.node);
    const lede = el('p', { class: 'lede' }, this.kind.lede);
    return el('div', { class: `page ${this.kind.name}` }, head, lede, this.none, body);
  }

  async show(): Promise<void> {
    this.again.show();
    await this.load();
  }

  private async load(): Promise<void> {
    let found = true;
    this.again.stop();
    try {
      found = await this.picker.load();
      this.notice.answered();
      if (!found) this.again.later();
    } catch (error) {
      this.notice.fail(error);
      if (!wantsKey(error)) this.again.later();
    }
    this.body!.inert = false;
    this.body!.hidden = !found;
    this.update();
    this.none.hidden = found;
    fill(this.none, ...(found ? [] : this.missing()));
  }

  hide(): void {
    this.again.hide();
  }

  get busy(): boolean {
    return this.running !== null;
  }

  /**
   * Does `work`, which can be stopped; says what went wrong. Whether it went well. `leave` has the browser keep what
   * came, if the page goes meanwhile.
   */
  async run(work: (signal: AbortSignal) => Promise<void>, leave: () => void): Promise<boolean> {
    const control = new AbortController();
    this.running = control;
    this.again.stop();
    window.addEventListener('pagehide', leave);
    this.update();
    this.notice.clear();
    this.sampling.clear();
    try {
      await work(control.signal);
      return true;
    } catch (error) {
      this.app.forget(); // a server that was started anew may have other models
      if (!this.sampling.fail(error)) this.notice.fail(error);
      if (isAway(error)) this.again.later();
      return false;
    } finally {
      window.removeEventListener('pagehide', leave);
      this.running = null;
      this.update();
    }
  }

  /** A completion with what the controls say; `request` comes after them. */
  async complete(
    model: Model,
    request: Omit<CompletionRequest, 'model'>,
    onPiece: (piece: Piece) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const body = { ...this.sampling.values(), ...request, model: model.id } as CompletionRequest;
    await complete(this.app.api, body, onPiece, { signal, onWait: (ms) => this.notice.wait(ms) });
    this.notice.clear();
  }

  private update(): void {
    for (const action of this.actions) {
      const runs = this.busy && action === this.begun;
      action.run(runs);
      action.node.disabled = !runs && (this.busy || this.picker.model === null);
    }
  }

  private missing(): HTMLElement[] {
    const command = `tvq-server --model ${this.kind.example}=DIRECTORY`;
    return [
      el('p', {}, ...this.kind.missing),
      el('p', {}, 'Serve one beside the others with ', el('code', {}, command), ', and it appears here.'),
    ];
  }
}
