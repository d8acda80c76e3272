// How fast tokens come: over the last moments, so that it follows, and over all of a run.

const WINDOW_MS = 2000;
/** What comes within less was read at once, however long it took to write. */
const LEAST_MS = 20;

export class Meter {
  private arrivals: { at: number; tokens: number }[] = [];
  private begin: number | null = null;
  private end = 0;
  private total = 0;
  private early = 0;

  constructor(private readonly now: () => number = () => performance.now()) {}

  add(tokens: number): void {
    if (tokens === 0) return;
    const at = this.now();
    if (this.begin === null) {
      // What comes first took the prompt's time, too: it starts the clock and does not count.
      this.begin = at;
      this.early = tokens;
    }
    this.end = at;
    this.total += tokens;
    this.arrivals.push({ at, tokens });
    while (this.arrivals.length > 2 && this.arrivals[0]!.at < at - WINDOW_MS) this.arrivals.shift();
  }

  get tokens(): number {
    return this.total;
  }

  /** Tokens per second of the last moments; null while there is too little time to divide by. */
  recent(): number | null {
    const first = this.arrivals[0];
    const last = this.arrivals.at(-1);
    if (!first || !last || last.at - first.at < LEAST_MS) return null;
    const tokens = this.arrivals.slice(1).reduce((sum, arrival) => sum + arrival.tokens, 0);
    return (tokens * 1000) / (last.at - first.at);
  }

  /** Tokens per second of the whole run; null as above. */
  overall(): number | null {
    if (this.begin === null || this.end - this.begin < LEAST_MS) return null;
    return ((this.total - this.early) * 1000) / (this.end - this.begin);
  }
}
