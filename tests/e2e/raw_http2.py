"""Requests that never come to their end, over HTTP/2 by hand: gRPC's own clients send whole messages."""

import contextlib
import socket
import struct
import threading

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_HEADERS, END_STREAM, ACK = 4, 1, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME = 16384   # the largest without asking
WINDOW = 65535  # likewise


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header field, neither indexed nor compressed."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def begin_call(address, method):
    """A connection with the beginning of a call of `method`, which is stream 1."""
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    headers = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", address),
               ("content-type", "application/grpc"), ("te", "trailers")]
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0)
                       + frame(HEADERS, END_HEADERS, 1, b"".join(literal(*h) for h in headers)))
    return connection


def unread_call(address, method, message):
    """A connection with a call of `method`, of whose answer no more comes than a window: nobody reads it. The message
    must fit into a window, too."""
    connection = begin_call(address, method)
    data = struct.pack(">BI", 0, len(message)) + message
    assert len(data) <= WINDOW
    for at in range(0, len(data), FRAME):
        piece = data[at:at + FRAME]
        connection.sendall(frame(DATA, END_STREAM if at + FRAME >= len(data) else 0, 1, piece))
    return connection


def unread_acknowledgements(address):
    """A connection that sends SETTINGS until no more are taken, and reads nothing. The server acknowledges each, and has
    to wait for room to write that."""
    host, port = address.rsplit(":", 1)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # or the kernel gives the server's end megabytes
    connection.settimeout(1)
    connection.connect((host, int(port)))
    with contextlib.suppress(TimeoutError):
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0) * 25_000)  # bytes for which no connection is closed
    return connection


class HeldRequest:
    """A connection that says it sends a message of `size` bytes to `method`, and keeps the last of them."""

    def __init__(self, address, method, size):
        self.socket = begin_call(address, method)
        self.size = size
        self.windows = {0: WINDOW, 1: WINDOW}
        self.first_window = WINDOW  # of a stream, as the server's settings have it by now
        self.sent = 0        # bytes of the message
        self.closed = False  # by the server, or the call was ended
        self.changed = threading.Condition()
        self.writing = threading.Lock()  # a frame may go out in several pieces
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._send, daemon=True).start()

    def _send(self):
        left = struct.pack(">BI", 0, self.size) + bytes(self.size - 1)
        try:
            while left:
                with self.changed:
                    self.changed.wait_for(lambda: self.closed or min(self.windows.values()) > 0)
                    if self.closed:
                        return
                    count = min(len(left), FRAME, *self.windows.values())
                    for stream in self.windows:
                        self.windows[stream] -= count
                self._write(frame(DATA, 0, 1, bytes(left[:count])))
                left = memoryview(left)[count:]
                self.sent += count
        except OSError:
            self._close()

    def _write(self, data):
        with self.writing:
            self.socket.sendall(data)

    def _close(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def _read(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise OSError("closed")
            data += piece
        return data

    def _listen(self):
        try:
            while not self.closed:
                head = self._read(9)
                length = int.from_bytes(head[:3], "big")
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                payload = self._read(length)
                with self.changed:
                    if kind == WINDOW_UPDATE:
                        self.windows[stream] += struct.unpack(">I", payload)[0]
                    elif kind == SETTINGS and not flags & ACK:
                        for at in range(0, length, 6):
                            key, value = struct.unpack(">HI", payload[at:at + 6])
                            if key == 4:  # SETTINGS_INITIAL_WINDOW_SIZE
                                self.windows[1] += value - self.first_window
                                self.first_window = value
                        self._write(frame(SETTINGS, ACK, 0))
                    elif kind == PING and not flags & ACK:
                        self._write(frame(PING, ACK, 0, payload))
                    elif kind in (HEADERS, RST_STREAM, GOAWAY):  # HEADERS: its status
                        self.closed = True
                    self.changed.notify_all()
        except OSError:
            self._close()

    def close(self):
        self._close()
        self.socket.close()
