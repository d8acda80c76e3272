import { expect, it } from 'vitest';
import { scales } from '../src/pages/write/live.ts';
import { Meter } from '../src/ui/meter.ts';
import { niceTop, path } from '../src/ui/plot.ts';

it('measures from the first arrival on, which waited for the prompt', () => {
  let now = 0;
  const meter = new Meter(() => now);
  expect(meter.recent()).toBeNull();
  now = 5000;
  meter.add(1);
  for (let i = 1; i <= 100; i += 1) {
    now = 5000 + i * 20;
    meter.add(1);
  }
  expect(meter.overall()).toBeCloseTo(50, 6);
  expect(meter.recent()).toBeCloseTo(50, 6);
  now += 1000; // a pause shows in the last moments more than in the whole
  meter.add(1);
  expect(meter.recent()!).toBeLessThan(meter.overall()!);
  expect(meter.tokens).toBe(102);
});

it('counts tokens that come together', () => {
  let now = 0;
  const meter = new Meter(() => now);
  for (const at of [0, 500, 1000]) {
    now = at;
    meter.add(10);
  }
  expect(meter.overall()).toBeCloseTo(20, 6);
});

it('measures a short answer over its whole request, in whatever pieces the browser read it', () => {
  // A request that is sent at 1000 and whose last token of 80 is read at 1040.
  const speed = (pieces: [at: number, tokens: number][]): (number | null)[] => {
    let now = 0;
    const meter = new Meter(() => now);
    now = 1000;
    meter.start();
    for (const [at, tokens] of pieces) {
      now = at;
      meter.add(tokens);
    }
    return [meter.recent(), meter.overall(), meter.tokens];
  };
  const even = Array.from({ length: 80 }, (_, i): [number, number] => [1000.5 + i * 0.5, 1]);
  for (const pieces of [
    [[1040, 80]],
    [
      [1039, 79],
      [1040, 1],
    ],
    [
      [1002, 1],
      [1040, 79],
    ],
    even,
  ] as [number, number][][])
    expect(speed(pieces)).toEqual([2000, 2000, 80]);
  expect(speed([[1000, 80]])).toEqual([null, null, 80]); // no time at all
});

it('leaves the reading of a prompt out where the writing takes long enough to be measured', () => {
  let now = 0;
  const meter = new Meter(() => now);
  for (let i = 0; i <= 50; i += 1) {
    now = 26_000 + i * 10;
    meter.add(1);
  }
  expect(meter.overall()).toBeCloseTo(100, 6);
});

it('draws from the origin up to the top', () => {
  expect(
    path(
      [
        { x: 0, y: 0 },
        { x: 5, y: 10 },
        { x: 10, y: 20 },
      ],
      0,
      10,
      20,
      100,
      50,
    ),
  ).toBe('M0.0 50.0L50.0 25.0L100.0 0.0');
  expect([0, 0.3, 1, 1.2, 4, 7, 60].map(niceTop)).toEqual([1, 0.5, 1, 2, 5, 10, 100]);
});

it('has a scale for tokens and one for bytes, which end at round figures', () => {
  expect(scales(241, 1_572_864)).toEqual({
    tokens: { top: 500, marks: ['500', '250', '0'] },
    bytes: { top: 5e6, marks: ['5 MB', '2.5 MB', '0 B'] },
  });
  expect(scales(300_000, 59_000).tokens.marks).toEqual(['500 k', '250 k', '0']);
  expect(scales(12_005, 59_000)).toMatchObject({
    tokens: { marks: ['20 k', '10 k', '0'] },
    bytes: { marks: ['100 kB', '50 kB', '0 B'] },
  });
  expect(scales(0, 0)).toMatchObject({ tokens: { marks: ['10', '5', '0'] }, bytes: { marks: ['10 B', '5 B', '0 B'] } });
});
