"""Sessions over the wire: their calls, their versions, what cancelling and retrying does."""

import random

import grpc
import pytest
from reliability.crowd import all_at_once
from server_process import wait_until
from session_client import SessionClient, refused

Code = grpc.StatusCode
TEXT = "Once upon a time there was a miller who had three sons. "


@pytest.fixture(scope="module")
def client(server):
    return SessionClient(server)


def greedy(client, session_id, prompt=None, count=20, **kwargs):
    return client.generate(session_id, prompt, temperature=0, max_tokens=count, ignore_eos=True, **kwargs)


def test_a_session_from_beginning_to_end(client):
    session = client.create(label="tale")
    assert (session.model, session.version, session.position, session.label) == ("bytes", 1, 0, "tale")
    assert session.bytes > 0 and not session.HasField("expire_time")
    position = client.append(session.id, TEXT)
    assert (position.session_id, position.version, position.position) == (session.id, 2, len(TEXT))
    generated = greedy(client, session.id, "The eldest")
    assert generated.usage.prompt_tokens == len("The eldest") and generated.usage.completion_tokens == 20
    assert (generated.position.version, generated.position.position) == (3, len(TEXT) + 10 + 20)
    session, transcript = client.get(session.id, transcript=True)
    assert (session.version, session.position) == (3, len(TEXT) + 30)
    assert transcript == [byte + 3 for byte in (TEXT + "The eldest").encode()] + generated.ids
    client.delete(session.id)
    assert refused(lambda: client.get(session.id))[0] == Code.NOT_FOUND


def test_a_time_to_live_is_told(client):
    session = client.create(ttl=3600)
    assert session.expire_time.ToSeconds() - session.last_use_time.ToSeconds() == 3600


def test_several_calls_are_one_sequence(server, client):
    """The same calls give the same bits, on a session and on a fork of it; and what a stateless
    request computes from all tokens agrees with it: these few tokens are not a near tie."""
    session = client.create()
    parts = ["Once upon ", "a time there ", "was a king "]
    for part in parts:
        client.append(session.id, part)
    fork, = client.fork(session.id)
    again = client.create()
    for part in parts:
        client.append(again.id, part)
    outputs = [[client.generate(i, text, seed=7, max_tokens=30, ignore_eos=True, logprobs=0).sample
                for text in [" and", " but", None]] for i in [session.id, fork.id, again.id]]
    assert outputs[0] == outputs[1] == outputs[2]
    for sample, other in zip(outputs[0], outputs[2]):
        assert [t.token.logprob for t in sample.logprobs] == [t.token.logprob for t in other.logprobs]
    (stateless,), _ = server.generate("".join(parts) + " and", seed=7, max_tokens=30, ignore_eos=True)
    assert stateless.ids == outputs[0][0].ids


def test_a_continuation_depends_on_nothing_else(client):
    """Bit for bit the same beside others that compute at the same time."""
    alone = client.create()
    client.append(alone.id, TEXT)
    fork, = client.fork(alone.id)
    expected = client.generate(alone.id, seed=3, max_tokens=60, ignore_eos=True, logprobs=0).sample
    others = [client.create() for _ in range(4)]
    streams = [client.stream(other.id, TEXT[i:], max_tokens=200, ignore_eos=True) for i, other in enumerate(others)]
    sample = client.generate(fork.id, seed=3, max_tokens=60, ignore_eos=True, logprobs=0).sample
    assert sample == expected
    assert [t.token.logprob for t in sample.logprobs] == [t.token.logprob for t in expected.logprobs]
    for stream in streams:
        list(stream)


