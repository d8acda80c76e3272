"""Storms from many addresses of the loopback net, by a process of their own: `python address_storm.py ADDRESS KIND ...`."""

import argparse
import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from raw_http2 import ACK, DATA, FRAME, PREFACE, SETTINGS, WINDOW_UPDATE, frame
from reset_storm import insecure_tls, requests

STREAMS = 100_000     # that a storm sends over a connection, if it is let
BODIES = 100          # streams at once
BODY = 16_000_000     # bytes of a message that never ends
PAUSE_SECONDS = 0.01  # before a client that was closed connects again


def resets(connection, until):
    """Streams that are begun and reset at once."""
    _send(connection, b"".join(requests(STREAMS)), until)


def opened(connection, until):
    """Streams that are begun and left."""
    _send(connection, b"".join(requests(STREAMS, reset=False)), until)


def bodies(connection, until):
    """Streams with large messages, as much of each as the server takes."""
    heads = list(requests(BODIES, reset=False))
    streams = [2 * index + 1 for index in range(BODIES)]
    windows = dict.fromkeys([0, *streams], 65535)
    connection.sendall(b"".join(heads))
    begin, rest = struct.pack(">BI", 0, BODY) + bytes(FRAME - 5), bytes(FRAME)
    sent = dict.fromkeys(streams, False)
    frames = _frames(connection, windows)
    while time.monotonic() < until:
        ready = next((s for s in streams if min(windows[0], windows[s]) >= FRAME), None)
        if ready is None:
            next(frames)
            continue
        for window in (0, ready):
            windows[window] -= FRAME
        connection.sendall(frame(DATA, 0, ready, rest if sent[ready] else begin))
        sent[ready] = True
        streams.append(streams.pop(streams.index(ready)))


KINDS = {kind.__name__: kind for kind in (resets, opened, bodies)}


def _send(connection, data, until):
    data = memoryview(data)
    while data and time.monotonic() < until:
        data = data[connection.send(data):]
    while time.monotonic() < until and connection.recv(1 << 16):
        pass


def _frames(connection, windows):
    """Reads the frames that come, one at a step, and what they say of windows."""
    data = b""
    while True:
        while len(data) < 9 or len(data) < 9 + int.from_bytes(data[:3], "big"):
            piece = connection.recv(1 << 16)
            if not piece:
                raise OSError("closed")
            data += piece
        length = int.from_bytes(data[:3], "big")
        kind, stream = data[3], struct.unpack(">I", data[5:9])[0]
        payload, data = data[9:9 + length], data[9 + length:]
        if kind == WINDOW_UPDATE and stream in windows:
            windows[stream] += struct.unpack(">I", payload)[0]
        if kind == SETTINGS:
            for key, value in (struct.unpack(">HI", payload[at:at + 6]) for at in range(0, length, 6)):
                if key == 4:  # SETTINGS_INITIAL_WINDOW_SIZE
                    windows.update({s: w + value - 65535 for s, w in windows.items() if s})
        yield


def _storm(address, source, kind, until, tls, late):
    host, port = address.rsplit(":", 1)
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            with socket.create_connection((host.strip("[]"), int(port)), 5, (source, 0)) as connection:
                if tls:
                    connection = insecure_tls().wrap_socket(connection, server_hostname="localhost")
                connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
                if late:
                    connection.recv(1 << 16)
                KINDS[kind](connection, until)
        time.sleep(PAUSE_SECONDS)


class Storms:
    """Storms beside the block: over `connections` connections of each of `addresses` addresses, which come back."""

    def __init__(self, address, kind, addresses, connections, seconds, *flags):
        self.command = [sys.executable, Path(__file__).resolve(), address, kind, *map(str, (addresses, connections, seconds)),
                        *flags]

    def __enter__(self):
        self.process = subprocess.Popen(self.command)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("addresses", type=int, help="from 127.0.0.2 on; of IPv6 there is ::1 alone")
    parser.add_argument("connections", type=int, help="of each")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--late", action="store_true", help="when the server has spoken")
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    ipv6 = arguments.address.startswith("[")
    for n in range(arguments.addresses):
        source = "::1" if ipv6 else f"127.0.0.{2 + n}"
        for _ in range(arguments.connections):
            threading.Thread(target=_storm, daemon=True, args=(
                arguments.address, source, arguments.kind, until, arguments.tls, arguments.late)).start()
    time.sleep(arguments.seconds)


if __name__ == "__main__":
    main()
