"""HTTP itself through tvq-gateway: keep-alive, pipelining, limits, clients that are slow, gone or hostile."""

import gzip
import http.client
import json
import re
import socket
import time

import pytest
from gateway_process import GatewayProcess
from server_process import wait_until


@pytest.fixture(scope="module")
def gateway(server):
    with GatewayProcess(server.address, "--max-body-bytes", "1MB", "--header-timeout", "0.5", "--body-timeout", "0.5",
                        "--idle-timeout", "2", "--write-timeout", "1") as process:
        yield process


def read_all(sock):
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def exchange(gateway, request):
    """Sends raw bytes and returns what comes until the gateway closes."""
    with gateway.raw() as sock:
        sock.sendall(request)
        return read_all(sock)


def exchange_and_end(gateway, request):
    """The same by a client that then sends nothing more and says so."""
    with gateway.raw() as sock:
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        return read_all(sock)


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


GET = b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n"
LAST = b"GET /version HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


def completion(**fields):
    body = json.dumps({"model": "bytes", "prompt": "Once", **fields}).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def test_keep_alive(gateway):
    connection = gateway.connect()
    ports = set()
    for _ in range(3):
        connection.request("POST", "/v1/completions", json.dumps({"model": "bytes", "prompt": "a", "max_tokens": 1}))
        assert connection.getresponse().read()
        ports.add(connection.sock.getsockname())
        connection.request("POST", "/v1/nothing", b"a body that nobody reads")
        assert connection.getresponse().read()
        ports.add(connection.sock.getsockname())
    assert len(ports) == 1
    connection.close()


def test_pipelined_requests_are_answered_in_their_order(gateway):
    answer = exchange(gateway, GET + completion(max_tokens=20, stream=True) + completion(max_tokens=1) + GET + LAST)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 5
    order = [answer.find(word) for word in (b'"status":"ok"', b"data: [DONE]", b'"usage"', b'"version"')]
    assert order == sorted(order) and -1 not in order


def test_pieces_of_a_request(gateway):
    with gateway.raw() as sock:
        for byte in GET:
            sock.sendall(bytes([byte]))
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")


