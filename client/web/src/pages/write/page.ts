// Write: text that the model continues, as it comes.

import type { App, Page } from '../../app.ts';
import { ApiError, mayPass, wantsKey } from '../../api/errors.ts';
import type { Model } from '../../api/types.ts';
import { el, newId } from '../../dom.ts';
import { Aligner, type Piece } from '../../text/align.ts';
import { plural } from '../../text/format.ts';
import { Action } from '../../ui/action.ts';
import { Again } from '../../ui/again.ts';
import { copyButton } from '../../ui/copy.ts';
import { downloadText, fileName } from '../../ui/download.ts';
import { Frames } from '../../ui/frames.ts';
import { ModelPicker } from '../../ui/model_picker.ts';
import { announce, Notice } from '../../ui/notice.ts';
import { Sampling } from '../../ui/sampling.ts';
import { browser, visit } from '../../ui/store.ts';
import { rememberForks } from '../tree/names.ts';
import { BranchForm } from './branch_form.ts';
import { keep, recall, storyOf, textOf, unheld, type KeptStory } from './kept.ts';
import { LiveLine } from './live.ts';
import { Meter } from './meter.ts';
import { Paper } from './paper.ts';
import { Story, type Ending } from './story.ts';
import { TokenText } from './tokens.ts';

const OPENING = 'It was late in the evening when the carriage stopped before the old house, and';

export const writePage = (app: App): Page => new WritePage(app);

class WritePage implements Page {
  readonly title = 'Write';
  readonly node: HTMLElement;
  private readonly story: Story;
  private readonly notice = new Notice();
  private readonly live = new LiveLine();
  private readonly sampling = new Sampling('write', { max_tokens: '200' });
  private readonly picker: ModelPicker;
  private readonly paper: Paper = new Paper(newId('text'), () => this.tokens);
  private readonly text = this.paper.node;
  private readonly sheet = el(
    'div',
    { class: 'sheet', tabindex: 0, role: 'region', 'aria-label': 'The text' },
    this.text,
  );
  private readonly frame = el('div', { class: 'frame' }, this.sheet);
  private readonly tokens = new TokenText(this.frame);
  private readonly box: HTMLTextAreaElement;
  private readonly boxLabel: HTMLLabelElement;
  private readonly buttons = {
    copy: copyButton(() => this.paper.manuscript.text),
    download: button('Download', () => {
      const title = fileName(this.story.session?.label ?? '', 'text');
      downloadText(this.paper.manuscript.text, `${title}.txt`);
    }),
    again: button('Try again', () => void this.tryAgain()),
    fresh: button('Start over', () => this.startOver()),
    branch: button('Save as a branch', () =>
      this.branchForm.ask(`branch of ${this.story.session?.label || 'the text'}`),
    ),
  };
  private readonly action = new Action(
    'Write',
    () => void this.go(),
    () => this.stop(),
  );
  private readonly branchForm = new BranchForm(
    (name) => void this.saveBranch(name),
    () => this.buttons.branch.focus(),
  );
  private running: AbortController | null = null;
  /** A session's text is on its way. */
  private loading = false;
  /** The session that the address asks for, until it is opened. */
  private wanted: string | null = null;
  private readonly again = new Again(() => void this.begin(this.wanted));
  /** A turn is on its way. */
  private writing = false;
  /** The page goes in the midst of a turn: what becomes of that here tells nothing of the session any more. */
  private left = false;
  private opened = '';

