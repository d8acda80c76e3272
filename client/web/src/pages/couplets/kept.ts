// The second lines that were found last as the browser keeps them, so that a reload loses none.

export interface KeptLines {
  first: string;
  /** Each with the log-probabilities of its characters. */
  lines: [text: string, ...logprobs: number[]][];
}

/** What is kept, if it is lines. */
export function linesOf(kept: KeptLines | null): KeptLines | null {
  const isLine = (line: unknown): boolean =>
    Array.isArray(line) &&
    line.every((value, i) => typeof value === (i === 0 ? 'string' : 'number')) &&
    line.length > 0;
  const fits = typeof kept?.first === 'string' && Array.isArray(kept.lines) && kept.lines.every(isLine);
  return fits ? kept : null;
}