def test_what_a_session_holds_after_a_stop(client):
    """A stop string's tokens are held, an ending id is not."""
    session = client.create()
    free = greedy(client, session.id, TEXT)
    stop = free.sample.text[5:8]
    stopped = client.create()
    generated = greedy(client, stopped.id, TEXT, stop=[stop])
    held = client.get(stopped.id, transcript=True)[1][len(TEXT):]
    assert bytes(i - 3 for i in held).decode().endswith(stop) and held == generated.ids
    ended = client.create()
    end_id = free.ids[4]
    generated = greedy(client, ended.id, TEXT, stop_token_ids=[end_id])
    assert client.get(ended.id, transcript=True)[1][len(TEXT):] == generated.ids == free.ids[:free.ids.index(end_id)]


def test_score_on_a_session(server, client):
    whole = server.api.generation.ScoreRequest(model="bytes", text=TEXT + "The end.")
    expected = [t for r in server.generation.Score(whole) for t in r.tokens]
    session = client.create()
    client.append(session.id, TEXT)
    responses = client.score(session.id, "The end.")
    tokens = [t for r in responses for t in r.tokens]
    assert [t.token.token_id for t in tokens] == [t.token.token_id for t in expected[len(TEXT):]]
    assert all(t.has_logprob for t in tokens)
    for one, other in zip(tokens, expected[len(TEXT):]):
        assert one.token.logprob == pytest.approx(other.token.logprob, abs=1e-3)
    summary = responses[-1].summary
    assert (summary.tokens, summary.scored_tokens) == (8, 8)
    assert summary.total_logprob == pytest.approx(sum(t.token.logprob for t in tokens), abs=1e-4)
    assert responses[-1].session.position == len(TEXT) + 8
    assert client.get(session.id).position == len(TEXT) + 8


def test_fork_mark_and_rewind(client):
    session = client.create(label="root")
    client.append(session.id, TEXT)
    marked = client.mark(session.id, "here")
    first = client.generate(session.id, seed=1, max_tokens=20, ignore_eos=True)
    forks = client.fork(session.id, count=3, mark="here", label="leaf")
    assert [(f.parent_id, f.label, f.position) for f in forks] == [(session.id, "leaf", len(TEXT))] * 3
    for fork in forks:
        assert client.generate(fork.id, seed=1, max_tokens=20, ignore_eos=True).sample == first.sample
    rewound = client.rewind(session.id, "here")
    assert rewound.position == marked.position and rewound.version > first.position.version
    assert [m.name for m in client.get(session.id).marks] == ["here"]
    assert client.generate(session.id, seed=1, max_tokens=20, ignore_eos=True).sample == first.sample
    assert {s.id for s in client.list(parent_id=session.id)} == {f.id for f in forks}
    client.do("UnmarkSession", session=client.call(session.id), name="here")
    assert refused(lambda: client.rewind(session.id, "here"))[0] == Code.NOT_FOUND


def test_list_in_pages(start):
    client = SessionClient(start())
    made = [client.create(label=str(i)).id for i in range(7)]
    assert [s.id for s in client.list(page_size=3)] == made
    assert [s.id for s in client.list()] == made
    assert client.list(model="nothing") == []
    code, message = refused(lambda: client.list(page_size=1001))
    assert code == Code.INVALID_ARGUMENT and message.startswith("page_size:")


