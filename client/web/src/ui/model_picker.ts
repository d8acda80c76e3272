// A choice among the models that a page can use; it remembers the last one.

import type { App } from '../app.ts';
import type { Model } from '../api/types.ts';
import { el, fill, newId } from '../dom.ts';
import { visit } from './store.ts';

export class ModelPicker {
  readonly node: HTMLElement;
  private readonly select: HTMLSelectElement;
  private usable: Model[] = [];

  constructor(
    private readonly app: App,
    private readonly page: string,
    private readonly fits: (model: Model) => boolean,
    private readonly onPick: (model: Model) => void,
  ) {
    const id = newId('model');
    this.select = el('select', { id, onchange: () => this.pick(this.select.value) });
    this.node = el('div', { class: 'picker' }, el('label', { for: id }, 'Model'), this.select);
  }

  get model(): Model | null {
    return this.usable.find((model) => model.id === this.select.value) ?? null;
  }

  /** Whether the server serves it, and the page can use it. */
  has(id: string): boolean {
    return this.usable.some((model) => model.id === id);
  }

  /** Asks the server; false if it serves no model that fits, which may be another time. Throws what the server answers. */
  async load(): Promise<boolean> {
    const before = this.model?.id ?? visit.get(`model.${this.page}`);
    const all = await this.app.models();
    // Those that have a page of their own come last, wherever they fit too.
    const ownPage = ({ tokenizer }: Model): number => Number(tokenizer === 'characters');
    this.usable = all.filter(this.fits).sort((a, b) => ownPage(a) - ownPage(b));
    fill(this.select, ...this.usable.map((model) => el('option', { value: model.id }, model.id)));
    this.node.hidden = this.usable.length === 0;
    if (this.usable.length === 0) {
      this.app.forget();
      return false;
    }
    this.pick(this.usable.find((model) => model.id === before)?.id ?? this.usable[0]!.id);
    return true;
  }

  /** False if there is no such model, and the one that was chosen stays. */
  pick(id: string): boolean {
    const model = this.usable.find((known) => known.id === id);
    if (!model) return false;
    this.select.value = id;
    visit.set(`model.${this.page}`, id);
    this.onPick(model);
    return true;
  }
}
