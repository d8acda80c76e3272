// Chat: conversations with a model that was made for them.

import type { App, Page } from '../../app.ts';
import { converses, writesOwn } from '../../api/chat.ts';
import { isAbort, isAway, wantsKey } from '../../api/errors.ts';
import { el, fill, newId as newElementId } from '../../dom.ts';
import { plural } from '../../text/format.ts';
import { Again } from '../../ui/again.ts';
import { Frames } from '../../ui/frames.ts';
import { Meter } from '../../ui/meter.ts';
import { ModelPicker } from '../../ui/model_picker.ts';
import { announce, Notice } from '../../ui/notice.ts';
import { Sampling } from '../../ui/sampling.ts';
import { browser, visit } from '../../ui/store.ts';
import { Composer } from './composer.ts';
import { History } from './history.ts';
import { forgetChat, keepChat, listChats, loadChat } from './kept.ts';
import { Log } from './log.ts';
import {
  cacheOf,
  newChat,
  pathTo,
  say,
  shownPath,
  showVersion,
  takeOver,
  versionsOf,
  type Chat,
  type Figures,
  type Said,
} from './talk.ts';
import { forgetSession, Turn } from './turn.ts';

/** How often what came of an answer is kept: no more is lost where a browser ends without a word. */
const KEEP_MS = 1000;
const ANSWER_TOKENS = '1024';

export const chatPage = (app: App): Page => new ChatPage(app);

interface Running {
  chat: Chat;
  answer: Said;
  control: AbortController;
}

class ChatPage implements Page {
  readonly title = 'Chat';
  readonly node: HTMLElement;
  private readonly notice = new Notice();
  private readonly sampling = new Sampling('chat', { max_tokens: ANSWER_TOKENS }, undefined, {
    max_tokens: 'all left',
  });
  private readonly picker: ModelPicker;
  private readonly none = el('div', { class: 'empty-note', hidden: true });
  private readonly system: HTMLTextAreaElement;
  private readonly log: Log = new Log({
    versions: (said) => versionsOf(this.chat, said),
    showVersion: (said) => {
      showVersion(this.chat, said);
      this.keep(this.chat);
      this.draw();
    },
    again: (said) => this.answerAgain(said),
    edit: (said, text) => this.ask(text, said.parent),
    goOn: (said) => void this.run(said, said),
    canGoOn: (said) => this.canGoOn(said),
    isWritten: (said) => this.running?.answer === said,
    busy: () => this.running !== null || this.picker.model === null,
  });
  private readonly composer = new Composer(
    (text) => this.ask(text, this.chat.leaf),
    () => this.stop(),
  );
  private readonly history = new History((id) => this.remove(id));
  private readonly talk: HTMLElement;
  private chat: Chat;
  private running: Running | null = null;
  private isShown = false;
  /** The page goes in the midst of an answer. */
  private left = false;
  private readonly again = new Again(
    () => void this.load(),
    () => this.running !== null,
  );

  constructor(private readonly app: App) {
    this.chat = loadChat(visit.get('chat.current') ?? '') ?? newChat(browser.get('chat.system') ?? '');
    this.picker = new ModelPicker(app, 'chat', converses, (model) => {
      this.sampling.defaultsOf(model);
      this.draw();
    });
    const id = newElementId('system');
    this.system = el('textarea', { id, rows: 4, 'aria-describedby': `${id}-hint`, oninput: () => this.instruct() });
    this.talk = el(
      'section',
      { class: 'talk', 'aria-label': 'Chat' },
      this.log.node,
      this.notice.node,
      this.composer.node,
    );
    this.node = el(
      'div',
      { class: 'page chat' },
      el('div', { class: 'head' }, el('h1', {}, 'Chat'), this.picker.node),
      this.none,
      el(
        'div',
        { class: 'columns' },
        el(
          'aside',
          { class: 'past', 'aria-label': 'Chats' },
          el('button', { type: 'button', onclick: () => this.begin() }, 'New chat'),
          this.history.node,
        ),
        this.talk,
        el(
          'aside',
          { class: 'controls', 'aria-label': 'Controls' },
          el(
            'div',
            { class: 'system' },
            el('label', { for: id }, 'System prompt'),
            this.system,
            el(
              'p',
              { class: 'hint', id: `${id}-hint` },
              'What the model is told before the first message; may stay empty.',
            ),
          ),
          this.sampling.node,
        ),
      ),
    );
    this.listen();
    this.open(this.chat);
  }

