// What is around every page: name, navigation, settings. The address after # says which page is shown.

import type { App, Page } from './app.ts';
import { sleep } from './api/client.ts';
import type { Model } from './api/types.ts';
import { el, fill, newId, svg } from './dom.ts';
import { themeSwitch } from './theme.ts';
import { keyIsEntered } from './ui/key.ts';
import { announcer } from './ui/notice.ts';
import { browser, visit } from './ui/store.ts';

/** So long the first page that is shown waits for the server to say which models it has. */
const PATIENCE_MS = 500;

export interface Entry {
  name: string;
  title: string;
  make: () => Page;
  /** The page is offered where the server has such a model; without it always. */
  wants?: (model: Model) => boolean;
}

/** "#/write?session=x" as page and parameters. */
export function parseHash(hash: string): { name: string; parameters: URLSearchParams } {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return { name: path.replace(/\/+$/, ''), parameters: new URLSearchParams(query) };
}

function logo(): SVGElement {
  return svg(
    'svg',
    { class: 'logo', viewBox: '0 0 28 20', 'aria-hidden': 'true' },
    svg('path', { class: 'climbing', d: 'M2 18C11 17 20 12 26 2', fill: 'none' }),
    svg('path', { class: 'flat', d: 'M2 10H26', fill: 'none' }),
  );
}

/** For addresses that name none. */
function noPage(name: string, first: Entry): Page {
  const title = 'No such page';
  const node = el(
    'div',
    { class: 'page' },
    el('div', { class: 'head' }, el('h1', {}, title)),
    el(
      'p',
      { class: 'empty-note' },
      `There is no page “${name.slice(0, 60)}” here. Those that there are stand above; to begin, go to `,
      el('a', { href: `#/${first.name}` }, first.title),
      '.',
    ),
  );
  return { title, node, show: () => undefined };
}

export class Shell {
  private readonly main = el('main', { id: 'main', tabindex: -1 });
  private readonly links = new Map<string, HTMLAnchorElement>();
  private readonly offers = new Map<string, HTMLElement>();
  private readonly pages = new Map<string, Page>();
  private current: Page | null = null;

  constructor(
    private readonly entries: Entry[],
    private readonly app: App,
  ) {}

  async start(): Promise<void> {
    const items = this.entries.map(({ name, title }) => {
      const link = el('a', { href: `#/${name}` }, title);
      this.links.set(name, link);
      const item = el('li', {}, link);
      this.offers.set(name, item);
      return item;
    });
    this.offer((name) => browser.get(`offers.${name}`) === 'on'); // as it was the last time
    this.app.onModels = (models) =>
      this.offer((name, wants) => {
        const isOffered = models.some(wants);
        browser.set(`offers.${name}`, isOffered ? 'on' : '');
        return isOffered;
      });
    const skip = el('a', { class: 'skip', href: '#main' }, 'Skip to the page');
    skip.addEventListener('click', (event) => {
      event.preventDefault(); // the address belongs to the pages
      this.main.focus();
    });
    fill(
      document.body,
      skip,
      el(
        'header',
        { class: 'top' },
        el('a', { class: 'brand', href: '#/' }, logo(), el('span', {}, 'tvq')),
        el('nav', { 'aria-label': 'Pages' }, el('ul', {}, ...items)),
        this.settings(),
      ),
      this.main,
      announcer(),
    );
    const models = this.app.models().catch(() => undefined); // a page says what is wrong
    if (parseHash(location.hash).name === '') await Promise.race([models, sleep(PATIENCE_MS)]);
    window.addEventListener('hashchange', () => this.route(true));
    this.route(false);
  }

  private offer(isOffered: (name: string, wants: (model: Model) => boolean) => boolean): void {
    for (const { name, wants } of this.entries) if (wants) this.offers.get(name)!.hidden = !isOffered(name, wants);
  }

  /** The page of this name; the first that is offered where the address names none. */
  private find(name: string): Page {
    const first = this.entries.find((entry) => !this.offers.get(entry.name)!.hidden)!;
    const entry = name === '' ? first : this.entries.find((known) => known.name === name);
    if (!entry) return noPage(name, first);
    let page = this.pages.get(entry.name);
    if (!page) {
      page = entry.make();
      this.pages.set(entry.name, page);
    }
    return page;
  }

  private route(moved: boolean): void {
    const { name, parameters } = parseHash(location.hash);
    const page = this.find(name);
    if (this.current !== page) this.current?.hide?.();
    const changed = this.current !== page;
    this.current = page;
    document.title = `${page.title} · tvq`;
    for (const [known, link] of this.links) {
      if (this.pages.get(known) === page) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    if (changed) fill(this.main, page.node);
    page.show(parameters);
    if (moved && changed) {
      window.scrollTo(0, 0);
      this.main.focus({ preventScroll: true });
    }
  }

  private settings(): HTMLElement {
    const id = newId('key');
    const input = el('input', {
      id,
      type: 'password',
      autocomplete: 'off',
      spellcheck: 'false',
      'aria-describedby': `${id}-hint`,
      onchange: () => {
        visit.set('key', input.value.trim());
        this.app.forget();
        this.current?.show(parseHash(location.hash).parameters);
      },
    });
    input.value = visit.get('key') ?? '';
    const box = el(
      'details',
      { class: 'settings' },
      el('summary', {}, 'Settings'),
      el(
        'div',
        { class: 'sheet' },
        el('label', { for: id }, 'API key'),
        input,
        el('p', { class: 'hint', id: `${id}-hint` }, 'Only if the server has keys. Kept until this tab is closed.'),
        themeSwitch(),
      ),
    );
    keyIsEntered(() => {
      box.open = true;
      input.focus();
      input.select();
    });
    box.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !box.open) return;
      box.open = false;
      box.querySelector('summary')?.focus();
    });
    document.addEventListener('pointerdown', (event) => {
      if (event.target instanceof Node && !box.contains(event.target)) box.open = false;
    });
    return box;
  }
}
