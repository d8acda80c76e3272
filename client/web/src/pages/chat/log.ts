// The messages of the branch that is shown, in a box of their own.

import { el } from '../../dom.ts';
import { ScrollEnd } from '../../ui/scroll_end.ts';
import { MessageView, type MessageHost } from './message.ts';
import type { Figures, Said } from './talk.ts';

export class Log {
  readonly node = el('div', { class: 'log', tabindex: 0, role: 'region', 'aria-label': 'The conversation' });
  private readonly end = new ScrollEnd(this.node);
  private views: MessageView[] = [];

  constructor(private readonly host: MessageHost) {}

  /** Shows these; what stays stays as it is. */
  show(path: Said[]): void {
    const follow = this.end.isNear;
    const focused = this.views.findIndex(({ node }) => node.contains(document.activeElement));
    const control = focused < 0 ? '' : nameOf(document.activeElement!);
    let same = 0;
    while (same < path.length && this.views[same]?.said === path[same]) same += 1;
    for (const view of this.views.splice(same)) view.node.remove();
    for (const view of this.views) view.update();
    for (const said of path.slice(same)) {
      const view = new MessageView(said, this.host);
      this.views.push(view);
      this.node.append(view.node);
    }
    this.node.classList.toggle('empty', path.length === 0);
    if (follow) this.end.follow();
    if (focused >= 0) this.focusOn(focused, control);
  }

  /** Who works by keys stays at the control that was drawn anew, or else beside it. */
  private focusOn(view: number, control: string): void {
    if (this.node.contains(document.activeElement)) return;
    const node = this.views[view]?.node;
    const buttons = [...(node?.querySelectorAll<HTMLButtonElement>('.foot button:enabled') ?? [])];
    const next = buttons.find((each) => nameOf(each) === control) ?? buttons[0] ?? this.node;
    next.focus({ preventScroll: true });
  }

  /** What was said has more text. */
  grow(said: Said, figures: Figures): void {
    const view = this.views.find((each) => each.said === said);
    if (!view) return;
    const follow = this.end.isNear;
    view.grow();
    view.tell(figures);
    if (follow) this.end.follow();
  }

  toEnd(): void {
    this.end.follow();
  }
}

const nameOf = (control: Element): string => control.getAttribute('aria-label') ?? control.textContent ?? '';