def test_http_1_0(gateway):
    answer = exchange(gateway, b"GET /health HTTP/1.0\r\n\r\n")
    assert status_of(answer) == 200 and b"Connection: close" in answer
    body = json.dumps({"model": "bytes", "prompt": "a", "max_tokens": 2, "stream": True}).encode()
    answer = exchange(gateway, b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert b"chunked" not in answer and answer.endswith(b"data: [DONE]\n\n")


def test_head_options_and_wrong_methods(gateway):
    head = exchange(gateway, b"HEAD /version HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    assert status_of(head) == 200 and head.endswith(b"\r\n\r\n") and b"Content-Length: " in head
    answer = gateway.call("OPTIONS", "/v1/completions")
    assert (answer.status, answer.headers["Allow"], answer.body) == (204, "OPTIONS, POST", b"")
    answer = gateway.call("PUT", "/v1/models")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert answer.error["type"] == "invalid_request_error"
    assert gateway.get("/v1/nothing").status == 404
    assert gateway.get("/v1/models/%zz").status == 400


@pytest.mark.parametrize("request_bytes, status", [
    (b"nonsense\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
    (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\nContent-Length: 2\r\n\r\n{}", 417),
    (b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"x" * 20_000 + b"\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"".join(b"A%d: x\r\n" % i for i in range(10_000)) + b"\r\n", 431),
    (b"GET /" + b"x" * 100_000, 431),
])
def test_malformed_requests(gateway, request_bytes, status):
    answer = exchange(gateway, request_bytes)
    assert status_of(answer) == status
    assert b'{"error":{"message":' in answer and b"Connection: close" in answer


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b'{"prompt": "\xff"}', b'{"prompt": "\\ud800"}', b"[" * 500_000, b'{"a":' * 100_000,
    b'{"max_tokens": 1e400}', b"\0" * 1000,
])
def test_bodies_that_are_no_json(gateway, body):
    for path in ("/v1/completions", "/v1/chat/completions", "/tokenize"):
        answer = gateway.post(path, body)
        assert answer.status == 400 and answer.error["type"] == "invalid_request_error", (path, answer.body)


def test_body_too_large(gateway):
    # Said before: nothing of it is read.
    with gateway.raw() as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n"
                     b"Expect: 100-continue\r\n\r\n")
        assert status_of(sock.recv(1000)) == 413
    # A client that sends it all the same hears why it is refused.
    answer = gateway.post("/v1/completions", b"x" * 3_000_000)
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    # In chunks, without a length.
    with gateway.raw() as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        sock.sendall(b"20000\r\n" + b"x" * 0x20000 + b"\r\n")
        for _ in range(12):
            try:
                sock.sendall(b"20000\r\n" + b"x" * 0x20000 + b"\r\n")
            except OSError:
                break
        assert status_of(read_all(sock)) == 413


CHUNKS = b"4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n"


@pytest.mark.parametrize("head, status", [
    (b"POST /v1/nothing HTTP/1.1\r\nHost: h\r\n", 404),
    (b"POST /version HTTP/1.1\r\nHost: h\r\n", 405),
    (b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\n", 415),
    (b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nOrigin: http://elsewhere\r\nSec-Fetch-Site: cross-site\r\n", 403),
])
@pytest.mark.parametrize("body, whole", [
    (b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS, True),
    (b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS[:-5], False),
    (b"Transfer-Encoding: chunked\r\n\r\n" + b"40000\r\n" + b"x" * 0x40000 + b"\r\n" + CHUNKS, False),
    (b"Transfer-Encoding: chunked\r\n\r\nno size\r\n", False),
    (b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", False),
    (b"Content-Length: 7\r\n\r\n{\"a\":1}", True),
    (b"Content-Length: 7\r\n\r\n{", False),
    (b"Content-Length: 3000000\r\n\r\n{", False),
])
def test_an_early_refusal_says_whether_the_connection_closes(gateway, head, status, body, whole):
    with gateway.raw() as sock:
        sock.sendall(head + body)
        sock.settimeout(10)
        first = sock.recv(65536)
        assert status_of(first) == status
        assert (b"\r\nConnection: close\r\n" in first) == (not whole)
        if whole:
            sock.sendall(LAST)
            assert status_of(sock.recv(65536)) == 200


def test_a_chunked_body_over_the_limit_says_that_the_connection_closes(gateway):
    with gateway.raw() as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        sock.sendall((b"20000\r\n" + b"x" * 0x20000 + b"\r\n") * 9 + CHUNKS[:-5])
        first = sock.recv(65536)
        assert status_of(first) == 413 and b"\r\nConnection: close\r\n" in first


# Read beside the loop.
def test_large_bodies(gateway):
    answer = gateway.complete("x" * 900_000, max_tokens=1)
    assert answer["usage"]["prompt_tokens"] == 900_000
    assert gateway.complete([100] * 200_000, max_tokens=1)["usage"]["prompt_tokens"] == 200_000
    assert gateway.post("/v1/completions", b'{"prompt": "' + b"x" * 900_000).status == 400


def test_expect_continue(gateway):
    body = json.dumps({"model": "bytes", "prompt": "a", "max_tokens": 1}).encode()
    with gateway.raw() as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body))
        assert sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert status_of(read_all(sock)) == 200


def test_slow_clients_are_let_go(gateway):
    # A header that never ends, though a byte comes now and then.
    with gateway.raw() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n")
        answer = b""
        sock.settimeout(0.1)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                sock.sendall(b"X")
                answer += sock.recv(1000)
                break
            except socket.timeout:
                continue
        assert status_of(answer) == 408
    # A body that does not come.
    assert status_of(exchange(gateway, b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n{")) == 408
    # Nothing at all, before a request and after one.
    assert exchange(gateway, b"") == b""
    assert exchange(gateway, GET).endswith(b'{"status":"ok"}')


def running(server):
    info = server.info()
    return info.requests_running + info.requests_waiting


def test_client_that_hangs_up_frees_its_place(gateway, server):
    stream = gateway.stream(prompt="Once", max_tokens=100_000_000, ignore_eos=True)
    next(stream)
    assert running(server) == 1
    stream.hang_up()
    server.wait_idle()
    # Also one that waits for a whole answer.
    with gateway.raw() as sock:
        sock.sendall(completion(max_tokens=10_000_000, ignore_eos=True))
        wait_until(lambda: running(server) == 1, "the request runs")
    server.wait_idle()


# A client that has shut down its side cannot be told from one that has gone.
def test_half_closed_connection(gateway, server):
    assert status_of(exchange_and_end(gateway, GET)) == 200
    for stream in (False, True):
        with gateway.raw() as sock:
            sock.sendall(completion(max_tokens=100_000_000, ignore_eos=True, stream=stream))
            wait_until(lambda: running(server) == 1, "the request runs")
            first = sock.recv(1) if stream else b""  # a stream answers from its first token on
            sock.shutdown(socket.SHUT_WR)
            server.wait_idle()
            answer = first + read_all(sock)  # what came before; the connection ends without the rest
            assert answer.startswith(b"HTTP/1.1 200") == stream and b"[DONE]" not in answer
    assert 'code="499",method="POST",route="/v1/completions"' in gateway.get("/metrics").body.decode()
    # As `nc -N` does, which ends its side with the request: the same, or what was done before it is noticed.
    answer = exchange_and_end(gateway, completion(max_tokens=100_000_000, ignore_eos=True, stream=True))
    assert b"[DONE]" not in answer
    server.wait_idle()


def test_reader_that_takes_nothing_is_let_go(gateway, server):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((gateway.host, gateway.port))
        sock.sendall(completion(max_tokens=100_000_000, ignore_eos=True, stream=True, logprobs=20))
        wait_until(lambda: running(server) == 1, "the request runs")
        server.wait_idle()


def test_bytes_that_gRPC_would_not_take(gateway):
    body = {"model": "bytes", "prompt": "a", "max_tokens": 1}
    for name, value, status in [("Authorization", "Bearer \xff", 200),  # the server has no keys
                                ("X-Request-Id", "\xe4" * 300, 200), ("Idempotency-Key", "\xe4", 400),
                                ("X-Other", "\x7f", 400)]:
        assert gateway.post("/v1/completions", body, headers={name: value}).status == status, name
    for path in ("/v1/sessions/%ff", "/v1/sessions?model=%ff", "/v1/sessions?model=%f"):
        assert gateway.get(path).status == 400, path
    assert gateway.get("/v1/sessions/%C3%A4%20").status == 404


@pytest.mark.parametrize("method, path, body", [
    ("POST", "/v1/completions", {"model": "bytes", "prompt": "a", "max_tokens": 1}), ("POST", "/v1/sessions", {}),
    ("POST", "/v1/sessions/import?model=bytes", b"no snapshot"), ("POST", "/tokenize", {"prompt": "a"})])
def test_bodies_are_not_decompressed(gateway, method, path, body):
    for coding in ("gzip", "identity, gzip", "GZip"):
        answer = gateway.call(method, path, body, {"Content-Encoding": coding})
        assert (answer.status, answer.headers["Accept-Encoding"]) == (415, "identity"), answer.body
        assert answer.error["code"] == "unsupported_media_type"
        assert answer.error["message"].startswith("content-encoding: must be identity or left out")
    assert gateway.call(method, path, body, {"Content-Encoding": "Identity"}).status != 415


def test_many_connections(gateway):
    connections = [gateway.connect() for _ in range(300)]
    for connection in connections:
        connection.request("GET", "/health")
    assert all(connection.getresponse().read() for connection in connections)
    wait_until(lambda: gateway.connections() == 301, "all are open, and the one that asks")
    for connection in connections:
        connection.close()
    wait_until(lambda: gateway.connections() == 1, "the others are gone")


def test_metrics(gateway):
    list(gateway.stream(prompt="Once", max_tokens=3))
    text = gateway.get("/metrics").body.decode()
    assert 'tvq_gateway_requests_total{code="200",method="POST",route="/v1/completions"}' in text
    assert "tvq_gateway_time_to_first_event_seconds_count" in text
    assert "tvq_gateway_streams 0" in text
    assert 'route="none"' in text


def test_files_of_the_page(gateway):
    page = gateway.get("/")
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    assert page.body == gateway.get("/index.html").body
    again = gateway.get("/", headers={"If-None-Match": page.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    script = page.body.decode().split('src="./')[1].split('"')[0]
    answer = gateway.get(f"/{script}")
    assert answer.headers["Content-Type"].startswith("text/javascript")
    assert "immutable" in answer.headers["Cache-Control"]
    assert gateway.get("/../main.cc").status == 404
    assert gateway.post("/", {}).status == 405


def test_files_of_the_page_are_compressed_for_those_who_take_it(gateway):
    page = gateway.get("/").body.decode()
    paths = ["/", "/icon.svg", "/openapi.json", *re.findall(r'(?:src|href)="\.(/assets/[^"]+)"', page)]
    assert len(paths) >= 5
    for path in paths:
        plain = gateway.get(path)
        small = gateway.get(path, headers={"Accept-Encoding": "br, gzip;q=0.5"})
        assert plain.headers["Content-Encoding"] is None and small.headers["Content-Encoding"] == "gzip", path
        assert gzip.decompress(small.body) == plain.body and len(small.body) < len(plain.body)
        assert small.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
        assert small.headers["Content-Type"] == plain.headers["Content-Type"]
        assert small.headers["ETag"] != plain.headers["ETag"]
        for answer, encoding in (plain, "identity"), (small, "gzip"):
            asked = {"If-None-Match": answer.headers["ETag"], "Accept-Encoding": encoding}
            again = gateway.get(path, headers=asked)
            assert (again.status, again.headers["ETag"], again.body) == (304, answer.headers["ETag"], b"")
            assert again.headers["Vary"] == "Accept-Encoding" and again.headers["Content-Encoding"] is None
        stale = {"If-None-Match": plain.headers["ETag"], "Accept-Encoding": "gzip"}
        assert gateway.get(path, headers=stale).status == 200
    style = next(path for path in paths if path.endswith(".css"))
    font = re.search(r"[\w-]+\.woff2", gateway.get(style).body.decode()).group()
    whole = gateway.get(f"/assets/{font}", headers={"Accept-Encoding": "gzip"})
    assert whole.status == 200
    assert whole.headers["Content-Encoding"] is None and whole.headers["Vary"] is None


def test_http_client_reads_chunks(gateway):
    stream = gateway.stream(prompt="Once", max_tokens=50)
    assert stream.response.headers["Transfer-Encoding"] == "chunked"
    assert len(list(stream)) > 0
    assert isinstance(stream.response, http.client.HTTPResponse)
