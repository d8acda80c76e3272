// Chromium, and pages that must not log an error.

import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium, type Browser, type BrowserContext, type Locator, type Page } from 'playwright-core';

const OUT = join(dirname(fileURLToPath(import.meta.url)), 'out');
/** How long a test waits for what must come; only a failure takes so long. */
export const PATIENCE_MS = 30_000;
const PROGRAM = [
  process.env['CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => path !== undefined && existsSync(path));

async function launch(): Promise<Browser> {
  if (!PROGRAM) throw new Error('Chromium is missing; scripts/install-deps web installs it where the system has it');
  // Its sandbox needs rights that root in a container has not; /dev/shm may be small there, and no GPU is wanted.
  const root = process.getuid?.() === 0;
  const args = ['--disable-dev-shm-usage', '--disable-gpu', ...(root ? ['--no-sandbox'] : [])];
  return chromium.launch({ executablePath: PROGRAM, args, timeout: 120_000 });
}

/** The browser of a file of tests: begun with its first tab, and anew where it has died. */
export class Chromium {
  private browser: Browser | null = null;

  async open(url: string, path: string, view: View = {}): Promise<Tab> {
    if (!this.browser?.isConnected()) this.browser = await launch();
    return Tab.open(this.browser, url, path, view);
  }

  async close(): Promise<void> {
    await this.browser?.close();
  }
}

/** What a page answers, if it does so in time. */
async function inTime<T>(answer: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the page did not answer within ${PATIENCE_MS} ms`)), PATIENCE_MS);
  });
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}

export interface View {
  width?: number;
  height?: number;
  theme?: 'light' | 'dark';
}

/** A written token that can be seen and pointed at; others are ends of lines, blanks and signs. */
export const aWord = ({ page }: Tab): Locator =>
  page
    .locator('.token')
    .filter({ hasText: /^\s?[a-z]{2,}/i })
    .first();

/** A page at `path`, and what it logged as errors. */
export class Tab {
  private readonly logged: string[] = [];
  private readonly expected: RegExp[] = [];
  private constructor(
    readonly context: BrowserContext,
    readonly page: Page,
    private readonly url: string,
  ) {}

  /** As that of `page`, which sets no limit to what is waited for in the page. */
  readonly evaluate = ((work: () => unknown, argument?: unknown) =>
    inTime(this.page.evaluate(work, argument))) as Page['evaluate'];

  static async open(browser: Browser, url: string, path: string, view: View): Promise<Tab> {
    const { width = 1280, height = 860, theme = 'light' } = view;
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: theme,
      reducedMotion: 'reduce',
    });
    const page = await context.newPage();
    const tab = new Tab(context, page, url);
    page.setDefaultTimeout(PATIENCE_MS);
    // Warnings are the browser's own, of slow machines and missing devices, and come by chance.
    page.on('console', (message) => {
      if (message.type() === 'error') tab.logged.push(message.text());
    });
    page.on('pageerror', (error) => tab.logged.push(String(error)));
    await page.goto(`${url}/#/${path}`);
    // Chromium gives up what it loads when a network interface comes or goes, as those of containers do.
    if (tab.logged.some((text) => text.includes('ERR_NETWORK_CHANGED'))) {
      tab.logged.splice(0);
      await page.reload();
    }
    return tab;
  }

  /** What was logged as an error, but for what the test brings about. */
  get errors(): string[] {
    return this.logged.filter((text) => !this.expected.some((pattern) => pattern.test(text)));
  }

  /** The test makes the server refuse a call so; the browser logs that. */
  expectStatus(status: number): void {
    this.expected.push(new RegExp(`status of ${status}`));
  }

  async go(path: string): Promise<void> {
    await this.page.goto(`${this.url}/#/${path}`);
  }

  async shoot(name: string): Promise<void> {
    mkdirSync(OUT, { recursive: true });
    await this.page.screenshot({ path: join(OUT, `${name}.png`), fullPage: true });
  }

  /** Clicks `Stop` as soon as there is text in `selector`: a hand would be too late for small models. */
  async stopOnceTold(selector: string): Promise<void> {
    await this.page.waitForFunction((where) => {
      if (!document.querySelector(where)?.textContent) return false;
      [...document.querySelectorAll('button')].find(({ textContent }) => textContent === 'Stop')!.click();
      return true;
    }, selector);
  }

  /** Pixels that the page is wider than its window. */
  async overflow(): Promise<number> {
    return this.evaluate(async () => {
      // As it is drawn: fonts are there, and what the last answer brought is laid out.
      await document.fonts.ready;
      for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
      return document.documentElement.scrollWidth - window.innerWidth;
    });
  }

  async close(): Promise<void> {
    await this.page.unrouteAll({ behavior: 'ignoreErrors' });
    await this.context.close();
  }
}
