"""Sessions of a server that stops: stored, or named as lost."""

import signal
import time

import grpc
import pytest
from server_process import PATIENCE_SECONDS, wait_until
from session_client import SessionClient, refused
from test_shared_redis import redis  # noqa: F401
from test_snapshots import SAMPLING, TEXT, same


@pytest.fixture(params=["directory", "redis"])
def tier(request, tmp_path):
    """The flags of what outlives a server."""
    if request.param == "redis":
        return ["--redis", request.getfixturevalue("redis")]
    return ["--session-dir", tmp_path]


def stop(server):
    server.signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    return server.stderr()


def test_what_will_be_lost_is_told_at_once_and_named_in_the_end(start):
    """Until the last request is done it can be exported."""
    server = start("--shutdown-timeout", PATIENCE_SECONDS)
    client = SessionClient(server)
    session = client.create()
    client.append(session.id, TEXT)
    call = client.stream(client.create().id, TEXT, max_tokens=100_000_000, ignore_eos=True)
    next(call)
    server.signal(signal.SIGTERM)
    wait_until(lambda: "sessions will be lost: 2" in server.stderr(), "it says so")
    snapshot = client.export(session.id)
    call.cancel()
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert f"session {session.id} is lost" in server.stderr()
    client = SessionClient(start())
    assert client.get(client.import_(snapshot).id).position == len(TEXT)


def test_the_next_server_goes_on(tier, start):
    """With the same id and version, bit for bit."""
    server = start(*tier)
    client = SessionClient(server)
    session, empty = client.create(label="tale"), client.create()
    client.append(session.id, TEXT)
    client.generate(session.id, seed=1, max_tokens=5, ignore_eos=True)
    fork, = client.fork(session.id)
    expected = client.generate(fork.id, **SAMPLING).sample
    client.delete(fork.id)
    session, empty = client.get(session.id), client.get(empty.id)
    assert "lost" not in stop(server)
    server = start(*tier)
    client = SessionClient(server)
    found, transcript = client.get(session.id, transcript=True)
    assert (found.version, found.position, found.label) == (session.version, session.position, "tale")
    assert found.create_time == session.create_time and len(transcript) == session.position
    assert found.persisted_version == found.version
    assert client.get(empty.id).version == empty.version
    assert same(client.generate(session.id, **SAMPLING).sample, expected)
    assert server.info().prefill_tokens_computed == 1  # the token that was pending


def test_marks_are_stored_too(tier, start):
    server = start(*tier)
    client = SessionClient(server)
    session = client.create()
    for mark in "one", "two":
        client.append(session.id, TEXT)
        client.mark(session.id, mark)
    client.append(session.id, TEXT)
    client.rewind(session.id, "two")
    fork, = client.fork(session.id, mark="one")
    expected = client.generate(fork.id, **SAMPLING).sample
    client.delete(fork.id)
    marks = client.get(session.id).marks
    assert "lost" not in stop(server)
    client = SessionClient(start(*tier))
    assert list(client.get(session.id).marks) == list(marks)
    assert client.rewind(session.id, "one").position == len(TEXT)
    assert same(client.generate(session.id, **SAMPLING).sample, expected)


def test_a_running_call_commits_before_the_end(start, tmp_path):
    server = start("--session-dir", tmp_path, "--shutdown-timeout", PATIENCE_SECONDS)
    client = SessionClient(server)
    session = client.create()
    call = client.stream(session.id, TEXT, max_tokens=3000, ignore_eos=True)
    next(call)
    server.signal(signal.SIGTERM)
    position = list(call)[-1].session
    assert position.position == len(TEXT) + 3000
    assert server.process.wait(PATIENCE_SECONDS) == 0
    found = SessionClient(start("--session-dir", tmp_path)).get(session.id)
    assert (found.version, found.position) == (position.version, position.position)


def test_a_snapshot_on_its_way_arrives_before_the_end(start, tmp_path):
    server = start("--session-dir", tmp_path, "--shutdown-timeout", PATIENCE_SECONDS)
    client = SessionClient(server)
    snapshot = client.export(client.create().id)

    def slowly():
        yield client.request("ImportSession", create=client.request("CreateSession", label="slow"))
        server.info()  # comes after it on the connection
        server.signal(signal.SIGTERM)
        wait_until(lambda: server.info().draining, "it stops")
        time.sleep(3)  # longer than readers of finished requests get
        yield client.request("ImportSession", chunk=snapshot)

    session = client.stub.ImportSession(slowly()).session
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert SessionClient(start("--session-dir", tmp_path)).get(session.id).label == "slow"


def test_nothing_new_while_it_stops(start):
    server = start("--shutdown-timeout", PATIENCE_SECONDS)
    client = SessionClient(server)
    session = client.create()
    snapshot = client.export(session.id)
    call = client.stream(client.create().id, TEXT, max_tokens=100_000_000, ignore_eos=True)
    next(call)
    server.signal(signal.SIGTERM)
    wait_until(lambda: server.info().draining, "it stops")
    for act in [client.create, lambda: client.append(session.id, "a"), lambda: client.fork(session.id),
                lambda: client.mark(session.id, "m"), lambda: client.import_(snapshot)]:
        assert refused(act)[0] == grpc.StatusCode.UNAVAILABLE
    assert client.get(session.id).version == 1
    assert len(client.export(session.id)) == len(snapshot)
    call.cancel()
    assert server.process.wait(PATIENCE_SECONDS) == 0


def test_a_call_that_takes_too_long_leaves_its_session_at_the_version_before(start, tmp_path):
    server = start("--session-dir", tmp_path, "--shutdown-timeout", 0.2)
    client = SessionClient(server)
    session = client.create()
    client.append(session.id, TEXT)
    call = client.stream(session.id, max_tokens=100_000_000, ignore_eos=True)
    next(call)
    stop(server)
    found = SessionClient(start("--session-dir", tmp_path)).get(session.id)
    assert (found.version, found.position) == (2, len(TEXT))
