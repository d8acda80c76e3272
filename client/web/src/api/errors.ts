// What can go wrong, as a sentence for the person before the page.

export class ApiError extends Error {
  override readonly name = 'ApiError';
  constructor(
    /** The HTTP status; 0 when there was no answer. */
    readonly status: number,
    message: string,
    readonly param: string | null = null,
    readonly code: string | null = null,
    /** How long the server asks to wait. */
    readonly retryAfterMs: number | null = null,
  ) {
    super(message);
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** A signal of AbortSignal.timeout ended it. */
export function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError';
}

/** Only a person who has a key can help. */
export const wantsKey = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 401 || error.status === 403);

/** A server that is away, starting or full answers another time. */
export const mayPass = (error: unknown): boolean =>
  isTimeout(error) || (error instanceof ApiError && [0, 429, 503].includes(error.status));

/** Nobody answers at the moment: that is out of date once somebody does. */
export const isAway = (error: unknown): boolean =>
  isTimeout(error) || (error instanceof ApiError && [0, 503].includes(error.status));

/** The server has it no more: a session, or the model that it needs. */
export const isMissing = (error: unknown): boolean => error instanceof ApiError && error.status === 404;

/** The gateway's words for it that nobody listens where its server should be. */
const NO_SERVER = 'Is tvq-server running?';

export const hasNoServer = (error: unknown): boolean =>
  error instanceof ApiError && error.status === 503 && error.message.endsWith(NO_SERVER);

/** How to start the server that is not there, at the port that the gateway asks; null where that is not what is wrong. */
export function serverCommand(error: unknown): string | null {
  if (!hasNoServer(error)) return null;
  const port = /:(\d+)(?=[.:\s])/.exec((error as ApiError).message)?.[1];
  return `tvq-server --model NAME=DIRECTORY${port === undefined ? '' : ` --port ${port}`}`;
}

interface ErrorBody {
  error?: { message?: unknown; type?: unknown; param?: unknown; code?: unknown };
}

/** The gateway's words for how a call ended, as statuses of HTTP: within a stream nothing else tells it. */
const STATUS_OF: Record<string, number> = {
  invalid_api_key: 401,
  permission_denied: 403,
  not_found: 404,
  model_not_found: 404,
  already_exists: 409,
  conflict: 409,
  failed_precondition: 412,
  too_large: 413,
  rate_limit_exceeded: 429,
  cancelled: 499,
  data_loss: 500,
  unimplemented: 501,
  unavailable: 503,
  deadline_exceeded: 504,
};

/** The error that an event of a stream has; null if it has none. */
export function errorWithin(event: unknown): ApiError | null {
  const { error } = event as ErrorBody;
  if (!error) return null;
  const otherwise = error.type === 'invalid_request_error' ? 400 : 500;
  return errorFrom(STATUS_OF[String(error.code)] ?? otherwise, event);
}

const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

/** An error from the object that OpenAI's API defines, or from whatever came instead of it. */
export function errorFrom(status: number, body: unknown, retryAfterMs: number | null = null): ApiError {
  const error = typeof body === 'object' && body !== null ? (body as ErrorBody).error : undefined;
  const message = text(error?.message) ?? (status > 0 ? `The server answered with status ${status}` : 'No answer');
  return new ApiError(status, message, text(error?.param), text(error?.code), retryAfterMs);
}

function sentence(message: string): string {
  const trimmed = message.trim();
  const begin = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?…]$/.test(begin) ? begin : `${begin}.`;
}

export function explain(error: unknown): string {
  if (isTimeout(error)) return 'The server takes long to answer. Try again in a while.';
  if (!(error instanceof ApiError)) return sentence(error instanceof Error ? error.message : String(error));
  if (hasNoServer(error)) return sentence(error.message);
  switch (error.status) {
    case 0:
      return 'The gateway does not answer. Is tvq-gateway running? Your text is kept; try again when it is back.';
    case 401:
      return error.message.includes('not known')
        ? 'This server does not know the key in the field “API key” of the settings.'
        : 'This server wants a key. Enter yours in the field “API key” of the settings.';
    case 403:
      return `Your key does not permit this. ${sentence(error.message)}`;
    case 409:
      return `The session is in use or has moved on. ${sentence(error.message)}`;
    case 429:
      return `The server is full at the moment. ${sentence(error.message)}`;
    case 503:
      return `The server takes no requests at the moment. ${sentence(error.message)}`;
    default:
      return sentence(error.message);
  }
}
