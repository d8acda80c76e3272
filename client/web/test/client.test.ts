import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Api } from '../src/api/client.ts';
import { ApiError, errorWithin, explain, hasNoServer, isTimeout, serverCommand } from '../src/api/errors.ts';
import { errorObject, failure, FakeGateway } from './fake_gateway.ts';

function apiOn(gateway: FakeGateway): { api: Api; waits: number[] } {
  const waits: number[] = [];
  const api = new Api({
    key: () => 'k1',
    fetch: gateway.fetch,
    random: () => 0.5,
    sleep: (ms, signal) => {
      waits.push(ms);
      signal?.throwIfAborted();
      return Promise.resolve();
    },
  });
  return { api, waits };
}

const sse = (text: string): Response => new Response(text, { headers: { 'Content-Type': 'text/event-stream' } });
const call = { method: 'POST', body: { prompt: 'ab' } };

async function failureOf(promise: Promise<unknown>): Promise<ApiError> {
  const error: unknown = await promise.then(
    () => null,
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(ApiError);
  return error as ApiError;
}

describe('Api.json', () => {
  it('sends the key and the body', async () => {
    const gateway = new FakeGateway();
    const { api } = apiOn(gateway);
    expect(await api.json('/tokenize', call)).toEqual({ tokens: [97, 98] });
    expect(gateway.calls[0]!.headers.get('authorization')).toBe('Bearer k1');
    expect(gateway.calls[0]!.headers.get('content-type')).toBe('application/json');
  });

  it('says at once that there is no server, and how to start one', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(failure(503, 'No server at [::1]:50052. Is tvq-server running?'));
    const { api, waits } = apiOn(gateway);
    const error = await failureOf(api.json('/v1/models'));
    expect([hasNoServer(error), waits, explain(error)]).toEqual([true, [], error.message]);
    expect(serverCommand(error)).toBe('tvq-server --model NAME=DIRECTORY --port 50052');
    const unknown = new ApiError(503, 'No server at name: the name cannot be looked up. Is tvq-server running?');
    expect(serverCommand(unknown)).toBe('tvq-server --model NAME=DIRECTORY');
    const words = readFileSync(new URL('../../cpp/unreachable.h', import.meta.url), 'utf8');
    expect(error.message.endsWith(/kIsItRunning\[\] = "(.*)"/.exec(words)![1]!)).toBe(true);
  });

  it('takes a key that no header can carry for one that the server does not know', async () => {
    const gateway = new FakeGateway();
    const api = new Api({ key: () => 'ключ', fetch: gateway.fetch });
    const error = await failureOf(api.json('/v1/models'));
    expect([error.status, explain(error)]).toEqual([401, expect.stringContaining('does not know the key')]);
    expect(gateway.calls).toEqual([]);
  });

  it('has one idempotency key for all attempts of a call that changes something', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(failure(503, 'stopping'));
    const { api } = apiOn(gateway);
    await api.json('/tokenize', call);
    await api.json('/tokenize', call);
    await api.json('/v1/sessions');
    const keys = gateway.calls.map((one) => one.headers.get('idempotency-key'));
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(keys[1]).toBe(keys[0]);
    expect(keys[2]).not.toBe(keys[0]);
    expect(keys[3]).toBeNull();
  });

  it('waits as long as a full server asks, the exact header first', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(
      failure(429, 'queue is full', null, { 'retry-after': '2' }),
      failure(429, 'queue is full', null, { 'retry-after': '1', 'retry-after-ms': '40' }),
      failure(503, 'loading'),
    );
    const { api, waits } = apiOn(gateway);
    const told: number[] = [];
    await api.json('/tokenize', { ...call, onWait: (ms) => told.push(ms) });
    expect(waits).toEqual([2000, 40, 2000]);
    expect(told).toEqual(waits);
  });

  it('gives up after four tries, and at once when the wait would be long', async () => {
    const gateway = new FakeGateway();
    for (let i = 0; i < 9; i += 1) gateway.queue.push(failure(429, 'queue is full'));
    const { api } = apiOn(gateway);
    expect((await failureOf(api.json('/tokenize', call))).status).toBe(429);
    expect(gateway.calls.length).toBe(4);
    gateway.queue.splice(0);
    gateway.queue.push(failure(429, 'quota', null, { 'retry-after': '3600' }));
    expect((await failureOf(api.json('/tokenize', call))).retryAfterMs).toBe(3_600_000);
    expect(gateway.calls.length).toBe(5);
  });

  it('does not repeat what may have been done', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(failure(500, 'broken'));
    const { api } = apiOn(gateway);
    expect((await failureOf(api.json('/tokenize', call))).message).toBe('broken');
    expect(gateway.calls.length).toBe(1);
  });

  it('says what it can of an answer that is no JSON', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(new Response('<html>', { status: 502 }), new Response('{"tok', { status: 200 }));
    const { api } = apiOn(gateway);
    expect(explain(await failureOf(api.json('/tokenize', call)))).toBe('The server answered with status 502.');
    expect((await failureOf(api.json('/tokenize', call))).message).toContain('cut off');
  });

  it('turns a lost connection into an error without status', async () => {
    const api = new Api({ fetch: () => Promise.reject(new TypeError('Failed to fetch')) });
    const error = await failureOf(api.json('/v1/models'));
    expect(error.status).toBe(0);
    expect(explain(error)).toContain('does not answer');
  });
});

