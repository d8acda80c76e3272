"""What calls return: plain values that keep nothing alive."""

from __future__ import annotations

import dataclasses
import math
from array import array
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Optional, TypeVar, Union

from tvq.v1 import generation_pb2, model_pb2, session_pb2


@dataclass(frozen=True)
class TokenLogprob:
    """A token and how likely it was. `logprob` and `rank` are None at the first token of an empty context."""

    token_id: int
    token: bytes
    logprob: Optional[float]
    rank: Optional[int]


@dataclass(frozen=True)
class TokenLogprobs(TokenLogprob):
    """The token at a place, and the most likely ones there, best first."""

    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class Delta:
    """A piece of one sample's output."""

    index: int
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    #: With a sample's last delta: "stop", "length", "cancelled" or "error".
    finish_reason: Optional[str] = None
    #: With "stop": the string or the token id; None for the end-of-sequence id.
    stop_reason: Union[str, int, None] = None


@dataclass
class Sample:
    """All that came for one sample."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    finish_reason: Optional[str] = None
    stop_reason: Union[str, int, None] = None

    def add(self, delta: Delta) -> None:
        self.text += delta.text
        self.token_ids += delta.token_ids
        self.logprobs += delta.logprobs
        self.finish_reason = delta.finish_reason
        self.stop_reason = delta.stop_reason


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    #: Of the prompt's tokens, those that came from a cache of prefixes and were not computed.
    cached_tokens: int
    completion_tokens: int
    #: Of a conversation on a session that was taken back: tokens that stand where it had others before.
    reread_tokens: int


@dataclass(frozen=True)
class Position:
    """Where a session stands after a call."""

    session_id: str
    version: int
    #: The newest version on the durable tier; 0: none.
    persisted_version: int
    #: Tokens the session holds.
    position: int


@dataclass(frozen=True)
class Mark:
    name: str
    version: int
    position: int


@dataclass(frozen=True)
class SessionInfo:
    id: str
    model: str
    parent_id: Optional[str]
    parent_version: Optional[int]
    version: int
    persisted_version: int
    position: int
    bytes: int
    #: "device", "host" or "durable".
    tier: str
    create_time: datetime
    last_use_time: datetime
    #: When it will be deleted if it is not used; None: never.
    expire_time: Optional[datetime]
    marks: tuple[Mark, ...]
    has_transcript: bool
    label: str
    #: What calls on it have that do not say.
    add_special_tokens: bool


@dataclass(frozen=True)
class Score:
    """How well the model predicts a text."""

    tokens: int
    scored_tokens: int
    #: Of the tokens, how many stand for characters outside the vocabulary.
    unknown_tokens: int
    total_logprob: float
    #: Of the tokens that are scored.
    bytes: int
    position: Optional[Position]
    #: With `logprobs`.
    token_logprobs: tuple[TokenLogprobs, ...] = ()

    @property
    def bits_per_byte(self) -> float:
        """NaN where no token is scored, as of a text of one token with nothing before it."""
        return self._bits_per(self.bytes)

    @property
    def bits_per_token(self) -> float:
        """NaN where no token is scored."""
        return self._bits_per(self.scored_tokens)

    def _bits_per(self, count: int) -> float:
        return -self.total_logprob / math.log(2) / count if count else math.nan


@dataclass(frozen=True)
class Encoding:
    """Vectors of a text."""

    #: Of the text.
    tokens: int
    #: Numbers in a vector.
    width: int
    #: float32, row-major [tokens, width], or of a mean [1, width]: numpy.asarray(values).reshape(-1, width).
    values: "array[float]"

    @property
    def vectors(self) -> "list[list[float]]":
        """One for each token, in order; of a mean, that one."""
        return [self.values[begin:begin + self.width].tolist() for begin in range(0, len(self.values), self.width)]


@dataclass(frozen=True)
class SessionSize:
    """What a session of so many tokens takes."""

    tokens: int
    bytes: int


@dataclass(frozen=True)
class Model:
    """A served model; model.proto says more."""

    name: str
    family: str
    parameters: int
    vocab_size: int
    dtype: str
    state_dtype: str
    weight_bytes: int
    bytes_per_session: int
    state_grows: bool
    quoted_tokens: int
    max_sessions: int
    sessions_in_use: int
    prefill_chunk: int
    max_position: int
    max_prompt_tokens: int
    tokenizer: str
    can_encode: bool
    fingerprint: str
    #: A text that begins a context is given bos_token_id as first token.
    add_bos_token: bool
    #: Names of its own templates of conversations; none: a Conversation cannot be given.
    conversation_templates: tuple[str, ...]
    #: Where the state grows: what each further token takes, in the mean.
    bytes_per_token: int
    #: What a cache of all keys and values would take of each token.
    cache_bytes_per_token: int
    #: Where the state grows: at 1024, 8192, 32768 and 131072 tokens, as far as max_position goes.
    session_sizes: tuple[SessionSize, ...]
    pad_token_id: Optional[int] = None
    bos_token_id: Optional[int] = None
    eos_token_id: Optional[int] = None
    unk_token_id: Optional[int] = None


@dataclass(frozen=True)
class ServerInfo:
    version: str
    build: str
    device: str
    start_time: datetime
    uptime: timedelta
    draining: bool
    requests_running: int
    requests_waiting: int


_T = TypeVar("_T")


def plain(kind: type[_T], message: Any, **converted: Any) -> _T:
    """A dataclass of the fields of a message; unset optional fields keep the dataclass's default."""
    values = converted
    for item in dataclasses.fields(kind):  # type: ignore[arg-type]
        optional = item.default is not dataclasses.MISSING
        if item.name not in values and not (optional and not message.HasField(item.name)):
            values[item.name] = getattr(message, item.name)
    return kind(**values)


