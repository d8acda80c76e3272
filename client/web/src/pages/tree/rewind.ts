// A rewind that loses nothing: what the session held becomes a branch first, since the server keeps none of it.

import { deleteSession, forkSession, rewindSession } from '../../api/sessions.ts';
import type { Api } from '../../api/client.ts';
import type { Mark, Session } from '../../api/types.ts';
import { giveName, nameOf, rememberForks, rememberRewind, rewoundVersions } from './names.ts';

/** Whether a mark holds all that the session does: it was made at this version, or rewound to from this browser. */
export const isMarked = (
  { id, version, marks }: Session,
  rewound: Record<string, number> = rewoundVersions(),
): boolean => rewound[id] === version || marks.some((mark) => mark.version === version);

/** `text`, with a number where `taken` has it. */
export function unlike(taken: string[], text: string): string {
  for (let n = 2, name = text; ; n += 1) {
    if (!taken.includes(name)) return name;
    name = `${text} ${n}`;
  }
}

/**
 * Takes the session back to a mark of it. With `keep`, a fork of what it held comes first and is answered; null where
 * there is none, as no mark lacks anything of it. Refused with 409 where the session is at another version by now.
 */
export async function rewind(
  api: Api,
  session: Session,
  mark: Mark,
  { keep, others }: { keep: boolean; others: Session[] },
): Promise<Session | null> {
  const { id, version } = session;
  let left: Session | null = null;
  if (keep && !isMarked(session)) {
    const label = `before rewind: ${nameOf(session).slice(0, 60)}`;
    [left = null] = await forkSession(api, id, { count: 1, label, expected_version: version });
  }
  try {
    rememberRewind(await rewindSession(api, id, mark.name, version));
  } catch (error) {
    if (left) await deleteSession(api, left.id).catch(() => undefined); // the session still has it all
    throw error;
  }
  if (!left) return null;
  // It parts from the session where that goes on from now.
  rememberForks([{ id: left.id, position: mark.position }]);
  giveName(left, unlike(others.map(nameOf), left.label));
  return left;
}
