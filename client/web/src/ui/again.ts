/** How long until a page that cannot work yet looks again. */
const PAUSE_MS = 4000;

/** Does `work` once more a while after `later`, unless `stop` comes first: while the page is shown and is not `busy`. */
export class Again {
  private timer: ReturnType<typeof setTimeout> | null = null;
  private shown = false;

  constructor(
    private readonly work: () => void,
    private readonly busy = (): boolean => false,
  ) {}

  show(): void {
    this.shown = true;
    this.stop();
  }

  /** Answers that come afterwards ask for nothing more. */
  hide(): void {
    this.shown = false;
    this.stop();
  }

  later(): void {
    this.stop();
    if (!this.shown) return;
    this.timer = setTimeout(() => (document.hidden || this.busy() ? this.later() : this.work()), PAUSE_MS);
  }

  stop(): void {
    if (this.timer) clearTimeout(this.timer);
    this.timer = null;
  }
}
