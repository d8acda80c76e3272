// A text that grows in a session: the opening, what the model wrote, what the person added. The session
// on the server is the truth; what the page shows is brought in line with it after each turn.

import type { Api } from '../../api/client.ts';
import { complete, type Piece } from '../../api/completions.ts';
import { ApiError, isAbort, isMissing } from '../../api/errors.ts';
import * as sessions from '../../api/sessions.ts';
import type { Model, Position, Session } from '../../api/types.ts';
import { Reading } from './reading.ts';

/** Sessions of this page that nobody saves go after a day without use. */
const TTL_SECONDS = 86_400;
/** Where “Try again” goes back to. */
export const BEFORE = 'before the last turn';
/** Prompts of more tokens take long enough to be told of while they are read. */
const LONG_PROMPT = 4096;

/** Of a session: what holds at it is known. */
export interface Moment {
  version: number;
  position: number;
}

export interface TurnWatch {
  /** The text is asked for now. */
  onSend: () => void;
  onPiece: (piece: Piece) => void;
  /** While a long prompt is read: how many of its tokens are, null where nobody knows. */
  onRead: (tokens: number | null, of: number) => void;
  /** Tokens that the session holds, those on their way included; its bytes as told last. */
  onState: (tokens: number, bytes: number) => void;
  onWait: (ms: number) => void;
}

export type Ending =
  | { kind: 'done'; finish: string; tokens: number }
  /** Stopped by the person; `rest` is what the session holds beyond what was shown. */
  | { kind: 'stopped'; tokens: number; rest: string }
  /** Nothing of the turn is in the session. */
  | { kind: 'undone'; error: unknown }
  /** The same; and the session does not hold what is shown, as `open` will tell. */
  | { kind: 'parted' }
  /** What the session has of the turn is not known, since nobody could be asked: `open` will tell. */
  | { kind: 'unsure'; error: unknown }
  /** The server has the session no more. */
  | { kind: 'gone' };

export class Story {
  session: Session | null = null;
  /** When the session had what is shown: told by what wrote it. A server that only answers may know an older one. */
  moment: Moment = { version: 0, position: 0 };
  private turnStart = 0;

  constructor(
    private readonly api: Api,
    /** How often the server is asked while a turn is on its way. */
    private readonly lookMs = 1000,
  ) {}

  /** One turn: feeds `prompt`, then generates. Does not throw: the ending says what happened. */
  async turn(
    model: Model,
    prompt: string,
    sampling: Record<string, unknown>,
    watch: TurnWatch,
    signal: AbortSignal,
  ): Promise<Ending> {
    let shown = '';
    let seen = 0;
    let finish = 'stop';
    let promptTokens = 0;
    let sent = false;
    let told: Position | null = null;
    const made = this.session === null;
    try {
      if (made) await this.make(model, prompt);
      await this.markTurn();
      const begins = this.turnStart === 0 && this.session!.add_special_tokens !== false;
      promptTokens = prompt || begins ? (await sessions.tokenize(this.api, model.id, prompt, begins)).length : 0;
      signal.throwIfAborted();
      const reading =
        promptTokens > LONG_PROMPT ? await Reading.begin(this.api, promptTokens, this.turnStart > 0) : null;
      let read: number | null = reading ? 0 : promptTokens;
      const tokens = (): number => this.turnStart + (seen > 0 ? promptTokens + seen : (read ?? 0));
      watch.onState(this.turnStart, this.session!.bytes);
      const looking = this.lookWhile(async () => {
        if (reading && seen === 0) {
          read = await reading.done();
          if (seen === 0) watch.onRead(read, promptTokens);
        }
        return () => watch.onState(tokens(), this.session?.bytes ?? 0);
      });
      sent = true;
      watch.onSend();
      try {
        ({ session: told } = await complete(
          this.api,
          { ...this.request(model, prompt), ...sampling },
          (piece) => {
            shown += piece.text;
            seen += piece.ids.length || piece.tokens.length;
            finish = piece.finish ?? finish;
            watch.onPiece(piece);
            watch.onState(tokens(), this.session?.bytes ?? 0);
          },
          { signal, onWait: watch.onWait },
        ));
      } finally {
        looking();
      }
      await this.refreshAfter(told);
      watch.onState(this.session!.position, this.session!.bytes);
      return { kind: 'done', finish, tokens: seen };
    } catch (error) {
      if (await this.parted(error)) return { kind: 'parted' };
      if (!made && !sent && isMissing(error)) return { kind: 'gone' };
      if (sent) return this.afterBreak(error, model, promptTokens, { shown, seen }, watch, made);
      if (made) await this.drop();
      return { kind: 'undone', error };
    }
  }

  /** Takes back the last turn; false if there is nothing to go back to, so that the story begins anew. */
  async takeBack(): Promise<boolean> {
    const { session } = this;
    if (!session) return false;
    if (!session.marks.some(({ name }) => name === BEFORE)) {
      await sessions.deleteSession(this.api, session.id, this.version);
      this.session = null;
      return false;
    }
    await this.refreshAfter(await sessions.rewindSession(this.api, session.id, BEFORE, this.version));
    return true;
  }

  /**
   * Whether a call was refused because the session holds something else than what is shown: another page
   * wrote to it, or a server ended that had its newest versions in memory alone.
   */
  async parted(error: unknown): Promise<boolean> {
    if (!(error instanceof ApiError) || error.status !== 409 || !this.session) return false;
    return sessions.getSession(this.api, this.session.id).then(
      ({ version }) => version !== this.version,
      () => false, // the error itself says enough
    );
  }

