// Server: what it serves, how much fits, and what it does now.

import type { App, Page } from '../../app.ts';
import { ApiError, isTimeout } from '../../api/errors.ts';
import { serverInfo } from '../../api/sessions.ts';
import type { ByTier, Model, ServerInfo } from '../../api/types.ts';
import { el, fill } from '../../dom.ts';
import { bytes, count, duration, plural, short, significant } from '../../text/format.ts';
import { Notice } from '../../ui/notice.ts';
import { TimePlot } from '../../ui/plot.ts';
import { rates, ratesSinceStart, type Rates } from './rates.ts';

const LOOK_MS = 2000;
const WINDOW_SECONDS = 300;
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
    WINDOW_SECONDS,
    significant,
  );
  private readonly queue = new TimePlot(
    'Requests',
    [
      { name: 'running', className: 'b' },
      { name: 'waiting', className: 'a' },
    ],
    WINDOW_SECONDS,
    count,
    true,
  );
  private readonly sessions = new TimePlot('Sessions', TIERS, WINDOW_SECONDS, count, true);
  private readonly states = new TimePlot('Bytes of state', TIERS, WINDOW_SECONDS, bytes, true);
  private before: { info: ServerInfo; at: number } | null = null;
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
        el('h2', {}, 'The last five minutes'),
        el(
          'p',
          { class: 'hint' },
          'As this page saw them: the server keeps no history. Dashed is what it tells of the time before, the mean speed since its start.',
        ),
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
      this.tell(await serverInfo(this.app.api, once));
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
    const at = performance.now() / 1000;
    this.say('state', info.draining ? 'draining: takes nothing new' : 'serving');
    this.say('up', duration(info.uptime));
    this.say('version', info.version);
    this.say('tokens written', count(info.generation_tokens));
    this.say('tokens read', count(info.prefill_tokens_computed));
    this.say('device', info.device);
    this.say('build', info.build);
    const rate = this.before && rates(this.before.info, info, at - this.before.at);
    if (rate) this.speed.add(at, figures(rate));
    else this.beginSpeed(info, at);
    this.queue.add(at, [info.requests_running, info.requests_waiting]);
    const { sessions, state_bytes: states } = info;
    this.sessions.add(at, [sessions.device, sessions.host, sessions.durable]);
    this.states.add(at, [states.device, states.host, states.durable]);
    this.before = { info, at };
  }

  /** The server keeps no history: its counters tell a mean since its start. */
  private beginSpeed(info: ServerInfo, at: number): void {
    const mean = ratesSinceStart(info);
    if (mean) this.speed.begin(at - info.uptime, at, figures(mean));
    else this.speed.clear();
  }

  private say(name: string, value: string): void {
    this.facts.get(name)!.textContent = value;
  }
}

const figures = ({ generated, computed, reused }: Rates): number[] => [generated, computed, reused];

function fact(name: string, value: string, title?: string): HTMLElement {
  return el('div', {}, el('dt', {}, name), el('dd', { title }, value));
}

/** What went wrong with a look; the page asks again by itself. */
function whyNot(error: unknown): unknown {
  if (isTimeout(error)) return new Error('The server takes long to answer; asking again.');
  if (error instanceof ApiError && error.status === 0) return new Error('The gateway does not answer; asking again.');
  return error;
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
    el('div', { class: 'capacity' }, meter, el('span', {}, `${count(used)} of ${count(most)} sessions compute`)),
  );
}
