// Opens sessions: the one that the address asks for, else the story of the last visit, and anew one that is not what it
// was here. Where the server has a session no more, its text goes into the box.

import type { App } from '../../app.ts';
import { ApiError, mayPass, wantsKey } from '../../api/errors.ts';
import { plural } from '../../text/format.ts';
import { Again } from '../../ui/again.ts';
import type { ModelPicker } from '../../ui/model_picker.ts';
import type { Notice } from '../../ui/notice.ts';
import { visit } from '../../ui/store.ts';
import type { Box } from './box.ts';
import { keep, recall, storyOf, textOf, unheld, type KeptStory } from './kept.ts';
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
  private readonly again = new Again(() => void this.begin(this.wanted));

  constructor(
    private readonly app: App,
    private readonly desk: Desk,
  ) {}

  get busy(): boolean {
    return this.loading;
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

  /** Opens what the address asks for, else the story of the last visit; not while another is written or opened. */
  async openWanted(): Promise<void> {
    const { story, notice, running, update } = this.desk;
    const asked = this.wanted !== null;
    const id = this.wanted ?? (story.session ? null : visit.get('write.session'));
    const open = id && id !== story.session?.id && id !== this.opened;
    if (open && (running() || this.loading)) {
      if (asked) notice.say('The session that you chose opens when this one is done.');
      return;
    }
    this.wanted = null;
    if (open) {
      this.loading = true;
      update();
      await this.open(id, asked).catch((error: unknown) => {
        notice.fail(error);
        if (!asked && mayPass(error)) this.again.later();
      });
      this.loading = false;
    }
    update();
    if (this.wanted !== null) await this.openWanted(); // asked for meanwhile
  }

  /** False: the server has the session no more, which has been told. */
  private async open(id: string, asked: boolean): Promise<boolean> {
    const { story, picker, paper, box, live, scrollToEnd } = this.desk;
    const kept = storyOf(visit.getJson<KeptStory | null>('write.story', null));
    let text: string | null;
    try {
      text = await story.open(id, kept?.session === id && kept.writing ? kept.version : undefined);
    } catch (error) {
      const gone = error instanceof ApiError && error.status === 404;
      const told = gone && kept?.session === id ? textOf(kept) : '';
      if (told === '' && (asked || !gone)) throw error;
      if (told !== '') this.lose(told);
      else this.forget(); // the story of the last visit: a new one begins
      if (box.text === '') box.set(OPENING);
      return false;
    }
    const session = story.session!;
    this.opened = id;
    picker.pick(session.model);
    paper.clear();
    if (text === null) paper.aside('note', `(${plural(session.position, 'token')} whose text was not kept)`);
    else paper.show(recall(kept, session, text));
    if (asked && box.text === OPENING) box.set('');
    box.putBefore(unheld(kept, session));
    this.keep();
    live.reset();
    live.tell(session);
    scrollToEnd();
    return true;
  }

  /** The session holds something else than what is shown: shows that. */
  async reopen(): Promise<void> {
    const { story, notice, update } = this.desk;
    this.loading = true;
    update();
    try {
      if (await this.open(story.session!.id, true))
        notice.say(
          'The session is not what it was here: it went on elsewhere, or lost its end. This is what it holds now.',
        );
    } catch (error) {
      notice.fail(error);
    }
    this.loading = false;
    update();
  }

  /** Has the browser keep the story, for a reload; `writing`: a turn is on its way. */
  keep(writing = false): void {
    const { session, version } = this.desk.story;
    visit.set('write.session', session?.id ?? '');
    if (session) visit.setJson('write.story', keep(session, version, this.desk.paper.manuscript, writing));
    else visit.set('write.story', '');
  }

  /** The story ends here; its session stays with the server. */
  forget(): void {
    const { story, paper, live } = this.desk;
    story.session = null;
    this.opened = '';
    paper.clear();
    live.reset();
    this.keep();
    // Nor does the address ask for it any more, at a reload.
    if (location.hash.startsWith('#/write?')) history.replaceState(null, '', '#/write');
  }

  /** The server has no more what the session needs: its text goes into the box, from where a new one begins. */
  lose(text: string, what = 'this session'): void {
    const { box, notice } = this.desk;
    box.putBefore(text);
    this.forget();
    notice.say(`The server has ${what} no more. The text is in the box below: writing on makes a new session of it.`);
  }
}