  private listen(): void {
    // Wherever the cursor is.
    window.addEventListener('keydown', (event) => {
      if (!this.isShown) return;
      if (event.key === 'Escape') this.stop();
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.begin();
    });
    window.addEventListener('storage', ({ key }) => this.heard(key));
    window.addEventListener('pagehide', () => {
      if (!this.running) return;
      this.left = true;
      keepChat(this.running.chat);
    });
    window.addEventListener('pageshow', () => {
      if (this.left) location.reload(); // back from the browser's cache, without its stream
    });
  }

  show(parameters: URLSearchParams): void {
    this.isShown = true;
    const id = parameters.get('chat');
    if (id !== null && id !== this.chat.id) this.find(id);
    else this.tell();
    this.log.toEnd(); // what was off the page has no place in its box
    this.again.show();
    void this.load();
  }

  hide(): void {
    this.isShown = false;
    this.again.hide();
  }

  private async load(): Promise<void> {
    this.again.stop();
    try {
      const found = await this.picker.load();
      this.notice.answered();
      this.none.hidden = found;
      if (!found) {
        fill(this.none, ...missing());
        this.again.later();
      }
    } catch (error) {
      this.notice.fail(error);
      if (!wantsKey(error)) this.again.later();
    }
    this.draw();
  }

  /** Opens the chat that the address asks for. */
  private find(id: string): void {
    const chat = this.running?.chat.id === id ? this.running.chat : loadChat(id);
    if (chat) return this.open(chat);
    this.tell();
    this.notice.say('This browser has no such chat: it was deleted, or is another browser’s.');
  }

  private open(chat: Chat): void {
    this.chat = chat;
    this.system.value = chat.system;
    this.notice.clear();
    this.draw();
    this.log.toEnd();
    if (this.isShown) this.tell();
  }

  private begin(): void {
    if (this.chat.said.length > 0) this.open(newChat(browser.get('chat.system') ?? ''));
    this.composer.focus();
  }

  /** The address says which chat is shown, so that it can be gone back to and outlives a reload. */
  private tell(): void {
    const id = this.chat.said.length > 0 ? this.chat.id : '';
    visit.set('chat.current', id);
    const hash = id === '' ? '#/chat' : `#/chat?chat=${id}`;
    if (location.hash !== hash) history.replaceState(null, '', hash);
  }

  /** Another tab kept or deleted a chat. */
  private heard(key: string | null): void {
    if (key !== null && !key.startsWith('tvq.chat')) return;
    if (key === `tvq.chat.${this.chat.id}` && this.running?.chat !== this.chat) {
      const chat = loadChat(this.chat.id);
      if (chat) takeOver(this.chat, chat);
      if (document.activeElement !== this.system) this.system.value = this.chat.system;
    }
    this.draw();
  }

  private instruct(): void {
    this.chat.system = this.system.value;
    browser.set('chat.system', this.system.value);
    if (this.chat.said.length > 0) this.keep(this.chat);
  }

  /** Says `text` after `parent` and has it answered; false if that cannot be now. */
  private ask(text: string, parent: string | null): boolean {
    if (this.running || !this.picker.model) return false;
    const question = say(this.chat, { parent, role: 'user', text });
    void this.run(question, null);
    return true;
  }

  private answerAgain(answer: Said): void {
    const question = this.chat.said.find(({ id }) => id === answer.parent);
    if (question) void this.run(question, null);
  }

  private canGoOn(said: Said): boolean {
    const { model } = this.picker;
    const isOpen = said.end !== 'done' && said.text !== '' && said.id === this.chat.leaf;
    return isOpen && model !== null && writesOwn(model);
  }

