// Calls of the gateway, beside the page.

import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { PATIENCE_MS } from './browser.ts';

export interface Session {
  id: string;
  position: number;
}

export async function call<T>(url: string, method: string, path: string, body?: unknown): Promise<T> {
  const init =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
  const response = await fetch(url + path, { method, ...init });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

export const requestsRunning = async (url: string): Promise<number> =>
  (await call<{ requests_running: number }>(url, 'GET', '/v1/server')).requests_running;

/** Completions whose client went away before their end, as the gateway counts them. */
export async function completionsGivenUp(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return Number(/requests_total\{code="499",method="POST",route="\/v1\/completions"\} (\d+)/.exec(metrics)?.[1] ?? 0);
}

/** Has half of the server's places write long texts, so that others last until they are stopped; returns what ends it. */
export async function keepBusy(url: string): Promise<() => Promise<void>> {
  const body = { model: 'novels', prompt: 'Once', n: 32, max_tokens: 100_000, ignore_eos: true, stream: true };
  const headers = { 'Content-Type': 'application/json' };
  // Not by fetch: that of Debian's Node 18 forgets its signal when garbage is collected, and reads on.
  const busy = request(`${url}/v1/completions`, { method: 'POST', headers, timeout: PATIENCE_MS });
  busy.once('timeout', () => busy.destroy(new Error(`nothing came for ${PATIENCE_MS} ms`)));
  const closed = new Promise<void>((resolve) => busy.once('close', resolve));
  busy.end(JSON.stringify(body));
  const [answer] = (await once(busy, 'response')) as [IncomingMessage]; // it has begun
  answer.on('error', () => undefined); // that it was cut off
  answer.resume(); // else it would be paused
  return async () => {
    busy.destroy();
    await closed;
  };
}

/** Deletes the sessions that earlier tests have left; not those that a page just closed is still at. */
export async function forgetSessions(url: string): Promise<void> {
  const { data } = await call<{ data: Session[] }>(url, 'GET', '/v1/sessions?limit=1000');
  await Promise.allSettled(data.map(({ id }) => call(url, 'DELETE', `/v1/sessions/${id}`)));
}
