// A gateway in memory, for tests: one token per character, sessions with transcripts, text from a cycle.

import type { Mark, Session } from '../src/api/types.ts';

interface Held extends Session {
  transcript: number[];
  kept: Map<string, number[]>;
}

const CYCLE = ' and so it went on';
const STATE_BYTES = 4096;

const json = (body: unknown, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json', ...headers } });

/** Type and code of an error, in the gateway's words. */
const WORDS: Record<number, [string, string | null]> = {
  400: ['invalid_request_error', null],
  404: ['invalid_request_error', 'not_found'],
  409: ['conflict_error', 'conflict'],
  429: ['rate_limit_error', 'rate_limit_exceeded'],
  500: ['server_error', 'data_loss'],
  503: ['server_error', 'unavailable'],
};

/** The object of an error, as an answer of its own and as an event of a stream. */
export function errorObject(status: number, message: string, param: string | null = null): unknown {
  const [type, code] = WORDS[status]!;
  return { error: { message, type, param, code } };
}

export const failure = (status: number, message: string, param: string | null = null, headers = {}): Response =>
  json(errorObject(status, message, param), status, headers);

export const idsOf = (text: string): number[] => [...text].map((c) => c.codePointAt(0)!);
const BEGIN_ID = 0x110000;
/** The id that begins a context has no text. */
export const textOf = (ids: number[]): string => String.fromCodePoint(...ids.filter((id) => id !== BEGIN_ID));

/** The answer to a call that expects another version. */
function moved({ id, version }: Held, expected: unknown): Response | null {
  if (expected === undefined || expected === null || Number(expected) === version) return null;
  return failure(409, `session ${id} is at version ${version}`);
}

export class FakeGateway {
  readonly sessions = new Map<string, Held>();
  readonly calls: { path: string; method: string; body: unknown; headers: Headers }[] = [];
  /** Answers that come before the gateway's own, first in, first out. */
  readonly queue: Response[] = [];
  /** Waits before each generated token. */
  pace: () => Promise<void> = () => Promise.resolve();
  /** Tokens after which a stream breaks with an error. */
  breakAfter = Infinity;
  /** The text of each token comes with the next one, as that of half a character does. */
  late = false;
  /** What completions write is told and then lost, as by a server that ends before it has stored it. */
  loses = false;
  /** Nobody answers, and streams break off. */
  away = false;
  /** What `/v1/server` tells: prompt tokens that were read, and requests that run beside those of the test. */
  read = 0;
  reused = 0;
  others = 0;
  /** Conversations are written by a template of the model's own files, so that a session is sent all messages. */
  writesOwn = true;
  /** A text that begins a context is given an id of its own before it. */
  begins = false;
  private running = 0;
  private made = 0;

  readonly fetch = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(String(input), 'http://fake');
    const method = init.method ?? 'GET';
    const body = typeof init.body === 'string' ? (JSON.parse(init.body) as Record<string, unknown>) : {};
    this.calls.push({ path: url.pathname, method, body, headers: new Headers(init.headers) });
    init.signal?.throwIfAborted();
    if (this.away) throw new TypeError('Failed to fetch');
    return this.queue.shift() ?? this.answer(url, method, body, init.signal ?? null);
  };

  private answer(url: URL, method: string, body: Record<string, unknown>, signal: AbortSignal | null): Response {
    const path = url.pathname;
    if (path === '/tokenize') return json({ tokens: this.idsOf(body, body['add_special_tokens'] !== false) });
    if (path === '/detokenize') return json({ prompt: textOf(body['tokens'] as number[]) });
    if (path === '/v1/server')
      return json({
        prefill_tokens_computed: this.read,
        prefill_tokens_reused: this.reused,
        requests_running: this.running + this.others,
        requests_waiting: 0,
      });
    if (path === '/v1/completions' || path === '/v1/chat/completions') {
      const id = body['session_id'];
      const session = this.sessions.get(String(id));
      if (id !== undefined && !session) return failure(404, `no session ${String(id)}`);
      return (session && moved(session, body['expected_version'])) ?? this.complete(body, signal);
    }
    if (path === '/v1/sessions' && method === 'POST') return json(this.show(this.create(body)), 201);
    if (path === '/v1/sessions')
      return json({ data: [...this.sessions.values()].map((s) => this.show(s)), has_more: false });
    const [, , , id = '', action = '', mark = ''] = path.split('/').map(decodeURIComponent);
    const session = this.sessions.get(id);
    if (!session) return failure(404, `no session ${id}`);
    const refused = moved(session, body['expected_version'] ?? url.searchParams.get('expected_version'));
    if (refused) return refused;
    return this.onSession(session, method, action, mark, url.searchParams, body);
  }

  private onSession(
    session: Held,
    method: string,
    action: string,
    mark: string,
    query: URLSearchParams,
    body: Record<string, unknown>,
  ): Response {
    if (action === '' && method === 'DELETE') return json({ deleted: this.sessions.delete(session.id) });
    if (action === '') {
      const start = Number(query.get('transcript_start') ?? 0);
      const transcript = query.get('include_transcript') ? { transcript: session.transcript.slice(start) } : {};
      return json({ ...this.show(session), ...transcript });
    }
    if (action === 'fork') {
      const name = body['mark'] ?? null;
      const from = name === null ? session.transcript : session.kept.get(String(name))!;
      const { version } = session.marks.find((mark) => mark.name === name) ?? session;
      const made = Array.from({ length: Number(body['count'] ?? 1) }, () => {
        const child = this.create({ model: session.model, label: body['label'] });
        child.parent_id = session.id;
        child.parent_version = version;
        this.hold(child, from);
        return this.show(child);
      });
      return json({ data: made });
    }
    if (action === 'marks' && method === 'POST') {
      const name = String(body['name']);
      session.kept.set(name, session.transcript);
      session.version += 1;
      session.marks = session.marks.filter((m) => m.name !== name);
      session.marks.push({ name, version: session.version, position: session.position } satisfies Mark);
    } else if (action === 'marks') {
      session.marks = session.marks.filter((m) => m.name !== mark);
      session.version += 1;
    } else if (action === 'rewind') {
      const kept = session.kept.get(String(body['mark']));
      if (!kept) return failure(404, `no mark ${String(body['mark'])}`);
      this.hold(session, kept);
    }
    return json({ id: session.id, version: session.version, persisted_version: 0, position: session.position });
  }

  /** Text that a session goes on with, from elsewhere. */
  write(id: string, text: string): void {
    const session = this.sessions.get(id)!;
    this.hold(session, [...session.transcript, ...idsOf(text)]);
  }

  text(id: string): string {
    return textOf(this.sessions.get(id)!.transcript);
  }

  private idsOf({ prompt }: Record<string, unknown>, first: boolean): number[] {
    if (Array.isArray(prompt)) return prompt as number[];
    return [...(this.begins && first ? [BEGIN_ID] : []), ...idsOf(String(prompt))];
  }

  private create(body: Record<string, unknown>): Held {
    this.made += 1;
    const held: Held = {
      id: `s${this.made}`,
      model: String(body['model']),
      parent_id: null,
      parent_version: 0,
      version: 1,
      persisted_version: 0,
      position: 0,
      bytes: STATE_BYTES,
      tier: 'device',
      created: this.made,
      last_used: this.made,
      expires: null,
      marks: [],
      has_transcript: true,
      add_special_tokens: body['add_special_tokens'] !== false,
      label: String(body['label'] ?? ''),
      transcript: [],
      kept: new Map(),
    };
    this.sessions.set(held.id, held);
    return held;
  }

  private show(held: Held): Session {
    const { transcript: _, kept: __, ...session } = held;
    return session;
  }

  private hold(session: Held, transcript: number[]): void {
    session.transcript = transcript;
    session.position = transcript.length;
    session.version += 1;
  }

  private complete(body: Record<string, unknown>, signal: AbortSignal | null): Response {
    const session = this.sessions.get(String(body['session_id']));
    const messages = body['messages'] as { role: string; content: string }[] | undefined;
    if (messages) body = { ...body, prompt: messages.map(({ role, content }) => `${role[0]}:${content}|`).join('') };
    const prompt = this.idsOf(body, !session || (session.position === 0 && session.add_special_tokens !== false));
    const most = Number(body['max_tokens'] ?? 16);
    const held = messages && this.writesOwn ? [] : (session?.transcript ?? []);
    const before = [...held, ...prompt];
    const made: number[] = [];
    this.running += 1;
    this.reused += session?.position ?? 0; // of what the session has, as the server counts it
    let owed = '';
    const encoder = new TextEncoder();
    const gateway = this;
    const commit = (): void => {
      if (session) gateway.hold(session, [...before, ...made]);
    };
    const say = (value: unknown): Uint8Array =>
      encoder.encode(`data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`);
    const stream = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          await gateway.pace();
          if (signal?.aborted) {
            if (body['commit_on_cancel'] && !gateway.away) commit();
            controller.error(new DOMException('aborted', 'AbortError'));
            return;
          }
          if (gateway.away) {
            controller.error(new TypeError('network error'));
            return;
          }
          if (made.length === gateway.breakAfter) {
            controller.enqueue(say(errorObject(500, 'the state is not finite')));
            controller.enqueue(say('[DONE]'));
            controller.close();
            return;
          }
          const text = CYCLE[(before.length + made.length) % CYCLE.length]!;
          made.push(...idsOf(text));
          const last = made.length === most;
          const logprobs = { tokens: [text], token_logprobs: [-0.5], top_logprobs: [{ [text]: -0.5, x: -2 }] };
          const told = gateway.late ? owed + (last ? text : '') : text;
          owed = text;
          const choice = {
            index: 0,
            ...(messages ? { delta: { content: told } } : { text: told, logprobs }),
            token_ids: idsOf(text),
            finish_reason: last ? 'length' : null,
          };
          const old = session && { ...session };
          if (last) commit();
          const position = session && {
            id: session.id,
            version: session.version,
            persisted_version: 0,
            position: session.position,
          };
          if (session && gateway.loses) Object.assign(session, old);
          controller.enqueue(say({ choices: [choice], ...(last && position ? { session: position } : {}) }));
          if (!last) return;
          gateway.running -= 1;
          controller.enqueue(
            say({ choices: [], usage: { prompt_tokens: prompt.length, completion_tokens: made.length } }),
          );
          controller.enqueue(say('[DONE]'));
          controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(stream, { headers: { 'Content-Type': 'text/event-stream' } });
  }
}