  constructor(private readonly app: App) {
    this.story = new Story(app.api);
    this.picker = new ModelPicker(
      app,
      'write',
      (model) => !model.image,
      (model) => this.picked(model),
    );
    const id = newId('box');
    this.boxLabel = el('label', { for: id }, 'Opening');
    this.box = el('textarea', {
      id,
      rows: 3,
      'aria-describedby': `${id}-hint`,
      oninput: () => visit.set('write.box', this.box.value),
      onkeydown: (event) => this.key(event),
    });
    this.box.value = visit.get('write.box') ?? (visit.get('write.session') ? '' : OPENING);
    const colour = el('input', {
      type: 'checkbox',
      checked: browser.get('surprise') === 'on',
      onchange: () => {
        browser.set('surprise', colour.checked ? 'on' : '');
        this.text.classList.toggle('coloured', colour.checked);
      },
    });
    this.text.classList.toggle('coloured', colour.checked);
    const { copy, download, again, fresh, branch } = this.buttons;
    this.node = el(
      'div',
      { class: 'page write' },
      el('div', { class: 'head' }, el('h1', {}, 'Write'), this.picker.node),
      el(
        'div',
        { class: 'columns' },
        el(
          'div',
          { class: 'desk' },
          this.frame,
          el(
            'div',
            { class: 'row sheet-foot' },
            el('label', { class: 'tick' }, colour, el('span', {}, 'Colour by surprise')),
            copy,
            download,
          ),
          el(
            'div',
            { class: 'composer' },
            el(
              'div',
              { class: 'bar-head' },
              this.boxLabel,
              el('span', { class: 'hint keys', id: `${id}-hint` }, 'Ctrl + Enter writes, Esc stops'),
            ),
            this.box,
            el('div', { class: 'row' }, this.action.node, again, branch, fresh),
            this.branchForm.node,
            this.notice.node,
          ),
        ),
        el('aside', { 'aria-label': 'Figures and controls' }, this.live.node, this.sampling.node),
      ),
    );
    this.node.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.running) this.stop();
    });
    this.update();
    window.addEventListener('pagehide', () => this.leave());
    window.addEventListener('pageshow', () => {
      if (this.left) location.reload(); // back from the browser's cache, without its stream
    });
  }

  show(parameters: URLSearchParams): void {
    this.again.show();
    void this.begin(parameters.get('session'));
  }

  hide(): void {
    this.again.hide();
  }

  private async begin(session: string | null): Promise<void> {
    this.wanted = session;
    this.again.stop();
    try {
      await this.app.models();
      this.notice.clear(); // what is said of the models that there are comes afterwards
      if (!(await this.picker.load())) {
        this.notice.say('This server serves no model that writes text.');
        this.again.later();
        return;
      }
    } catch (error) {
      this.notice.fail(error);
      this.update();
      if (!wantsKey(error)) this.again.later();
      return;
    }
    await this.openWanted();
  }

  /** Opens what the address asks for, else the story of the last visit; not while another is written or opened. */
  private async openWanted(): Promise<void> {
    const asked = this.wanted !== null;
    const id = this.wanted ?? (this.story.session ? null : visit.get('write.session'));
    const open = id && id !== this.story.session?.id && id !== this.opened;
    if (open && (this.running || this.loading)) {
      if (asked) this.notice.say('The session that you chose opens when this one is done.');
      return;
    }
    this.wanted = null;
    if (open) {
      this.loading = true;
      this.update();
      await this.open(id, asked).catch((error: unknown) => {
        this.notice.fail(error);
        if (!asked && mayPass(error)) this.again.later();
      });
      this.loading = false;
    }
    this.update();
    if (this.wanted !== null) await this.openWanted(); // asked for meanwhile
  }

  /** False: the server has the session no more, which has been told. */
  private async open(id: string, asked: boolean): Promise<boolean> {
    const kept = storyOf(visit.getJson<KeptStory | null>('write.story', null));
    let text: string | null;
    try {
      text = await this.story.open(id, kept?.session === id && kept.writing ? kept.version : undefined);
    } catch (error) {
      const gone = error instanceof ApiError && error.status === 404;
      const told = gone && kept?.session === id ? textOf(kept) : '';
      if (told === '' && (asked || !gone)) throw error;
      if (told !== '') this.lose(told);
      else this.forget(); // the story of the last visit: a new one begins
      if (this.box.value === '') this.setBox(OPENING);
      return false;
    }
    const session = this.story.session!;
    this.opened = id;
    this.picker.pick(session.model);
    this.paper.clear();
    if (text === null) this.paper.aside('note', `(${plural(session.position, 'token')} whose text was not kept)`);
    else this.paper.show(recall(kept, session, text));
    if (asked && this.box.value === OPENING) this.setBox('');
    this.setBox(unheld(kept, session) + this.box.value);
    this.keep();
    this.live.reset();
    this.tellState();
    this.follow(true);
    return true;
  }

  /** Has the browser keep the story, for a reload. */
  private keep(): void {
    const { session, version } = this.story;
    visit.set('write.session', session?.id ?? '');
    if (session) visit.setJson('write.story', keep(session, version, this.paper.manuscript, this.writing));
    else visit.set('write.story', '');
  }

  /** What the session holds, as the server told it last; nothing of what was on its way. */
  private tellState(): void {
    const { session } = this.story;
    if (session) this.live.state(session.position, session.bytes);
    else this.live.reset();
  }

  /** The page goes: what it has of a turn is kept, too. */
  private leave(): void {
    if (!this.writing || this.left) return;
    this.keep();
    this.left = true;
    if (!this.story.session) visit.set('write.box', this.paper.manuscript.prompt + this.box.value);
  }

  /** The story ends here; its session stays with the server. */
  private forget(): void {
    this.story.session = null;
    this.opened = '';
    this.paper.clear();
    this.live.reset();
    this.keep();
    // Nor does the address ask for it any more, at a reload.
    if (location.hash.startsWith('#/write?')) history.replaceState(null, '', '#/write');
  }

  private picked(model: Model): void {
    this.sampling.defaultsOf(model);
    const { session } = this.story;
    if (!session || session.model === model.id || this.running) return;
    if (this.picker.has(session.model)) this.startOver();
    else this.lose(this.paper.manuscript.text, `the model “${session.model}”`);
  }

  private async go(): Promise<void> {
    const { model } = this.picker;
    if (this.running || this.loading || !model) return;
    const prompt = this.box.value;
    if (prompt === '' && !this.story.session && !model.add_bos_token) {
      this.notice.say('Write an opening first: this model has no token to begin from.');
      this.box.focus();
      return;
    }
    this.setBox('');
    await this.run(model, prompt);
  }

  private async run(model: Model, prompt: string, control = new AbortController()): Promise<void> {
    this.running = control;
    this.notice.clear();
    this.sampling.clear();
    this.paper.begin(prompt);
    this.writing = true;
    this.update();
    this.live.begin();
    announce('Writing.');
    const aligner = new Aligner();
    const meter = new Meter();
    let came: Piece[] = [];
    let state: [number, number] | null = null;
    let begun = false;
    let reads = false;
    const draw = (): void => {
      const follow = this.nearEnd();
      this.paper.write(came);
      came = [];
      if (state) this.live.state(...state);
      state = null;
      if (this.running === control) this.live.speed(meter.recent());
      this.follow(follow);
    };
    const frames = new Frames(draw);
    const ending = await this.story.turn(
      model,
      prompt,
      this.sampling.values(),
      {
        onSend: () => meter.start(),
        onRead: (tokens, of) => {
          reads = true;
          this.notice.progress('Reading the text.', tokens, of);
        },
        onPiece: (piece) => {
          if (reads) this.notice.clear();
          reads = false;
          meter.add(piece.tokens.length || piece.ids.length);
          came.push(...aligner.push(piece.text, piece.tokens));
          frames.ask();
        },
        onState: (tokens, bytes) => {
          if (!begun && !this.left) this.keep(); // the session is there
          begun = true;
          state = [tokens, bytes];
          frames.ask();
        },
        onWait: (ms) => this.notice.wait(ms),
      },
      control.signal,
    );
    if (this.left) return;
    if (reads) this.notice.clear();
    came.push(...aligner.finish());
    draw();
    this.running = null;
    this.writing = false;
    this.live.speed(meter.overall());
    if (ending.kind === 'parted') {
      this.paper.undo();
      this.keep();
      await this.parted(prompt);
    } else this.ended(ending, prompt);
    await this.openWanted();
  }

  private ended(ending: Exclude<Ending, { kind: 'parted' }>, prompt: string): void {
    if (ending.kind === 'undone') {
      this.app.forget(); // a server that was started anew may have other models
      const { written } = this.paper.manuscript;
      this.paper.undo();
      this.setBox(prompt + this.box.value);
      if (!this.sampling.fail(ending.error)) this.notice.fail(ending.error);
      const gone = ending.error instanceof ApiError && ending.error.status === 404 && this.story.session;
      if (gone) this.lose(this.paper.manuscript.text);
      else if (written !== '') this.paper.aside('lost', written);
      this.paper.settle();
      this.keep();
      this.tellState();
      announce('Nothing was added.');
      return;
    }
    const follow = this.nearEnd();
    if (ending.kind === 'stopped') this.paper.add('written', ending.rest);
    else this.notice.clear();
    this.keep();
    this.follow(follow);
    announce(`${ending.kind === 'stopped' ? 'Stopped after' : 'Done:'} ${plural(ending.tokens, 'token')}.`);
  }

  /** The session holds something else than what is shown: shows that, and keeps the words. */
  private async parted(prompt: string): Promise<void> {
    this.setBox(prompt + this.box.value);
    announce('Nothing was added.');
    this.loading = true;
    this.update();
    try {
      if (await this.open(this.story.session!.id, true))
        this.notice.say(
          'The session is not what it was here: it went on elsewhere, or lost its end. This is what it holds now.',
        );
    } catch (error) {
      this.notice.fail(error);
    }
    this.loading = false;
    this.update();
  }

  /** The server has no more what the session needs: its text goes into the box, from where a new one begins. */
  private lose(text: string, what = 'this session'): void {
    this.setBox(text + this.box.value);
    this.forget();
    this.notice.say(
      `The server has ${what} no more. The text is in the box below: writing on makes a new session of it.`,
    );
  }

  private stop(): void {
    this.running?.abort();
  }

  private async tryAgain(): Promise<void> {
    const { model } = this.picker;
    if (this.running || this.loading || !model || !this.paper.canUndo) return;
    const control = new AbortController();
    this.running = control;
    this.update();
    this.notice.clear();
    try {
      await this.story.takeBack();
    } catch (error) {
      const parted = await this.story.parted(error);
      this.running = null;
      this.update();
      if (parted) await this.parted('');
      else this.notice.fail(error);
      return;
    }
    const { prompt } = this.paper.manuscript;
    this.paper.undo();
    await this.run(model, prompt, control);
  }

  private startOver(): void {
    const kept = this.story.session;
    const { opening } = this.paper.manuscript;
    this.forget();
    if (this.box.value === '') this.setBox(opening);
    const link = kept && el('a', { href: `#/tree?session=${kept.id}` }, 'Tree');
    if (link) this.notice.say('The text before is kept as a session: see ', link, '.');
    this.update();
    this.box.focus();
  }

  private async saveBranch(label: string): Promise<void> {
    try {
      const made = await this.story.branch(label);
      rememberForks([made]);
      const link = el('a', { href: `#/tree?session=${made.id}` }, 'Show it in the tree');
      this.notice.say(`Saved “${made.label}”. `, link, '.');
      this.branchForm.end();
    } catch (error) {
      this.notice.fail(error);
    }
  }

  private setBox(text: string): void {
    this.box.value = text;
    visit.set('write.box', text);
  }

  private key(event: KeyboardEvent): void {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void this.go();
  }

  private nearEnd(): boolean {
    return this.sheet.scrollTop + this.sheet.clientHeight > this.sheet.scrollHeight - 60;
  }

  private follow(wanted: boolean): void {
    if (wanted) this.sheet.scrollTop = this.sheet.scrollHeight;
  }

  private update(): void {
    const running = this.running !== null;
    const busy = running || this.loading;
    const begun = this.story.session !== null;
    const { copy, download, again, fresh, branch } = this.buttons;
    this.action.say(begun ? 'Continue' : 'Write');
    this.action.run(running);
    this.action.node.disabled = !running && (this.loading || this.picker.model === null);
    again.disabled = busy || !this.paper.canUndo;
    branch.disabled = busy || !begun;
    if (branch.disabled) this.branchForm.close(); // what it would have saved is another text soon
    fresh.disabled = busy || !begun;
    copy.disabled = download.disabled = this.paper.manuscript.parts.length === 0;
    this.boxLabel.textContent = begun ? 'Your words next (may stay empty)' : 'Opening';
    this.text.setAttribute('aria-busy', String(running));
    this.frame.classList.toggle('empty', !begun && !running);
  }
}

function button(text: string, onclick: () => void): HTMLButtonElement {
  return el('button', { type: 'button', onclick }, text);
}
