// Numbers and times for people.

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

export const count = (n: number): string => grouped.format(n);

/** 1 kB is 1,000 bytes. */
export function bytes(n: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = n;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : significant(value)} ${units[unit]}`;
}

/** Three digits that matter: 1.23, 12.3, 123, 1,234. */
export function significant(n: number): string {
  const size = Math.abs(n);
  if (size >= 99.95 || n === 0) return grouped.format(n);
  return n.toFixed(size >= 9.995 ? 1 : 2);
}

export function short(n: number): string {
  if (n >= 999_500_000) return `${significant(n / 1e9)} G`;
  if (n >= 999_500) return `${significant(n / 1e6)} M`;
  return n >= 10_000 ? `${significant(n / 1e3)} k` : grouped.format(n);
}

/** A figure without zeros at its end that say nothing: 5 MB, 2.5 MB, 10 k. */
export const plain = (figure: string): string =>
  figure.replace(/\.(\d*?)0+(?!\d)/, (_, kept: string) => (kept === '' ? '' : `.${kept}`));

export function percent(p: number): string {
  if (p >= 0.9995) return p >= 0.99995 ? '100%' : '99.9%';
  if (p >= 0.0995) return `${(p * 100).toFixed(0)}%`;
  return p >= 0.001 ? `${(p * 100).toFixed(1)}%` : `${(p * 100).toPrecision(1)}%`;
}

export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export function ago(unixSeconds: number, now = Date.now() / 1000): string {
  const s = now - unixSeconds;
  if (s < 5) return 'just now';
  if (s < 60) return `${Math.round(s)} s ago`;
  if (s < 3600) return `${Math.round(s / 60)} min ago`;
  return s < 86_400 ? `${Math.round(s / 3600)} h ago` : `${Math.round(s / 86_400)} d ago`;
}

export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

/** A token as it can be seen: blanks and line ends have a sign. */
export const visible = (token: string): string =>
  token.replace(/\n/g, '↵').replace(/\t/g, '⇥').replace(/ /g, '·') || '∅';
