"""What callers give: prompts, sampling parameters, how to trust the server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Optional, TypedDict, Union

from google.protobuf.duration_pb2 import Duration

from tvq.v1 import generation_pb2, session_pb2

#: A text, or token ids.
Prompt = Union[str, Sequence[int]]
#: Seconds.
Seconds = Union[float, timedelta]
#: What the end of a call promises: the server holds the new version in memory, or on its durable tier.
#: "disk" means that tier, which may be a directory or a Redis.
Durability = Literal["memory", "disk"]
#: Which vectors of a text: of every token, or their mean.
Pooling = Literal["per_token", "mean"]
Path = Union[str, "os.PathLike[str]"]


class Sampling(TypedDict, total=False):
    """How tokens are chosen: SamplingParams of generation.proto, whose comments give ranges and defaults."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    seed: int
    stop: Union[str, Sequence[str]]
    stop_token_ids: Sequence[int]
    include_stop_str_in_output: bool
    max_tokens: int
    min_tokens: int
    allowed_token_ids: Sequence[int]
    logprobs: int
    prompt_logprobs: int
    logit_bias: Mapping[int, float]
    ignore_eos: bool
    n: int
    echo: bool
    limit_to_context: bool


@dataclass(frozen=True)
class Tls:
    """PEM files. `ca`: who signed the server's certificate, by default the authorities gRPC trusts. `cert` and
    `key`: the client's own, for a server that wants one."""

    ca: Optional[Path] = None
    cert: Optional[Path] = None
    key: Optional[Path] = None


def generate_request(model: str, prompt: Prompt, add_special_tokens: Optional[bool], priority: int,
                     sampling: Sampling) -> generation_pb2.GenerateRequest:
    given: dict[str, Any] = dict(sampling)
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    if isinstance(given.get("seed"), int) and -2**63 <= given["seed"] < 0:
        given["seed"] += 2**64  # its 64 bits, as the gateway takes it
    unknown = given.keys() - Sampling.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown sampling parameter: {', '.join(sorted(unknown))}")
    request = generation_pb2.GenerateRequest(
        model=model, priority=priority, sampling=generation_pb2.SamplingParams(**given))
    set_input(request, prompt, add_special_tokens)
    return request


def set_input(request: Any, value: Prompt, add_special_tokens: Optional[bool] = None) -> None:
    """Sets the `text` or the `token_ids` of a request, and how its text begins a context."""
    if add_special_tokens is not None:
        request.add_special_tokens = add_special_tokens
    if isinstance(value, str):
        request.text = value
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("must be a str or token ids, not bytes; decode them")
    else:
        request.token_ids.ids.extend(value)


def duration(value: Optional[Seconds]) -> Optional[Duration]:
    if value is None:
        return None
    result = Duration()
    result.FromTimedelta(value if isinstance(value, timedelta) else timedelta(seconds=value))
    return result


def durability_value(value: Optional[Durability]) -> "session_pb2.Durability":
    values = {
        None: session_pb2.DURABILITY_UNSPECIFIED,
        "memory": session_pb2.DURABILITY_MEMORY,
        "disk": session_pb2.DURABILITY_DISK,
    }
    if value not in values:
        raise ValueError(f'durability must be "memory" or "disk", not {value!r}')
    return values[value]


def pooling_value(value: Pooling) -> "generation_pb2.Pooling":
    values = {"per_token": generation_pb2.POOLING_UNSPECIFIED, "mean": generation_pb2.POOLING_MEAN}
    if value not in values:
        raise ValueError(f'pooling must be "per_token" or "mean", not {value!r}')
    return values[value]
