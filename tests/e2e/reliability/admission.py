"""Requests that wait for more room than there is, and others that would fit."""

import contextlib
import statistics
import threading
import time

import grpc
from reliability.crowd import working
from reliability.world import Server, bearer, directory, key_file
from server_process import PATIENCE_SECONDS, wait_until

FOR_EVER = 2**31 - 1  # tokens
STATE_BYTES = 36_480  # of the tiny model


def of_states(count):
    return ["--state-memory-bytes", count * STATE_BYTES]


OF_16 = of_states(16)


def run(api, prompt, prompts, quick, large, seed, report=print):
    """Endless streams of `prompt` tokens, two of which are more than `prompts`; and a large request among small ones."""
    of_prompts = ["--max-num-queued-tokens", prompts, "--max-message-bytes", "64m"]
    for keys in ["", "aaa", "abc"]:
        _beside_one_that_waits(api, f"a prompt of {prompt} tokens", of_prompts, {"ids": [5] * prompt}, keys, quick, report)
        _beside_one_that_waits(api, "9 of 16 states", OF_16, {"text": "Once", "n": 9}, keys, quick, report)
    _large_among_small(api, large, seed, report)
    for what, flags in ("256 sequences", ["--max-num-admitted-seqs", 256]), ("memory for 256 states", of_states(256)):
        _beside_keys_that_take_all(api, what, flags, quick, report)


@contextlib.contextmanager
def _server(api, flags, keys):
    if not keys:
        with Server(api, *flags) as server:
            yield server, [None] * 3
        return
    with directory() as data, Server(api, "--api-key-file", key_file(data, sorted(set(keys))), *flags, key=keys[0]) as server:
        yield server, [bearer(key) for key in keys]


def _beside_one_that_waits(api, what, flags, much, keys, quick, report):
    with _server(api, flags, keys) as (server, (first, second, third)):
        def endless(metadata):
            request = server.request(model="m", max_tokens=FOR_EVER, ignore_eos=True, **much)
            return server.generation.Generate(request, metadata=metadata)

        def wait_for(running, waiting):
            def found():
                info = server.info(first)
                return (info.requests_running, info.requests_waiting) == (running, waiting)
            wait_until(found, f"{running} requests run and {waiting} wait")

        runs = endless(first)
        next(runs)  # its prompt is fed
        waits = endless(second)
        wait_for(1, 1)
        taken = _quick(server, third, quick)
        wait_for(1, 1)
        runs.cancel()
        wait_for(1, 0)  # the other has started
        waits.cancel()
        report(f"three tokens take {1e3 * statistics.median(taken):.0f} ms (median of {quick}; the longest "
               f"{1e3 * max(taken):.0f}) beside an endless stream with {what} and one that waits for that, "
               f"{'keys ' + ', '.join(keys) if keys else 'without keys'}")


def _quick(server, metadata, times):
    request = server.request("Once", model="m", max_tokens=3, ignore_eos=True)
    taken = []
    for _ in range(times):
        begin = time.monotonic()
        tokens = [t for response in server.generation.Generate(request, metadata=metadata, timeout=PATIENCE_SECONDS / 4)
                  for delta in response.deltas for t in delta.token_ids]
        assert len(tokens) == 3
        taken.append(time.monotonic() - begin)
    return taken


def _large_among_small(api, times, seed, report):
    """A request for all states there are, among small ones of which more wait than there is room for."""
    with _server(api, OF_16, "") as (server, _):
        stop, small = threading.Event(), []

        def work(_):
            while not stop.is_set():
                try:
                    server.generate("Once", model="m", max_tokens=50, ignore_eos=True, timeout=PATIENCE_SECONDS)
                except grpc.RpcError as error:
                    raise AssertionError(f"a small request ended with {error.code()}") from None
                small.append(time.monotonic())

        with working(work, range(32), stop.set):
            wait_until(lambda: len(small) > 32, "small requests end")
            before, begin, taken = len(small), time.monotonic(), []
            for _ in range(times):
                start = time.monotonic()
                samples, _usage = server.generate("Once", model="m", max_tokens=50, ignore_eos=True, n=16, seed=seed,
                                                  timeout=PATIENCE_SECONDS)
                assert [len(s.ids) for s in samples] == [50] * 16
                taken.append(time.monotonic() - start)
            rate = (len(small) - before) / (time.monotonic() - begin)
        assert rate > 0, "small requests stood still"
        report(f"a request for all of 16 states takes {1e3 * statistics.median(taken):.0f} ms (median of {times}; the "
               f"longest {1e3 * max(taken):.0f}) among 32 clients with small ones, {rate:.0f} of which end a second")


def _beside_keys_that_take_all(api, what, flags, quick, report):
    """Twelve keys, one after the other, each with more endless streams than get room; and short requests of another."""
    greedy = "abcdefghijkl"
    with directory() as data, Server(api, "--api-key-file", key_file(data, greedy + "z"), *flags, key="a") as server:
        request = server.request("Once", model="m", max_tokens=FOR_EVER, ignore_eos=True)

        def waiting():
            info = server.info(bearer("a"))
            return info.requests_running + info.requests_waiting
        calls = []
        for key in greedy:
            calls += [server.generation.Generate(request, metadata=bearer(key)) for _ in range(260 if key == "a" else 20)]
            wait_until(lambda: waiting() == len(calls), f"{len(calls)} requests run or wait")
        taken = _quick(server, bearer("z"), quick)
        running = server.info(bearer("a")).requests_running
        for call in calls:
            call.cancel()
        report(f"three tokens take {1e3 * statistics.median(taken):.0f} ms (median of {quick}; the longest "
               f"{1e3 * max(taken):.0f}) beside {len(greedy)} keys that take all they can of {what}: {running} streams run")
