// Where two texts part. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), over words.

export type Change = 'same' | 'left' | 'right';

export interface Run {
  change: Change;
  text: string;
}

/** Words (in Chinese, characters), and the blanks between them, so that joining them gives the text again. */
export function words(text: string): string[] {
  return text.match(/\s+|\p{Script=Han}|(?:(?!\p{Script=Han})[\p{L}\p{N}'’])+|[^\s\p{L}\p{N}'’]/gu) ?? [];
}

/** Length of what both begin with. */
export function commonPrefix<T>(a: readonly T[], b: readonly T[]): number {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && a[n] === b[n]) n += 1;
  return n;
}

/** More different words than this are not worth comparing one by one: the work grows with the square. */
const MOST_EDITS = 800;

export function diff(left: string[], right: string[]): Run[] {
  const begin = commonPrefix(left, right);
  const end = commonPrefix([...left.slice(begin)].reverse(), [...right.slice(begin)].reverse());
  const runs: Run[] = [];
  add(runs, 'same', left.slice(0, begin));
  const a = left.slice(begin, left.length - end);
  const b = right.slice(begin, right.length - end);
  const path = shortest(a, b);
  if (path) {
    for (const [change, word] of path) add(runs, change, [word]);
  } else {
    add(runs, 'left', a);
    add(runs, 'right', b);
  }
  add(runs, 'same', left.slice(left.length - end));
  return runs;
}

/** Fewer words than this in common, between two changes, are chance. */
const CHANCE = 3;

/** Joins changes that only words in common by chance part. */
export function tidy(runs: Run[]): Run[] {
  const kept: Run[] = [];
  let left = '';
  let right = '';
  const flush = (): void => {
    add(kept, 'left', left === '' ? [] : [left]);
    add(kept, 'right', right === '' ? [] : [right]);
    left = '';
    right = '';
  };
  runs.forEach(({ change, text }, i) => {
    const inside = i > 0 && i < runs.length - 1;
    if (change === 'same' && !(inside && (text.match(/[\p{L}\p{N}]+/gu) ?? []).length < CHANCE)) {
      flush();
      add(kept, 'same', [text]);
      return;
    }
    if (change !== 'right') left += text;
    if (change !== 'left') right += text;
  });
  flush();
  return kept;
}

function add(runs: Run[], change: Change, list: string[]): void {
  if (list.length === 0) return;
  const text = list.join('');
  const last = runs.at(-1);
  if (last?.change === change) last.text += text;
  else runs.push({ change, text });
}

/** The shortest edit from `a` to `b`; null if it is longer than MOST_EDITS. */
function shortest(a: string[], b: string[]): [Change, string][] | null {
  const limit = Math.min(a.length + b.length, MOST_EDITS);
  const reach = new Map<number, number>([[1, 0]]); // furthest x on diagonal k = x - y
  const trace: Map<number, number>[] = [];
  for (let d = 0; d <= limit; d += 1) {
    trace.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? (reach.get(k + 1) ?? 0) : (reach.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reach.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, trace);
    }
  }
  return null;
}

function walkBack(a: string[], b: string[], trace: Map<number, number>[]): [Change, string][] {
  const path: [Change, string][] = [];
  let x = a.length;
  let y = b.length;
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const reach = trace[d]!;
    const k = x - y;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const before = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : (reach.get(before) ?? 0);
    const fromY = d === 0 ? 0 : fromX - before;
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      path.push(['same', a[x]!]);
    }
    if (d === 0) break;
    if (down) {
      y -= 1;
      path.push(['right', b[y]!]);
    } else {
      x -= 1;
      path.push(['left', a[x]!]);
    }
  }
  return path.reverse();
}
