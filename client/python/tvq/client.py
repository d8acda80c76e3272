"""The connection to a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Optional, Union, Unpack

from tvq import messages, options, values
from tvq.admin import Admin
from tvq.generation import Generation, StatefulGeneration
from tvq.options import Conversation, Durability, GeneratePrompt, Pooling, Prompt, Sampling, Seconds, Tls
from tvq.session import Session, read_score
from tvq.transport import CHUNK_BYTES, RequestStream, Transport, open_channel
from tvq.v1 import generation_pb2, model_pb2, session_pb2
from tvq.values import Encoding, Model, Score, ServerInfo, SessionInfo

#: A snapshot: its bytes, pieces of them, or the file that holds them.
Snapshot = Union[bytes, Iterable[bytes], Path]


class Client:
    """A connection to a server; calls may be made from several threads. Every call may raise tvq.Error.

    `api_key`: for a server that wants one. `tls`: True, or Tls with files. `timeout`: seconds that each call may
    take; None: no limit. Where a model is asked for, its name may be left out: the server's first.
    """

    def __init__(self, address: str = "127.0.0.1:50051", *, api_key: Optional[str] = None,
                 tls: Union[Tls, bool] = False, timeout: Optional[Seconds] = None) -> None:
        self._transport = Transport(open_channel(address, tls), api_key, timeout)
        self.admin = Admin(self._transport)

    def close(self) -> None:
        """Ends the connection, and calls that still run with it. Later ones are a ValueError."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def generate(self, prompt: GeneratePrompt = "", *, model: str = "", add_special_tokens: Optional[bool] = None,
                 priority: int = 0, timeout: Optional[Seconds] = None, **sampling: Unpack[Sampling]) -> Generation:
        """Continues a prompt: a text, token ids or a Conversation. Iterate over the result, or call its text(); sampling parameters are vLLM's.

        A text that begins a context is given the model's bos_token_id as first token, if the model adds one
        (Model.add_bos_token) and add_special_tokens is not False; here as wherever text is given.
        """
        request = options.generate_request(model, prompt, add_special_tokens, priority, sampling)
        replies = self._transport.server_stream("GenerationService/Generate", request,
                                                generation_pb2.GenerateResponse, timeout)
        return Generation(replies, replies.cancel)

    def generate_with_state(self, prompt: GeneratePrompt = "", state: Optional[Snapshot] = None, *, model: str = "",
                            add_special_tokens: Optional[bool] = None, priority: int = 0,
                            timeout: Optional[Seconds] = None, **sampling: Unpack[Sampling]) -> StatefulGeneration:
        """Continues a state that the client keeps: the server keeps nothing. None: an empty context, which a
        Conversation needs."""
        first = generation_pb2.GenerateWithStateRequest(
            generate=options.generate_request(model, prompt, add_special_tokens, priority, sampling))
        kind = generation_pb2.GenerateWithStateRequest
        requests = RequestStream(first, _pieces(b"" if state is None else state), kind)
        return StatefulGeneration(self._transport.both_stream(
            "GenerationService/GenerateWithState", requests, kind, generation_pb2.GenerateWithStateResponse, timeout))

    def score(self, text: Prompt, *, model: str = "", prepend_eos: bool = False,
              add_special_tokens: Optional[bool] = None, logprobs: Optional[int] = None,
              allow_unknown: bool = False, timeout: Optional[Seconds] = None) -> Score:
        """How well the model predicts a text, the whole of it being one context.

        The first token is scored if something is fed before it: what add_special_tokens puts there, as in generate,
        or with prepend_eos the end-of-sequence id. logprobs asks for every token's log-probability, beside so many
        alternatives. allow_unknown as in tokenize.
        """
        request = messages.make(generation_pb2.ScoreRequest, model=model, prepend_eos=prepend_eos,
                                summary_only=logprobs is None, logprobs=logprobs, allow_unknown=allow_unknown)
        options.set_input(request, text, "text", add_special_tokens)
        return read_score(self._transport, request, timeout)

    def encode(self, text: Prompt, *, model: str = "", pooling: Pooling = "per_token",
               timeout: Optional[Seconds] = None) -> Encoding:
        """The vectors of a text, of every token or ("mean") their mean; of a model that encodes (Model.can_encode)."""
        request = messages.make(generation_pb2.EncodeRequest, model=model, pooling=options.pooling_value(pooling))
        options.set_input(request, text, "text")
        return values.encoding(self._transport.unary("GenerationService/Encode", request,
                                                     generation_pb2.EncodeResponse, timeout))

    def tokenize(self, text: Union[str, Conversation], *, model: str = "", add_special_tokens: Optional[bool] = None,
                 allow_unknown: bool = False) -> list[int]:
        """The token ids of a text that begins a context; with add_special_tokens=False, of one that continues it; or
        of a conversation.

        A character outside the model's vocabulary is an error, here as wherever text is given; with allow_unknown it
        becomes the model's unknown token.
        """
        request = messages.make(generation_pb2.TokenizeRequest, model=model, allow_unknown=allow_unknown)
        whole = text if isinstance(text, Conversation) else messages.text(text, "text")
        options.set_input(request, whole, "text", add_special_tokens)
        return list(self._transport.unary("GenerationService/Tokenize", request,
                                          generation_pb2.TokenizeResponse).token_ids)

    def detokenize(self, token_ids: Sequence[int], *, model: str = "") -> str:
        """The text of token ids."""
        request = messages.make(generation_pb2.DetokenizeRequest, model=model)
        messages.put(request, "token_ids", token_ids, "token_ids")
        return self._transport.unary("GenerationService/Detokenize", request, generation_pb2.DetokenizeResponse).text

    def models(self) -> list[Model]:
        """All models, in the order of the server's flags."""
        reply = self._transport.unary("ModelService/ListModels", model_pb2.ListModelsRequest(),
                                      model_pb2.ListModelsResponse)
        return [values.model(model) for model in reply.models]

    def model(self, name: str = "", *, quoted_tokens: int = 0) -> Model:
        """One model; where sessions grow, bytes_per_session is for `quoted_tokens` tokens, 0 for the longest."""
        request = messages.make(model_pb2.GetModelRequest, name=name, quoted_tokens=quoted_tokens)
        return values.model(self._transport.unary("ModelService/GetModel", request, model_pb2.GetModelResponse).model)

    def server_info(self) -> ServerInfo:
        return values.server_info(self._transport.unary(
            "ModelService/GetServerInfo", model_pb2.GetServerInfoRequest(), model_pb2.GetServerInfoResponse))

    def create_session(self, *, model: str = "", label: str = "", ttl: Optional[Seconds] = None,
                       keep_transcript: Optional[bool] = None, add_special_tokens: Optional[bool] = None,
                       durability: Optional[Durability] = None, idempotency_key: str = "") -> Session:
        """A new session at position 0. `ttl`: it is deleted when unused for so long; None: the server's default.

        add_special_tokens is what calls on it, and on its forks, have that do not say.
        """
        request = _create_request(model, label, ttl, keep_transcript, add_special_tokens, durability, idempotency_key)
        reply = self._transport.unary("SessionService/CreateSession", request, session_pb2.CreateSessionResponse)
        return Session(self._transport, values.session_info(reply.session))

    def session(self, session_id: str) -> Session:
        """A session that exists."""
        request = messages.make(session_pb2.GetSessionRequest, session_id=messages.text(session_id, "session_id"))
        reply = self._transport.unary("SessionService/GetSession", request, session_pb2.GetSessionResponse)
        return Session(self._transport, values.session_info(reply.session))

    def sessions(self, *, model: str = "", parent_id: str = "", page_size: int = 1000) -> Iterator[SessionInfo]:
        """All sessions of the key, oldest first; a page is fetched when it is reached."""
        request = messages.make(session_pb2.ListSessionsRequest, model=model, parent_id=parent_id, page_size=page_size)
        return self._pages(request)

    def _pages(self, request: session_pb2.ListSessionsRequest) -> Iterator[SessionInfo]:
        while True:
            page = self._transport.unary("SessionService/ListSessions", request, session_pb2.ListSessionsResponse)
            yield from map(values.session_info, page.sessions)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def import_session(self, snapshot: Snapshot, *, model: str = "", label: str = "", ttl: Optional[Seconds] = None,
                       keep_transcript: Optional[bool] = None, add_special_tokens: Optional[bool] = None,
                       durability: Optional[Durability] = None, idempotency_key: str = "",
                       timeout: Optional[Seconds] = None) -> Session:
        """A new session from a snapshot: the bytes or pieces of Session.export, or the path of a file."""
        create = _create_request(model, label, ttl, keep_transcript, add_special_tokens, durability, idempotency_key)
        kind = session_pb2.ImportSessionRequest
        requests = RequestStream(kind(create=create), _pieces(snapshot), kind)
        reply = self._transport.client_stream("SessionService/ImportSession", requests, kind,
                                              session_pb2.ImportSessionResponse, timeout)
        return Session(self._transport, values.session_info(reply.session))