def _time(value: Any) -> datetime:
    return value.ToDatetime().replace(tzinfo=timezone.utc)


def _enum(kind: Any, value: int, prefix: str) -> Optional[str]:
    return kind.Name(value).removeprefix(prefix).lower() if value else None


def token_logprob(message: generation_pb2.TokenLogprob) -> TokenLogprob:
    return TokenLogprob(message.token_id, message.token, message.logprob, message.rank)


def token_logprobs(message: generation_pb2.TokenLogprobs) -> TokenLogprobs:
    token = message.token
    known = message.has_logprob
    return TokenLogprobs(token.token_id, token.token, token.logprob if known else None, token.rank if known else None,
                         tuple(map(token_logprob, message.top)))


def delta(message: generation_pb2.SampleDelta) -> Delta:
    which = message.WhichOneof("stop_reason")
    return Delta(message.index, message.text, tuple(message.token_ids), tuple(map(token_logprobs, message.logprobs)),
                 _enum(generation_pb2.FinishReason, message.finish_reason, "FINISH_REASON_"),
                 getattr(message, which) if which else None)


def usage(message: generation_pb2.Usage) -> Usage:
    return plain(Usage, message)


def position(message: session_pb2.SessionPosition) -> Position:
    return plain(Position, message)


def encoding(message: generation_pb2.EncodeResponse) -> Encoding:
    return Encoding(message.tokens, message.width, array("f", message.vectors))


def session_info(message: session_pb2.Session) -> SessionInfo:
    forked = bool(message.parent_id)
    return plain(
        SessionInfo, message,
        parent_id=message.parent_id if forked else None,
        parent_version=message.parent_version if forked else None,
        tier=_enum(session_pb2.SessionTier, message.tier, "SESSION_TIER_") or "",
        create_time=_time(message.create_time),
        last_use_time=_time(message.last_use_time),
        expire_time=_time(message.expire_time) if message.HasField("expire_time") else None,
        marks=tuple(plain(Mark, mark) for mark in message.marks))


def model(message: model_pb2.Model) -> Model:
    return plain(Model, message, conversation_templates=tuple(message.conversation_templates),
                 session_sizes=tuple(plain(SessionSize, size) for size in message.session_sizes))


def server_info(message: model_pb2.GetServerInfoResponse) -> ServerInfo:
    return plain(ServerInfo, message, start_time=_time(message.start_time), uptime=message.uptime.ToTimedelta())
