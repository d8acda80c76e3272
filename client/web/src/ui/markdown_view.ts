// Markdown as elements, never by markup: what a model writes is text. A text that grows changes its last block alone, and
// code that grows stays the same element.

import { el } from '../dom.ts';
import type { Inline } from '../text/inline.ts';
import { parseMarkdown, type Block } from '../text/markdown.ts';
import { copyButton } from './copy.ts';

export class MarkdownView {
  readonly node = el('div', { class: 'markdown' });
  private shown = '';
  /** Where the last block begins, and how many elements stand before it. */
  private from = 0;
  private before = 0;
  /** The text of the last block, if that is code. */
  private code: { start: number; language: string; text: Text } | null = null;

  /** `partial`: more is to come. */
  show(text: string, partial: boolean): void {
    if (!text.startsWith(this.shown)) [this.from, this.before, this.code] = [0, 0, null];
    this.shown = text;
    const blocks = parseMarkdown(text.slice(this.from), partial);
    if (this.growCode(blocks)) return;
    while (this.node.childElementCount > this.before) this.node.lastElementChild!.remove();
    this.code = null;
    for (const block of blocks) this.node.append(this.elementOf(block, this.from));
    const last = blocks.at(-1);
    if (!last) return;
    this.before += blocks.length - 1;
    this.from += last.start;
  }

  private growCode(blocks: Block[]): boolean {
    const [block] = blocks;
    const { code } = this;
    if (!code || blocks.length !== 1 || block?.kind !== 'code' || code.start !== this.from) return false;
    if (block.language !== code.language || !block.text.startsWith(code.text.data)) return false;
    code.text.appendData(block.text.slice(code.text.data.length));
    return true;
  }

  private elementOf(block: Block, from: number): HTMLElement {
    if (block.kind !== 'code') return blockElement(block);
    const text = document.createTextNode(block.text);
    this.code = { start: from + block.start, language: block.language, text };
    return codeElement(block.language, text);
  }
}

function codeElement(language: string, text: Text): HTMLElement {
  const bar = el(
    'div',
    { class: 'code-bar' },
    el('span', {}, language || 'text'),
    copyButton(() => text.data, 'Copy the code'),
  );
  return el('div', { class: 'code' }, bar, el('pre', { tabindex: 0 }, el('code', {}, text)));
}

function blockElement(block: Block): HTMLElement {
  switch (block.kind) {
    case 'paragraph':
      return el('p', {}, ...inline(block.of));
    case 'heading':
      // One level for all: a text of its own does not know what it stands under.
      return el('h3', { class: `of-${block.level}` }, ...inline(block.of));
    case 'code':
      return codeElement(block.language, document.createTextNode(block.text));
    case 'list': {
      const items = block.items.map((item) => el('li', {}, ...item.flatMap((each, i) => inItem(each, i, block.loose))));
      return block.first === null ? el('ul', {}, ...items) : el('ol', { start: block.first }, ...items);
    }
    case 'quote':
      return el('blockquote', {}, ...block.of.map(blockElement));
    case 'table':
      return table(block);
    case 'rule':
      return el('hr');
  }
}

/** The first paragraph of an item stands beside its marker, without room around it. */
const inItem = (block: Block, i: number, loose: boolean): Node[] =>
  block.kind === 'paragraph' && i === 0 && !loose ? inline(block.of) : [blockElement(block)];

function table({ align, head, rows }: Extract<Block, { kind: 'table' }>): HTMLElement {
  const cell = (tag: 'th' | 'td', parts: Inline[], i: number): HTMLElement =>
    el(tag, { class: align[i] && `to-${align[i]}`, scope: tag === 'th' && 'col' }, ...inline(parts));
  const node = el(
    'table',
    {},
    el('thead', {}, el('tr', {}, ...head.map((parts, i) => cell('th', parts, i)))),
    el('tbody', {}, ...rows.map((row) => el('tr', {}, ...row.map((parts, i) => cell('td', parts, i))))),
  );
  return el('div', { class: 'wide', tabindex: 0 }, node);
}

const inline = (parts: Inline[]): Node[] => parts.map(inlineNode);

function inlineNode(part: Inline): Node {
  switch (part.kind) {
    case 'text':
      return document.createTextNode(part.text);
    case 'break':
      return el('br');
    case 'code':
      return el('code', {}, part.text);
    case 'strong':
      return el('strong', {}, ...inline(part.of));
    case 'emphasis':
      return el('em', {}, ...inline(part.of));
    case 'strike':
      return el('s', {}, ...inline(part.of));
    case 'link':
      return el('a', { href: part.href, rel: 'noopener noreferrer', target: '_blank' }, ...inline(part.of));
  }
}
