// Controls of sampling, of the fields that index.html has. An empty control is not sent: the model's default holds.

import { ApiError } from '../api/errors.ts';
import { fields, type Field } from '../api/fields.ts';
import type { Model } from '../api/types.ts';
import { el, newId } from '../dom.ts';
import { browser } from './store.ts';

export type Kind = 'number' | 'integer' | 'boolean' | 'lines';

/** Of a slider. */
const STEP = 0.05;

interface Control {
  name: string;
  kind: Kind;
  field: Field;
  row: HTMLElement;
  input: HTMLInputElement | HTMLTextAreaElement;
  slider: HTMLInputElement | null;
  problem: HTMLElement;
}

export const kindOf = ({ type }: Field): Kind => type?.[0] ?? 'lines';

/** A slider ends at twice the default where the field has no end. */
export function rangeOf(field: Field): { min: number; max: number } {
  const above = field.exclusiveMinimum;
  const min = field.minimum ?? (above === undefined ? 0 : above + STEP);
  return { min, max: field.maximum ?? 2 * (field.default ?? 1) };
}

/** The value to send; undefined for an empty control. */
export function parse(kind: Kind, text: string, checked: boolean): unknown {
  if (kind === 'boolean') return checked || undefined;
  if (kind === 'lines') {
    const lines = text.split('\n').filter((line) => line !== '');
    return lines.length > 0 ? lines.map((line) => line.replace(/\\n/g, '\n')) : undefined;
  }
  const value = Number(text);
  return text.trim() === '' || !Number.isFinite(value) ? undefined : value;
}

export class Sampling {
  readonly node: HTMLElement;
  private readonly controls: Control[];

  /** `own`: defaults of this page, which stand in the controls from the start. */
  constructor(
    private readonly page: string,
    own: Record<string, string>,
    /** Which fields; all where it is left out. */
    names?: string[],
    /** What an empty control means here, where that is not what field and model say. */
    private readonly otherwise: Record<string, string> = {},
  ) {
    const kept = { ...own, ...browser.getAll(`sampling.${page}`, 'string') };
    const controls = (of: Record<string, Field>, slides: boolean): Control[] =>
      Object.entries(of)
        .filter(([name]) => names?.includes(name) ?? true)
        .map(([name, field]) => this.control(name, field, slides, kept[name]));
    const first = controls(fields().first, true);
    const more = controls(fields().more, false);
    this.controls = [...first, ...more];
    const rows = (of: Control[]): HTMLElement[] => of.map(({ row }) => row);
    this.node = el('fieldset', { class: 'sampling' }, el('legend', {}, 'Sampling'), ...rows(first));
    if (more.length > 0) this.node.append(el('details', {}, el('summary', {}, 'More controls'), ...rows(more)));
  }

  /** The request's fields. */
  values(): Record<string, unknown> {
    const values: Record<string, unknown> = {};
    for (const { name, kind, input } of this.controls) {
      const value = parse(kind, input.value, input instanceof HTMLInputElement && input.checked);
      if (value !== undefined) values[name] = value;
    }
    return values;
  }

  /** Shows what holds where a control is empty. */
  defaultsOf(model: Model): void {
    for (const { name, kind, field, input, slider } of this.controls) {
      const value = model.default_sampling?.[name] ?? field.default;
      if (input instanceof HTMLInputElement && kind !== 'boolean') {
        const known = typeof value === 'number' ? String(Number(value.toFixed(4))) : 'random';
        input.placeholder = this.otherwise[name] ?? known;
        if (slider && input.value === '' && typeof value === 'number') slider.value = String(value);
      }
    }
  }

  set(name: string, value: string): void {
    const control = this.controls.find((each) => each.name === name);
    if (!control) return;
    control.input.value = value;
    this.keep();
  }

  /** Shows an error at the control that it names; false if it names none. */
  fail(error: unknown): boolean {
    this.clear();
    const at = error instanceof ApiError && this.controls.find(({ name }) => name === error.param);
    if (!at) return false;
    at.problem.textContent = (error as ApiError).message;
    at.input.setAttribute('aria-invalid', 'true');
    at.row.closest('details')?.setAttribute('open', '');
    at.input.focus();
    return true;
  }

  clear(): void {
    for (const { input, problem } of this.controls) {
      input.removeAttribute('aria-invalid');
      problem.textContent = '';
    }
  }

  private keep(): void {
    const values: Record<string, string> = {};
    for (const { name, input } of this.controls) {
      if (input instanceof HTMLInputElement && input.type === 'checkbox') values[name] = input.checked ? 'on' : '';
      else values[name] = input.value;
    }
    browser.setJson(`sampling.${this.page}`, values);
  }

  private control(name: string, field: Field, slides: boolean, value = ''): Control {
    const kind = kindOf(field);
    const id = newId('s');
    const [hint, problem] = [`${id}-hint`, el('p', { class: 'problem', role: 'alert' })];
    const common = { id, 'aria-describedby': hint, name };
    const slider = slides && kind === 'number' ? this.slider(name, field) : null;
    let input: HTMLInputElement | HTMLTextAreaElement;
    if (kind === 'lines') {
      input = el('textarea', { ...common, rows: 2, oninput: () => this.keep() });
      input.value = value;
    } else if (kind === 'boolean') {
      input = el('input', { ...common, type: 'checkbox', checked: value === 'on', onchange: () => this.keep() });
    } else {
      input = el('input', {
        ...common,
        type: 'number',
        inputmode: kind === 'integer' ? 'numeric' : 'decimal',
        min: field.minimum ?? field.exclusiveMinimum,
        max: field.maximum,
        step: kind === 'integer' ? 1 : 'any',
        oninput: () => {
          if (slider && input.value !== '') slider.value = input.value;
          this.keep();
        },
      });
      input.value = value;
    }
    if (slider) {
      if (value !== '') slider.value = value;
      slider.addEventListener('input', () => {
        input.value = slider.value;
        this.keep();
      });
    }
    const row = el(
      'div',
      { class: `control ${kind}` },
      el('label', { for: id }, name),
      input,
      slider,
      el('p', { class: 'hint', id: hint }, kind === 'lines' ? `${field.description}, one a line` : field.description),
      problem,
    );
    return { name, kind, field, row, input, slider, problem };
  }

  private slider(name: string, field: Field): HTMLInputElement {
    const attributes = { type: 'range', ...rangeOf(field), step: STEP, 'aria-label': `${name}, slider`, tabindex: -1 };
    const slider = el('input', attributes);
    slider.value = String(field.default);
    return slider;
  }
}
