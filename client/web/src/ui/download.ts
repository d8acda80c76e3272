import { el } from '../dom.ts';

/** Hands `blob` to the browser as a file of this name. */
export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  el('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
