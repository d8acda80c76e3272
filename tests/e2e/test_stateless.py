"""GenerateWithState: the state travels with the call, and the server keeps nothing."""

import grpc
import pytest
from metrics_endpoint import Metrics
from reliability.crowd import all_at_once
from server_process import ROOT, wait_until
from session_client import CHUNK, Generated, SessionClient, Stopped, cancel_uploads, refused
from test_keys import bearer, line
from test_snapshots import TEXT, same

Code = grpc.StatusCode


@pytest.fixture(scope="module")
def client(server):
    return SessionClient(server)


def messages(server, state, chunk=CHUNK, **request):
    WithState = server.api.generation.GenerateWithStateRequest
    yield WithState(generate=server.request(**request))
    for i in range(0, len(state), chunk):
        yield WithState(chunk=state[i:i + chunk])


def stateless(server, state=b"", chunk=CHUNK, **request):
    """What was generated, and the state after it."""
    generated, total, parts = Generated(), None, []
    for response in server.generation.GenerateWithState(messages(server, state, chunk, **request)):
        if response.HasField("generate"):
            assert not parts, "output after the state"
            generated.add(response.generate)
        if response.chunk:
            assert generated.usage is not None and len(response.chunk) <= CHUNK
            total = total or response.total_bytes
            parts.append(response.chunk)
    state = b"".join(parts)
    assert total == len(state)
    return generated, state


def test_as_a_session_bit_for_bit(server, client):
    """The same calls, the state kept by the client, then by the server, then by the client again."""
    steps = [dict(text=TEXT), dict(text="So he "), dict()]
    session = client.create()
    expected = [client.generate(session.id, seed=4, max_tokens=20, ignore_eos=True, logprobs=0, **step) for step in steps]
    state, sessions = b"", len(client.list())
    for step, wanted in zip(steps, expected):
        generated, state = stateless(server, state, seed=4, max_tokens=20, ignore_eos=True, logprobs=0, **step)
        assert same(generated.sample, wanted.sample)
        assert generated.usage == wanted.usage
    assert len(client.list()) == sessions
    imported = client.import_(state)
    assert imported.position == client.get(session.id).position
    more = dict(seed=5, max_tokens=20, ignore_eos=True, logprobs=0)
    assert same(client.generate(imported.id, **more).sample, client.generate(session.id, **more).sample)
    exported, _ = stateless(server, client.export(imported.id), chunk=10_000, **more)
    assert same(exported.sample, client.generate(session.id, **more).sample)


def test_an_empty_beginning_starts_from_the_end_id(server):
    generated, state = stateless(server, seed=1, max_tokens=5, ignore_eos=True)
    assert generated.usage.prompt_tokens == 1 and state


@pytest.mark.parametrize("request_, code, words", [
    (dict(n=2, text="a"), Code.INVALID_ARGUMENT, "n:"),
    (dict(text="a", model="pixels"), Code.FAILED_PRECONDITION, "another model"),
    (dict(text="a", model="none"), Code.NOT_FOUND, "model:"),
    (dict(text="a", top_p=3), Code.INVALID_ARGUMENT, "top_p"),
])
def test_refused(server, request_, code, words):
    _, state = stateless(server, text="Once", max_tokens=1)
    got, message = refused(lambda: stateless(server, state, **request_))
    assert got == code and words in message


def test_bad_states(server):
    _, state = stateless(server, text="Once", max_tokens=1)
    for bad in [b"x", state[:-1], state[:len(state) // 2], state + b"x"]:
        assert refused(lambda bad=bad: stateless(server, bad, text="a"))[0] == Code.INVALID_ARGUMENT


def test_messages_out_of_order(server):
    WithState = server.api.generation.GenerateWithStateRequest
    first = WithState(generate=server.request("a"))
    for wrong in [[], [WithState(chunk=b"a")], [first, first], [first, WithState(chunk=b"x" * (CHUNK + 1))]]:
        call = server.generation.GenerateWithState(iter(wrong))
        assert refused(lambda call=call: call)[0] == Code.INVALID_ARGUMENT
    request = server.request("a")
    request.session.session_id = "0" * 32
    call = server.generation.GenerateWithState(iter([WithState(generate=request)]))
    code, message = refused(lambda: call)
    assert code == Code.INVALID_ARGUMENT and "session" in message


def test_cancel_amid_uploads(start):
    metrics = Metrics(start)
    WithState = metrics.server.api.generation.GenerateWithStateRequest
    cancel_uploads(metrics.server.generation.GenerateWithState,
                   WithState(generate=metrics.server.request("Once")), WithState(chunk=b"x" * CHUNK), metrics,
                   "GenerationService/GenerateWithState")
    assert stateless(metrics.server, text="Once", max_tokens=2)


def test_cancel_amid_output(server):
    call = server.generation.GenerateWithState(
        messages(server, b"", text="Once", max_tokens=100_000_000, ignore_eos=True))
    next(call)
    call.cancel()
    server.wait_idle()
    assert stateless(server, text="Once", max_tokens=2)


def test_a_client_that_waits_loses_the_call(start):
    server = start("--paused-timeout", 1)
    with Stopped(messages(server, b"", text="Once")) as upload:
        call = server.generation.GenerateWithState(iter(upload))
        assert refused(lambda: call)[0] == Code.DEADLINE_EXCEEDED


def test_states_that_nobody_takes_leave_room_for_others(start, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(line("greedy", "alpha") + line("other", "beta"))
    server = start("--model", f"novels={ROOT / 'models' / 'zoo' / 'novels'}", "--api-key-file", keys,
                   "--state-memory-bytes", 40 << 20, "--paused-timeout", 3600)  # some nine states
    # Takes a few bytes of what it is sent.
    small = [("grpc.http2.lookahead_bytes", 1), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.address, options=small) as channel:
        stub = server.api.generation_grpc.GenerationServiceStub(channel)
        request = dict(text="Once", model="novels", max_tokens=1, ignore_eos=True)
        calls = [stub.GenerateWithState(messages(server, b"", **request), metadata=bearer("alpha")) for _ in range(20)]

        def left():
            info = server.info(bearer("beta"))
            return info.requests_running == 0 and info.requests_waiting > 0 and info.left_state_bytes > 0

        wait_until(left, "states are all that keeps requests waiting")
        assert list(server.generation.Generate(server.request(**request), metadata=bearer("beta"), timeout=60))
        for call in calls:
            call.cancel()
        wait_until(lambda: server.info(bearer("beta")).left_state_bytes == 0, "the states are given back")


def test_many_at_once(server, client):
    """Each gets, to the bit, what a session alone gets."""
    steps = [[dict(text=f"{i}. {TEXT}", max_tokens=5, seed=i, ignore_eos=True, logprobs=0),
              dict(max_tokens=10, seed=100 + i, ignore_eos=True, logprobs=0)] for i in range(8)]
    expected = []
    for first, second in steps:
        session = client.create()
        expected.append([client.generate(session.id, **first).sample, client.generate(session.id, **second).sample])
    results = [None] * len(steps)

    def run(i):
        first, state = stateless(server, **steps[i][0])
        second, _ = stateless(server, state, **steps[i][1])
        results[i] = [first.sample, second.sample]

    all_at_once(run, range(8))
    for samples, wanted in zip(results, expected):
        assert [len(sample.ids) for sample in samples] == [5, 10]
        assert all(same(sample, other) for sample, other in zip(samples, wanted))
