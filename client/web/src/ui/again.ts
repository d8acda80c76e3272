/** How long until a page that cannot work yet looks again. */
const PAUSE_MS = 4000;

/** Does `work` once more a while after `later`, unless `stop` comes first; not while nobody looks at the tab. */
export class Again {
  private timer: ReturnType<typeof setTimeout> | null = null;
  constructor(private readonly work: () => void) {}

  later(): void {
    this.stop();
    this.timer = setTimeout(() => (document.hidden ? this.later() : this.work()), PAUSE_MS);
  }

  stop(): void {
    if (this.timer) clearTimeout(this.timer);
    this.timer = null;
  }
}
