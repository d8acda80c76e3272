// From counters that only grow to rates, over restarts.

import type { ServerInfo } from '../../api/types.ts';

export interface Rates {
  generated: number;
  computed: number;
  reused: number;
}

/** Tokens per second from the server's start to this look: all that it tells of the time before the first look. */
export const ratesSinceStart = (now: ServerInfo): Rates | null =>
  rates({ ...now, generation_tokens: 0, prefill_tokens_computed: 0, prefill_tokens_reused: 0 }, now, now.uptime);

/** Tokens per second between two looks; null if the server has started anew or no time has passed. */
export function rates(before: ServerInfo, now: ServerInfo, seconds: number): Rates | null {
  const delta = {
    generated: now.generation_tokens - before.generation_tokens,
    computed: now.prefill_tokens_computed - before.prefill_tokens_computed,
    reused: now.prefill_tokens_reused - before.prefill_tokens_reused,
  };
  const restarted = now.start_time !== before.start_time || Object.values(delta).some((value) => value < 0);
  if (restarted || seconds <= 0) return null;
  return { generated: delta.generated / seconds, computed: delta.computed / seconds, reused: delta.reused / seconds };
}
