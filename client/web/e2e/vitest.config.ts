import { defineConfig } from 'vitest/config';

// One browser and one server for all files, one after another: two cores have enough to do.
export default defineConfig({
  test: {
    globalSetup: ['e2e/setup.ts'],
    include: ['e2e/**/*.e2e.ts'],
    environment: 'node',
    pool: 'forks',
    poolOptions: { forks: { singleFork: true } },
    isolate: false,
    fileParallelism: false,
    testTimeout: 60_000,
    expect: { poll: { timeout: 20_000, interval: 50 } },
    hookTimeout: 60_000,
  },
});
