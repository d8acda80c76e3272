import { expect, it } from 'vitest';
import type { ServerInfo } from '../src/api/types.ts';
import { rates, ratesSinceStart } from '../src/pages/server/rates.ts';

const info = (generated: number, start = 1): ServerInfo =>
  ({
    start_time: start,
    generation_tokens: generated,
    prefill_tokens_computed: 10,
    prefill_tokens_reused: 0,
  }) as ServerInfo;

it('divides by the time between, and not over a restart', () => {
  expect(rates(info(100), info(300), 2)).toEqual({ generated: 100, computed: 0, reused: 0 });
  expect(rates(info(100), info(300, 2), 2)).toBeNull();
  expect(rates(info(300), info(100), 2)).toBeNull();
  expect(rates(info(100), info(300), 0)).toBeNull();
});

it('knows the mean since the start, once there is time to divide by', () => {
  const now = { ...info(300), uptime: 20 };
  expect(ratesSinceStart(now)).toEqual({ generated: 15, computed: 0.5, reused: 0 });
  expect(ratesSinceStart({ ...now, uptime: 0 })).toBeNull();
});
