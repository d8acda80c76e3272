// What the server did since its start: as it tells it, and from then on as this page sees it.

import type { ServerInfo, ServerSample } from '../../api/types.ts';

/** Samples that are nearer to each other say little of a speed. */
const NEAR_SECONDS = 0.5;
/** Looks that are farther from each other leave out what the server knows. */
const FAR_SECONDS = 10;
/** All of the last five minutes are kept, and so many of the time before. */
export const RECENT_SECONDS = 300;
const MOST_BEFORE = 720;

export class History {
  samples: ServerSample[] = [];
  private start: number | null = null;
  private lookedAt = -Infinity;

  /** Whether the next look is to ask for what the server knows of the time before; `now` in seconds. */
  lacks(now: number): boolean {
    return this.samples.length === 0 || now - this.lookedAt > FAR_SECONDS;
  }

  /** A look at `now`. */
  add({ start_time: start, history = [], ...sample }: ServerInfo, now: number): void {
    const known = this.samples.at(-1);
    if (known && (start !== this.start || isBefore(sample, known))) {
      this.samples = []; // another server, or this one started anew
      if (history.length === 0) return; // which the next look asks for
    }
    this.start = start;
    this.lookedAt = now;
    for (const past of history) if (sample.uptime - past.uptime > NEAR_SECONDS) this.put(past);
    this.samples.push(sample);
    this.thin(sample.uptime);
  }

  private put(sample: ServerSample): void {
    const known = this.samples.at(-1);
    if (!known || sample.uptime - known.uptime > NEAR_SECONDS) this.samples.push(sample);
  }

  /** What goes first is what leaves the smallest gap. */
  private thin(now: number): void {
    let before = this.samples.findIndex(({ uptime }) => uptime > now - RECENT_SECONDS);
    for (; before > MOST_BEFORE; before -= 1) {
      const gap = (i: number): number => this.samples[i + 1]!.uptime - this.samples[i - 1]!.uptime;
      let least = 1;
      for (let i = 2; i < before; i += 1) if (gap(i) < gap(least)) least = i;
      this.samples.splice(least, 1);
    }
  }
}

/** As of a server that has counted less. */
const isBefore = (a: ServerSample, b: ServerSample): boolean =>
  a.uptime <= b.uptime ||
  a.generation_tokens < b.generation_tokens ||
  a.prefill_tokens_computed < b.prefill_tokens_computed ||
  a.prefill_tokens_reused < b.prefill_tokens_reused;

/** Tokens per second between two samples: written, read, read from the cache. */
export function rates(before: ServerSample, now: ServerSample): number[] {
  const seconds = now.uptime - before.uptime;
  return [
    (now.generation_tokens - before.generation_tokens) / seconds,
    (now.prefill_tokens_computed - before.prefill_tokens_computed) / seconds,
    (now.prefill_tokens_reused - before.prefill_tokens_reused) / seconds,
  ];
}