def _create_request(model: str, label: str, ttl: Optional[Seconds], keep_transcript: Optional[bool],
                    add_special_tokens: Optional[bool], durability: Optional[Durability],
                    idempotency_key: str) -> session_pb2.CreateSessionRequest:
    return messages.make(
        session_pb2.CreateSessionRequest, model=model, label=label, ttl=options.duration(ttl, "ttl"),
        keep_transcript=keep_transcript, durability=options.durability_value(durability),
        idempotency_key=idempotency_key, add_special_tokens=add_special_tokens)


def _pieces(snapshot: Snapshot) -> Iterator[bytes]:
    """The pieces of what is given. TypeError at once for what is no snapshot, or when a piece is none."""
    if isinstance(snapshot, (bytes, bytearray, memoryview)):
        return iter([bytes(snapshot)])
    if isinstance(snapshot, Path):
        return _pieces_of_file(snapshot)
    if isinstance(snapshot, str) or not isinstance(snapshot, Iterable):
        raise TypeError(f"snapshot: must be bytes, pieces of them, or a pathlib.Path, not {messages.shown(snapshot)}")
    return map(_piece, snapshot)


def _pieces_of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def _piece(piece: bytes) -> bytes:
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        raise TypeError(f"snapshot: a piece must be bytes, not {messages.shown(piece)}")
    return bytes(piece)
