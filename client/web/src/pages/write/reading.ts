// How far the server is with a long prompt. No stream tells it; the server's counters do, while nothing else runs.

import type { Api } from '../../api/client.ts';
import { serverInfo } from '../../api/sessions.ts';
import type { ServerInfo } from '../../api/types.ts';

const read = (info: ServerInfo): number => info.prefill_tokens_computed + info.prefill_tokens_reused;

export class Reading {
  private constructor(
    private readonly api: Api,
    readonly tokens: number,
    private readonly before: ServerInfo | null,
  ) {}

  /** Before a prompt of so many tokens is sent. */
  static async begin(api: Api, tokens: number): Promise<Reading> {
    return new Reading(api, tokens, await ask(api));
  }

  /** Tokens of the prompt that are read; null where it cannot be told, as other requests count, too. */
  async done(): Promise<number | null> {
    const now = await ask(this.api);
    const { before } = this;
    const isAlone = before?.requests_running === 0 && before.requests_waiting === 0 && now?.requests_running === 1;
    return isAlone && now && before ? Math.max(0, Math.min(this.tokens, read(now) - read(before))) : null;
  }
}

/** Null where there is no answer: the turn itself tells when the server is away. */
const ask = (api: Api): Promise<ServerInfo | null> => serverInfo(api, { attempts: 1 }).catch(() => null);
