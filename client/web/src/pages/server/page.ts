// Server: what it serves, how much fits, and what it does now.

import type { App, Page } from '../../app.ts';
import { ApiError, isTimeout } from '../../api/errors.ts';
import { serverInfo } from '../../api/sessions.ts';
import type { ByTier, Model, ServerInfo, ServerSample } from '../../api/types.ts';
import { el, fill } from '../../dom.ts';
import { bytes, count, duration, plural, short, significant } from '../../text/format.ts';
import { Notice } from '../../ui/notice.ts';
import { TimePlot, type Row } from '../../ui/plot.ts';
import { browser } from '../../ui/store.ts';
import { History, rates, RECENT_SECONDS } from './history.ts';

const LOOK_MS = 2000;
/** A server that is younger leaves room. */
const SHORTEST_SECONDS = 60;
/** How much fits changes with what runs: the models are asked again at every so many looks. */
const LOOKS_PER_MODELS = 5;

const TIERS: { key: keyof ByTier; name: string; className: string }[] = [
  { key: 'device', name: 'device', className: 'b' },
  { key: 'host', name: 'host', className: 'a' },
  { key: 'durable', name: 'durable', className: 'c' },
];

/** What is told of the server in figures and words; some of it is long. */
const FACTS: [name: string, className?: string][] = [
  ['state'],
  ['up'],
  ['version'],
  ['tokens written'],
  ['tokens read'],
  ['device', 'long'],
  ['build', 'long'],
];

export const serverPage = (app: App): Page => new ServerPage(app);

class ServerPage implements Page {
  readonly title = 'Server';
  readonly node: HTMLElement;
  private readonly notice = new Notice();
  private readonly facts = new Map(FACTS.map(([name]) => [name, el('dd', {}, '–')] as const));
  private readonly models = el('div', { class: 'models' });
  private readonly speed = new TimePlot(
    'Tokens per second',
    [
      { name: 'written', className: 'b' },
      { name: 'read', className: 'a' },
      { name: 'read, spared by the cache', className: 'c' },
    ],
    significant,
  );
  private readonly queue = new TimePlot(
    'Requests',
    [
      { name: 'running', className: 'b' },
      { name: 'waiting', className: 'a' },
    ],
    count,
    true,
  );
  private readonly sessions = new TimePlot('Sessions', TIERS, count, true);
  private readonly states = new TimePlot('Bytes of state', TIERS, bytes, true);
  private readonly history = new History();
  private readonly recent = el('input', {
    type: 'checkbox',
    checked: browser.get('plots') === 'recent',
    onchange: () => {
      browser.set('plots', this.recent.checked ? 'recent' : '');
      this.draw();
    },
  });
  private timer: ReturnType<typeof setInterval> | null = null;
  private looks = 0;
  private looking = false;

