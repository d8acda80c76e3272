// Calls of the gateway, beside the page.

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

/** Deletes the sessions that earlier tests have left; not those that a page just closed is still at. */
export async function forgetSessions(url: string): Promise<void> {
  const { data } = await call<{ data: Session[] }>(url, 'GET', '/v1/sessions?limit=1000');
  await Promise.allSettled(data.map(({ id }) => call(url, 'DELETE', `/v1/sessions/${id}`)));
}
