import { beforeEach, describe, expect, it } from 'vitest';
import type { ServerInfo, ServerSample } from '../src/api/types.ts';
import { History, rates } from '../src/pages/server/history.ts';

const START = 1000;

/** After so many seconds of a server that writes 10 tokens in each. */
const sample = (uptime: number): ServerSample =>
  ({
    uptime,
    generation_tokens: 10 * uptime,
    prefill_tokens_computed: 0,
    prefill_tokens_reused: 0,
  }) as ServerSample;

const info = (uptime: number, history?: number[], start = START): ServerInfo =>
  ({ ...sample(uptime), start_time: start, history: history?.map(sample) }) as ServerInfo;

let history: History;
const times = (): number[] => history.samples.map(({ uptime }) => uptime);
beforeEach(() => {
  history = new History();
});

describe("what is known of the server's past", () => {
  it('begins at its start, and goes on with what is seen', () => {
    expect(history.lacks(0)).toBe(true);
    history.add(info(9, [0, 4, 8, 8.9]), 0);
    expect(times()).toEqual([0, 4, 8, 9]);
    expect(history.lacks(2)).toBe(false);
    history.add(info(11), 2);
    expect(times()).toEqual([0, 4, 8, 9, 11]);
  });

  it('has what the server knows of a time in which nobody looked', () => {
    history.add(info(9, [0, 4, 8]), 0);
    expect(history.lacks(100)).toBe(true);
    history.add(info(109, [0, 4, 8, 9.2, 64, 96]), 100);
    expect(times()).toEqual([0, 4, 8, 9, 64, 96, 109]);
  });

  it.each([
    ['started anew', 3, START + 20],
    ['started anew within a second', 3, START],
  ])('begins again where the server was %s', (_, uptime, start) => {
    history.add(info(9, [0, 4, 8]), 0);
    history.add(info(uptime, undefined, start), 2);
    expect(times()).toEqual([]);
    expect(history.lacks(4)).toBe(true);
    history.add(info(uptime + 2, [0, 4], start), 4);
    expect(times()).toEqual([0, 4, uptime + 2]);
  });

  it('stays bounded, with all of the last five minutes, and reaches back to the start', () => {
    const past = Array.from({ length: 720 }, (_, i) => i * 128);
    const begin = 720 * 128;
    for (let looked = 0; looked < 20_000; looked += 2)
      history.add(info(begin + looked, looked === 0 ? past : undefined), looked);
    const now = times().at(-1)!;
    expect(times()[0]).toBe(0);
    expect(times().length).toBeLessThan(720 + 152);
    expect(times().filter((time) => time >= now - 298)).toHaveLength(150);
    // What the server told is not thinned again and again for what the page sees.
    const gaps = times()
      .slice(1)
      .map((time, i) => time - times()[i]!);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(2 * 128);
  });
});

it('divides by the time between', () => {
  expect(rates(sample(4), sample(8))).toEqual([10, 0, 0]);
});