@pytest.mark.parametrize("act, code, words", [
    (lambda c, s: c.append("0" * 32, "a"), Code.NOT_FOUND, "session"),
    (lambda c, s: c.append("", "a"), Code.INVALID_ARGUMENT, "session.session_id:"),
    (lambda c, s: c.append(s, ""), Code.INVALID_ARGUMENT, "text: is empty"),
    (lambda c, s: c.append(s, ids=[1000]), Code.INVALID_ARGUMENT, "token_ids[0]:"),
    (lambda c, s: c.append(s, "a", version=9), Code.ABORTED, "expected_version"),
    (lambda c, s: c.append(s, "a", version=0), Code.INVALID_ARGUMENT, "session.expected_version:"),
    (lambda c, s: c.append(s, "a", key="k" * 129), Code.INVALID_ARGUMENT, "session.idempotency_key:"),
    (lambda c, s: c.generate(s), Code.INVALID_ARGUMENT, "for the session has none"),
    (lambda c, s: c.generate(s, "a", n=2), Code.INVALID_ARGUMENT, "fork"),
    (lambda c, s: c.generate(s, "a", model="pixels"), Code.INVALID_ARGUMENT, "model:"),
    (lambda c, s: c.generate(s, "a", version=3), Code.ABORTED, "expected_version"),
    (lambda c, s: c.generate(s, "a", top_p=2), Code.INVALID_ARGUMENT, "top_p"),
    (lambda c, s: c.fork(s, count=129), Code.INVALID_ARGUMENT, "count:"),
    (lambda c, s: c.fork(s, mark="none"), Code.NOT_FOUND, "none"),
    (lambda c, s: c.mark(s, ""), Code.INVALID_ARGUMENT, "name:"),
    (lambda c, s: c.create(model="none"), Code.NOT_FOUND, "model:"),
    (lambda c, s: c.create(ttl=-1), Code.INVALID_ARGUMENT, "ttl:"),
    (lambda c, s: c.create(label="x" * 257), Code.INVALID_ARGUMENT, "label:"),
    (lambda c, s: c.save(s), Code.FAILED_PRECONDITION, "must be started with --session-dir"),
    (lambda c, s: c.append(s, "a", durable=True), Code.FAILED_PRECONDITION, "without --session-dir"),
    (lambda c, s: c.generate(s, "a", durable=True), Code.FAILED_PRECONDITION, "without --session-dir"),
])
def test_what_is_refused_changes_nothing(client, act, code, words):
    session = client.create()
    got, message = refused(lambda: act(client, session.id))
    assert got == code, message
    assert words in message
    after = client.get(session.id)
    assert (after.version, after.position) == (1, 0)
    client.append(session.id, "a")


def test_one_writer_at_a_time(server, client):
    session = client.create()
    running = client.stream(session.id, "Once", max_tokens=100_000_000, ignore_eos=True)
    next(running)
    for act in [lambda: client.append(session.id, "a"), lambda: client.fork(session.id),
                lambda: client.generate(session.id, "a"), lambda: client.delete(session.id)]:
        assert refused(act)[0] == Code.ABORTED
    assert client.get(session.id).version == 1
    running.cancel()
    client.when_free(lambda: client.append(session.id, "a"))
    assert client.get(session.id).version == 2


def test_two_threads_take_turns(client):
    """Compare and swap: of many writers at one version exactly one wins."""
    session = client.create()
    outcomes = []

    def write(_):
        for _ in range(20):
            version = client.get(session.id).version
            try:
                outcomes.append(client.append(session.id, "x", version=version).version)
            except grpc.RpcError as e:
                assert e.code() == Code.ABORTED

    all_at_once(write, range(4))
    after = client.get(session.id)
    assert outcomes and sorted(outcomes) == list(range(2, after.version + 1))
    assert after.position == len(outcomes)


@pytest.mark.parametrize("commit", [False, True])
def test_cancel_at_random_points(server, client, commit):
    """Without commit_on_cancel a cancelled call leaves no trace; with it, what was generated so far:
    exactly the tokens that a call which was not cancelled generates first."""
    chance = random.Random(5)
    base = client.create()
    client.append(base.id, TEXT)
    reference, = client.fork(base.id)
    whole = client.generate(reference.id, "So", seed=11, max_tokens=400, ignore_eos=True).ids
    for _ in range(25):
        session, = client.fork(base.id)
        call = client.stream(session.id, "So", version=1, seed=11, max_tokens=100_000_000, ignore_eos=True,
                             commit_on_cancel=commit)
        seen = 0
        wanted = chance.choice([0, 1, 3, 30, 100])
        while seen < wanted:
            seen += sum(len(d.token_ids) for d in next(call).deltas)
        call.cancel()
        # From here on the call is refused if it is still on its way: it expects another version.
        client.when_free(lambda: client.mark(session.id, "cancelled"))
        after, = client.fork(session.id)
        session, transcript = client.get(session.id, transcript=True)
        assert after.position == session.position == len(transcript)
        if session.version == 2:
            assert session.position == len(TEXT)
            assert not (commit and seen > 0)
        else:
            assert commit and session.version == 3
            generated = transcript[len(TEXT) + 2:]
            assert len(generated) >= seen
            assert generated[:400] == whole[:len(generated)]
            if len(generated) < 300:  # it goes on as if nothing had happened
                more = client.generate(session.id, seed=11, max_tokens=50, ignore_eos=True).ids
                assert len(more) == 50
    server.wait_idle()


