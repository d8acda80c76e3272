"""An exception for every way in which a call can fail."""

from __future__ import annotations

from typing import Optional

import grpc

from tvq.grpc_words import unwrapped, without_grpc_words
from tvq.v1 import refusal_pb2


class Error(Exception):
    """A call failed. `code` is gRPC's, such as "NOT_FOUND"; `reason` the server's, such as "SESSION_UNKNOWN" (proto/README.md has
    all), or None if it did not say; `field` the one of the request that is to blame, or None."""

    def __init__(self, message: str, code: str, retry_after: Optional[float] = None, reason: Optional[str] = None,
                 field: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.field = field
        #: Seconds the server asks to wait before trying again; None: it did not say, or said never.
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class InvalidArgument(Error):
    """A field is wrong, or a snapshot is corrupt. The message names it."""


class Unauthenticated(Error):
    """The server wants a key, and this is none of its keys."""


class PermissionDenied(Error):
    """The key may not do this."""


class NotFound(Error):
    """No such model, session or mark, or a session of another key."""


class AlreadyExists(Error):
    """The server has it already."""


class Aborted(Error):
    """Another call writes to the session, or it is not at the expected version."""


class FailedPrecondition(Error):
    """A snapshot of another model or type, or of a later format."""


class ResourceExhausted(Error):
    """The server is full (see `retry_after`), or the request is too large."""


class DataLoss(Error):
    """A stored session is damaged, or a snapshot came incomplete."""


class Unavailable(Error):
    """The server cannot be reached, still loads, or is stopping; or it gave the call up before it answered."""


class DeadlineExceeded(Error):
    """The call took longer than its timeout, or its output was read too slowly."""


class Cancelled(Error):
    """The client was closed while the call ran."""


class Unimplemented(Error):
    """The server does not have this: sessions, an encoder, admin calls."""


class InternalError(Error):
    """A fault of the server."""


_CLASSES: dict[grpc.StatusCode, type[Error]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.INTERNAL: InternalError,
}


def from_rpc(error: grpc.RpcError, answered: bool = False) -> Error:
    """The exception that a call of gRPC stands for. `answered`: some of its output came."""
    code = error.code()
    # What this side stopped says so: "Channel closed!", "Locally cancelled by application!".
    stopped = unwrapped(error.details() or "").startswith(("Channel closed", "Locally"))
    if code == grpc.StatusCode.CANCELLED and not stopped:
        return _given_up(answered or bool(error.initial_metadata()))
    refusal = _refusal(error)
    message = without_grpc_words(code, error.details() or "")
    if code == grpc.StatusCode.UNAUTHENTICATED and "this server needs a key" in message:
        message = "This server needs a key: Client(api_key=...)"
    return _CLASSES.get(code, Error)(message, code.name, **refusal)


def _refusal(error: grpc.RpcError) -> dict:
    """What the details of the status say, as arguments of Error."""
    details = refusal_pb2.StatusDetails()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            details.ParseFromString(value)
    found = {}
    for detail in details.details:
        kind = detail.type_url.rpartition("/")[2]
        if kind == "google.rpc.ErrorInfo":
            found["reason"] = refusal_pb2.ErrorInfo.FromString(detail.value).reason
        elif kind == "google.rpc.BadRequest":
            found["field"] = refusal_pb2.BadRequest.FromString(detail.value).field_violations[0].field
        elif kind == "google.rpc.RetryInfo":
            delay = refusal_pb2.RetryInfo.FromString(detail.value).retry_delay
            found["retry_after"] = delay.seconds + delay.nanos / 1e9
    return found


def _given_up(begun: bool) -> Error:
    """A call that the server cancelled: one that reached it while it closed, or that takes nothing of what it sends."""
    if begun:
        return DeadlineExceeded("the server ended the call, as it does when its answer is read too slowly",
                                "DEADLINE_EXCEEDED")
    return Unavailable("the server gave the call up before it answered, as one does that shuts down", "UNAVAILABLE")


def incomplete(received: int, total: int) -> DataLoss:
    """A snapshot that ended too early."""
    return DataLoss(f"the snapshot has {total} bytes, {received} came", "DATA_LOSS")