  constructor(private readonly app: App) {
    this.node = el(
      'div',
      { class: 'page server' },
      el('div', { class: 'head' }, el('h1', {}, 'Server')),
      this.notice.node,
      el(
        'dl',
        { class: 'facts wide' },
        ...FACTS.map(([name, className]) => el('div', { class: className }, el('dt', {}, name), this.facts.get(name))),
      ),
      el(
        'section',
        {},
        el('h2', {}, "Since the server's start"),
        el(
          'p',
          { class: 'hint' },
          'The longer the server runs, the farther its samples of the past lie apart. Speed is the mean from one to the next.',
        ),
        el('label', { class: 'tick' }, this.recent, el('span', {}, 'The last five minutes alone')),
        el('div', { class: 'plots' }, this.speed.node, this.queue.node, this.sessions.node, this.states.node),
      ),
      el('section', {}, el('h2', {}, 'Models'), this.models),
    );
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && this.timer) void this.look();
    });
  }

  show(): void {
    this.hide();
    this.looks = 0;
    void this.look();
    this.timer = setInterval(() => {
      if (!document.hidden) void this.look();
    }, LOOK_MS);
  }

  hide(): void {
    if (this.timer) clearInterval(this.timer);
    this.timer = null;
  }

  private async look(): Promise<void> {
    if (this.looking) return;
    this.looking = true;
    try {
      // One attempt within a bounded time: the next look comes soon.
      const once = { signal: AbortSignal.timeout(LOOK_MS * 4), attempts: 1 };
      this.tell(await serverInfo(this.app.api, once, this.history.lacks(seconds())));
      if (this.looks % LOOKS_PER_MODELS === 0) {
        this.app.forget();
        fill(this.models, ...(await this.app.models(once)).map(card));
      }
      this.looks += 1;
      this.notice.clear();
    } catch (error) {
      this.looks = 0;
      this.say('state', 'no answer');
      this.notice.fail(whyNot(error));
    } finally {
      this.looking = false;
    }
  }

  private tell(info: ServerInfo): void {
    this.say('state', info.draining ? 'draining: takes nothing new' : 'serving');
    this.say('up', duration(info.uptime));
    this.say('version', info.version);
    this.say('tokens written', count(info.generation_tokens));
    this.say('tokens read', count(info.prefill_tokens_computed));
    this.say('device', info.device);
    this.say('build', info.build);
    this.history.add(info, seconds());
    this.draw();
  }

  private draw(): void {
    const { samples } = this.history;
    const now = samples.at(-1)?.uptime ?? 0;
    const from = this.recent.checked ? now - RECENT_SECONDS : 0;
    const begin = Math.min(Math.max(from, 0), now - SHORTEST_SECONDS);
    const seen = samples.filter(({ uptime }) => uptime >= begin);
    const show = (plot: TimePlot, of: (sample: ServerSample) => number[]): void =>
      plot.show(
        seen.map((sample) => ({ x: sample.uptime, values: of(sample) })),
        begin,
        now,
      );
    this.speed.show(speeds(seen), begin, now);
    show(this.queue, (sample) => [sample.requests_running, sample.requests_waiting]);
    show(this.sessions, ({ sessions }) => TIERS.map(({ key }) => sessions[key]));
    show(this.states, ({ state_bytes: states }) => TIERS.map(({ key }) => states[key]));
  }

  private say(name: string, value: string): void {
    this.facts.get(name)!.textContent = value;
  }
}

const seconds = (): number => performance.now() / 1000;

const speeds = (samples: ServerSample[]): Row[] =>
  samples.slice(1).map((sample, i) => ({ x: sample.uptime, values: rates(samples[i]!, sample) }));

function fact(name: string, value: string, title?: string): HTMLElement {
  return el('div', {}, el('dt', {}, name), el('dd', { title }, value));
}

/** What went wrong with a look; the page asks again by itself. */
function whyNot(error: unknown): unknown {
  if (isTimeout(error)) return new Error('The server takes long to answer; asking again.');
  if (error instanceof ApiError && error.status === 0) return new Error('The gateway does not answer; asking again.');
  return error;
}

/** What sessions take at some lengths, if that grows. */
function growth(model: Model): HTMLElement | null {
  const sizes = (model.session_sizes ?? []).map((size) => `${bytes(size.bytes)} at ${count(size.tokens)}`);
  if (sizes.length === 0) return null;
  const text = `A session takes ${bytes(model.bytes_per_token ?? 0)} a token: ${sizes.join(', ')} tokens.`;
  return el('p', { class: 'growth' }, text);
}

function card(model: Model): HTMLElement {
  const { image, sessions_in_use: used, max_sessions: most } = model;
  const meter = el('meter', {
    min: 0,
    max: Math.max(1, most),
    value: used,
    'aria-label': `Sessions in use of ${model.id}`,
  });
  return el(
    'article',
    { class: 'panel model' },
    el('h3', {}, model.id),
    el(
      'p',
      { class: 'hint' },
      `${model.family.replace(/_/g, ' ')}, ${short(model.parameters)} weights in ${model.dtype}`,
    ),
    el(
      'dl',
      { class: 'facts' },
      fact(
        'a session takes',
        bytes(model.bytes_per_session),
        model.state_grows
          ? `${count(model.bytes_per_session)} bytes at ${plural(model.quoted_tokens, 'token')}; it grows with its context`
          : `${count(model.bytes_per_session)} bytes, however long its context`,
      ),
      fact('weights take', bytes(model.weight_bytes)),
      fact('reads', model.tokenizer + (image ? `, ${image.width} × ${image.height}` : '')),
      fact('vocabulary', count(model.vocab_size)),
      fact('longest context', model.max_position > 0 ? plural(model.max_position, 'token') : 'no limit'),
      fact('state in', model.state_dtype),
    ),
    growth(model),
    el('div', { class: 'capacity' }, meter, el('span', {}, `${count(used)} of ${count(most)} sessions compute`)),
  );
}