def test_deadline_leaves_the_session(client):
    session = client.create()
    client.append(session.id, TEXT)
    code, _ = refused(lambda: client.generate(session.id, "So", max_tokens=100_000_000, ignore_eos=True, timeout=0.3))
    assert code == Code.DEADLINE_EXCEEDED
    client.when_free(lambda: client.append(session.id, "a", version=2))


def test_deadline_in_append(client):
    session = client.create()
    request = client.request("AppendSession", session=client.call(session.id), text="x" * 3_000_000)
    with pytest.raises(grpc.RpcError) as caught:
        client.stub.AppendSession(request, timeout=2)
    assert caught.value.code() == Code.DEADLINE_EXCEEDED
    assert client.when_free(lambda: client.append(session.id, "a", version=1)).position == 1


def test_retries_are_answered_not_repeated(client):
    session = client.create()
    first = client.append(session.id, TEXT, key="append")
    assert client.append(session.id, TEXT, key="append", version=1) == first
    generated = client.generate(session.id, "So", key="generate", max_tokens=20, ignore_eos=True, logprobs=2,
                                prompt_logprobs=1, echo=True)
    again = client.stream(session.id, "So", key="generate", max_tokens=20, ignore_eos=True, logprobs=2,
                          prompt_logprobs=1, echo=True)
    message, = list(again)
    delta, = message.deltas
    assert (delta.text, list(delta.token_ids)) == (generated.sample.text, generated.ids)
    assert list(delta.logprobs) == generated.sample.logprobs
    assert delta.finish_reason == generated.sample.finish
    assert (message.usage, message.session) == (generated.usage, generated.position)
    assert len(message.prompt_logprobs) == 2
    scored = client.score(session.id, "end", key="score")
    message, = client.score(session.id, "end", key="score")
    assert (message.summary, message.session) == (scored[-1].summary, scored[-1].session)
    assert [t for r in scored for t in r.tokens] == list(message.tokens)
    assert client.get(session.id).version == 4
    code, text = refused(lambda: client.append(session.id, "a", key="generate"))
    assert code == Code.INVALID_ARGUMENT and "asked something else" in text


def test_retry_of_a_call_that_was_cancelled_and_committed(client):
    session = client.create()
    call = client.stream(session.id, TEXT, key="k", max_tokens=100_000_000, ignore_eos=True, commit_on_cancel=True)
    seen = 0
    while seen < 20:
        seen += sum(len(d.token_ids) for d in next(call).deltas)
    call.cancel()
    again = client.when_free(lambda: client.generate(session.id, TEXT, key="k", max_tokens=100_000_000,
                                                     ignore_eos=True, commit_on_cancel=True))
    held, transcript = client.get(session.id, transcript=True)
    assert again.position.version == held.version == 2
    assert again.ids == transcript[len(TEXT):] and len(again.ids) >= seen
    assert again.sample.finish == client.api.generation.FINISH_REASON_CANCELLED


def test_a_reply_too_large_to_repeat(client):
    session = client.create()
    arguments = dict(key="k", max_tokens=4000, ignore_eos=True, logprobs=20)
    first = client.generate(session.id, TEXT, **arguments)
    code, message = refused(lambda: client.generate(session.id, TEXT, **arguments))
    assert code == Code.FAILED_PRECONDITION
    assert f"version {first.position.version} at position {first.position.position}" in message
    assert client.get(session.id).version == 2


