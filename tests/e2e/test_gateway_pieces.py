"""Every kind of request cut in two at every byte: the gateway answers as if it had come in one piece."""

import contextlib
import json
import re
import socket

import pytest
from gateway_process import GatewayProcess
from server_process import ROOT, wait_until
from test_gateway_openapi import BODIES

# Behind each request on its connection: it is understood only if that one ends where it should.
LAST = b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
HEADERS = {"Host": "127.0.0.1", "Accept": "application/json", "User-Agent": "OpenAI/Python 1.0",
           "Authorization": "Bearer key", "X-Request-Timeout": "600"}


def raw(method, path, body=b"", **headers):
    fields = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body:
        fields["Content-Length"] = len(body)
    return b"".join([f"{method} {path} HTTP/1.1\r\n".encode(),
                     *(f"{name}: {value}\r\n".encode() for name, value in fields.items()), b"\r\n", body])


def every_route():
    """A request for each method of each path, as (name, bytes)."""
    document = json.loads((ROOT / "client" / "gateway" / "openapi.json").read_text())
    for path, operations in document["paths"].items():
        for method in map(str.upper, operations):
            body = BODIES.get(path) if method == "POST" else None
            if isinstance(body, dict):
                sampling = {"max_tokens": 2, "temperature": 0} if "completions" in path else {}
                body = {"model": "bytes", **body, **sampling}
            body = json.dumps(body, indent=1).replace("\n", "\r\n").encode() if body is not None else b""
            yield f"{method} {path}", raw(method, path.replace("{id}", "none").replace("{name}", "bytes"), body)


def others():
    completion = {"model": "bytes", "prompt": "Once\r\n\r\nupon", "max_tokens": 3, "temperature": 0, "echo": True}
    body = json.dumps(completion).encode()
    yield "echo", raw("POST", "/v1/completions", body)
    yield "stream", raw("POST", "/v1/completions", json.dumps({**completion, "stream": True}).encode())
    chunks = b"".join(b"%x;a=b\r\n%b\r\n" % (len(body[at:at + 30]), body[at:at + 30]) for at in range(0, len(body), 30))
    yield "chunks", raw("POST", "/v1/completions", Transfer_Encoding="chunked") + chunks + b"0\r\nTrailer: t\r\n\r\n"
    yield "empty lines", b"\r\n\r\n" + raw("GET", "/health")
    yield "page", raw("GET", "/index.html", If_None_Match='"none"')
    yield "options", raw("OPTIONS", "/v1/completions", Origin="https://example.org")
    yield "whole address", raw("GET", "http://127.0.0.1/health?a=%41")
    yield "2049 bytes", raw("GET", "/health", X="x" * (2049 - len(raw("GET", "/health", X=""))))
    yield "wrong body", raw("POST", "/v1/completions", b"\n\r\nGET /health HTTP/1.1\r\n\r\n")


@pytest.fixture(scope="module")
def gateway(server):
    with GatewayProcess(server.address) as process:
        yield process


def unread(port):
    """Bytes that the kernel holds for connections of this port."""
    lines = open("/proc/net/tcp").read().splitlines()[1:]
    return sum(int(fields[4].split(":")[1], 16) for fields in map(str.split, lines)
               if int(fields[1].split(":")[1], 16) == port and fields[3] == "01")


def read_all(sock):
    pieces = []
    while piece := sock.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def essence(answers):
    """Statuses and texts: what does not differ from one time to the next, nor with the events of a stream."""
    texts = re.findall(rb'"(?:text|content|message|prompt|status|version)":"([^"]*)"', answers)
    return re.findall(rb"HTTP/1\.1 (\d+)", answers), b"".join(texts)


@pytest.mark.parametrize("request_bytes", [pytest.param(request, id=name) for name, request in
                                           [*every_route(), *others()]])
def test_cut_at_every_byte(gateway, request_bytes):
    with gateway.raw() as sock:
        sock.sendall(request_bytes + LAST)
        whole = essence(read_all(sock))
    assert len(whole[0]) == 2 and whole[0][1] == b"200", whole
    cuts = range(1, len(request_bytes) + 1)
    if len(request_bytes) > 1000:  # a long one has nothing new in its middle
        cuts = [*range(1, 200), *range(len(request_bytes) - 200, len(request_bytes) + 1)]
    with contextlib.ExitStack() as opened:
        socks = [opened.enter_context(gateway.raw()) for _ in cuts]
        for sock, cut in zip(socks, cuts):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(request_bytes[:cut])
        wait_until(lambda: unread(gateway.port) == 0, "the gateway has read the first pieces")
        for sock, cut in zip(socks, cuts):
            sock.sendall(request_bytes[cut:] + LAST)
        for sock, cut in zip(socks, cuts):
            assert essence(read_all(sock)) == whole, cut
