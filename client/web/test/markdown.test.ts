import { describe, expect, it } from 'vitest';
import { parseInline, safeAddress, type Inline } from '../src/text/inline.ts';
import { parseMarkdown, type Block } from '../src/text/markdown.ts';

/** In the notation of HTML, which is read more easily. */
function told(parts: Inline[]): string {
  return parts
    .map((part) => {
      if (part.kind === 'text') return part.text;
      if (part.kind === 'break') return '<br>';
      if (part.kind === 'code') return `<code>${part.text}</code>`;
      const tag = { strong: 'b', emphasis: 'i', strike: 's', link: 'a' }[part.kind];
      return `<${tag}${part.kind === 'link' ? ` ${part.href}` : ''}>${told(part.of)}</${tag}>`;
    })
    .join('');
}
const line = (text: string, partial = false): string => told(parseInline(text, partial));

function tell(blocks: Block[]): unknown[] {
  return blocks.map((block) => {
    switch (block.kind) {
      case 'paragraph':
        return told(block.of);
      case 'heading':
        return [`h${block.level}`, told(block.of)];
      case 'code':
        return ['code', block.language, block.text];
      case 'list':
        return [block.first === null ? 'ul' : `ol ${block.first}`, ...block.items.map(tell)];
      case 'quote':
        return ['quote', ...tell(block.of)];
      case 'table':
        return ['table', block.align, block.head.map(told), ...block.rows.map((row) => row.map(told))];
      case 'rule':
        return ['rule'];
    }
  });
}
const read = (text: string, partial = false): unknown[] => tell(parseMarkdown(text, partial));

