"""Calls over one gRPC channel."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar, Union

import grpc
from google.protobuf.message import Message

from tvq import errors, messages
from tvq.address import is_loopback, parse_address
from tvq.grpc_words import OTHER_ANSWER
from tvq.options import Path as AnyPath
from tvq.options import Seconds, Tls
from tvq.options import timeout as checked_timeout

#: Largest piece of a snapshot in one message.
CHUNK_BYTES = 1 << 20

_Reply = TypeVar("_Reply", bound=Message)


def open_channel(address: str, tls: Union[Tls, bool]) -> grpc.Channel:
    address, asks_for_tls = parse_address(address)
    if not isinstance(tls, (Tls, bool, type(None))):
        raise TypeError(f"tls: must be True, False or a Tls, such as Tls(ca=\"ca.pem\"), not {messages.shown(tls)}")
    tls = tls or asks_for_tls
    # A server that was started again elsewhere may have another address.
    options = [("grpc.max_receive_message_length", -1), ("grpc.dns_min_time_between_resolutions_ms", 1000)]
    if is_loopback(address):
        options.append(("grpc.enable_http_proxy", 0))
    if not tls:
        return grpc.insecure_channel(address, options)
    files = tls if isinstance(tls, Tls) else Tls()
    if (files.cert is None) != (files.key is None):
        raise ValueError("tls: cert and key belong together")

    ca, cert, key = (_read(file) for file in (files.ca, files.cert, files.key))
    _check_certificates(files.ca, ca)
    _check_certificates(files.cert, cert)
    if files.cert is not None and files.key is not None:
        _check_key(files.cert, files.key)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert), options)


def _read(file: Any) -> Optional[bytes]:
    if file is None:
        return None
    if not isinstance(file, (str, os.PathLike)):
        raise TypeError(f"tls: must have the paths of PEM files, not {messages.shown(file)}")
    return Path(file).read_bytes()


def _check_certificates(name: Optional[AnyPath], content: Optional[bytes]) -> None:
    """gRPC would only say at the first call that it cannot use them."""
    if content is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        raise ValueError(f"tls: {name} must hold certificates in PEM") from None


def _check_key(cert: AnyPath, key: AnyPath) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, password="")
    except (ssl.SSLError, ValueError):
        raise ValueError(f"tls: {key} must hold the private key of {cert}, in PEM and without a password") from None


class Transport:
    """Methods are named "SERVICE/METHOD". `timeout` is in seconds; None stands for the default of all calls."""

    def __init__(self, channel: grpc.Channel, api_key: Optional[str], timeout: Optional[Seconds]) -> None:
        self.channel = channel
        self.timeout = checked_timeout(timeout)
        self.closed = False
        if not isinstance(api_key, (str, type(None))):
            raise TypeError("api_key: must be a str")
        api_key = (api_key or "").strip()
        if not all("!" <= character <= "~" for character in api_key):
            raise ValueError("api_key: must be printable ASCII without spaces")
        self.metadata = [("authorization", f"Bearer {api_key}")] if api_key else []
        self._methods: dict[str, Callable[..., Any]] = {}

    def close(self) -> None:
        self.closed = True
        self.channel.close()

    def unary(self, method: str, request: Message, reply: type[_Reply], timeout: Optional[Seconds] = None) -> _Reply:
        """One request, one reply."""
        call = self._method(method, self.channel.unary_unary, type(request), reply)
        try:
            return _there(call(request, timeout=checked_timeout(timeout) or self.timeout,
                               metadata=self._metadata_of(request)))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None

    def server_stream(self, method: str, request: Message, reply: type[_Reply],
                      timeout: Optional[Seconds] = None) -> "ReplyStream[_Reply]":
        """One request, many replies."""
        call = self._method(method, self.channel.unary_stream, type(request), reply)
        return ReplyStream(call(request, timeout=checked_timeout(timeout) or self.timeout, metadata=self._metadata_of(request)))

    def both_stream(self, method: str, requests: "RequestStream", kind: type[Message], reply: type[_Reply],
                    timeout: Optional[Seconds] = None) -> "ReplyStream[_Reply]":
        """Many requests of type `kind`, many replies."""
        call = self._method(method, self.channel.stream_stream, kind, reply)
        started = call(requests, timeout=checked_timeout(timeout) or self.timeout, metadata=self.metadata)
        return ReplyStream(started, requests)

    def client_stream(self, method: str, requests: "RequestStream", kind: type[Message], reply: type[_Reply],
                      timeout: Optional[Seconds] = None) -> _Reply:
        """Many requests of type `kind`, one reply."""
        call = self._method(method, self.channel.stream_unary, kind, reply)
        try:
            return _there(call(requests, timeout=checked_timeout(timeout) or self.timeout, metadata=self.metadata))
        except grpc.RpcError as error:
            raise requests.failure or errors.from_rpc(error) from None

    def _metadata_of(self, request: Message) -> list[tuple[str, str]]:
        """With the id of the request's session, by which a proxy before several servers can choose one."""
        named = getattr(request, "session", request)
        session_id = getattr(named, "session_id", "")
        if session_id and len(session_id) <= 128 and all("!" <= character <= "~" for character in session_id):
            return [*self.metadata, ("tvq-session-id", session_id)]
        return self.metadata

    def _method(self, method: str, make: Callable[..., Any], request: Any, reply: Any) -> Callable[..., Any]:
        if self.closed:
            raise ValueError("this client is closed")
        if method not in self._methods:
            self._methods[method] = make(f"/tvq.v1.{method}", request_serializer=request.SerializeToString,
                                         response_deserializer=reply.FromString)
        return self._methods[method]


def _there(reply: Optional[_Reply]) -> _Reply:
    """The reply of a call that ended well; what is no tvq-server may have sent none."""
    if reply is None:
        raise errors.Unimplemented(OTHER_ANSWER, "UNIMPLEMENTED")
    return reply


class RequestStream(Iterator[Message]):
    """A first request, then one for every piece of a snapshot. Remembers why reading the snapshot failed, which
    gRPC, reading in a thread of its own, would not tell."""

    def __init__(self, first: Message, pieces: Iterable[bytes], kind: Callable[..., Message]) -> None:
        self.failure: Optional[BaseException] = None
        self._requests = self._all(first, pieces, kind)

    def __next__(self) -> Message:
        try:
            return next(self._requests)
        except StopIteration:
            raise
        except BaseException as failure:
            self.failure = failure
            raise

    @staticmethod
    def _all(first: Message, pieces: Iterable[bytes], kind: Callable[..., Message]) -> Iterator[Message]:
        yield first
        for piece in pieces:
            for begin in range(0, len(piece), CHUNK_BYTES):
                yield kind(chunk=bytes(piece[begin:begin + CHUNK_BYTES]))


class ReplyStream(Iterator[_Reply]):
    """The replies of a call; its failure as one of tvq.errors. After cancel() it just ends."""

    def __init__(self, call: Any, requests: Optional[RequestStream] = None) -> None:
        self._call = call
        self._requests = requests
        self._answered = False
        self.cancelled = False

    def __next__(self) -> _Reply:
        try:
            reply: _Reply = next(self._call)
            self._answered = True
            return reply
        except grpc.RpcError as error:
            if self._requests is not None and self._requests.failure is not None:
                raise self._requests.failure from None
            if self.cancelled and error.code() == grpc.StatusCode.CANCELLED:
                raise StopIteration from None
            raise errors.from_rpc(error, self._answered) from None

    def cancel(self) -> None:
        """Ends the call; the server frees its place. Any thread."""
        self.cancelled = True
        self._call.cancel()