describe('Api with a signal', () => {
  it('hands on that time ran out, in a sentence of its own', async () => {
    const api = new Api({ fetch: () => Promise.reject(new DOMException('signal timed out', 'TimeoutError')) });
    const error: unknown = await api.json('/v1/server').catch((caught: unknown) => caught);
    expect(isTimeout(error)).toBe(true);
    expect(explain(error)).toContain('takes long to answer');
  });

  it('says so, too, when time runs out between two attempts', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(failure(503, 'starting', null, { 'retry-after': '5' }));
    const api = new Api({ fetch: gateway.fetch });
    const error: unknown = await api
      .json('/v1/server', { signal: AbortSignal.timeout(20) })
      .catch((caught: unknown) => caught);
    expect(isTimeout(error)).toBe(true);
  });

  it('tries as often as it is told', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(failure(503, 'away'));
    const { api } = apiOn(gateway);
    expect((await failureOf(api.json('/v1/server', { attempts: 1 }))).status).toBe(503);
    expect(gateway.calls.length).toBe(1);
  });
});

describe('Api.stream', () => {
  const collect = async (api: Api): Promise<unknown[]> => {
    const values: unknown[] = [];
    for await (const value of api.stream('/v1/completions', { body: {} })) values.push(value);
    return values;
  };

  it('ends at [DONE]', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(sse('data: {"a":1}\n\ndata: {"a":2}\n\ndata: [DONE]\n\n'));
    expect(await collect(apiOn(gateway).api)).toEqual([{ a: 1 }, { a: 2 }]);
  });

  it.each([400, 404, 409, 429, 500, 503])('throws an error %d that comes within the stream', async (status) => {
    const gateway = new FakeGateway();
    const event = JSON.stringify(errorObject(status, 'so it is'));
    gateway.queue.push(sse(`data: {"a":1}\n\ndata: ${event}\n\ndata: [DONE]\n\n`));
    const error = await failureOf(collect(apiOn(gateway).api));
    expect([error.status, error.message]).toEqual([status, 'so it is']);
  });

  it('takes an error without a word that it knows for one of the server', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(sse('data: {"error":{"message":"odd","type":"x","code":"y"}}\n\n'));
    expect((await failureOf(collect(apiOn(gateway).api))).status).toBe(500);
  });

  it('does not take a stream that breaks off for a whole one', async () => {
    const gateway = new FakeGateway();
    gateway.queue.push(sse('data: {"a":1}\n\n'));
    expect((await failureOf(collect(apiOn(gateway).api))).status).toBe(0);
  });
});

describe('an error within a stream', () => {
  it('has the status of every word that the gateway has', () => {
    const source = readFileSync(new URL('../../gateway/bodies/errors.cc', import.meta.url), 'utf8');
    const rows = [...source.matchAll(/return \{(\d+), "(\w+)", "(\w*)"\};/g)];
    expect(rows.length).toBeGreaterThan(10);
    for (const [, status, type, code] of rows)
      expect(errorWithin({ error: { message: 'm', type, code: code || null } })!.status, code).toBe(Number(status));
  });
});

describe('explain', () => {
  it('makes sentences, and names the field of the key', () => {
    expect(explain(new ApiError(400, 'top_p: 2 is not in (0, 1]'))).toBe('Top_p: 2 is not in (0, 1].');
    expect(explain(new ApiError(401, 'no key'))).toMatch(/wants a key.*API key/);
    expect(explain(new ApiError(401, 'authorization: the key is not known here'))).toMatch(/not know the key.*API key/);
  });
});
