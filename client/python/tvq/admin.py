"""Operating a server."""

from __future__ import annotations

from typing import Optional, TypeVar

from google.protobuf.message import Message

from tvq import errors, messages, options
from tvq.options import Seconds
from tvq.transport import Transport
from tvq.v1 import admin_pb2

_Reply = TypeVar("_Reply", bound=Message)


class Admin:
    """PermissionDenied unless the key may; Unimplemented by a server without keys."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def drain(self, *, timeout: Optional[Seconds] = None) -> int:
        """The server accepts nothing new, finishes what runs (for at most `timeout`), stores its sessions,
        and stops. Returns how many requests still run."""
        request = messages.make(admin_pb2.DrainRequest, timeout=options.duration(timeout, "timeout"))
        return self._call("Drain", request, admin_pb2.DrainResponse).requests_running

    def reload_credentials(self) -> int:
        """The server reads its keys and certificates again. Returns how many keys are now in force."""
        return self._call("ReloadCredentials", admin_pb2.ReloadCredentialsRequest(),
                          admin_pb2.ReloadCredentialsResponse).keys

    def _call(self, method: str, request: Message, reply: type[_Reply]) -> _Reply:
        try:
            return self._transport.unary(f"AdminService/{method}", request, reply)
        except errors.Unimplemented:
            raise errors.Unimplemented("this server takes no admin calls, for it has no keys (tvq-server --api-key-file)",
                                       "UNIMPLEMENTED") from None
