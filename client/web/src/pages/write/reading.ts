// How far the server is with a long prompt. No stream tells it; the server's counters do, while nothing else runs.

import type { Api } from '../../api/client.ts';
import { serverInfo } from '../../api/sessions.ts';
import type { ServerInfo } from '../../api/types.ts';

export class Reading {
  private constructor(
    private readonly api: Api,
    readonly tokens: number,
    private readonly continues: boolean,
    private readonly before: ServerInfo | null,
  ) {}

  /** Before a prompt of so many tokens is sent; `continues`: to a session that holds tokens. */
  static async begin(api: Api, tokens: number, continues: boolean): Promise<Reading> {
    return new Reading(api, tokens, continues, await ask(api));
  }

  /** Tokens of the prompt that are read; null where it cannot be told, as other requests count, too. */
  async done(): Promise<number | null> {
    const now = await ask(this.api);
    const { before } = this;
    const isAlone = before?.requests_running === 0 && before.requests_waiting === 0 && now?.requests_running === 1;
    return isAlone && now && before ? Math.max(0, Math.min(this.tokens, this.read(now) - this.read(before))) : null;
  }

  /** Of what a session holds already, which it continues from, the server counts the tokens as reused. */
  private read(info: ServerInfo): number {
    return info.prefill_tokens_computed + (this.continues ? 0 : info.prefill_tokens_reused);
  }
}

/** Null where there is no answer: the turn itself tells when the server is away. */
const ask = (api: Api): Promise<ServerInfo | null> => serverInfo(api, { attempts: 1 }).catch(() => null);
