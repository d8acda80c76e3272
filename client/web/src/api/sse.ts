// Server-sent events, as the HTML standard reads them, from text that comes in arbitrary pieces.

export interface SseEvent {
  event: string;
  data: string;
}

export class SseParser {
  private rest = '';
  private first = true;
  private event = '';
  private data: string[] = [];

  /** The events that `chunk` completes. */
  push(chunk: string): SseEvent[] {
    let text = this.rest + chunk;
    if (this.first && text.length > 0) {
      this.first = false;
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    const events: SseEvent[] = [];
    let begin = 0;
    for (;;) {
      const end = lineEnd(text, begin);
      if (end === null) break;
      const done = this.line(text.slice(begin, end.at));
      if (done) events.push(done);
      begin = end.next;
    }
    this.rest = text.slice(begin);
    return events;
  }

  private line(line: string): SseEvent | null {
    if (line === '') return this.dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return null; // a comment
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.event = value;
    return null;
  }

  private dispatch(): SseEvent | null {
    const { event, data } = this;
    this.event = '';
    this.data = [];
    return data.length === 0 ? null : { event: event || 'message', data: data.join('\n') };
  }
}

/** Where the line from `begin` ends; null while that is not known. A CR at the very end may be half of CR LF. */
function lineEnd(text: string, begin: number): { at: number; next: number } | null {
  for (let i = begin; i < text.length; i += 1) {
    const c = text[i];
    if (c === '\n') return { at: i, next: i + 1 };
    if (c === '\r') {
      if (i + 1 === text.length) return null;
      return { at: i, next: text[i + 1] === '\n' ? i + 2 : i + 1 };
    }
  }
  return null;
}

/** How long events that have come are handed on before the browser may draw and hear of clicks. */
const SLICE_MS = 10;

/**
 * What other tasks wait for, done: events that are there already come by promises alone, between which the browser does
 * nothing else. By a message, since browsers hold the timers of hidden tabs back.
 */
function otherTasks(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** The events of a response's body. Leaving the loop early cancels the body. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<SseEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new SseParser();
  let ended = false;
  let since = performance.now();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        yield event;
        if (performance.now() - since < SLICE_MS) continue;
        await otherTasks();
        since = performance.now();
      }
    }
    ended = true;
  } finally {
    if (!ended) await reader.cancel().catch(() => undefined);
  }
}
