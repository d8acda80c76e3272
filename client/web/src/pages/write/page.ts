// Write: text that the model continues, as it comes.

import type { App, Page } from '../../app.ts';
import { isAway, isMissing } from '../../api/errors.ts';
import type { Model } from '../../api/types.ts';
import { el, newId } from '../../dom.ts';
import { Aligner, type Piece } from '../../text/align.ts';
import { plural, significant } from '../../text/format.ts';
import { Action } from '../../ui/action.ts';
import { copyButton } from '../../ui/copy.ts';
import { downloadText, fileName } from '../../ui/download.ts';
import { Frames } from '../../ui/frames.ts';
import { ModelPicker } from '../../ui/model_picker.ts';
import { announce, Notice } from '../../ui/notice.ts';
import { Sampling } from '../../ui/sampling.ts';
import { ScrollEnd } from '../../ui/scroll_end.ts';
import { browser, visit } from '../../ui/store.ts';
import { rememberForks } from '../tree/names.ts';
import { Box } from './box.ts';
import { BranchForm } from './branch_form.ts';
import { LiveLine } from './live.ts';
import { Meter } from '../../ui/meter.ts';
import { Opener, OPENING } from './opener.ts';
import { Paper } from './paper.ts';
import { Story, type Ending } from './story.ts';
import { TokenText } from './tokens.ts';

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
  private readonly end = new ScrollEnd(this.sheet);
  private readonly frame = el('div', { class: 'frame' }, this.sheet);
  private readonly tokens = new TokenText(this.frame);
  private readonly box: Box;
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
  /** A turn is on its way. */
  private writing = false;
  /** The page goes in the midst of a turn: what becomes of that here tells nothing of the session any more. */
  private left = false;
  private readonly opener: Opener;

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
    const text = visit.get('write.box') ?? (visit.get('write.session') ? '' : OPENING);
    this.box = new Box(id, text, (event) => this.key(event));
    this.opener = new Opener(app, {
      story: this.story,
      picker: this.picker,
      paper: this.paper,
      box: this.box,
      live: this.live,
      notice: this.notice,
      running: () => this.running !== null,
      update: () => this.update(),
      scrollToEnd: () => this.end.follow(),
    });
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
            this.box.node,
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
    this.opener.show(parameters.get('session'));
  }

  hide(): void {
    this.opener.hide();
  }

  /** The page goes: what it has of a turn is kept, too. */
  private leave(): void {
    if (!this.writing || this.left) return;
    this.opener.keep(true);
    this.left = true;
    if (!this.story.session) visit.set('write.box', this.paper.manuscript.text + this.box.text);
  }

  private picked(model: Model): void {
    this.sampling.defaultsOf(model);
    const { session } = this.story;
    if (!session || session.model === model.id || this.running) return;
    if (this.picker.has(session.model)) this.startOver();
    else this.opener.moveToBox(`The server has the model “${session.model}” no more.`);
  }

  private async go(): Promise<void> {
    const { model } = this.picker;
    if (this.running || this.opener.busy || this.opener.unsettled || !model) return;
    const prompt = this.box.text;
    if (prompt === '' && !this.story.session && !model.add_bos_token) {
      this.notice.say('Write an opening first: this model has no token to begin from.');
      this.box.node.focus();
      return;
    }
    this.box.set('');
    await this.run(model, prompt);
  }

  private async run(model: Model, prompt: string, control = new AbortController()): Promise<void> {
    this.running = control;
    this.opener.askNoMore();
    this.notice.clear();
    this.sampling.clear();
    this.paper.begin(prompt);
    this.writing = true;
    if (this.story.session) this.opener.keep(true); // without a turn that was taken back
    this.update();
    this.live.begin();
    announce('Writing.');
    const aligner = new Aligner();
    const meter = new Meter();
    let came: Piece[] = [];
    let state: [number, number] | null = null;
    let begun = false;
    let sent = 0;
    const seconds = (): number => (performance.now() - sent) / 1000;
    let reads: number | null = null;
    let waits = false;
    /** What was waited for is there: the notice says no longer how far it is. */
    const waitNoMore = (): void => {
      if (waits) this.notice.clear();
      waits = false;
    };
    const draw = (): void => {
      const follow = this.end.isNear;
      this.paper.write(came);
      came = [];
      if (state) this.live.state(...state);
      state = null;
      if (this.running === control) this.live.speed(meter.recent());
      if (follow) this.end.follow();
    };
    const frames = new Frames(draw);
    const ending = await this.story.turn(
      model,
      prompt,
      this.sampling.values(),
      {
        onSend: () => {
          sent = performance.now();
          meter.start();
        },
        onRead: (tokens, of) => {
          waits = true;
          reads = of;
          this.notice.progress('Reading the text.', tokens, of, seconds());
        },
        onPiece: (piece) => {
          waitNoMore();
          if (reads !== null) this.notice.say(`Read ${plural(reads, 'token')} in ${significant(seconds())} s.`);
          reads = null;
          meter.add(piece.tokens.length || piece.ids.length);
          came.push(...aligner.push(piece.text, piece.tokens));
          frames.ask();
        },
        onState: (tokens, bytes) => {
          if (!begun && !this.left) this.opener.keep(true); // the session is there
          begun = true;
          state = [tokens, bytes];
          frames.ask();
        },
        onWait: (ms) => {
          waits = true;
          this.notice.wait(ms);
        },
      },
      control.signal,
    );
    if (this.left) return;
    waitNoMore();
    came.push(...aligner.finish());
    draw();
    this.running = null;
    this.writing = false;
    this.live.speed(meter.overall());
    await this.ended(ending);
    if (ending.kind === 'unsure')
      this.update(); // asked in a while
    else await this.opener.openWanted();
  }

  /** What the session holds of the turn stays on the paper; the rest of what was shown goes into the box. */
  private async ended(ending: Ending): Promise<void> {
    switch (ending.kind) {
      case 'done':
      case 'stopped':
        this.added(ending);
        return;
      case 'undone':
        this.undone(ending.error);
        return;
      case 'parted':
        this.takeIntoBox();
        announce('Nothing was added.');
        return this.opener.reopen();
      case 'unsure':
        this.notice.fail(ending.error);
        this.live.tell(this.story.session);
        this.opener.breakOff();
        announce('The text broke off.');
        return;
      case 'gone':
        this.app.forget(); // a server that was started anew may have other models
        this.opener.moveToBox();
        announce('Nothing was added.');
    }
  }

  private added(ending: Extract<Ending, { tokens: number }>): void {
    const follow = this.end.isNear;
    if (ending.kind === 'stopped') this.paper.add('written', ending.rest);
    this.opener.keep();
    if (follow) this.end.follow();
    announce(`${ending.kind === 'stopped' ? 'Stopped after' : 'Done:'} ${plural(ending.tokens, 'token')}.`);
  }

  private undone(error: unknown): void {
    this.app.forget(); // a server that was started anew may have other models
    const { written } = this.paper.manuscript;
    this.takeIntoBox();
    if (!this.sampling.fail(error)) this.fail(error, written && 'What came of it is in the box below.');
    this.live.tell(this.story.session);
    announce('Nothing was added.');
  }

  /** The session has nothing of the turn: its words, and what came after them, are the person's to add again. */
  private takeIntoBox(): void {
    const { lastTurn } = this.paper.manuscript;
    this.paper.undo();
    this.opener.keep();
    this.box.putBefore(lastTurn);
  }

  private fail(error: unknown, more = ''): void {
    this.notice.fail(error, more);
    if (isAway(error)) this.opener.askAgain();
  }

  private stop(): void {
    this.running?.abort();
  }

  private async tryAgain(): Promise<void> {
    const { model } = this.picker;
    if (this.running || this.opener.busy || this.opener.unsettled || !model || !this.paper.canUndo) return;
    const control = new AbortController();
    this.running = control;
    this.update();
    this.notice.clear();
    try {
      await this.story.takeBack();
    } catch (error) {
      const parted = await this.story.parted(error);
      this.running = null;
      return this.refused(error, parted);
    }
    const { prompt } = this.paper.manuscript;
    this.paper.undo();
    await this.run(model, prompt, control);
  }

  /** A call on the session was refused; it may hold something else than what is shown, or be gone. */
  private async refused(error: unknown, parted: boolean): Promise<void> {
    if (parted) await this.opener.reopen();
    else if (isMissing(error)) this.opener.moveToBox();
    else this.fail(error);
    this.update();
  }

  private startOver(): void {
    const kept = this.opener.unsettled ? null : this.story.session;
    const { opening } = this.paper.manuscript;
    this.opener.startOver();
    if (this.box.text === '') this.box.set(opening);
    const link = kept && el('a', { href: `#/tree?session=${kept.id}` }, 'Tree');
    if (link) this.notice.say('The text before is kept as a session: see ', link, '.');
    this.update();
    this.box.node.focus();
  }

  private async saveBranch(label: string): Promise<void> {
    try {
      const made = await this.story.branch(label);
      rememberForks([made]);
      const link = el('a', { href: `#/tree?session=${made.id}` }, 'Show it in the tree');
      this.notice.say(`Saved “${made.label}”. `, link, '.');
      this.branchForm.end();
    } catch (error) {
      const parted = await this.story.parted(error);
      // What was begun meanwhile tells itself what the session holds.
      if (this.running || this.opener.busy) this.fail(error);
      else await this.refused(error, parted);
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void this.go();
  }

  private update(): void {
    const running = this.running !== null;
    const { unsettled } = this.opener;
    const busy = running || this.opener.busy || unsettled;
    const begun = this.story.session !== null || unsettled;
    const { copy, download, again, fresh, branch } = this.buttons;
    this.action.say(begun ? 'Continue' : 'Write');
    this.action.run(running);
    this.action.node.disabled = !running && (busy || this.picker.model === null);
    again.disabled = busy || !this.paper.canUndo;
    branch.disabled = busy || !begun;
    if (branch.disabled) this.branchForm.close(); // what it would have saved is another text soon
    fresh.disabled = running || this.opener.busy || !begun;
    copy.disabled = download.disabled = this.paper.manuscript.parts.length === 0;
    this.boxLabel.textContent = begun ? 'Your words next (may stay empty)' : 'Opening';
    this.text.setAttribute('aria-busy', String(running));
    this.frame.classList.toggle('empty', !begun && !running);
  }
}

function button(text: string, onclick: () => void): HTMLButtonElement {
  return el('button', { type: 'button', onclick }, text);
}
