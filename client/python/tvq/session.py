"""Sessions: a model's state that stays on the server between calls."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Optional, TypedDict, Unpack

from tvq import errors, messages, options, values
from tvq.generation import Generation
from tvq.options import Durability, GeneratePrompt, Prompt, Sampling, Seconds
from tvq.transport import Transport
from tvq.v1 import generation_pb2, session_pb2
from tvq.values import Position, Score, SessionInfo


class Call(TypedDict, total=False):
    """How a call uses a session; SessionCall of session.proto says more."""

    #: Aborted unless the session is at this version.
    expected_version: int
    #: What the end of the call promises.
    durability: Durability
    #: A call repeated with the same key is done once.
    idempotency_key: str
    #: Seconds.
    timeout: Seconds


class Session:
    """A session on the server. Every call on it is atomic: done whole, or not at all and an exception.

    `version`, `position` and `persisted_version` are as of the latest call through this object. Several objects,
    also of several clients, may stand for one session; one call at a time may write to it (Aborted for the other).
    """

    def __init__(self, transport: Transport, info: SessionInfo) -> None:
        self._transport = transport
        self.id = info.id
        self.model = info.model
        self.version = info.version
        self.position = info.position
        self.persisted_version = info.persisted_version

    def __repr__(self) -> str:
        return f"Session({self.id!r}, version={self.version}, position={self.position})"

    def info(self) -> SessionInfo:
        """All the server says of the session."""
        info = values.session_info(self._get(False).session)
        self._update(Position(info.id, info.version, info.persisted_version, info.position))
        return info

    def transcript(self) -> list[int]:
        """The token ids it holds, of one version; empty if it keeps none."""
        ids: list[int] = []
        version = 0
        while True:  # a long one comes in several answers, which are read again when the session changes meanwhile
            try:
                reply = self._get(True, start=len(ids))
            except errors.InvalidArgument:
                if not ids:
                    raise
                ids = []  # after a rewind the next part may begin behind the end
                continue
            if ids and reply.session.version != version:
                ids = []
                continue
            version = reply.session.version
            ids += reply.transcript
            if not reply.transcript or len(ids) >= reply.session.position:
                return ids

    def append(self, prompt: Prompt, *, add_special_tokens: Optional[bool] = None,
               **call: Unpack[Call]) -> Position:
        """Feeds a text or token ids without generating. add_special_tokens as in Client.generate."""
        request = session_pb2.AppendSessionRequest(session=self._call(call))
        options.set_input(request, prompt, "prompt", add_special_tokens)
        return self._write("AppendSession", request, session_pb2.AppendSessionResponse, call)

    def generate(self, prompt: GeneratePrompt = "", *, expected_version: Optional[int] = None,
                 durability: Optional[Durability] = None, idempotency_key: str = "", commit_on_cancel: bool = False,
                 answer_suffix: Optional[str] = None, add_special_tokens: Optional[bool] = None, priority: int = 0,
                 timeout: Optional[Seconds] = None, **sampling: Unpack[Sampling]) -> Generation:
        """Continues the session, which then holds the prompt and the output.

        The prompt may be empty if the session is not, or if add_special_tokens, as in Client.generate, gives it a
        first token. It may be a Conversation, the whole of it each time, of which only what the session lacks is fed.
        The session changes when the output is complete, and not if the call fails. With commit_on_cancel it keeps
        what came before Generation.cancel(); info() then tells where it stands. answer_suffix, of a conversation
        given as text, is what closes the session's last answer before the prompt: it stands there once, whatever
        ended the answer.
        """
        request = options.generate_request("", prompt, add_special_tokens, priority, sampling)
        if answer_suffix is not None:
            messages.put(request, "answer_suffix", answer_suffix, "answer_suffix")
        request.session.CopyFrom(self._call({"expected_version": expected_version, "durability": durability,
                                             "idempotency_key": idempotency_key}))
        messages.put(request.session, "commit_on_cancel", commit_on_cancel, "commit_on_cancel")
        replies = self._transport.server_stream("GenerationService/Generate", request,
                                                generation_pb2.GenerateResponse, timeout)
        return Generation(replies, replies.cancel, self._update)

    def score(self, text: Prompt, *, add_special_tokens: Optional[bool] = None, logprobs: Optional[int] = None,
              allow_unknown: bool = False, **call: Unpack[Call]) -> Score:
        """How likely a text is as the continuation of the session, which then holds it too."""
        request = messages.make(generation_pb2.ScoreRequest, session=self._call(call), summary_only=logprobs is None,
                                logprobs=logprobs, allow_unknown=allow_unknown)
        options.set_input(request, text, "text", add_special_tokens)
        score = read_score(self._transport, request, call.get("timeout"))
        if score.position is not None:
            self._update(score.position)
        return score

    def fork(self, *, label: str = "", ttl: Optional[Seconds] = None, mark: str = "",
             **call: Unpack[Call]) -> "Session":
        """A new session that goes on from here, or from a mark; costs one copy of the state."""
        return self.forks(1, label=label, ttl=ttl, mark=mark, **call)[0]

    def forks(self, count: int, *, label: str = "", ttl: Optional[Seconds] = None, mark: str = "",
              **call: Unpack[Call]) -> list["Session"]:
        """The same, several at once."""
        request = messages.make(session_pb2.ForkSessionRequest, session=self._call(call), count=count, label=label,
                                mark=mark, ttl=options.duration(ttl, "ttl"))
        reply = self._transport.unary("SessionService/ForkSession", request, session_pb2.ForkSessionResponse,
                                      call.get("timeout"))
        return [Session(self._transport, values.session_info(session)) for session in reply.sessions]

    def mark(self, name: str, **call: Unpack[Call]) -> Position:
        """Keeps the present state, to rewind to or fork from; costs a state's bytes. Replaces a mark of this name."""
        request = messages.make(session_pb2.MarkSessionRequest, session=self._call(call), name=messages.text(name, "name"))
        return self._write("MarkSession", request, session_pb2.MarkSessionResponse, call)

    def unmark(self, name: str, **call: Unpack[Call]) -> Position:
        """Forgets a mark."""
        request = messages.make(session_pb2.UnmarkSessionRequest, session=self._call(call), name=messages.text(name, "name"))
        return self._write("UnmarkSession", request, session_pb2.UnmarkSessionResponse, call)

    def rewind(self, mark: str, **call: Unpack[Call]) -> Position:
        """Back to a mark, which stays."""
        request = messages.make(session_pb2.RewindSessionRequest, session=self._call(call), mark=messages.text(mark, "mark"))
        return self._write("RewindSession", request, session_pb2.RewindSessionResponse, call)

    def save(self, **call: Unpack[Call]) -> Position:
        """Writes the session to the server's durable tier; when it returns, it is there."""
        return self._write("SaveSession", session_pb2.SaveSessionRequest(session=self._call(call)),
                           session_pb2.SaveSessionResponse, call)

    def delete(self, **call: Unpack[Call]) -> None:
        """Deletes the session. Its forks stay."""
        self._transport.unary("SessionService/DeleteSession",
                              session_pb2.DeleteSessionRequest(session=self._call(call)),
                              session_pb2.DeleteSessionResponse, call.get("timeout"))

    def export(self, **call: Unpack[Call]) -> Iterator[bytes]:
        """The session as a snapshot, piece by piece, for Client.import_session. Marks are not part of it."""
        replies = self._transport.server_stream("SessionService/ExportSession",
                                                session_pb2.ExportSessionRequest(session=self._call(call)),
                                                session_pb2.ExportSessionResponse, call.get("timeout"))
        received = total = 0
        try:
            for reply in replies:
                total = total or reply.total_bytes
                received += len(reply.chunk)
                yield reply.chunk
        finally:
            replies.cancel()
        if received != total:
            raise errors.incomplete(received, total)

    def export_to(self, path: options.Path, **call: Unpack[Call]) -> int:
        """Writes the snapshot to a file, which appears whole or not at all; returns its size in bytes.

        Of a link, the file it points to is replaced. What is there and no regular file, such as a device or a pipe,
        is written in place.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path: must be a str or a path, not {messages.shown(path)}")
        if not os.fspath(path) or (os.path.exists(path) and not os.path.isfile(path)):
            with open(path, "wb") as file:
                return self._write_snapshot(file, call)
        target = Path(os.path.realpath(path))
        try:
            temporary = tempfile.NamedTemporaryFile(dir=target.parent, prefix=target.name + ".", delete=False)
        except OSError as error:  # which names a file of which the caller knows nothing
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        with temporary as file:
            try:
                size = self._write_snapshot(file, call)
                os.fsync(file.fileno())
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
        return size

    def _write_snapshot(self, file: IO[bytes], call: Any) -> int:
        size = 0
        for chunk in self.export(**call):
            size += file.write(chunk)
        file.flush()
        return size

    def _call(self, call: Any) -> session_pb2.SessionCall:
        if surplus := set(call) - set(Call.__annotations__):
            raise TypeError(f"{min(surplus)!r} is no argument of this call")
        return messages.make(
            session_pb2.SessionCall, session_id=self.id, expected_version=call.get("expected_version"),
            durability=options.durability_value(call.get("durability")), idempotency_key=call.get("idempotency_key"))

    def _get(self, transcript: bool, start: int = 0) -> session_pb2.GetSessionResponse:
        request = session_pb2.GetSessionRequest(session_id=self.id, include_transcript=transcript,
                                                transcript_start=start)
        return self._transport.unary("SessionService/GetSession", request, session_pb2.GetSessionResponse)

    def _write(self, method: str, request: Any, kind: Any, call: Any) -> Position:
        reply = self._transport.unary(f"SessionService/{method}", request, kind, call.get("timeout"))
        position = values.position(reply.session)
        self._update(position)
        return position

    def _update(self, position: Position) -> None:
        self.version = position.version
        self.position = position.position
        self.persisted_version = position.persisted_version


def read_score(transport: Transport, request: generation_pb2.ScoreRequest, timeout: Optional[Seconds]) -> Score:
    """Makes a Score call and puts its messages together."""
    tokens: list[values.TokenLogprobs] = []
    last = None
    for last in transport.server_stream("GenerationService/Score", request, generation_pb2.ScoreResponse, timeout):
        tokens += map(values.token_logprobs, last.tokens)
    if last is None:
        raise errors.InternalError("the server sent no summary", "INTERNAL")
    position = values.position(last.session) if last.HasField("session") else None
    return values.plain(Score, last.summary, position=position, token_logprobs=tuple(tokens))
