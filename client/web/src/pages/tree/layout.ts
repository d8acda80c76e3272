// Sessions as a tree. Below a session are its forks and the marks that it can be rewound to, in one
// list, in the order of the versions that they belong to.

import type { Mark, Session } from '../../api/types.ts';

export interface Row {
  session: Session;
  /** The row of a mark of `session`; null: the row of the session itself. */
  mark: Mark | null;
  depth: number;
  /** For each depth from 1 to this row's: does the line there go on below this row? */
  rails: boolean[];
  children: number;
  /** Forked from a session that is not there any more. */
  orphan: boolean;
}

type Branch = { at: number; mark: Mark } | { at: number; session: Session };

export function layout(sessions: Session[]): Row[] {
  const known = new Map(sessions.map((session) => [session.id, session]));
  const forks = new Map<string, Session[]>();
  const roots: Session[] = [];
  for (const session of [...sessions].sort((a, b) => a.created - b.created)) {
    if (session.parent_id === null || !known.has(session.parent_id)) roots.push(session);
    else forks.set(session.parent_id, [...(forks.get(session.parent_id) ?? []), session]);
  }
  const rows: Row[] = [];
  // Its own stack: a session's forks may be forked thousands of times over.
  const stack: { session: Session; mark: Mark | null; rails: boolean[] }[] = [];
  for (const session of roots.reverse()) stack.push({ session, mark: null, rails: [] });
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { session, mark, rails } = next;
    const branches = mark ? [] : branchesOf(session, forks.get(session.id) ?? []);
    rows.push({
      session,
      mark,
      depth: rails.length,
      rails,
      children: branches.length,
      orphan: rails.length === 0 && session.parent_id !== null,
    });
    for (const [i, branch] of [...branches.entries()].reverse()) {
      const below = [...rails, i < branches.length - 1];
      if ('mark' in branch) stack.push({ session, mark: branch.mark, rails: below });
      else stack.push({ session: branch.session, mark: null, rails: below });
    }
  }
  return rows;
}

/** Marks and forks by the version that they are of; a mark before the forks of the same version. */
function branchesOf(session: Session, forks: Session[]): Branch[] {
  const marks: Branch[] = session.marks.map((mark) => ({ at: mark.version, mark }));
  const children: Branch[] = forks.map((fork) => ({ at: fork.parent_version, session: fork }));
  return [...marks, ...children].sort((a, b) => a.at - b.at);
}

/** Where a fork parts from its parent, as far as it can be told; a fork that a rewind left parts at the mark. */
export function forkPosition(session: Session, sessions: Session[], remembered: Record<string, number>): number | null {
  const known = remembered[session.id];
  if (known !== undefined) return known;
  const parent = sessions.find(({ id }) => id === session.parent_id);
  const mark = parent?.marks.find(({ version }) => version === session.parent_version);
  if (mark) return mark.position;
  return parent && parent.version === session.parent_version ? parent.position : null;
}
