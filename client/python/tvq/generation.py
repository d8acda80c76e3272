"""The output of a Generate call as it comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Optional

from tvq import errors, values
from tvq.transport import ReplyStream
from tvq.v1 import generation_pb2
from tvq.values import Delta, Position, Sample, TokenLogprobs, Usage


class Generation(Iterator[Delta]):
    """An iterator of Delta. Used in a `with`, leaving it early cancels the call.

    After the last delta `usage` is set, and `position` too if the call was on a session.
    """

    def __init__(self, replies: Iterator[generation_pb2.GenerateResponse], cancel: Callable[[], None],
                 on_position: Optional[Callable[[Position], None]] = None) -> None:
        self._replies = replies
        self._cancel = cancel
        self._on_position = on_position
        self._pending: deque[Delta] = deque()
        self._samples: dict[int, Sample] = {}
        self.usage: Optional[Usage] = None
        self.position: Optional[Position] = None
        #: With `prompt_logprobs`: the prompt's tokens. Complete when the first delta that is no echo is there.
        self.prompt_logprobs: list[TokenLogprobs] = []

    def __next__(self) -> Delta:
        while not self._pending:
            self._take(next(self._replies))
        return self._pending.popleft()

    def text(self) -> str:
        """Waits for the end; the whole text of the first sample, what was iterated over already included."""
        return self.samples()[0].text

    def samples(self) -> list[Sample]:
        """Waits for the end; all samples, in order of their index."""
        for _ in self:
            pass
        return [self._samples[i] for i in sorted(self._samples)] or [Sample()]

    def cancel(self) -> None:
        """Ends the call, and the iteration with it. On a session the call then leaves no trace, unless it was made
        with commit_on_cancel. Any thread."""
        self._cancel()

    def __enter__(self) -> "Generation":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.cancel()

    def _take(self, reply: generation_pb2.GenerateResponse) -> None:
        self.prompt_logprobs += map(values.token_logprobs, reply.prompt_logprobs)
        for message in reply.deltas:
            delta = values.delta(message)
            self._samples.setdefault(delta.index, Sample()).add(delta)
            self._pending.append(delta)
        if reply.HasField("usage"):
            self.usage = values.usage(reply.usage)
        if reply.HasField("session"):
            self.position = values.position(reply.session)
            if self._on_position is not None:
                self._on_position(self.position)


class StatefulGeneration(Generation):
    """A Generation whose state the client keeps: state() after it is what the next call starts from."""

    def __init__(self, replies: ReplyStream[generation_pb2.GenerateWithStateResponse]) -> None:
        super().__init__(self._output(replies), replies.cancel)
        self._chunks: list[bytes] = []
        self._total_bytes = 0

    def state(self) -> bytes:
        """Waits for the end; the state after the output."""
        self.samples()
        state = b"".join(self._chunks)
        if not state or len(state) != self._total_bytes:
            raise errors.incomplete(len(state), self._total_bytes)
        return state

    def _output(self, replies: Iterator[generation_pb2.GenerateWithStateResponse]
                ) -> Iterator[generation_pb2.GenerateResponse]:
        for reply in replies:
            if reply.chunk:
                self._total_bytes = self._total_bytes or reply.total_bytes
                self._chunks.append(reply.chunk)
            if reply.HasField("generate"):
                yield reply.generate
