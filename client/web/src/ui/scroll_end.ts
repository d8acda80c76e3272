// The end of what grows in a box that is scrolled: it stays in view while the person looks at it.

/** Pixels from the end that count as being there. */
const NEAR = 60;

export class ScrollEnd {
  constructor(private readonly box: Element) {}

  get isNear(): boolean {
    return this.box.scrollTop + this.box.clientHeight > this.box.scrollHeight - NEAR;
  }

  follow(): void {
    this.box.scrollTop = this.box.scrollHeight;
  }
}
