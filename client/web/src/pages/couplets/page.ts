// Couplets: a first line in, second lines out, several at once.

import type { App, Page } from '../../app.ts';
import type { Model } from '../../api/types.ts';
import { el, fill, newId } from '../../dom.ts';
import { percent, plural } from '../../text/format.ts';
import { copyButton } from '../../ui/copy.ts';
import { downloadText } from '../../ui/download.ts';
import { announce } from '../../ui/notice.ts';
import { visit } from '../../ui/store.ts';
import { Workbench } from '../../ui/workbench.ts';
import { linesOf, type KeptLines } from './kept.ts';
import { constraint, unknownTo, vocabularyOf, type Vocabulary } from './vocabulary.ts';

const EXAMPLES = ['晋世文章昌二陆', '风弦未拨心先乱', '一句相思吟岁月'];
const SEPARATORS: Record<string, string> = { newline: '\n', tab: '\t', nothing: '' };
const MOST = 16;

export const coupletsPage = (app: App): Page => new CoupletsPage(app);

interface Answer {
  node: HTMLElement;
  line: HTMLElement;
  note: HTMLElement;
  text: string;
  logprobs: number[];
}

class CoupletsPage implements Page {
  readonly title = 'Couplets';
  readonly node: HTMLElement;
  private readonly bench: Workbench;
  private readonly first: HTMLInputElement;
  private readonly answersWanted: HTMLInputElement;
  private readonly sameLength: HTMLInputElement;
  private readonly separator: HTMLSelectElement;
  private readonly scrolls = el('div', { class: 'scrolls' });
  private readonly takeAway = [
    copyButton(() => this.found, 'Copy all lines'),
    el('button', { type: 'button', onclick: () => downloadText(this.found, 'couplets.txt') }, 'Download'),
  ];
  /** The first line and those that were found, a line each. */
  private found = '';
  private readonly vocabularies = new Map<string, Promise<Vocabulary>>();

  constructor(private readonly app: App) {
    this.bench = new Workbench(app, {
      title: this.title,
      name: 'couplets',
      lede: 'The two lines of a Chinese couplet are of one length and answer each other character by character. Give the first; the model looks for the second.',
      fits: (model) => model.tokenizer === 'characters',
      missing: [
        'No model on this server answers couplets. One that does reads characters: its ',
        el('code', {}, 'config.json'),
        ' names the tokenizer ',
        el('code', {}, 'characters'),
        ', and it was trained on pairs of lines.',
      ],
      example: 'couplets',
    });
    const [firstId, countId, separatorId] = [newId('first'), newId('count'), newId('separator')];
    const go = this.bench.action('Answer', () => this.answer());
    this.first = el('input', {
      id: firstId,
      autocomplete: 'off',
      maxlength: 60,
      oninput: () => this.take(this.first.value),
      onkeydown: (event) => {
        if (event.key === 'Enter' && !event.isComposing && !this.bench.busy) go.click();
      },
    });
    for (const button of this.takeAway) button.disabled = true;
    this.take(visit.get('couplets.first') ?? EXAMPLES[0]!);
    const chosen = visit.getAll('couplets.choices', 'string');
    const onchange = (): void => this.keepChoices();
    const value = chosen['candidates'] ?? 6;
    this.answersWanted = el('input', { id: countId, type: 'number', min: 1, max: MOST, step: 1, value, onchange });
    this.sameLength = el('input', { type: 'checkbox', checked: chosen['length'] !== 'any', onchange });
    this.separator = el(
      'select',
      { id: separatorId, onchange },
      ...Object.keys(SEPARATORS).map((name) => el('option', { selected: name === chosen['separator'] }, name)),
    );
    const form = el(
      'div',
      { class: 'form' },
      el('label', { for: firstId }, 'First line'),
      this.first,
      el(
        'div',
        { class: 'row examples' },
        ...EXAMPLES.map((line) => el('button', { type: 'button', lang: 'zh', onclick: () => this.choose(line) }, line)),
      ),
      el(
        'div',
        { class: 'row' },
        go,
        el('span', { class: 'field' }, el('label', { for: countId }, 'candidates'), this.answersWanted),
        el('label', { class: 'tick' }, this.sameLength, el('span', {}, 'As long as the first line')),
        ...this.takeAway,
      ),
    );
    const body = el(
      'div',
      { class: 'columns' },
      el('div', {}, form, this.bench.notice.node, this.scrolls),
      el(
        'aside',
        { 'aria-label': 'Controls' },
        this.bench.sampling.node,
        el(
          'details',
          {},
          el('summary', {}, 'How the model was trained'),
          el('div', { class: 'field' }, el('label', { for: separatorId }, 'between the lines'), this.separator),
        ),
      ),
    );
    this.node = this.bench.page(body);
    this.showKept();
  }

  show(): void {
    void this.bench.show();
  }

  hide(): void {
    this.bench.hide();
  }

  private keepChoices(): void {
    visit.setJson('couplets.choices', {
      candidates: this.answersWanted.value,
      length: this.sameLength.checked ? 'same' : 'any',
      separator: this.separator.value,
    });
  }

  private showKept(): void {
    const kept = linesOf(visit.getJson<KeptLines | null>('couplets.lines', null));
    if (!kept) return;
    const { first, lines } = kept;
    const answers = this.lay(first, lines.length);
    lines.forEach(([text, ...logprobs], i) => add(answers[i], text, logprobs));
    rank(answers);
    this.hand(first, answers);
  }

