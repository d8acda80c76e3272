"""What calls of one key, or of one address, keep in memory leaves room for those of another."""

import contextlib

import grpc
import pytest
from relay import Relay
from server_process import GOLDEN, ServerProcess, wait_until
from session_client import CHUNK, SessionClient, Stopped
from test_keys import bearer, line

FULL = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
def keys(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text(line("ana", "a") + line("ben", "b"))
    return file


def refusals(calls):
    return [call.details() for call in calls if call.done() and call.code() == FULL]


@contextlib.contextmanager
def two_keys(server):
    yield SessionClient(server, "a"), SessionClient(server, "b")


@contextlib.contextmanager
def two_addresses(server):
    with Relay(server.address, "127.0.0.2") as relay, grpc.insecure_channel(relay.address) as channel:
        here, there = SessionClient(server), SessionClient(server)
        there.stub = server.api.session_grpc.SessionServiceStub(channel)
        yield here, there


@pytest.mark.parametrize("two", [two_keys, two_addresses])
def test_uploads(start, keys, two):
    # Of 13.7 MiB: one of the largest with a request whose ids take four bytes each, and a seventh.
    flags = ["--max-snapshot-bytes", 4 * CHUNK, "--max-message-bytes", 2 * CHUNK]
    server = start(*flags, *(["--api-key-file", keys] if two is two_keys else []))
    with two(server) as (ana, ben), contextlib.ExitStack() as stopped:
        snapshot = ben.export(ben.create().id)
        first = ana.request("ImportSession", create=ana.request("CreateSession"), chunk=b"x" * CHUNK)
        uploads = [stopped.enter_context(Stopped([first])) for _ in range(16)]
        calls = [ana.stub.ImportSession.future(iter(upload), metadata=ana.metadata) for upload in uploads]
        wait_until(lambda: len(refusals(calls)) >= 4, "the uploads took all that they may")
        message = refusals(calls)[0]
        assert message.startswith("chunk: snapshots on their way in take") and "its part of the limit" in message
        ben.import_(snapshot)


def test_vectors(api, keys):
    tokens = 120_000  # 12.5 MB of vectors
    encoder = GOLDEN / "families" / "encoder_standard_grouped"
    with ServerProcess(api, "--model", f"e={encoder}", "--max-model-len", tokens, "--max-num-admitted-seqs", 2,
                       "--api-key-file", keys) as server:
        def encode(key, count):
            ids = api.session.TokenIds(ids=[1] * count)
            request = api.generation.EncodeRequest(model="e", token_ids=ids)
            return server.generation.Encode.future(request, metadata=bearer(key))

        many = [encode("a", tokens) for _ in range(60)]
        wait_until(lambda: refusals(many), "the answers took all that they may")
        assert "its part of the limit" in refusals(many)[0]
        assert len(encode("b", tokens // 2).result().vectors) == tokens // 2 * 26  # d_model
        for call in many:
            call.cancel()
