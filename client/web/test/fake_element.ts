/** As much of an element as texts that grow use. */
export class FakeElement {
  children: (FakeElement | string)[] = [];
  parentElement: FakeElement | null = null;

  setAttribute(): void {}
  append(...children: (FakeElement | string)[]): void {
    this.children.push(...children);
    for (const child of children) if (child instanceof FakeElement) child.parentElement = this;
  }
  remove(): void {
    const parent = this.parentElement!;
    parent.children = parent.children.filter((child) => child !== this);
    this.parentElement = null;
  }
  hasChildNodes(): boolean {
    return this.children.length > 0;
  }
  get elements(): FakeElement[] {
    return this.children.filter((child) => child instanceof FakeElement);
  }
  get lastElementChild(): FakeElement | null {
    return this.elements.at(-1) ?? null;
  }
  get childElementCount(): number {
    return this.elements.length;
  }
  get textContent(): string {
    return this.children.map((child) => (typeof child === 'string' ? child : child.textContent)).join('');
  }
}
