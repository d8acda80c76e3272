"""AdminService: draining and reading keys again."""

import signal

import grpc
import pytest
from google.protobuf import duration_pb2
from server_process import PATIENCE_SECONDS, wait_until
from test_keys import bearer, line
from test_lifecycle import NOT_SERVING, SERVING, health

ANA, OPS = bearer("alpha"), bearer("beta")


@pytest.fixture
def keys(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text(line("ana", "alpha") + line("ops", "beta", "admin"))
    return file


@pytest.fixture
def server(start, keys):
    server = start("--api-key-file", keys, "--shutdown-timeout", "3600")
    server.admin = server.api.admin_grpc.AdminServiceStub(server.channel)
    return server


def generate(server, tokens):
    return server.generation.Generate(server.request("Once", max_tokens=tokens, ignore_eos=True), metadata=ANA)


def drain(server, metadata=OPS, seconds=None, peer=""):
    request = server.api.admin.DrainRequest(peer=peer)
    if seconds is not None:
        request.timeout.CopyFrom(duration_pb2.Duration(seconds=seconds))
    return server.admin.Drain(request, metadata=metadata)


def code_of(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code()


def test_drain_finishes_what_runs_and_stops(server):
    call = generate(server, 5_000)
    count = len(next(call).deltas[0].token_ids)
    assert drain(server).requests_running in (0, 1)  # it may have been done by then
    wait_until(lambda: not call.is_active() or health(server, "") == NOT_SERVING, "health says so")
    count += sum(len(delta.token_ids) for response in call for delta in response.deltas)
    assert count == 5_000
    assert server.process.wait(PATIENCE_SECONDS) == 0


def test_drain_refuses_what_is_new(server):
    call = generate(server, 100_000_000)
    next(call)
    assert health(server, "tvq.v1.AdminService") == SERVING
    assert drain(server).requests_running == 1
    wait_until(lambda: health(server, "") == NOT_SERVING, "health says so")
    assert code_of(lambda: list(generate(server, 1))) == grpc.StatusCode.UNAVAILABLE
    drain(server)  # again: harmless

    # The first signal after an order is not the second signal.
    server.signal(signal.SIGINT)
    for _ in range(3):
        next(call)
    server.signal(signal.SIGTERM)  # another than before: of two alike that wait, one gets lost
    assert code_of(lambda: list(call)) == grpc.StatusCode.UNAVAILABLE
    assert server.process.wait(PATIENCE_SECONDS) == 0


def test_drain_timeout_goes_before_the_flag(server):
    call = generate(server, 100_000_000)
    next(call)
    drain(server, seconds=0)
    assert code_of(lambda: list(call)) == grpc.StatusCode.UNAVAILABLE
    assert server.process.wait(PATIENCE_SECONDS) == 0


def test_wrong_orders_do_not_drain(server):
    assert code_of(lambda: drain(server, seconds=-1)) == grpc.StatusCode.INVALID_ARGUMENT
    assert code_of(lambda: drain(server, seconds=10**6)) == grpc.StatusCode.INVALID_ARGUMENT
    assert code_of(lambda: drain(server, peer="other:50051")) == grpc.StatusCode.INVALID_ARGUMENT
    assert code_of(lambda: drain(server, metadata=ANA)) == grpc.StatusCode.PERMISSION_DENIED
    assert code_of(lambda: drain(server, metadata=None)) == grpc.StatusCode.UNAUTHENTICATED
    assert health(server, "") == SERVING


def test_a_server_takes_no_session_over(server):
    """Whoever may ask is told what to do instead."""
    message = server.api.admin.AdoptSessionRequest(chunk=b"x")
    for metadata, code in [(ANA, grpc.StatusCode.PERMISSION_DENIED), (OPS, grpc.StatusCode.UNIMPLEMENTED)]:
        with pytest.raises(grpc.RpcError) as caught:
            server.admin.AdoptSession(iter([message] * 100), metadata=metadata)
        assert caught.value.code() == code
    for instead in ["--redis", "--session-dir", "ExportSession", "ImportSession"]:
        assert instead in caught.value.details()
    drain(server)
    assert server.process.wait(PATIENCE_SECONDS) == 0  # no such call is left open


def test_reload_changes_keys(server, keys):
    request = server.api.admin.ReloadCredentialsRequest()
    keys.write_text(line("ops", "beta", "admin"))
    assert len(list(generate(server, 1))) > 0
    assert server.admin.ReloadCredentials(request, metadata=OPS).keys == 1
    assert code_of(lambda: list(generate(server, 1))) == grpc.StatusCode.UNAUTHENTICATED

    keys.write_text("nonsense\n")
    with pytest.raises(grpc.RpcError) as caught:
        server.admin.ReloadCredentials(request, metadata=OPS)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "line 1" in caught.value.details()
    assert code_of(lambda: server.admin.ReloadCredentials(request, metadata=ANA)) == grpc.StatusCode.UNAUTHENTICATED
    keys.write_text(line("ana", "alpha") + line("ops", "beta", "admin"))
    assert server.admin.ReloadCredentials(request, metadata=OPS).keys == 2
    assert len(list(generate(server, 1))) > 0


def test_without_keys_there_is_no_admin_service(start):
    server = start()
    server.admin = server.api.admin_grpc.AdminServiceStub(server.channel)
    assert code_of(lambda: drain(server)) == grpc.StatusCode.UNIMPLEMENTED
