"""Callers that ask for all there is, and another beside them."""

import contextlib
import signal
import statistics
import threading
import time

import grpc
from relay import Relay
from reliability.world import ENDING_SECONDS, NOVELS, Server, bearer, directory, key_file
from server_process import wait_until

FOR_EVER = 2**31 - 1  # tokens
PROMPT = "It was late in the evening when"
SHARE_STEPS = 100  # that a share of tokens is taken over, so that one more or less is a hundredth of it
MOST_CHUNKS = 5  # of prompts, until a short one beside long ones of the same owner has its first token


def run(api, streams, of_a_key, quick, seconds, long_tokens, grace, seed, report=print):
    """Endless streams and long prompts, and short requests beside them, of the same owner and of others."""
    _beside_the_same_owner(api, streams, quick, seed, report)
    _beside_another_key(api, of_a_key, quick, seconds, seed, report)
    _beside_another_key_on_all_models(api, seconds, report)
    _beside_another_address(api, of_a_key, quick, seconds, seed, report)
    _beside_long_prompts(api, long_tokens, quick, seed, report)
    _chunks_beside_long_prompts(api, long_tokens, quick, report)
    _ends_beside_endless_streams(api, streams, grace, report)


class _Streams:
    """Endless streams that are read as fast as they come."""

    def __init__(self, server, count, metadata=None, model="m", generation=None, priority=0):
        self.tokens = 0
        self.ended = []  # the codes with which some have
        self._begun = 0
        self._lock = threading.Lock()
        request = server.request(PROMPT, model=model, max_tokens=FOR_EVER, ignore_eos=True)
        request.priority = priority
        generate = (generation or server.generation).Generate
        self._calls = [generate(request, metadata=metadata) for _ in range(count)]
        for call in self._calls:
            threading.Thread(target=self._read, args=(call,), daemon=True).start()
        wait_until(lambda: self._begun == count, f"{count} streams have begun")

    def _read(self, call):
        begun = False
        try:
            for response in call:
                new = sum(len(delta.token_ids) for delta in response.deltas)
                with self._lock:
                    self.tokens += new
                    self._begun += new > 0 and not begun
                begun = begun or new > 0
            self.ended.append(grpc.StatusCode.OK)
        except grpc.RpcError as error:
            self.ended.append(error.code())

    def __enter__(self):
        return self

    def __exit__(self, raised, *_):
        ended = list(self.ended)
        for call in self._calls:
            call.cancel()
        assert raised or not ended, f"endless streams have ended: {ended}"


class _Quick:
    """A request of three tokens."""

    def __init__(self, server, seed, metadata=None, generation=None):
        self._generate, self._metadata = (generation or server.generation).Generate, metadata
        self._request = server.request(PROMPT, model="m", max_tokens=3, ignore_eos=True, seed=seed)
        self._alone = self._ids()

    def _ids(self):
        return [token for response in self._generate(self._request, metadata=self._metadata, timeout=100)
                for delta in response.deltas for token in delta.token_ids]

    def milliseconds(self, times):
        taken = []
        for _ in range(times):
            begin = time.monotonic()
            assert self._ids() == self._alone, "other tokens than alone"
            taken.append(1e3 * (time.monotonic() - begin))
        return f"{statistics.median(taken):.0f} ms (median of {times}; the longest {max(taken):.0f})"


def _beside_the_same_owner(api, streams, times, seed, report):
    with Server(api, model=NOVELS) as server:
        quick = _Quick(server, seed)
        alone = quick.milliseconds(times)
        with _Streams(server, streams):
            report(f"three tokens take {quick.milliseconds(times)} beside {streams} endless streams of the same owner, "
                   f"alone {alone}")
        with _Streams(server, 64, priority=-1):
            report(f"three tokens take {quick.milliseconds(times)} beside 64 endless streams of the same owner with "
                   f"priority -1")


def _beside_another_key(api, streams, times, seconds, seed, report):
    with directory() as data, Server(api, "--api-key-file", key_file(data, "ab"), model=NOVELS, key="a") as server:
        of_a, of_b = bearer("a"), bearer("b")
        quick = _Quick(server, seed, of_b)
        alone = quick.milliseconds(times)
        with _Streams(server, streams, of_a) as many:
            report(f"three tokens of key b take {quick.milliseconds(times)} beside {streams} endless streams of key a, "
                   f"alone {alone}")
            _share(lambda count: _Streams(server, count, of_b), many, seconds,
                   lambda count: f"{count} streams of key b", f"{streams} of key a", report)


def _beside_another_address(api, streams, times, seconds, seed, report):
    """Without keys. The others have the lowest priority and are no gateway's."""
    with Server(api, model=NOVELS) as server, Relay(server.address, "127.0.0.2") as relay, \
            grpc.insecure_channel(relay.address) as channel:
        there = api.generation_grpc.GenerationServiceStub(channel)
        quick = _Quick(server, seed)
        with _Streams(server, streams, generation=there, priority=-(2**31)) as many:
            report(f"three tokens take {quick.milliseconds(times)} beside {streams} endless streams of another address")
            _share(lambda count: _Streams(server, count), many, seconds,
                   lambda count: f"{count} streams of an address", f"{streams} of another", report)