  private take(line: string): void {
    if (this.first.value !== line) this.first.value = line;
    this.first.lang = isHan(line) ? 'zh' : ''; // it decides between forms of a character, and the typeface
    visit.set('couplets.first', line);
  }

  private choose(line: string): void {
    this.take(line);
    this.first.focus();
  }

  private vocabulary(model: Model): Promise<Vocabulary> {
    const known = this.vocabularies.get(model.fingerprint ?? model.id);
    if (known) return known;
    const asked = vocabularyOf(this.app.api, model);
    this.vocabularies.set(model.fingerprint ?? model.id, asked);
    asked.catch(() => this.vocabularies.delete(model.fingerprint ?? model.id));
    return asked;
  }

  private async answer(): Promise<void> {
    const { model } = this.bench.picker;
    const first = this.first.value.trim();
    if (!model || this.bench.busy) return;
    if (first === '') {
      this.bench.notice.say('Write a first line, or take one of the examples.');
      this.first.focus();
      return;
    }
    const answers: Answer[] = [];
    await this.bench.run(
      (signal) => this.ask(model, first, answers, signal),
      () => this.keepWhatCame(first, answers),
    );
  }

  /** Lays the second lines that it asks for into `answers`. */
  private async ask(model: Model, first: string, answers: Answer[], signal: AbortSignal): Promise<void> {
    const vocabulary = await this.vocabulary(model);
    const unknown = unknownTo(vocabulary, first);
    if (unknown.length > 0) {
      this.bench.notice.say(
        `The model does not know ${unknown.map((c) => `“${c}”`).join(', ')}. Please write the line without.`,
      );
      return;
    }
    const n = Math.min(MOST, Math.max(1, Math.round(Number(this.answersWanted.value)) || 1));
    const length = this.sameLength.checked ? [...first].length : null;
    answers.push(...this.lay(first, n));
    announce(`Looking for ${plural(n, 'second line')}.`);
    try {
      await this.bench.complete(
        model,
        {
          prompt: first + (SEPARATORS[this.separator.value] ?? '\n'),
          n,
          logprobs: 1,
          ...constraint(vocabulary, first, length),
        },
        ({ index, text, tokens }) =>
          add(
            answers[index],
            text,
            tokens.flatMap(({ logprob }) => (logprob === null ? [] : [logprob])),
          ),
        signal,
      );
    } catch (error) {
      if (!this.keepWhatCame(first, answers)) this.showKept(); // nothing came: those before are there still
      throw error;
    }
    rank(answers);
    this.keep(first, answers);
    announce(`${plural(n, 'second line')} found.`);
  }

  /** Whether anything came. */
  private keepWhatCame(first: string, answers: Answer[]): boolean {
    const came = answers.some(({ text }) => text !== '');
    if (came) this.keep(first, answers);
    return came;
  }

  private keep(first: string, answers: Answer[]): void {
    const lines = answers.map(({ text, logprobs }): [string, ...number[]] => [text, ...logprobs]);
    visit.setJson('couplets.lines', { first, lines } satisfies KeptLines);
    this.hand(first, answers);
  }

  /** These are what can be taken away. */
  private hand(first: string, answers: Answer[]): void {
    this.found = [first, ...answers.map(({ text }) => text), ''].join('\n');
    for (const button of this.takeAway) button.disabled = false;
  }

  /** Room for `n` second lines to the first. */
  private lay(first: string, n: number): Answer[] {
    const answers = Array.from({ length: n }, (_, i) => newAnswer(i + 1));
    const upright = isHan(first);
    this.scrolls.classList.toggle('upright', upright);
    this.scrolls.style.setProperty('--length', String([...first].length));
    fill(
      this.scrolls,
      el('p', { class: 'first', lang: upright ? 'zh' : undefined }, ...byCharacter(first)),
      el('ol', { 'aria-label': 'Second lines', lang: upright ? 'zh' : undefined }, ...answers.map(({ node }) => node)),
    );
    return answers;
  }
}

const isHan = (text: string): boolean => /\p{Script=Han}/u.test(text);

const byCharacter = (text: string): HTMLElement[] => [...text].map((character) => el('span', {}, character));

function newAnswer(number: number): Answer {
  const line = el('p', { class: 'second' });
  const note = el('p', { class: 'note' });
  const answer: Answer = { node: el('li', {}), line, note, text: '', logprobs: [] };
  const copy = copyButton(() => answer.text, `Copy second line ${number}`);
  answer.node.append(line, el('div', { class: 'foot' }, note, copy));
  return answer;
}

function add(answer: Answer | undefined, text: string, logprobs: number[]): void {
  if (!answer) return;
  answer.text += text;
  answer.line.append(...byCharacter(text));
  answer.logprobs.push(...logprobs);
}

/** Says how likely each line is, a character, and which is the likeliest. */
function rank(answers: Answer[]): void {
  const means = answers.map(({ logprobs }) =>
    logprobs.length === 0 ? -Infinity : logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length,
  );
  const best = Math.max(...means);
  answers.forEach(({ node, note }, i) => {
    const mean = means[i]!;
    if (mean === -Infinity) return;
    note.textContent = `${percent(Math.exp(mean))} a character`;
    note.title = 'The mean probability of its characters (geometric)';
    if (mean === best && answers.length > 1) {
      node.classList.add('best');
      note.textContent = `likeliest, ${note.textContent}`;
    }
  });
}
