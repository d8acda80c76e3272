import { afterEach, describe, expect, it, vi } from 'vitest';
import { readEvents, SseParser, type SseEvent } from '../src/api/sse.ts';

const STREAM =
  ': hello\r\nevent: a\r\ndata: one\r\ndata: two\r\n\r\ndata:three\n\ndata\n\nid: 7\rdata: f\u00fcnf\r\rdata: cut off';
const EVENTS: SseEvent[] = [
  { event: 'a', data: 'one\ntwo' },
  { event: 'message', data: 'three' },
  { event: 'message', data: '' },
  { event: 'message', data: 'fünf' },
];

const bodyOf = (bytes: Uint8Array, size: number): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      for (let i = 0; i < bytes.length; i += size) controller.enqueue(bytes.slice(i, i + size));
      controller.close();
    },
  });

describe('SseParser', () => {
  it('reads a stream the same however it is cut', () => {
    for (let size = 1; size <= STREAM.length; size += 1) {
      const parser = new SseParser();
      const events: SseEvent[] = [];
      for (let i = 0; i < STREAM.length; i += size) events.push(...parser.push(STREAM.slice(i, i + size)));
      expect(events, `pieces of ${size}`).toEqual(EVENTS);
    }
  });

  it('leaves out a byte order mark, and only the first', () => {
    expect(new SseParser().push('\ufeffdata: a\n\n')).toEqual([{ event: 'message', data: 'a' }]);
    expect(new SseParser().push('data: \ufeffa\n\n')).toEqual([{ event: 'message', data: '\ufeffa' }]);
  });

  it('dispatches nothing without data', () => {
    expect(new SseParser().push('event: a\n\n: comment\n\n')).toEqual([]);
  });
});

describe('readEvents', () => {
  afterEach(() => void vi.restoreAllMocks());

  it('joins characters that are cut within their bytes', async () => {
    const bytes = new TextEncoder().encode('data: 風弦 🖋\n\n');
    for (let size = 1; size < bytes.length; size += 1) {
      const events: SseEvent[] = [];
      for await (const event of readEvents(bodyOf(bytes, size))) events.push(event);
      expect(events).toEqual([{ event: 'message', data: '風弦 🖋' }]);
    }
  });

  it('cancels the body when its reader leaves early', async () => {
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode('data: a\n\ndata: b\n\n')),
      cancel: () => {
        cancelled = true;
      },
    });
    for await (const event of readEvents(body)) {
      expect(event.data).toBe('a');
      break;
    }
    expect(cancelled).toBe(true);
  });

  it('lets other tasks run though there is always an event that has come', async () => {
    let now = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    let left = 1000;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        controller.enqueue(new TextEncoder().encode('data: a\n\ndata: b\n\n'));
        if ((left -= 1) === 0) controller.close();
      },
    });
    let waits = true;
    setImmediate(() => (waits = false));
    for await (const _ of readEvents(body)) {
      now += 1; // each takes a while
      if (!waits) break;
    }
    expect(left).toBeGreaterThan(0);
  });
});