  /** Has what is said up to `last` answered, or, where that is the answer `continued`, has that go on. */
  private async run(last: Said, continued: Said | null): Promise<void> {
    const { model } = this.picker;
    if (this.running || !model) return;
    const { chat } = this;
    const begin = { parent: last.id, role: 'assistant', text: '', model: model.id } as const;
    const answer = continued ?? say(chat, { ...begin, end: 'writing' });
    answer.end = 'writing';
    const control = new AbortController();
    this.running = { chat, answer, control };
    this.again.stop();
    this.notice.clear();
    this.sampling.clear();
    this.keep(chat);
    this.tell();
    this.draw();
    this.log.toEnd();
    announce('Answering.');
    const meter = new Meter();
    const figures: Figures = { tokens: 0, speed: null, context: null, most: model.max_position, bytes: null };
    const before = continued?.figures?.tokens ?? 0;
    let kept = performance.now();
    const frames = new Frames(() => {
      if (this.running?.answer !== answer) return;
      this.log.grow(answer, { ...figures, tokens: before + meter.tokens, speed: meter.recent() });
      if (performance.now() - kept < KEEP_MS) return;
      kept = performance.now();
      keepChat(chat);
    });
    const turn = new Turn(this.app.api, chat, model, this.sampling.values());
    const watch = {
      onSend: () => meter.start(),
      onWait: (ms: number) => this.notice.wait(ms),
      onPiece: (piece: { text: string; ids: number[] }) => {
        if (meter.tokens === 0) this.notice.clear();
        meter.add(piece.ids.length);
        answer.text += piece.text;
        frames.ask();
      },
    };
    let failed: unknown = null;
    try {
      const { finish, context, bytes } = await turn.answer(
        pathTo(chat, last.id),
        continued !== null,
        answer,
        watch,
        control.signal,
      );
      answer.end = finish === 'length' ? 'length' : 'done';
      Object.assign(figures, { context, bytes, cache: cacheOf(model, context) });
    } catch (error) {
      if (this.left) return;
      failed = error;
      answer.end = isAbort(error) ? 'stopped' : 'broken';
    }
    answer.figures = { ...figures, tokens: before + meter.tokens, speed: meter.overall() };
    this.running = null;
    this.ended(chat, answer, failed);
  }

  private ended(chat: Chat, answer: Said, failed: unknown): void {
    if (failed !== null && !isAbort(failed)) this.fail(failed);
    this.keep(chat);
    this.draw();
    const tokens = plural(answer.figures?.tokens ?? 0, 'token');
    announce(failed === null ? `Done: ${tokens}.` : `${isAbort(failed) ? 'Stopped' : 'Broke off'} after ${tokens}.`);
  }

  private fail(error: unknown): void {
    this.app.forget(); // a server that was started anew may have other models
    if (!this.sampling.fail(error)) this.notice.fail(error);
    if (isAway(error)) this.again.later();
  }

  private stop(): void {
    this.running?.control.abort();
  }

  private remove(id: string): void {
    if (this.running?.chat.id === id) {
      this.notice.say('This chat is being answered: stop that first.');
      return;
    }
    const sessions = (id === this.chat.id ? this.chat : loadChat(id))?.sessions ?? [];
    for (const held of sessions) void forgetSession(this.app.api, held.id);
    forgetChat(id);
    announce('Deleted.');
    if (id === this.chat.id) this.open(newChat(browser.get('chat.system') ?? ''));
    else this.draw();
    this.composer.focus();
  }

  private keep(chat: Chat): void {
    if (keepChat(chat)) return;
    this.notice.say(
      'The browser has no room to keep this chat: a reload would lose it. Delete chats that you need no more.',
    );
  }

  private draw(): void {
    const { model } = this.picker;
    this.log.show(shownPath(this.chat));
    this.history.draw(listChats(), this.chat.id);
    this.composer.update(this.running !== null, model !== null);
  }
}

const missing = (): HTMLElement[] => [
  el('p', {}, 'No model on this server was made for conversations: none has a chat template.'),
  el(
    'p',
    {},
    'Serve one beside the others with ',
    el('code', {}, 'tvq-server --model NAME=DIRECTORY'),
    ', and it appears here. ',
    el('code', {}, 'scripts/get-model smollm2'),
    ' fetches a small one.',
  ),
];