def _share(begin, many, seconds, few_are, many_are, report):
    """What so few streams get beside the many of another owner."""
    for count in (64, 2):
        with begin(count) as few:
            before = many.tokens, few.tokens
            time.sleep(seconds)
            a, b = many.tokens - before[0], few.tokens - before[1]
            # Two streams ask for two rows of 64.
            owed = 0.5 if count >= 32 else count / 64
            assert b / (a + b) > 0.8 * owed, f"{few_are(count)} got {b} of {a + b} tokens"
            report(f"{few_are(count)} get {100 * b / (a + b):.1f}% of {(a + b) / seconds:.0f} tokens/s beside {many_are}")


LONG_PROMPTS = ["--max-message-bytes", 64 << 20, "--prefix-cache-bytes", 0]


def _long_prompts(server, tokens):
    """Ten, of which every other one goes first by its priority."""
    requests = [server.request(ids=[3 + (i + j) % 256 for j in range(tokens)], model="m", max_tokens=1, ignore_eos=True)
                for i in range(10)]
    for i, request in enumerate(requests):
        request.priority = i % 2 - 1
    return requests


def _beside_long_prompts(api, tokens, times, seed, report):
    """All end."""
    with Server(api, *LONG_PROMPTS) as server:
        quick = _Quick(server, seed)
        requests = _long_prompts(server, tokens)
        ended = []
        for call in [server.generation.Generate(request, timeout=3000) for request in requests]:
            threading.Thread(target=lambda call=call: ended.append(sum(1 for _ in call)), daemon=True).start()
        wait_until(lambda: server.info().requests_running == 10, "ten prompts are being read")
        taken = quick.milliseconds(times)
        assert not ended, "a short request has to be answered before a long prompt ends"
        report(f"three tokens take {taken} beside ten prompts of {tokens} tokens of the same owner")
        wait_until(lambda: len(ended) == 10, "the ten prompts end")


def _chunks_beside_long_prompts(api, tokens, times, report):
    """With a model whose chunks take longer than to ask how many there were, one in each step."""
    with Server(api, *LONG_PROMPTS, "--max-num-batched-tokens", 256, model=NOVELS) as server:
        chunk = server.models.GetModel(api.model.GetModelRequest(name="m")).model.prefill_chunk
        calls = [server.generation.Generate(request, timeout=3000) for request in _long_prompts(server, tokens)]
        wait_until(lambda: server.info().requests_running == 10, "ten prompts are being read")
        chunks = []
        for i in range(times):
            call = server.stream(ids=range(3, 13), model="m", max_tokens=1, ignore_eos=True, seed=i)
            call.initial_metadata()  # it has a state, and waits for its turn
            before = server.info().prefill_tokens_computed
            next(call)
            chunks.append(-(-(server.info().prefill_tokens_computed - before) // chunk))
            list(call)
        for call in calls:
            call.cancel()
    # One more may end while a client asks.
    assert max(chunks) <= MOST_CHUNKS + 1, f"a prompt of 10 tokens had its first token after {chunks} chunks"
    report(f"a prompt of 10 tokens has its first token after {statistics.median(chunks):.0f} chunks beside ten of {tokens} "
           f"(median of {times}; the most {max(chunks)})")


def _beside_another_key_on_all_models(api, seconds, report):
    names = ["m", "m2", "m3", "m4"]
    flags = [flag for name in names[1:] for flag in ("--model", f"{name}={NOVELS}")]
    with directory() as data, \
            Server(api, "--api-key-file", key_file(data, "ab"), *flags, model=NOVELS, key="a") as server, \
            contextlib.ExitStack() as stack:
        many = [stack.enter_context(_Streams(server, 64, bearer("a"), model=name)) for name in names]
        few = stack.enter_context(_Streams(server, 64, bearer("b")))
        before = [streams.tokens for streams in [few, *many]]
        begin = time.monotonic()
        time.sleep(seconds)
        # Tokens come by the step, 64 of them: on a slow machine few steps fit into the time.
        wait_until(lambda: few.tokens - before[0] >= SHARE_STEPS * 64, f"key b has {SHARE_STEPS} tokens in each stream")
        seconds = time.monotonic() - begin
        b, *a = [streams.tokens - begun for streams, begun in zip([few, *many], before)]
        share = b / (b + sum(a))
        # Of the device's time it has half, and its model an eighth more, of key a; the rows of that model's steps go by the
        # same shares, four to one, so that half of the time is half of the rows. Tokens are fewer where steps take longer:
        # this model's take turns among 128 states, the others have the same 64 in each.
        owed = (1 / 2 + 1 / 8) * (4 / 5)
        assert share > 0.8 * owed, f"key b got {b} tokens, key a {a}"
        assert min(a) > 0, f"a model stands still: {a}"
        report(f"64 streams of key b on one model get {100 * share:.1f}% of {(b + sum(a)) / seconds:.0f} tokens/s beside "
               f"64 of key a on each of {len(names)} models")


def _ends_beside_endless_streams(api, streams, grace, report):
    with Server(api, "--shutdown-timeout", grace, model=NOVELS) as server:
        many = _Streams(server, streams)
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(grace + ENDING_SECONDS)
        took = time.monotonic() - begin
        assert code == 0, f"the server ended with {code}:\n{server.stderr()}"
        wait_until(lambda: len(many.ended) == streams, "all streams hear of the end")
    assert set(many.ended) == {grpc.StatusCode.UNAVAILABLE}, many.ended
    report(f"with {streams} endless streams the server ended {took:.1f} s after SIGTERM, of {grace} for them")
