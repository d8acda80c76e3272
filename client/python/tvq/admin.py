"""Operating a server."""

from __future__ import annotations

from typing import Optional

from tvq import options
from tvq.options import Seconds
from tvq.transport import Transport
from tvq.v1 import admin_pb2


class Admin:
    """PermissionDenied unless the key may; Unimplemented by a server without keys."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def drain(self, *, timeout: Optional[Seconds] = None, peer: str = "") -> int:
        """The server accepts nothing new, finishes what runs (for at most `timeout`), keeps its sessions or hands
        them to its peer, which must be `peer` if that is given, and stops. Returns how many requests still run."""
        request = admin_pb2.DrainRequest(timeout=options.duration(timeout), peer=peer)
        return self._transport.unary("AdminService/Drain", request, admin_pb2.DrainResponse).requests_running

    def reload_credentials(self) -> int:
        """The server reads its keys and certificates again. Returns how many keys are now in force."""
        return self._transport.unary("AdminService/ReloadCredentials", admin_pb2.ReloadCredentialsRequest(),
                                     admin_pb2.ReloadCredentialsResponse).keys
