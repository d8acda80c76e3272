// An answer from the server. A session holds what was said, so that only what is new is computed; it is never needed, for
// all of the chat is here: where it is gone, in use, or holds something else, a new one takes its place.

import { converse, writesOwn } from '../../api/chat.ts';
import type { Api } from '../../api/client.ts';
import type { Outcome, Piece } from '../../api/completions.ts';
import { ApiError, isAway, isMissing } from '../../api/errors.ts';
import * as sessions from '../../api/sessions.ts';
import type { Model, Session } from '../../api/types.ts';
import { BEFORE } from '../write/story.ts';
import { beginOf, messagesOf, type Chat, type Held, type Said } from './talk.ts';

/** Sessions of chats go after so long without use; the chat goes on with a new one then. */
const TTL_SECONDS = 30 * 86_400;
/** Of one chat; where there are more, those that were used longest ago go. */
const MOST_SESSIONS = 6;
/** How often a session that is in use is asked for: until the server has heard that the answer before was stopped. */
const BUSY_TRIES = 40;

export interface AnswerWatch {
  /** The answer is asked for now. */
  onSend: () => void;
  onPiece: (piece: Piece) => void;
  onWait: (ms: number) => void;
}

export interface Answered {
  finish: string;
  context: number | null;
  bytes: number | null;
}

/** The session is of no more use to its chat. */
class Unusable extends Error {}

/** The server has the session no more, or not what it held; its model is another matter. */
const isLost = (error: unknown): boolean =>
  (isMissing(error) && (error as ApiError).code !== 'model_not_found') ||
  (error instanceof ApiError && error.status >= 400 && error.code === 'data_loss');

export class Turn {
  constructor(
    private readonly api: Api,
    private readonly chat: Chat,
    private readonly model: Model,
    private readonly sampling: Record<string, unknown>,
  ) {}

  /**
   * Answers what `path` ends with; `goesOn`: that is an answer, which is continued. Throws what went wrong, a stop too; the
   * session then holds what it held before.
   */
  async answer(
    path: Said[],
    goesOn: boolean,
    answer: Said,
    watch: AnswerWatch,
    signal: AbortSignal,
  ): Promise<Answered> {
    const held = await this.begin(path, signal);
    try {
      return await this.ask(path, goesOn, answer, held, watch, signal);
    } catch (error) {
      if (!(error instanceof Unusable)) throw error;
      return this.ask(path, goesOn, answer, await this.make(signal), watch, signal);
    }
  }

  private async ask(
    path: Said[],
    goesOn: boolean,
    answer: Said,
    held: Held | null,
    watch: AnswerWatch,
    signal: AbortSignal,
  ): Promise<Answered> {
    let finish = 'stop';
    let came = false;
    const onPiece = (piece: Piece): void => {
      came = true;
      finish = piece.finish ?? finish;
      watch.onPiece(piece);
    };
    const call = (): Promise<Outcome> => {
      watch.onSend();
      return converse(this.api, this.request(path, goesOn, held), onPiece, { signal, onWait: watch.onWait });
    };
    const outcome = held ? await this.on(held, call, signal, () => !came) : await call();
    return { finish, ...(await this.settle(held, answer, outcome)) };
  }

  /**
   * What `call` on the session answers, as soon as that is free. Throws `Unusable` where another session has to take its
   * place: it is gone, or another page of this chat went on with it or does not leave it.
   */
  private async on<T>(
    held: Held,
    call: () => Promise<T>,
    signal: AbortSignal,
    mayCall = (): boolean => true,
  ): Promise<T> {
    for (let tries = BUSY_TRIES; ; tries -= 1) {
      try {
        return await call();
      } catch (error) {
        if (!mayCall() || signal.aborted) throw error;
        const isBusy = error instanceof ApiError && error.status === 409;
        if (!isBusy && !isLost(error)) throw error;
        if (isBusy && tries > 1 && (await this.isAsItWas(held))) {
          await sessions.pause(signal);
          continue;
        }
        this.chat.sessions = this.chat.sessions.filter((other) => other !== held);
        throw new Unusable();
      }
    }
  }

