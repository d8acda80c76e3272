// Elements in one expression. Attributes are attributes; `on...` with a function is a listener. Styles go
// through classes or element.style, never a style attribute: the page's content security policy forbids it.

export type Child = Node | string | number | null | undefined | false;
type Listener<E extends Event> = (event: E) => void;
type Attribute = string | number | boolean | null | undefined;
interface Listeners {
  onclick?: Listener<MouseEvent>;
  oninput?: Listener<Event>;
  onchange?: Listener<Event>;
  onsubmit?: Listener<SubmitEvent>;
  onkeydown?: Listener<KeyboardEvent>;
  onfocusin?: Listener<FocusEvent>;
  onfocusout?: Listener<FocusEvent>;
  onpointerdown?: Listener<PointerEvent>;
  onpointermove?: Listener<PointerEvent>;
  onpointerup?: Listener<PointerEvent>;
  onpointerover?: Listener<PointerEvent>;
  onpointerleave?: Listener<PointerEvent>;
  ontoggle?: Listener<Event>;
}
export type Attributes = Listeners & { [name: string]: Attribute | Listener<never> };

function apply(node: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...kept(children));
}

function kept(children: Child[]): (Node | string)[] {
  return children
    .filter((child): child is Node | string | number => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === 'number' ? String(child) : child));
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  apply(node, attributes, children);
  return node;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  apply(node, attributes, children);
  return node;
}

/** Puts `children` in the place of what `node` holds. */
export function fill(node: Element, ...children: Child[]): void {
  node.replaceChildren(...kept(children));
}

let ids = 0;

/** An id that no other element of the page has. */
export function newId(prefix: string): string {
  ids += 1;
  return `${prefix}-${ids}`;
}
