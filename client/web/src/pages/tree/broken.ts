// What came of continuations that broke off. The server may have kept nothing of it, so that the browser does, until the
// session is seen to hold it or the person throws it away.

import { visit } from '../../ui/store.ts';

const NAME = 'tree.broken';

/** By session. */
const all = (): Record<string, string> => visit.getAll(NAME, 'string');

export function rememberBroken(session: string, came: string): void {
  if (came === '') return;
  const before = all()[session];
  visit.setJson(NAME, { ...all(), [session]: before === undefined ? came : `${before}\n${came}` });
}

export function forgetBroken(session: string): void {
  const rest = all();
  delete rest[session];
  visit.setJson(NAME, rest);
}

/** What came for the session and is not of `text`: the end of it, or with `whole` all that it holds. */
export function unheldBy(session: string, text = '', whole = true): string {
  const came = all()[session] ?? '';
  if (came === '') return '';
  const holds = text.includes(came) || (!whole && came.includes(text));
  if (holds) forgetBroken(session);
  return holds ? '' : came;
}
