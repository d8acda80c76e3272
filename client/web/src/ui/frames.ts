/** Calls `draw` once a frame for any number of calls in between; in a hidden tab, four times a second. */
export class Frames {
  private waiting = false;
  constructor(private readonly draw: () => void) {}

  ask(): void {
    if (this.waiting) return;
    this.waiting = true;
    const run = (): void => {
      this.waiting = false;
      this.draw();
    };
    if (document.hidden) setTimeout(run, 250);
    else requestAnimationFrame(run);
  }
}
