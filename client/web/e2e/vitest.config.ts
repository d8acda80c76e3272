import type { Reporter, TestCase } from 'vitest/node';
import { defineConfig } from 'vitest/config';
import { PATIENCE_MS } from './browser.ts';

/** Says which tests passed only when they were run again, and what had gone wrong. */
class Again implements Reporter {
  onTestCaseResult(test: TestCase): void {
    const { retryCount = 0 } = test.diagnostic() ?? {};
    if (retryCount === 0) return;
    const why = (test.result().errors ?? []).map(({ message }) => message).join('\n');
    console.log(`RUN AGAIN, then ${test.result().state}: ${test.fullName}\n${why}`);
  }
}

// One browser and one server for all files, one after another: two cores have enough to do.
export default defineConfig(({ mode }) => ({
  test: {
    globalSetup: ['e2e/setup.ts'],
    // The model of a picture has to be fetched; no test needs it.
    include: mode === 'pictures' ? ['e2e/pages.e2e.ts', 'e2e/*.picture.ts'] : ['e2e/**/*.e2e.ts'],
    environment: 'node',
    pool: 'forks',
    poolOptions: { forks: { singleFork: true } },
    isolate: false,
    fileParallelism: false,
    // Long enough for slow machines: what comes is not waited for any longer.
    testTimeout: 5 * PATIENCE_MS,
    expect: { poll: { timeout: PATIENCE_MS, interval: 50 } },
    hookTimeout: 5 * PATIENCE_MS,
    // A browser, two servers and a network of a busy machine fail by themselves at times, so that one failure
    // says little; two in a row do. What was run again is told.
    retry: 1,
    reporters: ['default', new Again()],
  },
}));
