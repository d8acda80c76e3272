// What stands within a line of Markdown: emphasis, code, links. Each character is looked at a bounded number of times, and
// nothing nests deeper than DEEPEST, whatever a model writes.

export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'break' }
  | { kind: 'strong' | 'emphasis' | 'strike'; of: Inline[] }
  | { kind: 'link'; href: string; of: Inline[] };

/** Openers that wait for their end; where there are more, the oldest is text. */
const DEEPEST = 16;
const PLAIN = /[^\\`*_~[\]<\nh]+|h(?!ttps?:\/\/)/y;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
/** Up to what cannot be part of an address, nor would be in a sentence. */
const ADDRESS = /https?:\/\/[^\s<>"[\]`*/?#][^\s<>"[\]`*]*/y;
const TARGET = /\(([^\s<>"[\]()]*(?:\([^\s<>"[\]()]*\)[^\s<>"[\]()]*)*)(?:[ \t]+"[^"\n[\]]*")?\)/y;

const isSpace = (c: string): boolean => c === '' || /\s/.test(c);
const isWord = (c: string): boolean => /[A-Za-z0-9]/.test(c);

/** An address that a page may lead to; null for others, such as `javascript:`. */
export function safeAddress(address: string): string | null {
  return /^https?:\/\/[^/?#\s]/i.test(address) ? address : null;
}

interface Opener {
  /** Where its text stands among the parts. */
  at: number;
  char: string;
  count: number;
}

/** `partial`: more is to come, so that bold text and code that have no end yet are shown as what they will be. */
export function parseInline(text: string, partial = false): Inline[] {
  return new InlineParser(text, partial).parse();
}

class InlineParser {
  private at = 0;
  private parts: Inline[] = [];
  private openers: Opener[] = [];
  private brackets: number[] = [];
  private ticks: Map<number, number[]> | null = null;

  constructor(
    private readonly text: string,
    private readonly partial: boolean,
  ) {}

  parse(): Inline[] {
    while (this.at < this.text.length) this.step();
    if (this.partial)
      for (let open = this.openers.pop(); open; open = this.openers.pop())
        if (open.char === '*' && open.count >= 2 && open.at + 1 < this.parts.length) this.wrap(open, 2);
    return joined(this.parts);
  }

  private step(): void {
    const { text, at } = this;
    PLAIN.lastIndex = at;
    const plain = PLAIN.exec(text)?.[0];
    if (plain !== undefined) return this.put(plain);
    switch (text[at]) {
      case 'h':
        return this.address();
      case '\n':
        this.parts.push({ kind: 'break' });
        this.at += 1;
        return;
      case '\\':
        return this.escape();
      case '`':
        return this.code();
      case '[':
        this.brackets.push(this.parts.length);
        if (this.brackets.length > DEEPEST) this.brackets.shift();
        return this.put('[');
      case ']':
        return this.link();
      case '<':
        return this.put('<');
      default:
        return this.run();
    }
  }

  private put(text: string): void {
    this.parts.push({ kind: 'text', text });
    this.at += text.length;
  }

  private escape(): void {
    const next = this.text[this.at + 1] ?? '';
    this.at += 1;
    if (next === '\n') return;
    if (PUNCTUATION.test(next)) this.put(next);
    else this.parts.push({ kind: 'text', text: '\\' });
  }

  /** The length of the run of this character from here on. */
  private runLength(char: string): number {
    let end = this.at;
    while (this.text[end] === char) end += 1;
    return end - this.at;
  }

  private code(): void {
    const length = this.runLength('`');
    const begin = this.at + length;
    const end = this.closingTicks(length, begin);
    if (end < 0 && !(this.partial && length < 3 && begin < this.text.length)) return this.put('`'.repeat(length));
    const inside = this.text.slice(begin, end < 0 ? undefined : end).replace(/\n/g, ' ');
    const isPadded = inside.startsWith(' ') && inside.endsWith(' ') && inside.trim() !== '';
    this.parts.push({ kind: 'code', text: isPadded ? inside.slice(1, -1) : inside });
    this.at = end < 0 ? this.text.length : end + length;
  }

  /** Where the next run of exactly so many backticks begins, -1 where there is none. */
  private closingTicks(length: number, from: number): number {
    if (!this.ticks) {
      this.ticks = new Map();
      for (const { index, 0: run } of this.text.matchAll(/`+/g)) {
        const known = this.ticks.get(run.length);
        if (known) known.push(index);
        else this.ticks.set(run.length, [index]);
      }
      // Taken from the end of each list, nearest first.
      for (const places of this.ticks.values()) places.reverse();
    }
    const places = this.ticks.get(length) ?? [];
    while (places.length > 0 && places.at(-1)! < from) places.pop();
    return places.at(-1) ?? -1;
  }

  /** An address that stands in the text as it is. */
  private address(): void {
    const { text, at } = this;
    ADDRESS.lastIndex = at;
    const found = isWord(text[at - 1] ?? '') ? '' : (ADDRESS.exec(text)?.[0] ?? '');
    const href = safeAddress(withoutEnd(found));
    if (href === null) return this.put('http');
    this.parts.push({ kind: 'link', href, of: [{ kind: 'text', text: href }] });
    this.at += href.length;
  }

  private link(): void {
    const from = this.brackets.pop();
    TARGET.lastIndex = this.at + 1;
    const target = from === undefined ? null : TARGET.exec(this.text);
    const href = target && safeAddress(target[1]!);
    if (from === undefined || !target || href === null) return this.put(']');
    const of = joined(this.parts.splice(from).slice(1)).map((part) => (part.kind === 'link' ? part.of : part));
    this.parts.push({ kind: 'link', href, of: of.flat() });
    this.forgetFrom(from);
    this.brackets = []; // no link within a link
    this.at += 1 + target[0].length;
  }

  /** A run of `*`, `_` or `~`, which ends something, begins something, or is text. */
  private run(): void {
    const { text, at } = this;
    const char = text[at]!;
    const length = this.runLength(char);
    const before = text[at - 1] ?? '';
    const after = text[at + length] ?? '';
    this.put(char.repeat(length));
    if (length > 3 || (char === '~' && length !== 2)) return;
    const withinWords = char === '*' && length > 1;
    let left = length;
    if (!isSpace(before) && (withinWords || !isWord(after))) left = this.close(char, length);
    const last = this.parts.at(-1)!;
    if (left === 0 || last.kind !== 'text') return;
    if (isSpace(after) || (isWord(before) && !withinWords)) return;
    this.openers.push({ at: this.parts.length - 1, char, count: left });
    if (this.openers.length > DEEPEST) this.openers.shift();
  }

  /** Ends what the nearest openers of this kind began; how many of the run are left. */
  private close(char: string, length: number): number {
    let left = length;
    this.parts.pop();
    while (left > 0) {
      const index = this.openers.map((each) => each.char).lastIndexOf(char);
      const opener = this.openers[index];
      if (!opener || opener.at + 1 === this.parts.length) break;
      const used = Math.min(2, left, opener.count);
      this.openers.length = opener.count > used ? index + 1 : index;
      this.wrap(opener, used);
      left -= used;
    }
    if (left > 0) this.parts.push({ kind: 'text', text: char.repeat(left) });
    return left;
  }

  private wrap(opener: Opener, used: number): void {
    const of = joined(this.parts.splice(opener.at + 1));
    opener.count -= used;
    this.parts[opener.at] = { kind: 'text', text: opener.char.repeat(opener.count) };
    const kind = opener.char === '~' ? 'strike' : used === 2 ? 'strong' : 'emphasis';
    this.parts.push({ kind, of });
    this.forgetFrom(opener.at + 1);
  }

  /** What began after this part is within what ended now. */
  private forgetFrom(part: number): void {
    this.openers = this.openers.filter(({ at }) => at < part);
    this.brackets = this.brackets.filter((at) => at < part);
  }
}

/** An address without the sentence's signs after it. */
function withoutEnd(found: string): string {
  let end = found.length;
  let open = 0;
  for (const c of found) open += c === '(' ? 1 : c === ')' ? -1 : 0;
  for (; end > 0; end -= 1) {
    const c = found[end - 1]!;
    if (c === ')' && open < 0) open += 1;
    else if (!".,;:!?'_~".includes(c)) break;
  }
  return found.slice(0, end);
}

/** Neighbouring texts in one, and none that is empty. */
function joined(parts: Inline[]): Inline[] {
  const all: Inline[] = [];
  let texts: string[] = [];
  const flush = (): void => {
    const text = texts.join('');
    if (text !== '') all.push({ kind: 'text', text });
    texts = [];
  };
  for (const part of parts) {
    if (part.kind === 'text') {
      texts.push(part.text);
      continue;
    }
    flush();
    all.push(part);
  }
  flush();
  return all;
}
