// Sessions and text by the gateway's other endpoints.

import { sleep, type Api, type CallOptions } from './client.ts';
import type { ListOf, Model, Position, ServerInfo, Session } from './types.ts';

const of = (id: string): string => `/v1/sessions/${encodeURIComponent(id)}`;

export const models = async (api: Api, options: CallOptions = {}): Promise<Model[]> =>
  (await api.json<ListOf<Model>>('/v1/models', options)).data;

export const serverInfo = (api: Api, options: CallOptions = {}, history = false): Promise<ServerInfo> =>
  api.json<ServerInfo>(`/v1/server${history ? '?include_history=true' : ''}`, options);

export const createSession = (
  api: Api,
  body: { model: string; label?: string; ttl?: number },
  options: CallOptions = {},
): Promise<Session> =>
  api.json<Session>('/v1/sessions', { ...options, method: 'POST', body: { keep_transcript: true, ...body } });

export const getSession = (api: Api, id: string): Promise<Session> => api.json<Session>(of(id));

/** How often a session is asked for until the server has heard that a stream was stopped: for 3 seconds. */
const STOP_TRIES = 40;
const STOP_MS = 75;

/** Between two looks at a session that another call is about to leave. */
export const pause = (signal?: AbortSignal): Promise<void> => sleep(STOP_MS, signal);

/** The session once it `isSo`, or as it is when it was asked for `tries` times. */
export async function sessionOnce(
  api: Api,
  id: string,
  isSo: (session: Session) => boolean,
  tries = STOP_TRIES,
): Promise<Session> {
  for (let left = tries; ; left -= 1) {
    const session = await getSession(api, id);
    if (isSo(session) || left <= 1) return session;
    await pause();
  }
}

/** Every session that `model` has, oldest first. */
export async function listSessions(api: Api, model: string): Promise<Session[]> {
  const all: Session[] = [];
  let after = '';
  for (;;) {
    const query = new URLSearchParams({ model, limit: '1000', ...(after ? { after } : {}) });
    const page = await api.json<ListOf<Session>>(`/v1/sessions?${query}`);
    all.push(...page.data);
    if (!page.has_more || !page.next) return all;
    after = page.next;
  }
}

/** The session with its token ids from `start` on, gathered over as many answers as it takes. */
export async function withTranscript(api: Api, id: string, start = 0): Promise<Session & { transcript: number[] }> {
  let transcript: number[] = [];
  let version: number | null = null;
  for (;;) {
    const query = `?include_transcript=true&transcript_start=${start + transcript.length}`;
    const session = await api.json<Session>(of(id) + query);
    if (version !== null && session.version !== version)
      transcript = []; // it went on meanwhile
    else transcript = transcript.concat(session.transcript ?? []);
    const complete = start + transcript.length >= session.position || !(session.transcript ?? []).length;
    if (complete && (version === null || version === session.version)) return { ...session, transcript };
    version = session.version;
  }
}

/** What is kept on purpose goes after a year without use; a fork without its own time has its parent's. */
export const KEPT_SECONDS = 365 * 86_400;

export const forkSession = async (
  api: Api,
  id: string,
  body: { count: number; label?: string; mark?: string; ttl?: number; expected_version?: number },
): Promise<Session[]> => (await api.json<ListOf<Session>>(`${of(id)}/fork`, { method: 'POST', body })).data;

/** Refused with 409 unless the session is at the version `expected`, as what else has one. */
export const markSession = (api: Api, id: string, name: string, expected?: number): Promise<Position> =>
  api.json<Position>(`${of(id)}/marks`, { method: 'POST', body: { name, expected_version: expected } });

export const unmarkSession = (api: Api, id: string, name: string): Promise<Position> =>
  api.json<Position>(`${of(id)}/marks/${encodeURIComponent(name)}`, { method: 'DELETE' });

export const rewindSession = (api: Api, id: string, mark: string, expected?: number): Promise<Position> =>
  api.json<Position>(`${of(id)}/rewind`, { method: 'POST', body: { mark, expected_version: expected } });

export const saveSession = (api: Api, id: string): Promise<Position> =>
  api.json<Position>(`${of(id)}/save`, { method: 'POST', body: {} });

export const deleteSession = (api: Api, id: string, expected?: number): Promise<unknown> =>
  api.json(of(id) + (expected === undefined ? '' : `?expected_version=${expected}`), { method: 'DELETE' });

export const exportSession = async (api: Api, id: string): Promise<Blob> =>
  (await api.response(`${of(id)}/export`)).blob();

export const importSession = (api: Api, file: Blob, model: string, label: string): Promise<Session> =>
  api.json<Session>(`/v1/sessions/import?${new URLSearchParams({ model, label })}`, { method: 'POST', body: file });

/** With `begins`, as the first text of a context, which a model may begin with an id of its own. */
export const tokenize = async (api: Api, model: string, prompt: string, begins: boolean): Promise<number[]> => {
  const body = { model, prompt, add_special_tokens: begins };
  return (await api.json<{ tokens: number[] }>('/tokenize', { method: 'POST', body })).tokens;
};

export const detokenize = async (api: Api, model: string, tokens: number[]): Promise<string> =>
  tokens.length === 0
    ? ''
    : (await api.json<{ prompt: string }>('/detokenize', { method: 'POST', body: { model, tokens } })).prompt;
