// How fast tokens come: over the last moments, so that it follows, and over all of a run.

const WINDOW_MS = 2000;
/** When tokens that come within less arrive is due to the line and the browser more than to the model. */
const STEADY_MS = 500;

export class Meter {
  private arrivals: { at: number; tokens: number }[] = [];
  private sent: number;
  private begin: number | null = null;
  private end = 0;
  private total = 0;
  private early = 0;

  constructor(private readonly now: () => number = () => performance.now()) {
    this.sent = now();
  }

  /** The request is sent now, if that is not when the meter was made. */
  start(): void {
    this.sent = this.now();
  }

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

  /** Tokens per second of the last moments; of all while these are few. */
  recent(): number | null {
    const first = this.arrivals[0];
    const last = this.arrivals.at(-1);
    if (!first || !last || last.at - first.at < STEADY_MS) return this.overall();
    const tokens = this.arrivals.slice(1).reduce((sum, arrival) => sum + arrival.tokens, 0);
    return (tokens * 1000) / (last.at - first.at);
  }

  /**
   * Tokens per second from the first tokens to the last; of an answer that came within half a second, all its tokens
   * over the whole request, the reading of the prompt included. Null before there are any.
   */
  overall(): number | null {
    if (this.begin === null) return null;
    const writing = this.end - this.begin;
    if (writing >= STEADY_MS) return ((this.total - this.early) * 1000) / writing;
    const whole = this.end - this.sent;
    return whole > 0 ? (this.total * 1000) / whole : null;
  }
}
