// Opens sessions: the one that the address asks for, else the story of the last visit; and the one that is open, once
// more, where it is not what it was here. What the session holds is shown on the paper. The rest of what was seen goes
// into the box, from where it can be added. Until the server tells what the session holds, the paper shows all of it.

import type { App } from '../../app.ts';
import { explain, isMissing, mayPass, wantsKey } from '../../api/errors.ts';
import { plural } from '../../text/format.ts';
import { Again } from '../../ui/again.ts';
import type { ModelPicker } from '../../ui/model_picker.ts';
import type { Notice } from '../../ui/notice.ts';
import { visit } from '../../ui/store.ts';
import type { Box } from './box.ts';
import { isAsLeft, recall, unheld, wordsLeft } from './held.ts';
import { keep, manuscriptOf, storyOf, TEXT_ALONE, type KeptStory } from './kept.ts';
import type { LiveLine } from './live.ts';
import type { Paper } from './paper.ts';
import type { Story } from './story.ts';

export const OPENING = 'It was late in the evening when the carriage stopped before the old house, and';

/** The parts of the page that show a session. */
export interface Desk {
  story: Story;
  picker: ModelPicker;
  paper: Paper;
  box: Box;
  live: LiveLine;
  notice: Notice;
  /** Whether a text is written, or a turn taken back. */
  running: () => boolean;
  update: () => void;
  scrollToEnd: () => void;
}

export class Opener {
  /** A session's text is on its way. */
  private loading = false;
  /** The session that the address asks for, until it is opened. */
  private wanted: string | null = null;
  private opened = '';
  /** The session of the story that is shown, where the server is still to tell what it holds of that. */
  private unsure: string | null = null;
  private readonly again = new Again(() => void this.begin(this.wanted));

  constructor(
    private readonly app: App,
    private readonly desk: Desk,
  ) {}

  get busy(): boolean {
    return this.loading;
  }

  /** What is shown may be more than the session holds: nothing can be added to it yet. */
  get unsettled(): boolean {
    return this.unsure !== null;
  }

  show(session: string | null): void {
    this.again.show();
    void this.begin(session);
  }

  hide(): void {
    this.again.hide();
  }

  private async begin(session: string | null): Promise<void> {
    const { notice, picker, update } = this.desk;
    this.wanted = session;
    this.again.stop();
    this.showKept();
    try {
      await this.app.models();
      notice.clear(); // what is said of the models that there are comes afterwards
      if (!(await picker.load())) {
        notice.say('This server serves no model that writes text.');
        this.again.later();
        return;
      }
    } catch (error) {
      notice.fail(error);
      update();
      if (!wantsKey(error)) this.again.later();
      return;
    }
    await this.openWanted();
  }

  /** The story of the last visit, before the server has told what it has of it. */
  private showKept(): void {
    const { story, paper, running, update, scrollToEnd } = this.desk;
    if (story.session || this.unsettled || running()) return;
    const kept = keptStory();
    if (kept === null || kept.session !== visit.get('write.session')) return;
    // Another one is asked for; but first what became of the turn that was left.
    if (this.wanted !== null && this.wanted !== kept.session && !kept.writing) return;
    this.unsure = kept.session;
    paper.show(manuscriptOf(kept));
    update();
    scrollToEnd();
  }

  /** A turn broke off, and what the session holds of it is not known: asks until it is. */
  breakOff(): void {
    this.keep(true);
    this.unsure = this.desk.story.session?.id ?? null;
    this.askAgain();
  }

  /** The server is away: looks when it is back, so that nothing is said of that any longer. */
  askAgain(): void {
    this.app.forget(); // it may have other models then
    this.again.later();
  }

  /** What is said from now on is not of the server's being away. */
  askNoMore(): void {
    this.again.stop();
  }

  /** What is to be opened: first the story that is shown, so that nothing of it is lost to another one. */
  private next(): string | null {
    if (this.unsure !== null) return this.unsure;
    const { story } = this.desk;
    const id = this.wanted ?? (story.session ? null : visit.get('write.session'));
    return id && id !== story.session?.id && id !== this.opened ? id : null;
  }

