"""Clients that open streams and reset them: storms are ended, honest ones are not."""

import itertools
import os
import threading
import time

import grpc
import pytest
from bystander import Bystander
from certificates import Authority
from metrics_endpoint import free_port, scrape
from raw_http2 import HEADERS, PING, WINDOW_UPDATE, frame
from reliability.crowd import all_at_once
from reset_storm import GENERATE, UNKNOWN, Attacker, insecure_tls, requests, storm
from server_process import GOLDEN, ServerProcess, wait_until
from test_keys import bearer, line

STORM = 200_000  # streams
MOST_LEFT = 64 << 20
MOST_EVER = 512 << 20


@pytest.fixture
def keys(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text(line("ana", "alpha"))
    return file


@pytest.fixture
def guarded(start, keys):
    """guarded(*flags) starts a server with keys, little memory for connections, and metrics."""

    def run(*flags):
        port = free_port()
        server = start("--api-key-file", keys, "--max-connection-bytes", "64m", "--metrics-port", port, *flags)
        server.closed_connections = lambda: scrape(port)["tvq_connections_closed_total"]
        return server

    return run


def assert_memory_comes_back(server, before):
    assert server.most_resident_bytes() - before < MOST_EVER
    wait_until(lambda: server.resident_bytes() - before < MOST_LEFT, "freed memory goes back to the system")


@pytest.mark.parametrize("path", [GENERATE, UNKNOWN])
def test_ten_storms_leave_no_memory_and_others_alone(guarded, path):
    server, data = guarded(), b"".join(requests(STORM, path))
    with Bystander(server, bearer("alpha")):
        before = server.resident_bytes()
        for _ in range(10):
            assert storm(server.address, data)
    assert_memory_comes_back(server, before)
    assert server.closed_connections() == 10
    assert "--max-resets-per-second" in server.stderr() or "--max-streams-per-connection" in server.stderr()


def test_storms_over_tls(guarded, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    server, data = guarded("--ssl-certfile", certificate, "--ssl-keyfile", key), b"".join(requests(STORM))
    channel = grpc.secure_channel(server.address, grpc.ssl_channel_credentials(authority.ca.read_bytes()))
    with channel, Bystander(server, bearer("alpha"), channel):
        before = server.resident_bytes()
        for _ in range(3):
            assert storm(server.address, data, insecure_tls())
    assert_memory_comes_back(server, before)
    assert server.closed_connections() > 0, "gRPC may end some itself, at the limit of connections' memory"


def test_storms_at_once_that_reconnect(guarded):
    """Of one host, whose other clients go on. Storms that come back wait to be let in, or are not."""
    server, data = guarded(), b"".join(requests(STORM))
    with Bystander(server, bearer("alpha")):
        before = server.resident_bytes()
        storms = [threading.Thread(target=lambda: [storm(server.address, data) for _ in range(3)]) for _ in range(4)]
        for thread in storms:
            thread.start()
        for thread in storms:
            thread.join()
    assert_memory_comes_back(server, before)
    assert server.closed_connections() > 0, "others may not be let in"


@pytest.mark.parametrize("acknowledges", [True, False])
def test_streams_beyond_the_limit(guarded, acknowledges):
    """Neither reset nor answered, for the client does not read. gRPC holds those to its limit that acknowledge it."""
    server = guarded("--max-streams-per-connection", 100)
    with Attacker(server.address, acknowledges=acknowledges, reads=False) as attacker, Bystander(server, bearer("alpha")):
        attacker.send(b"".join(requests(STORM, reset=False)))
        wait_until(lambda: not attacker.send(frame(PING, 0, 0, bytes(8))), "the connection is closed")


CONTINUATION = 9
WATCH = "/grpc.health.v1.Health/Watch"


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("streams", [0, 8])
@pytest.mark.parametrize("first, rest", [
    (b"\x00\x01a\x7f\x80\x80\x80\x80\x07", b"\x80" * 16384),  # a field whose text has 2 GiB
    (b"\x00\x01a\x7f", b"\x80" * 16384),  # or whose length does not end
    (b"", b"\x00\x01a\x01b" * 100),  # or ever more fields: gRPC bounds those of a frame alone
    (b"", b"\x90" * 100),  # of which each byte may be one, and takes 70
], ids=["text", "length", "fields", "indexed"])
def test_headers_without_end(guarded, tmp_path, secure, streams, first, rest):
    """Behind streams that are open, or alone."""
    flags, tls, credentials = [], None, None
    if secure:
        authority = Authority(tmp_path)
        certificate, secret = authority.issue("server")
        flags, tls = ["--ssl-certfile", certificate, "--ssl-keyfile", secret], insecure_tls()
        credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    server = guarded(*flags)
    channel = grpc.secure_channel(server.address, credentials) if secure else server.channel
    opened = b"".join(requests(streams, WATCH, reset=False))
    begin = frame(HEADERS, 0, 2 * streams + 1, first)
    pieces = frame(CONTINUATION, 0, 2 * streams + 1, rest) * max(1, 16384 // len(rest))
    with Bystander(server, bearer("alpha"), channel) as bystander:
        before = server.resident_bytes()
        for _ in range(4):
            with Attacker(server.address, tls) as attacker:
                attacker.send(opened + begin)
                wait_until(lambda: not attacker.send(pieces), "the connection is closed")
    assert server.most_resident_bytes() - before < 64 << 20
    assert server.closed_connections() >= 1, "gRPC may end some itself"
    assert "headers that do not end" in server.stderr()
    assert bystander.seconds


def test_frames_that_ask_for_nothing(guarded):
    server = guarded()
    with Bystander(server, bearer("alpha")), Attacker(server.address) as attacker:
        window_updates = b"".join(itertools.repeat(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), 1000))
        wait_until(lambda: not attacker.send(window_updates), "the connection is closed")
    assert server.closed_connections() == 1


def test_many_large_requests_at_once_over_tls_are_honest(api, tmp_path):
    """Beside each other they are read slowly, and of the second of a connection gRPC has read megabytes before it sees
    that there is one."""
    authority = Authority(tmp_path)
    certificate, secret = authority.issue("server")
    flags = ["--model", f"bytes={GOLDEN / 'bytes_untied'}", "--ssl-certfile", certificate, "--ssl-keyfile", secret]
    one_core = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
    request = api.generation.TokenizeRequest(model="none", text="x" * (15 << 20))
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    with ServerProcess(api, *flags, inside=one_core) as server:

        def client(_):
            with grpc.secure_channel(server.address, credentials, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                tokenize = api.generation_grpc.GenerationServiceStub(channel).Tokenize
                for _ in range(3):
                    with pytest.raises(grpc.RpcError) as refused:
                        tokenize(request, wait_for_ready=True)
                    assert refused.value.code() == grpc.StatusCode.NOT_FOUND, refused.value

        all_at_once(client, range(16))
        assert "closed the connection" not in server.stderr()


def test_a_compressed_message_is_not_expanded(guarded):
    server = guarded()
    before = server.resident_bytes()
    call = server.api.generation_grpc.GenerationServiceStub(server.channel).Tokenize
    with pytest.raises(grpc.RpcError, match="Compression algorithm 'gzip' is disabled") as refused:
        call(server.api.generation.TokenizeRequest(model="bytes", text="x" * (8 << 20)), metadata=bearer("alpha"),
             compression=grpc.Compression.Gzip)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert server.most_resident_bytes() - before < 4 << 20


def test_resets_below_the_limit_are_served(guarded):
    server, slow_storm = guarded(), requests(1500)
    with Attacker(server.address) as slow, Bystander(server, bearer("alpha")):
        before = server.resident_bytes()
        while piece := b"".join(itertools.islice(slow_storm, 50)):
            assert slow.send(piece)
            time.sleep(0.1)
        assert not slow.closed.is_set()
    assert server.closed_connections() == 0
    assert server.most_resident_bytes() - before < MOST_LEFT


def test_a_client_that_cancels_often_keeps_its_connection(guarded):
    """As a gateway whose readers hang up does."""
    server = guarded()
    call = server.generation.Generate(server.request("Once", max_tokens=100_000_000, ignore_eos=True),
                                      metadata=bearer("alpha"))
    next(call)
    for _ in range(3000):
        given_up = server.generation.Generate(server.request("Once", max_tokens=1000, ignore_eos=True),
                                              metadata=bearer("alpha"))
        next(given_up)
        given_up.cancel()
        time.sleep(0.001)
    next(call)
    call.cancel()
    assert server.closed_connections() == 0
