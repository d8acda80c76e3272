"""Starting, health, stopping."""

import re
import signal
import socket
import struct
import subprocess

import grpc
import pytest
from raw_http2 import DATA, frame, unread_acknowledgements
from reliability.world import ENDING_SECONDS
from reset_storm import Attacker, requests
from server_process import BIN, GOLDEN, PATIENCE_SECONDS, run_server, wait_until

SERVING, NOT_SERVING = 1, 2


def health(server, service):
    """grpc.health.v1.HealthCheckResponse.status, by hand: Debian has no package of the stubs."""
    call = server.channel.unary_unary("/grpc.health.v1.Health/Check")
    name = service.encode()
    response = call(b"\x0a" + bytes([len(name)]) + name)
    assert response[0] == 8
    return response[1]


def test_health_of_all_services(server):
    for service in ["", "tvq.v1.GenerationService", "tvq.v1.SessionService", "tvq.v1.ModelService"]:
        assert health(server, service) == SERVING
    with pytest.raises(grpc.RpcError) as caught:
        health(server, "tvq.v1.NoService")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_start_says_what_was_loaded(start):
    text = start().stderr()
    for words in ["computing on cpu", "model bytes: transformer_vq", "parameters", "a session takes", "fit"]:
        assert words in text, text


def test_a_line_that_cannot_be_written_is_in_the_log(tmp_path):
    log = tmp_path / "log"
    with open("/dev/full", "wb") as full, open(log, "wb") as stderr:
        server = subprocess.Popen([BIN / "tvq-server", "--port", "0", "--model", f"bytes={GOLDEN / 'bytes_untied'}"],
                                  stdin=subprocess.DEVNULL, stdout=full, stderr=stderr)
    wait_until(lambda: re.search(r"listening on 127\.0\.0\.1:\d+, but cannot write stdout: No space left", log.read_text()),
               "the server warns")
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE_SECONDS) == 0


def test_it_serves_with_closed_standard_files(api):
    """A port of its own choice, which it can tell nobody."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    command = f"exec {BIN / 'tvq-server'} --port {port} --model bytes={GOLDEN / 'bytes_untied'} <&- >&- 2>&-"
    server = subprocess.Popen(["sh", "-c", command])
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        models = api.model_grpc.ModelServiceStub(channel)
        listed = models.ListModels(api.model.ListModelsRequest(), wait_for_ready=True, timeout=PATIENCE_SECONDS)
        assert [model.name for model in listed.models] == ["bytes"]
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE_SECONDS) == 0


def test_flags_from_the_environment(start, monkeypatch):
    monkeypatch.setenv("TVQ_MAX_PROMPT_TOKENS", "3")
    server = start()
    with pytest.raises(grpc.RpcError) as caught:
        server.generate("abcd")
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("flags, words", [
    ([], ["--model", "--model-dir"]),
    (["--model-dir", GOLDEN.parent / "fuzz"], ["--model-dir", "fuzz", "config.json"]),
    (["--model-dir", GOLDEN / "bytes_untied"], ["--model-dir", "bytes_untied: is a model itself", "--model NAME="]),
    (["--model", "nonsense"], ["--model", "NAME=DIR"]),
    (["--model", "a=x", "--model", "a=y"], ["a", "twice"]),
    (["--model", "a=x", "--dtype", "float7"], ["--dtype"]),
    (["--model", "a=x", "--max-num-seqs", "0"], ["--max-num-seqs"]),
    (["--model", "a=x", "--no-such-flag"], ["--no-such-flag"]),
])
def test_wrong_usage(flags, words):
    done = run_server(*flags)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr + done.stdout


# Of a machine without a GPU, or a build without CUDA; where both are there, the device's own tests tell more.
def test_a_device_that_is_not_there():
    done = run_server("--model", f"bytes={GOLDEN / 'bytes_untied'}", "--device", "cuda")
    assert done.returncode == 1
    assert re.search(r"device 'cuda': (this build has no CUDA backend|no NVIDIA driver on this machine)", done.stderr)


def test_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_server("--model", f"bytes={GOLDEN / 'bytes_untied'}", port=port)
    assert done.returncode == 1
    *before, last = done.stderr.splitlines()
    assert last.endswith(f"cannot listen on 127.0.0.1:{port}: the port is in use")
    assert all(re.match(r"\[\d{4}-\d\d-\d\d [\d:.]+\] \[tvq-server\]", line) for line in before), "gRPC's own lines"


def test_sigterm_finishes_what_runs(start):
    server = start("--shutdown-timeout", PATIENCE_SECONDS)
    call = server.stream("Once", max_tokens=5_000, ignore_eos=True, seed=1)
    ids = list(next(call).deltas[0].token_ids)
    server.signal(signal.SIGTERM)
    wait_until(lambda: not call.is_active() or health(server, "") == NOT_SERVING, "health says so")
    if call.is_active():
        with pytest.raises(grpc.RpcError) as caught:
            list(server.stream("Twice"))
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    for response in call:
        for delta in response.deltas:
            ids += delta.token_ids
    assert len(ids) == 5_000
    assert server.process.wait(PATIENCE_SECONDS) == 0


def ends_with_unavailable(call):
    with pytest.raises(grpc.RpcError) as caught:
        for _ in call:
            pass
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_sigterm_ends_what_takes_too_long(start):
    server = start("--shutdown-timeout", 0.2)
    call = server.endless()
    server.signal(signal.SIGTERM)
    ends_with_unavailable(call)
    assert server.process.wait(PATIENCE_SECONDS) == 0


def test_uploads_that_never_end_do_not_hold_up_the_end(start):
    """Each has begun, and takes no more memory than any open call."""
    streams = 8000
    server = start("--shutdown-timeout", 1)
    before = server.resident_bytes()
    message = server.api.session.ImportSessionRequest(create={"model": "bytes"}, chunk=b"x" * 100).SerializeToString()
    upload = frame(DATA, 0, 1, struct.pack(">BI", 0, len(message)) + message)
    with Attacker(server.address) as client:
        for index, begin in enumerate(requests(streams, "/tvq.v1.SessionService/ImportSession", reset=False)):
            assert client.send(begin + upload[:5] + struct.pack(">I", 2 * index + 1) + upload[9:])
        assert server.generate("Once", max_tokens=3)
        assert not client.closed.is_set()
        assert server.most_resident_bytes() - before < streams * (32 << 10)
        server.signal(signal.SIGTERM)
        assert server.process.wait(1 + ENDING_SECONDS) == 0


@pytest.mark.parametrize("streams", [0, 1])
def test_a_client_that_reads_nothing_does_not_hold_up_the_end(start, streams):
    """The kernel would give up its connection much later."""
    server = start("--shutdown-timeout", 0.2, "--keepalive-timeout", 2 * PATIENCE_SECONDS)
    calls = [server.endless() for _ in range(streams)]
    with unread_acknowledgements(server.address):
        server.signal(signal.SIGTERM)
        for call in calls:
            ends_with_unavailable(call)
        assert server.process.wait(PATIENCE_SECONDS) == 0


def test_second_signal_ends_at_once(start):
    server = start("--shutdown-timeout", 3600)
    call = server.endless()
    server.signal(signal.SIGINT)
    wait_until(lambda: health(server, "") == NOT_SERVING, "health says so")
    server.signal(signal.SIGTERM)
    ends_with_unavailable(call)
    assert server.process.wait(PATIENCE_SECONDS) == 0