def test_create_is_made_once(client):
    first = client.create(idempotency_key="once")
    assert client.create(idempotency_key="once").id == first.id
    assert client.create(idempotency_key="twice").id != first.id


def test_a_transcript_can_be_off(client):
    session = client.create(keep_transcript=False)
    client.append(session.id, TEXT)
    session, transcript = client.get(session.id, transcript=True)
    assert not session.has_transcript and transcript == [] and session.position == len(TEXT)


def test_limit_per_key(start):
    client = SessionClient(start("--max-sessions-per-key", 2))
    kept = [client.create(), client.create()]
    with pytest.raises(grpc.RpcError) as caught:
        client.create()
    assert caught.value.code() == Code.RESOURCE_EXHAUSTED
    assert int(dict(caught.value.trailing_metadata())["grpc-retry-pushback-ms"]) > 0
    client.delete(kept[0].id)
    client.create()


def test_limit_of_all(start):
    client = SessionClient(start("--max-sessions", 2))
    kept = [client.create()]
    with pytest.raises(grpc.RpcError, match="the limit of 2 .--max-sessions."):
        client.fork(kept[0].id, count=2)
    kept.append(client.create())
    with pytest.raises(grpc.RpcError, match="the limit of 2 .--max-sessions.") as caught:
        client.create()
    assert caught.value.code() == Code.RESOURCE_EXHAUSTED
    assert int(dict(caught.value.trailing_metadata())["grpc-retry-pushback-ms"]) > 0
    client.delete(kept[0].id)
    client.create()


def test_owners_do_not_see_each_other(start, tmp_path):
    import hashlib
    keys = tmp_path / "keys"
    lines = [("alice", "a-key", "generate,sessions"), ("bob", "b-key", "generate,sessions"),
             ("carol", "c-key", "generate")]
    keys.write_text("".join(f"{name} {hashlib.sha256(key.encode()).hexdigest()} {permissions}\n"
                            for name, key, permissions in lines))
    server = start("--api-key-file", keys)
    alice, bob, carol = (SessionClient(server, key) for _, key, _ in lines)
    session = alice.create(idempotency_key="k")
    alice.append(session.id, TEXT)
    assert bob.list() == [] and [s.id for s in alice.list()] == [session.id]
    assert bob.create(idempotency_key="k").id != session.id
    for act in [lambda: bob.get(session.id), lambda: bob.append(session.id, "a"), lambda: bob.fork(session.id),
                lambda: bob.generate(session.id, "a"), lambda: bob.score(session.id, "a"),
                lambda: bob.delete(session.id), lambda: bob.mark(session.id, "m")]:
        code, message = refused(act)
        absent = refused(lambda: bob.get("f" * 32))
        assert code == Code.NOT_FOUND
        assert message.replace(session.id, "f" * 32) == absent[1]
    assert refused(lambda: carol.create())[0] == Code.PERMISSION_DENIED
    assert refused(lambda: carol.generate(session.id, "a"))[0] == Code.PERMISSION_DENIED
    assert carol.generation.Generate(server.request("a", max_tokens=1), metadata=carol.metadata)
    assert refused(lambda: SessionClient(server).get(session.id))[0] == Code.UNAUTHENTICATED
    assert alice.get(session.id).version == 2


def test_large_append_is_cancelled_in_prefill(server, client):
    session = client.create()
    request = client.request("AppendSession", session=client.call(session.id), text="x" * 3_000_000)
    call = client.stub.AppendSession.future(request)
    wait_until(lambda: server.info().requests_running == 1, "it computes")
    call.cancel()
    server.wait_idle()
    assert client.when_free(lambda: client.append(session.id, "a")).position == 1
