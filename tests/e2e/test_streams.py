"""Cancellation, deadlines, slow and vanished readers, full queues."""

import itertools
import signal
import subprocess

import grpc
import pytest
from reliability.crowd import all_at_once
from server_process import BIN, wait_until


def test_request_id_comes_back_in_the_headers(server):
    call = server.generation.Generate(server.request("Once"), metadata=[("x-request-id", "abc-1")])
    assert ("x-request-id", "abc-1") in [tuple(pair) for pair in call.initial_metadata()]
    list(call)
    made = dict(server.stream("Once").initial_metadata())["x-request-id"]
    assert len(made) == 16


def test_cancel_in_the_middle_frees_the_place(server):
    call = server.endless()
    assert server.info().requests_running == 1
    call.cancel()
    server.wait_idle()
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() == grpc.StatusCode.CANCELLED


def test_deadline_in_decode(server):
    with pytest.raises(grpc.RpcError) as caught:
        list(server.stream("Once", max_tokens=100_000_000, ignore_eos=True, timeout=0.3))
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    server.wait_idle()


def test_deadline_in_prefill(server):
    """Three million tokens cannot be prefilled in the time, and no token comes."""
    call = server.stream("x" * 3_000_000, max_tokens=1, timeout=4)
    wait_until(lambda: server.info().requests_running == 1, "it left the queue")
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    server.wait_idle()
    assert server.generate("Once", max_tokens=2)


def test_cancel_in_prefill_and_in_the_queue(start):
    server = start("--max-num-admitted-seqs", 1)
    running = server.stream("x" * 3_000_000, max_tokens=1)
    wait_until(lambda: server.info().requests_running == 1, "the first request runs")
    waiting = server.stream("Once", max_tokens=1)
    wait_until(lambda: server.info().requests_waiting == 1, "the second request waits")
    waiting.cancel()
    wait_until(lambda: server.info().requests_waiting == 0, "it left the queue")
    assert server.info().requests_running == 1
    running.cancel()
    server.wait_idle()


def test_client_killed_in_the_middle(server):
    client = subprocess.Popen([BIN / "tvq", "--server", server.address, "generate", "--model", "bytes", "--prompt", "Once",
                               "--max-tokens", "100000000", "--ignore-eos"], stdout=subprocess.PIPE)
    assert client.stdout.read(1)
    assert server.info().requests_running == 1
    client.kill()
    client.wait()
    client.stdout.close()
    server.wait_idle()


def test_client_interrupted_in_the_middle(server):
    client = subprocess.Popen([BIN / "tvq", "--server", server.address, "generate", "--model", "bytes", "--prompt", "Once",
                               "--max-tokens", "100000000", "--ignore-eos"], stdout=subprocess.PIPE)
    assert client.stdout.read(1)
    client.send_signal(signal.SIGINT)
    client.communicate()
    assert client.returncode == 130
    server.wait_idle()


def test_slow_reader_pauses_alone_and_loses_nothing(server):
    """Far more output than all buffers between server and reader hold."""
    count = 20_000
    slow = server.stream("Once", max_tokens=count, ignore_eos=True, seed=1, logprobs=20)
    first = next(slow)
    for i in range(8):
        samples, _ = server.generate("Twice", seed=i, max_tokens=50, ignore_eos=True)
        assert len(samples[0].ids) == 50
    ids = list(first.deltas[0].token_ids)
    messages = 1
    for response in slow:
        messages += 1
        for delta in response.deltas:
            ids += delta.token_ids
    assert len(ids) == count
    assert messages < count  # pieces were joined while nobody read


def test_reader_that_stops_loses_its_place(start):
    server = start("--max-num-admitted-seqs", 1, "--paused-timeout", 3)
    stopped = server.stream("Once", max_tokens=100_000_000, ignore_eos=True, logprobs=20)
    next(stopped)
    assert server.generate("Twice", max_tokens=2)  # waits for the place
    with pytest.raises(grpc.RpcError) as caught:
        list(stopped)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert "the reader took nothing" in caught.value.details()


def test_ten_thousand_queued_requests(start):
    count = 10_000
    # One address may have three quarters of 15/16 of the queue.
    server = start("--max-num-admitted-seqs", 1, "--max-num-queued-reqs", (count + count // 3 + 1) * 16 // 15)
    blocker = server.endless()
    request = server.request("a", max_tokens=1, ignore_eos=True)
    calls = [server.generation.Generate(request) for _ in range(count)]
    wait_until(lambda: server.info().requests_waiting == count, "all are queued")
    for _ in range(5):
        with pytest.raises(grpc.RpcError) as caught:
            list(server.generation.Generate(request))
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        trailers = dict(caught.value.trailing_metadata())
        assert int(trailers["grpc-retry-pushback-ms"]) > 0
    blocker.cancel()
    for call in calls:
        assert list(call)[-1].usage.completion_tokens == 1
    server.wait_idle()


def test_requests_come_and_go(server):
    """Many threads that cancel at various points leave nothing behind."""

    def run(seed):
        for i in range(20):
            call = server.stream("Once", seed=seed, max_tokens=1000, ignore_eos=True)
            received = list(itertools.islice(call, i % 7))
            assert bool(received) == bool(i % 7)
            call.cancel()

    all_at_once(run, range(8))
    server.wait_idle()
