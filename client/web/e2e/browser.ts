// Chromium, and pages that must not log an error.

import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';

const OUT = join(dirname(fileURLToPath(import.meta.url)), 'out');
const PROGRAM = [
  process.env['CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => path !== undefined && existsSync(path));

export async function launch(): Promise<Browser> {
  if (!PROGRAM) throw new Error('Chromium is missing; scripts/install-deps web installs it where the system has it');
  // Its sandbox needs rights that root in a container has not.
  const root = process.getuid?.() === 0;
  return chromium.launch({ executablePath: PROGRAM, args: root ? ['--no-sandbox', '--disable-dev-shm-usage'] : [] });
}

export interface View {
  width?: number;
  height?: number;
  theme?: 'light' | 'dark';
}

/** A page at `path`, and what it logged as errors. `expected` are those that a test brings about. */
export class Tab {
  readonly errors: string[] = [];
  private constructor(
    readonly context: BrowserContext,
    readonly page: Page,
    private readonly url: string,
  ) {}

  static async open(browser: Browser, url: string, path: string, view: View = {}): Promise<Tab> {
    const { width = 1280, height = 860, theme = 'light' } = view;
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: theme,
      reducedMotion: 'reduce',
    });
    const page = await context.newPage();
    const tab = new Tab(context, page, url);
    page.setDefaultTimeout(20_000);
    page.on('console', (message) => {
      // Tests look at pixels more often than the page does.
      if (message.text().includes('willReadFrequently')) return;
      if (message.type() === 'error' || message.type() === 'warning') tab.errors.push(message.text());
    });
    page.on('pageerror', (error) => tab.errors.push(String(error)));
    await page.goto(`${url}/#/${path}`);
    return tab;
  }

  async go(path: string): Promise<void> {
    await this.page.goto(`${this.url}/#/${path}`);
  }

  async shoot(name: string): Promise<void> {
    mkdirSync(OUT, { recursive: true });
    await this.page.screenshot({ path: join(OUT, `${name}.png`), fullPage: true });
  }

  /** Pixels that the page is wider than its window. */
  async overflow(): Promise<number> {
    return this.page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}
