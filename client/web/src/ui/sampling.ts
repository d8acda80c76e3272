// Controls of sampling, under vLLM's names. An empty control is not sent: the model's default holds.

import type { Model } from '../api/types.ts';
import { ApiError } from '../api/errors.ts';
import { el, newId } from '../dom.ts';
import { browser } from './store.ts';

type Kind = 'number' | 'integer' | 'flag' | 'lines';

interface Spec {
  name: string;
  kind: Kind;
  hint: string;
  /** What vLLM takes when neither request nor model says anything. */
  otherwise?: number;
  min?: number;
  max?: number;
  step?: number;
  slider?: boolean;
  more?: boolean;
}

export const SPECS: Spec[] = [
  {
    name: 'temperature',
    kind: 'number',
    hint: 'low: what is likely; high: surprises',
    otherwise: 1,
    min: 0,
    max: 2,
    step: 0.05,
    slider: true,
  },
  {
    name: 'top_p',
    kind: 'number',
    hint: 'only the most likely that make up this share',
    otherwise: 1,
    min: 0.05,
    max: 1,
    step: 0.05,
    slider: true,
  },
  { name: 'max_tokens', kind: 'integer', hint: 'tokens of one continuation or answer', otherwise: 16, min: 1, step: 1 },
  { name: 'seed', kind: 'integer', hint: 'same seed, same result; empty: drawn anew', min: 0, step: 1 },
  {
    name: 'top_k',
    kind: 'integer',
    hint: 'only the k most likely tokens; 0: all',
    otherwise: 0,
    min: -1,
    step: 1,
    more: true,
  },
  {
    name: 'min_p',
    kind: 'number',
    hint: 'least likelihood, against the likeliest',
    otherwise: 0,
    min: 0,
    max: 1,
    step: 0.01,
    more: true,
  },
  {
    name: 'repetition_penalty',
    kind: 'number',
    hint: 'above 1: fewer repetitions',
    otherwise: 1,
    min: 0.01,
    step: 0.05,
    more: true,
  },
  {
    name: 'presence_penalty',
    kind: 'number',
    hint: 'against any token used before',
    otherwise: 0,
    min: -2,
    max: 2,
    step: 0.1,
    more: true,
  },
  {
    name: 'frequency_penalty',
    kind: 'number',
    hint: 'the same, for each use',
    otherwise: 0,
    min: -2,
    max: 2,
    step: 0.1,
    more: true,
  },
  { name: 'min_tokens', kind: 'integer', hint: 'no end before so many', otherwise: 0, min: 0, step: 1, more: true },
  { name: 'stop', kind: 'lines', hint: 'ends at any of these, one a line', more: true },
  { name: 'ignore_eos', kind: 'flag', hint: 'go on after the end of a text', more: true },
];

interface Control {
  spec: Spec;
  row: HTMLElement;
  input: HTMLInputElement | HTMLTextAreaElement;
  slider: HTMLInputElement | null;
  problem: HTMLElement;
}

/** The value to send; undefined for an empty control. */
export function parse(kind: Kind, text: string, checked: boolean): unknown {
  if (kind === 'flag') return checked || undefined;
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
    names: string[] = SPECS.map(({ name }) => name),
    /** What an empty control means here, where that is not what SPECS and the model say. */
    private readonly otherwise: Record<string, string> = {},
  ) {
    const kept = { ...own, ...browser.getAll(`sampling.${page}`, 'string') };
    this.controls = SPECS.filter(({ name }) => names.includes(name)).map((spec) => this.control(spec, kept[spec.name]));
    const rows = (more: boolean): HTMLElement[] =>
      this.controls.filter(({ spec }) => !!spec.more === more).map(({ row }) => row);
    this.node = el('fieldset', { class: 'sampling' }, el('legend', {}, 'Sampling'), ...rows(false));
    const rare = rows(true);
    if (rare.length > 0) this.node.append(el('details', {}, el('summary', {}, 'More controls'), ...rare));
  }

  /** The request's fields. */
  values(): Record<string, unknown> {
    const values: Record<string, unknown> = {};
    for (const { spec, input } of this.controls) {
      const value = parse(spec.kind, input.value, input instanceof HTMLInputElement && input.checked);
      if (value !== undefined) values[spec.name] = value;
    }
    return values;
  }

  /** Shows what holds where a control is empty. */
  defaultsOf(model: Model): void {
    for (const { spec, input, slider } of this.controls) {
      const value = model.default_sampling?.[spec.name] ?? spec.otherwise;
      if (input instanceof HTMLInputElement && spec.kind !== 'flag') {
        const known = typeof value === 'number' ? String(Number(value.toFixed(4))) : 'random';
        input.placeholder = this.otherwise[spec.name] ?? known;
        if (slider && input.value === '' && typeof value === 'number') slider.value = String(value);
      }
    }
  }

  set(name: string, value: string): void {
    const control = this.controls.find(({ spec }) => spec.name === name);
    if (!control) return;
    control.input.value = value;
    this.keep();
  }

  /** Shows an error at the control that it names; false if it names none. */
  fail(error: unknown): boolean {
    this.clear();
    const at = error instanceof ApiError && this.controls.find(({ spec }) => spec.name === error.param);
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
    for (const { spec, input } of this.controls) {
      if (input instanceof HTMLInputElement && input.type === 'checkbox') values[spec.name] = input.checked ? 'on' : '';
      else values[spec.name] = input.value;
    }
    browser.setJson(`sampling.${this.page}`, values);
  }

  private control(spec: Spec, value = ''): Control {
    const id = newId('s');
    const [hint, problem] = [`${id}-hint`, el('p', { class: 'problem', role: 'alert' })];
    const common = { id, 'aria-describedby': hint, name: spec.name };
    const slider = spec.slider ? this.slider(spec) : null;
    let input: HTMLInputElement | HTMLTextAreaElement;
    if (spec.kind === 'lines') {
      input = el('textarea', { ...common, rows: 2, oninput: () => this.keep() });
      input.value = value;
    } else if (spec.kind === 'flag') {
      input = el('input', { ...common, type: 'checkbox', checked: value === 'on', onchange: () => this.keep() });
    } else {
      input = el('input', {
        ...common,
        type: 'number',
        inputmode: spec.kind === 'integer' ? 'numeric' : 'decimal',
        min: spec.min,
        max: spec.max,
        step: spec.kind === 'integer' ? 1 : 'any',
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
      { class: `control ${spec.kind}` },
      el('label', { for: id }, spec.name),
      input,
      slider,
      el('p', { class: 'hint', id: hint }, spec.hint),
      problem,
    );
    return { spec, row, input, slider, problem };
  }

  private slider(spec: Spec): HTMLInputElement {
    const { min, max, step, otherwise } = spec;
    const slider = el('input', { type: 'range', min, max, step, 'aria-label': `${spec.name}, slider`, tabindex: -1 });
    slider.value = String(otherwise);
    return slider;
  }
}
