"""What callers give: prompts, sampling parameters, how to trust the server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any, Literal, Optional, Union

from google.protobuf.duration_pb2 import Duration

from tvq import messages
from tvq.v1 import generation_pb2, session_pb2
from tvq.v1.sampling import Sampling

#: A text, or token ids.
Prompt = Union[str, Sequence[int]]


@dataclass(frozen=True)
class Conversation:
    """A conversation for a model that has a template of its own (Model.conversation_templates), which writes it.

    `messages` and `tools` are as in OpenAI's API, and the template is given them as they are, `template_kwargs` as
    variables. On a session it is the whole conversation each time; only what the session lacks is fed.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Optional[Sequence[Mapping[str, Any]]] = None
    template_kwargs: Optional[Mapping[str, Any]] = None
    #: Of several templates.
    template_name: str = ""
    #: Whether the beginning of the next answer follows; None: unless continue_final_message.
    add_generation_prompt: Optional[bool] = None
    continue_final_message: bool = False


#: What a model continues.
GeneratePrompt = Union[Prompt, Conversation]
#: Seconds.
Seconds = Union[float, timedelta]
#: What the end of a call promises: the server holds the new version in memory, or on its durable tier.
#: "disk" means that tier, which may be a directory or a Redis.
Durability = Literal["memory", "disk"]
#: Which vectors of a text: of every token, or their mean.
Pooling = Literal["per_token", "mean"]
Path = Union[str, "os.PathLike[str]"]

_MOST_SECONDS = 315_576_000_000  # google.protobuf.Duration's limit: 10,000 years


@dataclass(frozen=True)
class Tls:
    """PEM files. `ca`: who signed the server's certificate, by default the authorities gRPC trusts. `cert` and
    `key`: the client's own, for a server that wants one."""

    ca: Optional[Path] = None
    cert: Optional[Path] = None
    key: Optional[Path] = None


def generate_request(model: str, prompt: GeneratePrompt, add_special_tokens: Optional[bool], priority: int,
                     sampling: Sampling) -> generation_pb2.GenerateRequest:
    given: dict[str, Any] = dict(sampling)
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    if isinstance(given.get("seed"), int) and -2**63 <= given["seed"] < 0:
        given["seed"] += 2**64  # its 64 bits, as the gateway takes it
    unknown = given.keys() - Sampling.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown sampling parameter: {', '.join(sorted(unknown))}")
    request = messages.make(generation_pb2.GenerateRequest, model=model, priority=priority,
                            sampling=messages.make(generation_pb2.SamplingParams, **given))
    set_input(request, prompt, "prompt", add_special_tokens)
    return request


def set_input(request: Any, value: GeneratePrompt, name: str, add_special_tokens: Optional[bool] = None) -> None:
    """Sets the `text`, the `token_ids` or, where there is one, the `conversation` of a request to the argument `name`,
    and how its text begins a context."""
    if add_special_tokens is not None:
        messages.put(request, "add_special_tokens", add_special_tokens, "add_special_tokens")
    if isinstance(value, str):
        messages.put(request, "text", value, name)
    elif isinstance(value, Conversation) and "conversation" in request.DESCRIPTOR.fields_by_name:
        request.conversation.CopyFrom(_conversation(value))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{name}: must be a str or token ids, not bytes; decode them")
    elif not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise TypeError(f"{name}: must be a str or token ids, not {messages.shown(value)}")
    else:
        messages.put(request.token_ids, "ids", value, name)


def _conversation(value: Conversation) -> generation_pb2.Conversation:
    return messages.make(
        generation_pb2.Conversation, messages=_json(value.messages, "messages"), tools=_json(value.tools, "tools"),
        template_kwargs=_json(value.template_kwargs, "template_kwargs"), template_name=value.template_name,
        add_generation_prompt=value.add_generation_prompt, continue_final_message=value.continue_final_message)


def _json(value: Any, name: str) -> Optional[str]:
    if value is None:
        return None
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: cannot be written as JSON: {error}") from error


def seconds(value: Optional[Seconds], name: str) -> Optional[float]:
    """A number of seconds from 0 on."""
    if value is None:
        return None
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}: must be a number of seconds or a timedelta, not {messages.shown(value)}")
    else:
        number = float(value)
    if not 0 <= number <= _MOST_SECONDS:
        raise ValueError(f"{name}: is {number} seconds, must be from 0 to {_MOST_SECONDS}")
    return number


def timeout(value: Optional[Seconds]) -> Optional[float]:
    """How long a call may take."""
    number = seconds(value, "timeout")
    if number == 0:
        raise ValueError("timeout: is 0 seconds, must be more; None stands for no limit")
    return number


def duration(value: Optional[Seconds], name: str) -> Optional[Duration]:
    number = seconds(value, name)
    if number is None:
        return None
    result = Duration()
    result.FromNanoseconds(round(Fraction(number) * 10**9))
    return result


def durability_value(value: Optional[Durability]) -> "session_pb2.Durability":
    if value is None:
        return session_pb2.DURABILITY_UNSPECIFIED
    return _named("durability", value, {"memory": session_pb2.DURABILITY_MEMORY, "disk": session_pb2.DURABILITY_DISK})


def pooling_value(value: Pooling) -> "generation_pb2.Pooling":
    return _named("pooling", value, {"per_token": generation_pb2.POOLING_UNSPECIFIED,
                                     "mean": generation_pb2.POOLING_MEAN})


def _named(argument: str, value: Any, values: dict[str, Any]) -> Any:
    if not isinstance(value, str) or value not in values:
        names = " or ".join(f'"{name}"' for name in values)
        raise ValueError(f"{argument}: must be {names}, not {messages.shown(value)}")
    return values[value]
