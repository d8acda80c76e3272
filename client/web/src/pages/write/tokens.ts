// Generated text, token by token; pointing at one, or walking there by the arrow keys, shows what else
// the model might have written.

import type { Token } from '../../api/completions.ts';
import { el, fill } from '../../dom.ts';
import type { Piece } from '../../text/align.ts';
import { percent, visible } from '../../text/format.ts';

/** How surprising a piece was, 0 to 4, from the bits of its tokens. */
export function surprise(tokens: Token[]): number {
  const known = tokens.filter(({ logprob }) => logprob !== null);
  if (known.length === 0) return 0;
  const bits = known.reduce((sum, { logprob }) => sum - (logprob ?? 0), 0) / Math.LN2;
  return [1, 2.5, 5, 8].filter((limit) => bits > limit).length;
}

/** Alternatives that the card tells for each token of a piece of one, two, ...: it has the same room for all. */
const ALTERNATIVES = [6, 2, 0, 0];

export class TokenText {
  private readonly pieces = new WeakMap<Element, Piece>();
  private readonly card = el('div', { class: 'card', id: 'token-card', role: 'tooltip' });
  private shown: HTMLElement | null = null;
  private entry: HTMLElement | null = null;

  /** `page`: what holds the texts; it takes the listeners of all of them. */
  constructor(private readonly page: HTMLElement) {
    this.card.hidden = true;
    page.append(this.card);
    page.addEventListener('pointerover', (event) => this.enter(event.target));
    page.addEventListener('pointerleave', () => this.hide());
    page.addEventListener('focusin', (event) => this.enter(event.target));
    page.addEventListener('focusout', () => this.hide());
    page.addEventListener('keydown', (event) => this.key(event));
  }

  /** Puts the piece at the end of `node`. */
  append(node: HTMLElement, piece: Piece): void {
    if (piece.tokens.length === 0) {
      node.append(piece.text);
      return;
    }
    // The tab key comes to one of the tokens, the arrow keys to the others.
    const first = !this.entry?.isConnected;
    const span = el('span', { class: `token s${surprise(piece.tokens)}`, tabindex: first ? 0 : -1 }, piece.text);
    if (first) this.entry = span;
    this.pieces.set(span, piece);
    node.append(span);
  }

  private enter(target: EventTarget | null): void {
    const span = target instanceof HTMLElement ? target.closest<HTMLElement>('.token') : null;
    if (span) this.show(span);
    else if (target instanceof Node && !this.card.contains(target)) this.hide();
  }

  private hide(): void {
    this.shown?.removeAttribute('aria-describedby');
    this.shown = null;
    this.card.hidden = true;
  }

  private show(span: HTMLElement): void {
    const piece = this.pieces.get(span);
    if (!piece || span === this.shown) return;
    this.hide();
    this.shown = span;
    const told = piece.tokens.slice(0, ALTERNATIVES.length);
    fill(this.card, ...told.map((token) => describe(token, ALTERNATIVES[told.length - 1]!)));
    span.setAttribute('aria-describedby', this.card.id);
    this.card.hidden = false;
    const box = this.page.getBoundingClientRect();
    const at = span.getClientRects()[0] ?? span.getBoundingClientRect();
    const left = Math.min(at.left - box.left, box.width - this.card.offsetWidth - 4);
    const below = at.bottom + this.card.offsetHeight + 8 < window.innerHeight || at.top < this.card.offsetHeight + 8;
    const top = below ? at.bottom - box.top + 6 : at.top - box.top - this.card.offsetHeight - 6;
    this.card.style.left = `${Math.max(4, left)}px`;
    this.card.style.top = `${top + this.page.scrollTop}px`;
  }

  private key(event: KeyboardEvent): void {
    const from = event.target instanceof HTMLElement ? event.target.closest<HTMLElement>('.token') : null;
    if (!from) return;
    if (event.key === 'Escape') return this.hide();
    const all = [...this.page.querySelectorAll<HTMLElement>('.token')];
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -all.length, End: all.length, ArrowDown: 10, ArrowUp: -10 }[
      event.key
    ];
    if (step === undefined) return;
    event.preventDefault();
    const to = all[Math.max(0, Math.min(all.length - 1, all.indexOf(from) + step))]!;
    from.tabIndex = -1;
    to.tabIndex = 0;
    this.entry = to;
    to.focus();
  }
}

function describe(token: Token, most: number): HTMLElement {
  const p = token.logprob === null ? null : Math.exp(token.logprob);
  const rows = token.top.slice(0, most).map(({ text, logprob }) => {
    const share = Math.exp(logprob);
    const bar = el('span', { class: 'bar' });
    bar.style.setProperty('--share', share.toFixed(4));
    return el(
      'li',
      { class: text === token.text ? 'chosen' : '' },
      el('span', { class: 'name' }, visible(text)),
      bar,
      el('span', { class: 'value' }, percent(share)),
    );
  });
  return el(
    'div',
    {},
    el('p', {}, el('b', {}, visible(token.text)), ' ', p === null ? 'given' : percent(p)),
    rows.length > 0 && el('ol', {}, ...rows),
  );
}