  private request(path: Said[], goesOn: boolean, held: Held | null): Parameters<typeof converse>[1] {
    const all = held === null || writesOwn(this.model) || held.head === null;
    const from = all ? 0 : path.findIndex(({ id }) => id === held!.head) + 1;
    return {
      limit_to_context: true,
      ...this.sampling,
      model: this.model.id,
      messages: messagesOf(all ? this.chat.system : '', path.slice(from)),
      return_token_ids: true,
      ...(goesOn ? { continue_final_message: true, add_generation_prompt: false } : {}),
      ...(held ? { session_id: held.id, expected_version: held.version } : {}),
    };
  }

  /** The session to send to; null where the server keeps none for this chat. */
  private async begin(path: Said[], signal: AbortSignal): Promise<Held | null> {
    const begin = beginOf(this.chat, path, this.model.id, this.model.state_grows && writesOwn(this.model));
    if (begin.kind === 'new') return this.make(signal);
    try {
      const { held } = begin;
      const used = begin.kind === 'session' ? held : await this.on(held, () => this.fork(held, begin.mark), signal);
      await this.on(used, () => this.mark(used), signal);
      return used;
    } catch (error) {
      if (signal.aborted || isAway(error) || !(error instanceof Unusable || error instanceof ApiError)) throw error;
      return this.make(signal);
    }
  }

  private async make(signal: AbortSignal): Promise<Held | null> {
    const options = { signal, attempts: 1 };
    const body = { model: this.model.id, label: this.chat.title, ttl: TTL_SECONDS };
    try {
      const made = await sessions.createSession(this.api, body, options);
      return this.hold(made, null);
    } catch (error) {
      // The answer says what is wrong with the server, the key or the model; what is wrong with sessions alone does not matter.
      if (!(error instanceof ApiError) || error.status === 0 || error.status === 401) throw error;
      return null;
    }
  }

  private async fork({ id, head, marked }: Held, mark: boolean): Promise<Held> {
    const body = { count: 1, label: this.chat.title, ttl: TTL_SECONDS, ...(mark ? { mark: BEFORE } : {}) };
    const [made] = await sessions.forkSession(this.api, id, body);
    return this.hold(made!, mark ? marked : head);
  }

  private hold({ id, version }: Session, head: string | null): Held {
    const held = { id, model: this.model.id, system: this.chat.system, head, version, marked: null };
    const all = [...this.chat.sessions, held];
    for (const old of all.splice(0, Math.max(0, all.length - MOST_SESSIONS))) this.forget(old.id);
    this.chat.sessions = all;
    return held;
  }

  /** Where a second answer can begin from; a state that can be cut anywhere needs none. */
  private async mark(held: Held): Promise<void> {
    if (this.model.state_grows || held.head === null) return;
    held.version = (await sessions.markSession(this.api, held.id, BEFORE, held.version)).version;
    held.marked = held.head;
  }

  /** What the session holds now, which the server may be asked for no more. */
  private async settle(
    held: Held | null,
    answer: Said,
    { session, usage }: Outcome,
  ): Promise<{ context: number | null; bytes: number | null }> {
    const read = usage && usage.prompt_tokens + usage.completion_tokens;
    if (!held || !session) return { context: read, bytes: null };
    held.version = session.version;
    held.head = answer.id;
    this.chat.sessions = [...this.chat.sessions.filter((other) => other !== held), held];
    const now = await sessions.getSession(this.api, held.id).catch(() => null);
    return { context: session.position, bytes: now?.bytes ?? null };
  }

  private async isAsItWas({ id, version }: Held): Promise<boolean> {
    return sessions.getSession(this.api, id).then(
      (session) => session.version === version,
      () => false,
    );
  }

  private forget(id: string): void {
    void forgetSession(this.api, id);
  }
}

/** Whoever has it no more has nothing to say, and where the server is away it goes by itself. */
export const forgetSession = (api: Api, id: string): Promise<unknown> =>
  sessions.deleteSession(api, id).catch(() => undefined);