  async branch(label: string): Promise<Session> {
    if (!this.session) throw new Error('There is no text yet.');
    const [made] = await sessions.forkSession(this.api, this.session.id, {
      count: 1,
      label,
      ttl: sessions.KEPT_SECONDS,
      expected_version: this.version,
    });
    return made!;
  }

  /**
   * Goes on with a session of the server; answers its text, null where no transcript was kept. With `left`, waits a
   * while for another version: that of a stream which was left, once the server has heard of it.
   */
  async open(id: string, left?: number): Promise<string | null> {
    if (left !== undefined) await sessions.sessionOnce(this.api, id, ({ version }) => version !== left);
    const session = await sessions.withTranscript(this.api, id);
    const none = session.position === 0 ? '' : null;
    const text = session.has_transcript ? await sessions.detokenize(this.api, session.model, session.transcript) : none;
    this.session = session;
    this.isAt(session);
    this.turnStart = session.position;
    return text;
  }

  private async make(model: Model, prompt: string): Promise<void> {
    this.session = await sessions.createSession(this.api, {
      model: model.id,
      label: labelOf(prompt),
      ttl: TTL_SECONDS,
    });
    this.isAt(this.session);
    this.turnStart = this.session.position;
  }

  get version(): number {
    return this.moment.version;
  }

  private isAt({ version, position }: Moment): void {
    this.moment = { version, position };
  }

  /** Marks where a turn begins, if there is anything before it. */
  private async markTurn(): Promise<void> {
    const { id, position } = this.session!;
    if (position === 0) return;
    const marked = await sessions.markSession(this.api, id, BEFORE, this.version);
    this.isAt(marked);
    this.turnStart = marked.position;
    await this.refresh();
  }

  private request(model: Model, prompt: string): { model: string; prompt: string; [field: string]: unknown } {
    return {
      model: model.id,
      prompt,
      session_id: this.session!.id,
      expected_version: this.version,
      commit_on_cancel: true,
      logprobs: 5,
      return_token_ids: true,
    };
  }

  private async refresh(): Promise<void> {
    this.session = await sessions.getSession(this.api, this.session!.id);
  }

  /** The session after what `told` of it: that was done, also where nobody can be asked for the rest any more. */
  private async refreshAfter(told: Position | null): Promise<void> {
    const before = this.session!;
    await this.refresh().catch(() => (this.session = { ...before, ...told }));
    // Not before: what is kept of a turn on its way has the version before it.
    if (told) this.isAt(told);
  }

  /** Asks for the session again and again, for its bytes, and has `onLook` tell of it; returns what ends it. */
  private lookWhile(onLook: () => Promise<() => void>): () => void {
    let on = true;
    const timer = setInterval(() => {
      Promise.all([this.refresh(), onLook()]).then(
        ([, tell]) => on && tell(),
        () => undefined, // the turn itself tells when the server is away
      );
    }, this.lookMs);
    return () => {
      on = false;
      clearInterval(timer);
    };
  }

  /** After an error or a stop of what was sent: what does the session hold? */
  private async afterBreak(
    error: unknown,
    model: Model,
    promptTokens: number,
    { shown, seen }: { shown: string; seen: number },
    watch: TurnWatch,
    made: boolean,
  ): Promise<Ending> {
    try {
      const kept = await this.settled(this.session!, isAbort(error) && seen > 0);
      if (kept.position < this.turnStart) return { kind: 'parted' }; // by a server that lost its end
      if (kept.position <= this.turnStart) {
        this.isAt(kept);
        if (made && kept.position === 0) await this.drop();
        // Without its model it is of no use.
        return !made && isMissing(error) ? { kind: 'gone' } : { kind: 'undone', error };
      }
      // From the turn's whole text: text lags behind its tokens, so that the rest is more than that of the rest's tokens.
      const textFrom = (token: number): Promise<string> =>
        sessions.detokenize(this.api, model.id, kept.transcript.slice(promptTokens + token));
      const text = await textFrom(0);
      const rest = text.startsWith(shown) ? text.slice(shown.length) : await textFrom(seen);
      watch.onState(kept.position, kept.bytes);
      this.isAt(kept);
      return { kind: 'stopped', tokens: kept.position - this.turnStart - promptTokens, rest };
    } catch (second) {
      return isMissing(second) ? { kind: 'gone' } : { kind: 'unsure', error: isAbort(error) ? second : error };
    }
  }

  /** The session once the turn's outcome is there, or at its old version if none comes. */
  private async settled(before: Session, expected: boolean): Promise<Session & { transcript: number[] }> {
    if (expected) await sessions.sessionOnce(this.api, before.id, ({ position }) => position > this.turnStart);
    const now = await sessions.withTranscript(this.api, before.id, this.turnStart);
    this.session = now;
    return now;
  }

  private async drop(): Promise<void> {
    const id = this.session?.id;
    this.session = null;
    if (id)
      await sessions.deleteSession(this.api, id).catch((error: unknown) => {
        if (!(error instanceof ApiError)) throw error; // it goes by itself after a day
      });
  }
}

function labelOf(prompt: string): string {
  const line = prompt.trim().replace(/\s+/g, ' ');
  return line.length > 48 ? `${line.slice(0, 47)}…` : line;
}
