"""Bearer keys: who may call what."""

import hashlib
import socket
import time
from pathlib import Path

import grpc
import pytest
from raw_http2 import PREFACE, SETTINGS, HeldRequest, frame
from relay import Relay
from server_process import GOLDEN, run_server, wait_until
from session_client import SessionClient
from test_lifecycle import SERVING, health


def line(name, key, permissions=""):
    return f"{name} {hashlib.sha256(key.encode()).hexdigest()} {permissions}\n"


def bearer(key):
    return [("authorization", f"Bearer {key}")]


@pytest.fixture
def keys(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text("# keys of the tests\n" + line("ana", "alpha") + line("reader", "gamma", "sessions")
                    + line("ops", "beta", "admin"))
    return file


def code_of(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code()


def generate(server, metadata):
    return list(server.generation.Generate(server.request("Once", max_tokens=1), metadata=metadata))


def test_keys_and_permissions(start, keys):
    server = start("--api-key-file", keys)
    assert generate(server, bearer("alpha"))
    for metadata, code in [
        (None, grpc.StatusCode.UNAUTHENTICATED),
        (bearer("wrong"), grpc.StatusCode.UNAUTHENTICATED),
        ([("authorization", "alpha")], grpc.StatusCode.UNAUTHENTICATED),
        (bearer("alpha") + bearer("alpha"), grpc.StatusCode.UNAUTHENTICATED),
        (bearer("beta"), grpc.StatusCode.PERMISSION_DENIED),
        (bearer("gamma"), grpc.StatusCode.PERMISSION_DENIED),
    ]:
        assert code_of(lambda: generate(server, metadata)) == code, metadata
        tokenize = server.api.generation.TokenizeRequest(text="a")
        assert code_of(lambda: [server.generation.Tokenize(tokenize, metadata=metadata)]) == code, metadata

    # Any key may ask which models there are.
    request = server.api.model.ListModelsRequest()
    for key in ["alpha", "beta", "gamma"]:
        assert len(server.models.ListModels(request, metadata=bearer(key)).models) == 1
    assert code_of(lambda: [server.models.ListModels(request)]) == grpc.StatusCode.UNAUTHENTICATED


def test_a_key_leaves_capacity_for_the_sessions_of_others(start, keys):
    server = start("--api-key-file", keys, "--session-host-bytes", 1 << 20)
    greedy, other = SessionClient(server, "alpha"), SessionClient(server, "gamma")
    with pytest.raises(grpc.RpcError) as refused:
        while True:
            greedy.create()
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "the rest is for other keys" in refused.value.details()
    assert other.append(other.create().id, "text")


def test_health_and_reflection_need_no_key(start, keys):
    server = start("--api-key-file", keys)
    assert health(server, "") == SERVING
    call = server.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    assert b"tvq.v1.GenerationService" in next(call(iter([b"\x3a\x00"])))


def test_no_key_is_written_anywhere(start, keys):
    server = start("--api-key-file", keys, "--log-level", "trace")
    generate(server, bearer("alpha"))
    code_of(lambda: generate(server, bearer("wrong-secret")))
    assert "alpha" not in server.stderr()
    assert "wrong-secret" not in server.stderr()


@pytest.mark.parametrize("text, words", [
    ("ana secret\n", ["line 1", "SHA-256"]),
    (line("ana", "alpha") + line("ops", "beta", "root"), ["line 2", "root"]),
    ("", ["no key"]),
])
def test_damaged_file_is_refused_at_start(tmp_path, text, words):
    file = tmp_path / "keys.txt"
    file.write_text(text)
    done = run_server("--model", f"bytes={GOLDEN / 'bytes_untied'}", "--api-key-file", file)
    assert done.returncode == 1
    for word in [str(file), *words]:
        assert word in done.stderr
    assert "secret" not in done.stderr


def test_requests_without_a_key_do_not_fill_the_memory(start, keys):
    """gRPC takes a request's whole message in before anybody looks at the key."""
    quota, size = 64 << 20, 15 << 20
    server = start("--api-key-file", keys, "--max-connection-bytes", quota)
    assert generate(server, bearer("alpha"))
    before = peak_memory(server)
    held = []
    try:
        for _ in range(40):  # who is closed for it is let in again rarely
            held.append(HeldRequest(server.address, "/tvq.v1.GenerationService/Tokenize", size))
            time.sleep(0.05)
        wait_until(lambda: sum(request.sent for request in held) > quota / 2, "requests come in")
        wait_until(lambda: "bytes of requests under way" in server.stderr(), "some are closed")
        # Its bytes, and what was on its way when they were full: less than as much again.
        assert peak_memory(server) - before < 2 * quota
        assert generate(server, bearer("alpha"))
    finally:
        for request in held:
            request.close()


def test_a_request_that_is_held_keeps_nobody_out(start, keys):
    """It is more than a quarter of what all without a key may have under way."""
    server = start("--api-key-file", keys, "--max-connection-bytes", "64m")
    held = HeldRequest(server.address, "/tvq.v1.GenerationService/Tokenize", 15 << 20)
    wait_until(lambda: held.sent >= 15 << 20, "all but the last byte is sent")
    # Of much that comes before it was asked for, nothing is taken in a crowd.
    unknown_kind = 0x20
    first_bytes = PREFACE + frame(SETTINGS, 0, 0) + frame(unknown_kind, 0, 0, bytes(8192))
    newcomers = []
    for _ in range(20):
        newcomers.append(socket.create_connection(tuple(server.address.rsplit(":", 1)), timeout=60))
        newcomers[-1].sendall(first_bytes)
    for newcomer in newcomers:
        assert newcomer.recv(9), "it is let in and hears HTTP/2's settings"
    assert generate(server, bearer("alpha"))
    assert not held.closed
    for connection in [held, *newcomers]:
        connection.close()


def peak_memory(server):
    """Bytes that the process has had in memory at most."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def test_sessions_that_no_key_reaches_are_told(start, keys, tmp_path):
    """They were made before there were keys, with a key that is gone, or with one where none is needed."""
    first = start("--session-dir", tmp_path / "sessions")
    SessionClient(first).create(durable=True)
    first.__exit__(None, None, None)
    second = start("--session-dir", tmp_path / "sessions", "--api-key-file", keys)
    assert "1 sessions were made without keys" in second.stderr()
    assert SessionClient(second, "gamma").list() == []
    SessionClient(second, "gamma").create(durable=True)
    second.__exit__(None, None, None)
    keys.write_text(line("ops", "beta", "admin"))
    third = start("--session-dir", tmp_path / "sessions", "--api-key-file", keys)
    assert "1 sessions were made without keys" in third.stderr()
    assert "1 sessions belong to keys that this server does not know" in third.stderr()
    third.__exit__(None, None, None)
    fourth = start("--session-dir", tmp_path / "sessions")
    assert "without keys" not in fourth.stderr()
    assert "1 sessions belong to keys" in fourth.stderr()


def test_rate_limit_is_per_key_and_says_when_to_come_back(start, keys):
    # One request at once, the next after 100 s: no test waits that long.
    server = start("--api-key-file", keys, "--max-requests-per-second", "0.01")
    assert generate(server, bearer("alpha"))
    with pytest.raises(grpc.RpcError) as caught:
        generate(server, bearer("alpha"))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "x-request-id" not in dict(caught.value.initial_metadata())  # refused before headers
    assert 0 < int(dict(caught.value.trailing_metadata())["grpc-retry-pushback-ms"]) <= 100_000

    request = server.api.model.ListModelsRequest()
    assert code_of(lambda: server.models.ListModels(request, metadata=bearer("alpha"))) \
        == grpc.StatusCode.RESOURCE_EXHAUSTED
    server.models.ListModels(request, metadata=bearer("gamma"))


def test_without_keys_the_rate_limit_is_per_address(start):
    server = start("--max-requests-per-second", "0.01")
    request = server.api.model.ListModelsRequest()
    server.models.ListModels(request)
    with Relay(server.address, "127.0.0.2") as relay, grpc.insecure_channel(relay.address) as channel:
        there = server.api.model_grpc.ModelServiceStub(channel)
        there.ListModels(request)
        for models in (server.models, there):
            assert code_of(lambda models=models: models.ListModels(request)) == grpc.StatusCode.RESOURCE_EXHAUSTED
