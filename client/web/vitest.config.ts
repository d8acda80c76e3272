import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    environment: 'node',
    setupFiles: ['test/webcrypto.ts'],
    testTimeout: 60_000, // a busy machine is no failure
    pool: 'threads',
    poolOptions: { threads: { maxThreads: 2 } },
  },
});
