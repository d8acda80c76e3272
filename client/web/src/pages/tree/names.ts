// What this browser remembers of sessions: names given here, where forks made here began, and which versions
// rewinds made. The server keeps the label that a session was made with.

import type { Position, Session } from '../../api/types.ts';
import { browser } from '../../ui/store.ts';

const MOST = 2000;

function put<T>(store: string, known: Record<string, T>, id: string, value: T | undefined): void {
  const all = Object.entries(known).filter(([key]) => key !== id);
  if (value !== undefined) all.push([id, value]);
  browser.setJson(store, Object.fromEntries(all.slice(-MOST)));
}

const names = (): Record<string, string> => browser.getAll('names', 'string');

export const shortId = (id: string): string => (id.length > 12 ? `${id.slice(0, 8)}…` : id);

export const nameOf = (session: Session): string =>
  names()[session.id] || session.label || `session ${shortId(session.id)}`;

export const giveName = (session: Session, name: string): void =>
  put('names', names(), session.id, name.trim() === '' || name === session.label ? undefined : name.trim());

export const forkPositions = (): Record<string, number> => browser.getAll('forks', 'number');

export function rememberForks(made: Pick<Session, 'id' | 'position'>[]): void {
  for (const { id, position } of made) put('forks', forkPositions(), id, position);
}

export const rewoundVersions = (): Record<string, number> => browser.getAll('rewound', 'number');

export const rememberRewind = ({ id, version }: Position): void => put('rewound', rewoundVersions(), id, version);
