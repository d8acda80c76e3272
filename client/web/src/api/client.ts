// One way to the gateway: keys, errors, retries, streams.

import { ApiError, errorFrom, errorWithin, hasNoServer, isAbort, isTimeout } from './errors.ts';
import { readEvents } from './sse.ts';

export interface CallOptions {
  method?: string;
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** How often a call that is refused is tried; by default 4 times. */
  attempts?: number;
  /** Told before each wait for a server that is full or starting. */
  onWait?: (ms: number) => void;
}

export interface ApiSettings {
  base?: string;
  key?: () => string;
  fetch?: typeof fetch;
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
  random?: () => number;
}

/** Calls that were refused before anything was done for them are tried so often. */
const ATTEMPTS = 4;
/** A person waits no longer than this for a retry; then the sentence is better. */
const LONGEST_WAIT_MS = 8000;

export class Api {
  private readonly base: string;
  private readonly key: () => string;
  private readonly fetch: typeof fetch;
  private readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  private readonly random: () => number;

  constructor(settings: ApiSettings = {}) {
    this.base = settings.base ?? '';
    this.key = settings.key ?? (() => '');
    this.fetch = settings.fetch ?? ((...args) => globalThis.fetch(...args));
    this.sleep = settings.sleep ?? sleep;
    this.random = settings.random ?? Math.random;
  }

  /** The answer's JSON. */
  async json<T>(path: string, options: CallOptions = {}): Promise<T> {
    const response = await this.call(path, options);
    try {
      return (await response.json()) as T;
    } catch (error) {
      if (isAbort(error) || isTimeout(error)) throw error;
      throw new ApiError(response.status, 'The answer was cut off or is no JSON');
    }
  }

  async response(path: string, options: CallOptions = {}): Promise<Response> {
    return this.call(path, options);
  }

  /** The objects of a stream up to `[DONE]`; an error within the stream is thrown. */
  async *stream<T>(path: string, options: CallOptions): AsyncGenerator<T> {
    const response = await this.call(path, { method: 'POST', ...options });
    if (!response.body) throw new ApiError(response.status, 'The answer has no body');
    let done = false;
    try {
      for await (const { data } of readEvents(response.body)) {
        if (data === '[DONE]') {
          done = true;
          break;
        }
        const value: unknown = JSON.parse(data);
        const error = errorWithin(value);
        if (error) throw error;
        yield value as Awaited<T>;
      }
    } catch (error) {
      if (isAbort(error) || error instanceof ApiError || options.signal?.aborted) throw error;
      throw new ApiError(0, 'The stream broke off');
    }
    if (!done) throw new ApiError(0, 'The stream ended before its end');
  }

  private async call(path: string, options: CallOptions): Promise<Response> {
    // A server that stops may have done what it answers with 503: with a key a session's call is done once.
    const headers = options.method === 'POST' ? { 'Idempotency-Key': randomKey() } : {};
    const keyed = { ...options, headers: { ...headers, ...options.headers } };
    for (let attempt = 1; ; attempt += 1) {
      const response = await this.once(path, keyed);
      if (response.ok) return response;
      const error = errorFrom(response.status, await bodyOf(response), retryAfter(response.headers));
      const wait = error.retryAfterMs ?? 250 * 2 ** attempt * (0.75 + this.random() / 2);
      // Where there is no server a person is told at once: somebody has to start one.
      const refused = error.status === 429 || (error.status === 503 && !hasNoServer(error));
      if (!refused || attempt >= (options.attempts ?? ATTEMPTS) || wait > LONGEST_WAIT_MS) throw error;
      options.onWait?.(wait);
      await this.sleep(wait, options.signal);
    }
  }

  private async once(path: string, options: CallOptions): Promise<Response> {
    const headers: Record<string, string> = { ...options.headers };
    const key = this.key();
    // No header can carry it, so that no server has it.
    if (!/^[ -~]*$/.test(key)) throw new ApiError(401, 'the key is not known here');
    if (key) headers['Authorization'] = `Bearer ${key}`;
    const init: RequestInit = { method: options.method ?? 'GET', headers };
    if (options.signal) init.signal = options.signal;
    if (options.body instanceof Blob) {
      headers['Content-Type'] = 'application/octet-stream';
      init.body = options.body;
    } else if (options.body !== undefined) {
      headers['Content-Type'] = 'application/json';
      init.body = JSON.stringify(options.body);
    }
    try {
      return await this.fetch(this.base + path, init);
    } catch (error) {
      if (isAbort(error) || isTimeout(error)) throw error;
      throw new ApiError(0, error instanceof Error ? error.message : String(error));
    }
  }
}

/** 128 random bits. `crypto.randomUUID` is for secure origins alone, and the page is served without TLS, too. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(16).padStart(8, '0')).join('');
}

async function bodyOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

/** Milliseconds the server asks to wait: the exact header, else the standard one. */
export function retryAfter(headers: Headers): number | null {
  const exact = headers.get('retry-after-ms');
  if (exact !== null && /^\d+$/.test(exact)) return Number(exact);
  const seconds = headers.get('retry-after');
  return seconds !== null && /^\d+$/.test(seconds) ? Number(seconds) * 1000 : null;
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort, { once: true });
  });
}