describe('within a line', () => {
  it.each([
    ['a *b* c', 'a <i>b</i> c'],
    ['a **b c** d', 'a <b>b c</b> d'],
    ['***both***', '<i><b>both</b></i>'],
    ['**a *b* c**', '<b>a <i>b</i> c</b>'],
    ['*a **b** c*', '<i>a <b>b</b> c</i>'],
    ['__b__ and _i_', '<b>b</b> and <i>i</i>'],
    ['~~gone~~ ~here~', '<s>gone</s> ~here~'],
    ['这是**重点**内容', '这是<b>重点</b>内容'],
    ['**Note**s', '<b>Note</b>s'],
  ])('reads emphasis: %s', (text, expected) => expect(line(text)).toBe(expected));

  it.each([
    '2 * 3 * 4',
    '2*3*4',
    'snake_case_name',
    '** not bold**',
    '**open',
    'a ** b',
    '****',
    '*a',
    '_ _',
    'a*',
    '[no](link',
    '[text] (x)',
    '](http://x.y)',
  ])('leaves signs of other meaning: %s', (text) =>
    expect(line(text)).toBe(text.replace('http://x.y)', '<a http://x.y>http://x.y</a>)')),
  );

  it.each([
    ['`a*b*`', '<code>a*b*</code>'],
    ['``a`b``', '<code>a`b</code>'],
    ['`` ` ``', '<code>`</code>'],
    ['`open', '`open'],
    ['**`a`**', '<b><code>a</code></b>'],
    ['`a` ``b`` `c`', '<code>a</code> <code>b</code> <code>c</code>'],
    ['*a `b* c`', '*a <code>b* c</code>'],
  ])('reads code: %s', (text, expected) => expect(line(text)).toBe(expected));

  it.each([
    ['[text](https://x.org/a_b_c)', '<a https://x.org/a_b_c>text</a>'],
    ['[**b**](http://x.org "title")', '<a http://x.org><b>b</b></a>'],
    ['[a](https://x.org/w_(b))!', '<a https://x.org/w_(b)>a</a>!'],
    ['*[a](http://x.y)*', '<i><a http://x.y>a</a></i>'],
    ['[*a](http://x.y)*', '<a http://x.y>*a</a>*'],
    ['[a [b](http://x.y) c](http://z.y)', '[a <a http://x.y>b</a> c](<a http://z.y>http://z.y</a>)'],
    ['see https://x.org/a?b=c.', 'see <a https://x.org/a?b=c>https://x.org/a?b=c</a>.'],
    ['(https://x.org/a_(b))', '(<a https://x.org/a_(b)>https://x.org/a_(b)</a>)'],
    ['<https://x.org>', '<<a https://x.org>https://x.org</a>>'],
    ['**https://x.org**', '<b><a https://x.org>https://x.org</a></b>'],
    ['xhttp://a.b http http:// https', 'xhttp://a.b http http:// https'],
  ])('reads links: %s', (text, expected) => expect(line(text)).toBe(expected));

  it.each([
    'javascript:alert(1)',
    'data:text/html,x',
    '/path',
    '#x',
    'JAVASCRIPT:x',
    'http:',
    'http:///x',
    'ftp://x.y',
    ' http://x.y',
  ])('makes no link to %s', (address) => {
    expect(safeAddress(address)).toBeNull();
    expect(JSON.stringify(parseInline(`[a](${address.trim()}) b`))).not.toMatch(/"href":"(?!http:\/\/x\.y)/);
  });

  it('shows what a backslash stands before, and line ends', () => {
    expect(line('\\*a\\* \\[b\\] c\\d \\\\')).toBe('*a* [b] c\\d \\');
    expect(line('a\nb\\\nc')).toBe('a<br>b<br>c');
    expect(line('a\\')).toBe('a\\');
  });

  it('has markup of HTML as text', () => {
    expect(parseInline('<b onclick="x">&amp;</b>')).toEqual([{ kind: 'text', text: '<b onclick="x">&amp;</b>' }]);
  });

  it('shows bold text and code before their end where more is to come', () => {
    expect(line('a **b *c', true)).toBe('a <b>b *c</b>');
    expect(line('a `b*', true)).toBe('a <code>b*</code>');
    expect(line('a **', true)).toBe('a **');
    expect(line('2 ** 3', true)).toBe('2 ** 3');
  });

  it('loses no character of any text, but for signs that it understood', () => {
    let state = 11;
    const next = (n: number): number => {
      state = (state * 1103515245 + 12345) % 2147483648;
      return Math.floor(state / 65536) % n;
    };
    const signs = ['*', '**', '_', '`', '[', ']', '](http://x.y)', '~~', ' ', '\n', 'http://', '(', ')', '.', '<'];
    for (let i = 0; i < 2000; i += 1) {
      let letters = 0;
      const text = Array.from({ length: next(30) }, () =>
        next(2) === 0 ? String.fromCharCode(97 + (letters++ % 3)) : signs[next(signs.length)]!,
      ).join('');
      const plain = (parts: Inline[]): string =>
        parts.map((part) => ('of' in part ? plain(part.of) : part.kind === 'break' ? '' : part.text)).join('');
      const only = (all: string): string => all.replace(/http:\/\/|x\.y/g, '').replace(/[^abc]/g, '');
      for (const partial of [false, true]) expect(only(plain(parseInline(text, partial)))).toBe(only(text));
    }
  });
});

describe('blocks', () => {
  it('are paragraphs, headings and rules', () => {
    expect(read('a\nb\n\n\nc')).toEqual(['a<br>b', 'c']);
    expect(read('# One\ntext\n### *Two* ##\n#no\n####### no')).toEqual([
      ['h1', 'One'],
      'text',
      ['h3', '<i>Two</i>'],
      '#no<br>####### no',
    ]);
    expect(read('a\n---\nb\n* * *')).toEqual(['a', ['rule'], 'b', ['rule']]);
    expect(read('')).toEqual([]);
    expect(read(' \r\n\t\n')).toEqual([]);
  });

  it('are code, which has no markup', () => {
    expect(read('a\n```py\nx = **1**\n\n  y\n```\nb')).toEqual(['a', ['code', 'py', 'x = **1**\n\n  y'], 'b']);
    expect(read('~~~\n```\n~~~')).toEqual([['code', '', '```']]);
    expect(read('````\n```\n````')).toEqual([['code', '', '```']]);
    expect(read('```a b`c```')).toEqual(['<code>a b`c</code>']);
    expect(read('  ```\n   x\n  ```')).toEqual([['code', '', ' x']]);
  });

  it('are code from their fence on, before it is closed', () => {
    expect(read('```js\nlet a', true)).toEqual([['code', 'js', 'let a']]);
    expect(read('```', true)).toEqual([['code', '', '']]);
  });

  it('are lists, within each other', () => {
    expect(read('- a\n- **b**\n  more\n* c')).toEqual([
      ['ul', ['a'], ['<b>b</b><br>more']],
      ['ul', ['c']],
    ]);
    expect(read('3. a\n4. b\n5) c')).toEqual([
      ['ol 3', ['a'], ['b']],
      ['ol 5', ['c']],
    ]);
    expect(read('1. a\n   - b\n     - c\n2. d')).toEqual([['ol 1', ['a', ['ul', ['b', ['ul', ['c']]]]], ['d']]]);
    expect(read('1. a\n  - b\n  - c\n2. d')).toEqual([['ol 1', ['a', ['ul', ['b'], ['c']]], ['d']]]);
    expect(read('- a\nlazy\n\nb')).toEqual([['ul', ['a<br>lazy']], 'b']);
    expect(read('- a\n\n  b\n\n- c')).toEqual([['ul', ['a', 'b'], ['c']]]);
    expect(read('-\n- a')).toEqual([['ul', [], ['a']]]);
    expect(read('1. x:\n   ```\n   code\n   ```\n2. y')).toEqual([['ol 1', ['x:', ['code', '', 'code']], ['y']]]);
  });

  it('know lists that have room between their items', () => {
    const loose = (text: string): unknown => (parseMarkdown(text)[0] as { loose: boolean }).loose;
    expect(['- a\n- b', '- a\n\n- b', '- a\n\n  b', '- a\n\nb', '1. a\n\n   - b\n2. c'].map(loose)).toEqual([
      false,
      true,
      true,
      false,
      false,
    ]);
  });

  it('do not begin within a sentence', () => {
    expect(read('in the year\n1984. Then')).toEqual(['in the year<br>1984. Then']);
    expect(read('a -b\n-c')).toEqual(['a -b<br>-c']);
    expect(read('He said:\n- a')).toEqual(['He said:', ['ul', ['a']]]);
  });

  it('are quotes', () => {
    expect(read('> a\n> - b\n>\n> c\nd')).toEqual([['quote', 'a', ['ul', ['b']], 'c'], 'd']);
    expect(read('> > a')).toEqual([['quote', ['quote', 'a']]]);
  });

  it('are tables', () => {
    expect(read('| a | *b* |\n|:--|--:|\n| 1 | 2 | 3 |\n| 4 |\nend')).toEqual([
      ['table', ['left', 'right'], ['a', '<i>b</i>'], ['1', '2'], ['4', '']],
      'end',
    ]);
    expect(read('text\na | b\n:-: | -\n\\| | x')).toEqual([
      'text',
      ['table', ['center', null], ['a', 'b'], ['|', 'x']],
    ]);
    expect(read('a | b\n---')).toEqual(['a | b', ['rule']]);
    expect(read('a | b\n--- | --- | ---')).toEqual(['a | b<br>--- | --- | ---']);
  });

  it('say where they begin', () => {
    const text = 'a\n\n# b\n- c\n  d\n\n```\ne\n```\nf';
    expect(parseMarkdown(text).map(({ start }) => text.slice(start, start + 3))).toEqual([
      'a\n\n',
      '# b',
      '- c',
      '```',
      'f',
    ]);
  });
});

const SAMPLE = `# Title\n\nSome **bold** text with \`code\`\nand a [link](https://x.org).\n\n1. one\n   - sub\n2. two\n\n   more\n
> quote\n> * x\n\n| a | b |\n|---|---|\n| 1 | **2** |\n\ntext\n- p\n\n- q\n\`\`\`js\nlet a = 1;\n\n\`\`\`\n---\nend **open\n`;

it('changes the last block alone when text is added', () => {
  const whole = parseMarkdown(SAMPLE);
  for (let end = 0; end <= SAMPLE.length; end += 1) {
    for (const partial of [false, true]) {
      const before = parseMarkdown(SAMPLE.slice(0, end), partial).slice(0, -1);
      expect(before).toEqual(whole.slice(0, before.length));
    }
  }
});

it('reads on from where the last block begins', () => {
  for (let end = 0; end <= SAMPLE.length; end += 1) {
    const last = parseMarkdown(SAMPLE.slice(0, end)).at(-1)?.start ?? 0;
    const rest = parseMarkdown(SAMPLE.slice(last)).map((block) => ({ ...block, start: block.start + last }));
    expect(rest).toEqual(parseMarkdown(SAMPLE).filter(({ start }) => start >= last));
  }
});

describe('a long text', () => {
  const deepest = (value: unknown): number =>
    typeof value === 'object' && value !== null
      ? 1 + Math.max(0, ...Object.values(value).slice(0, 50).map(deepest))
      : 0;

  const check = (unit: string, length: number): void => {
    const text = unit.repeat(Math.ceil(length / unit.length));
    for (const partial of [false, true]) {
      const blocks = parseMarkdown(text, partial);
      expect(deepest(blocks.slice(0, 20))).toBeLessThan(100);
    }
  };

  it.each(['*', '[', '`a', '> '])('takes no long time as a million characters: %j', (unit) => check(unit, 1_000_000));

  // In square time these would take minutes.
  it.each([
    '*',
    '**a',
    '*a ',
    'a* ',
    '*a **b ',
    '_a_ ',
    '[',
    ']',
    '[a](',
    '[](http://x.y)',
    '[a](http://x.y) ',
    '![',
    '`',
    '`a``b',
    '`a ',
    '~~a',
    '> ',
    '>',
    '- ',
    '-',
    '1. ',
    '#',
    '|',
    '| - ',
    '|a\n|-\n',
    'a|b\n',
    '\n',
    '\n ',
    ' ',
    '- a\n',
    '- a\n\n',
    '  - a\n',
    '> a\n',
    '```\n',
    '```a\n',
    '~~~',
    'http',
    'http://',
    'http://a',
    'http:///',
    'http://.',
    'http://a) ',
    '(http://a',
    '\\',
    '\\*',
    '<',
    'a ',
    'a\n',
  ])('takes no long time: %j', (unit) => check(unit, 200_000));

  it('takes no long time as lines that go in ever deeper', () => {
    const text = Array.from({ length: 1400 }, (_, i) => `${' '.repeat(i)}- a`).join('\n');
    expect(deepest(parseMarkdown(text))).toBeLessThan(100);
  });
});
