import { el } from '../dom.ts';

/** Hands `blob` to the browser as a file of this name. */
export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  el('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export const downloadText = (text: string, name: string): void =>
  download(new Blob([text], { type: 'text/plain;charset=utf-8' }), name);

/** A name that every file system takes, from the letters and digits of `title`. */
export const fileName = (title: string, otherwise: string): string =>
  title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-+|-+$/g, '') || otherwise;