  /** Opens what the address asks for, else the story of the last visit; not while another is written or opened. */
  async openWanted(): Promise<void> {
    const { notice, running, update } = this.desk;
    const id = this.next();
    if (id && (running() || this.loading)) {
      if (id === this.wanted) notice.say('The session that you chose opens when this one is done.');
      return;
    }
    if (id) await this.load(id);
    else this.wanted = null;
    update();
    // After the story, or asked for meanwhile; the story where what was asked for is gone.
    const after = this.next();
    if (after !== null && after !== id && !this.unsettled) await this.openWanted();
  }

  /** The session holds something else than what is shown: shows that. */
  async reopen(): Promise<void> {
    this.unsure = this.desk.story.session!.id;
    await this.load(this.unsure);
  }

  private async load(id: string): Promise<void> {
    const { update } = this.desk;
    this.loading = true;
    update();
    await this.open(id).catch((error: unknown) => this.refused(id, error));
    this.loading = false;
    update();
  }

  /** The session cannot be opened. Unless it can later, the story that is shown of it does not go on. */
  private refused(id: string, error: unknown): void {
    const { notice } = this.desk;
    if (mayPass(error)) this.again.later();
    if (mayPass(error) || wantsKey(error)) return notice.fail(error);
    const asked = this.wanted === id;
    if (asked) this.wanted = null;
    // Else it was asked for, by an address that may ask for another one by now.
    const isStory = this.unsure === id || (!asked && visit.get('write.session') === id);
    if (isStory) this.moveToBox(isMissing(error) ? undefined : explain(error));
    else notice.fail(error);
  }

  private async open(id: string): Promise<void> {
    const { story, picker, paper, box, live, notice, scrollToEnd } = this.desk;
    const kept = keptStory();
    const own = kept?.session === id ? kept : null;
    const text = await story.open(id, own?.writing ? own.version : undefined);
    const session = story.session!;
    if (this.wanted === id) this.wanted = null;
    this.opened = id;
    this.unsure = null;
    picker.pick(session.model);
    const rest = unheld(kept, session, text);
    const known = recall(kept, session, text);
    const unread = known.text === '' ? plural(session.position, 'token') : 'tokens before these';
    paper.show(known, text === null ? `(${unread} whose text was not kept)` : '');
    this.keep();
    if (box.text === OPENING) box.set('');
    const words = own ? wordsLeft(box.text, own, text) : box.text;
    if (words !== box.text) box.set(words);
    box.putBefore(rest);
    live.reset();
    live.tell(session);
    scrollToEnd();
    if (rest !== '' || (own && !isAsLeft(own, session)))
      notice.say(
        'The session is not what it was here: it went on elsewhere, or lost its end. This is what it holds now.',
        rest !== '' && ' What it does not hold is in the box below.',
      );
    else if (!own) {
      notice.clear(); // of the story before
      if (box.hasReturned) notice.say('The text in the box below is of another story: “Continue” adds it to this one.');
    }
  }

  /** Has the browser keep the story, for a reload; `writing`: a turn is on its way. */
  keep(writing = false): void {
    const { session, moment } = this.desk.story;
    visit.set('write.session', session?.id ?? '');
    if (!session) return void visit.set('write.story', '');
    const put = (most?: [number, number]): boolean =>
      visit.setJson('write.story', keep(session, moment, this.desk.paper.manuscript, writing, most));
    if (!put()) put(TEXT_ALONE);
  }

  /** The story ends here; its session stays with the server. */
  forget(): void {
    const { story, paper, live } = this.desk;
    story.session = null;
    this.opened = '';
    this.unsure = null;
    paper.clear();
    live.reset();
    this.keep();
    // Nor does the address ask for it any more, at a reload.
    if (this.wanted === null && location.hash.startsWith('#/write?')) history.replaceState(null, '', '#/write');
  }

  /** The person begins a new story, whatever was to be opened. */
  startOver(): void {
    this.wanted = null;
    if (this.unsettled) this.moveToBox('What the server has of this text is not known.');
    else this.forget();
  }

  /** The story that is shown cannot go on: its text goes into the box, from where a new one begins. */
  moveToBox(why = 'The server has this session no more.'): void {
    const { paper, box, notice } = this.desk;
    const { text } = paper.manuscript;
    this.forget();
    box.putBefore(text);
    if (box.text === '') box.set(OPENING);
    notice.say(why, text && ' The text is in the box below: writing on makes a new session of it.');
  }
}

/** What the browser has of the story of this visit. */
const keptStory = (): KeptStory | null => storyOf(visit.getJson<KeptStory | null>('write.story', null));
