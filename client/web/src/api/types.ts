// The gateway's objects, as far as the page reads them.

export interface ImageShape {
  height: number;
  width: number;
  channels: number;
  levels: number;
  first_token_id: number;
}

export interface Model {
  id: string;
  family: string;
  parameters: number;
  vocab_size: number;
  dtype: string;
  state_dtype: string;
  weight_bytes: number;
  bytes_per_session: number;
  /** A session takes more as its context grows; the bytes are of one of `quoted_tokens` tokens. */
  state_grows: boolean;
  quoted_tokens: number;
  /** Of a session that grows: what each further token takes, in the mean. */
  bytes_per_token?: number;
  session_sizes?: { tokens: number; bytes: number }[];
  /** What a cache of all keys and values would take of each token. */
  cache_bytes_per_token?: number;
  max_sessions: number;
  sessions_in_use: number;
  prefill_chunk: number;
  max_position: number;
  max_prompt_tokens: number;
  tokenizer: string;
  pad_token_id?: number | null;
  bos_token_id?: number | null;
  /** Text that begins a context is given `bos_token_id` before it. */
  add_bos_token?: boolean;
  eos_token_id?: number | null;
  unk_token_id?: number | null;
  fingerprint?: string;
  default_sampling?: Record<string, unknown> | null;
  image?: ImageShape | null;
  /** Of generation_config.json. */
  has_chat_template?: boolean;
  /** Names of those in its own files. */
  conversation_templates?: string[];
}

export interface Mark {
  name: string;
  version: number;
  position: number;
}

export type Tier = 'device' | 'host' | 'durable';

export interface Session {
  id: string;
  model: string;
  parent_id: string | null;
  parent_version: number;
  version: number;
  persisted_version: number;
  position: number;
  bytes: number;
  tier: Tier;
  created: number;
  last_used: number;
  expires: number | null;
  marks: Mark[];
  has_transcript: boolean;
  /** Whether text at position 0 is given the model's `bos_token_id`, if the model adds one. */
  add_special_tokens?: boolean;
  label: string;
  transcript?: number[];
}

export interface Position {
  id: string;
  version: number;
  persisted_version: number;
  position: number;
}

export interface ListOf<T> {
  data: T[];
  has_more?: boolean;
  next?: string | null;
}

export interface ByTier {
  device: number;
  host: number;
  durable: number;
}

/** What the server does at a moment, and what it did until then. */
export interface ServerSample {
  /** In seconds. */
  uptime: number;
  requests_running: number;
  requests_waiting: number;
  prefill_tokens_computed: number;
  prefill_tokens_reused: number;
  generation_tokens: number;
  sessions: ByTier;
  state_bytes: ByTier;
}

export interface ServerInfo extends ServerSample {
  version: string;
  build: string;
  device: string;
  start_time: number;
  draining: boolean;
  /** From the start until now, oldest first, where it is asked for. */
  history?: ServerSample[];
}
