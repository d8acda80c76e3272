"""Two servers that share a Redis: a session goes on wherever its client calls, and no version is lost."""

import shutil
import signal
import socket
import subprocess

import grpc
import pytest
from server_process import PATIENCE_SECONDS, wait_until
from session_client import SessionClient, refused
from test_snapshots import SAMPLING, TEXT, kill, same

Code = grpc.StatusCode


@pytest.fixture
def redis(tmp_path):
    """The URL of a Redis of the test's own."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", tmp_path],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def answers():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    wait_until(answers, "Redis answers")
    yield f"redis://127.0.0.1:{port}"
    process.kill()
    process.wait()


def test_a_session_goes_on_at_the_other_server(redis, start):
    one, two = (SessionClient(start("--redis", redis)) for _ in range(2))
    session = one.create(durable=True)
    one.append(session.id, TEXT, durable=True)
    one.mark(session.id, "here", durable=True)
    one.generate(session.id, seed=1, max_tokens=5, ignore_eos=True, durable=True)
    reference, = one.fork(session.id)
    expected = one.generate(reference.id, **SAMPLING).sample
    before, transcript = one.get(session.id, transcript=True)
    found, ids = two.get(session.id, transcript=True)
    assert (found.version, found.position, ids) == (before.version, before.position, transcript)
    assert same(two.generate(session.id, durable=True, **SAMPLING).sample, expected)
    assert two.rewind(session.id, "here", durable=True).position == len(TEXT)
    # The first server lost nothing that was not stored, so it goes on where the other is.
    there = two.get(session.id)
    here = one.append(session.id, "x", durable=True)
    assert (here.version, here.position) == (there.version + 1, there.position + 1)
    assert two.get(session.id).version == here.version


def test_what_is_made_by_default_is_found_by_others(redis, start):
    one, two = (SessionClient(start("--redis", redis)) for _ in range(2))
    made = one.do("CreateSession", model="bytes").session
    assert two.append(made.id, TEXT).position == len(TEXT)
    use = two.api.session.SessionCall(session_id=made.id)
    fork, = two.do("ForkSession", session=use).sessions
    assert one.get(fork.id).position == len(TEXT)
    alone = one.create(durable=False)
    code, message = refused(lambda: two.get(alone.id))
    assert code == Code.NOT_FOUND, message


def test_a_server_that_stops_sends_clients_elsewhere_at_once(redis, start):
    """While its longest call goes on, its sessions go on at another server, at their newest version."""
    stopping = start("--redis", redis, "--shutdown-timeout", PATIENCE_SECONDS)
    one, two = SessionClient(stopping), SessionClient(start("--redis", redis))
    idle, ending, busy = (one.create() for _ in range(3))
    newest = one.append(idle.id, TEXT)
    last = one.stream(ending.id, TEXT, max_tokens=5000, ignore_eos=True)
    next(last)
    stream = one.stream(busy.id, TEXT, max_tokens=100_000_000, ignore_eos=True, commit_on_cancel=True)
    next(stream)
    stopping.signal(signal.SIGTERM)

    def closed():
        try:
            socket.create_connection(tuple(stopping.address.rsplit(":", 1)), timeout=1).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(closed, "the port closes")
    def elsewhere():
        """Between the port's closing and that, calls succeed; then they are CANCELLED until the connection has told to go."""
        try:
            one.get(idle.id)
        except grpc.RpcError as error:
            return error.code() == Code.UNAVAILABLE
        return False

    wait_until(elsewhere, "clients are sent elsewhere")
    assert two.append(idle.id, "x").version == newest.version + 1
    position = list(last)[-1].session
    assert two.get(ending.id).version == position.version
    next(stream)  # goes on
    stream.cancel()
    assert stopping.process.wait(PATIENCE_SECONDS) == 0
    assert two.get(busy.id).version == 2


def test_a_version_that_was_never_stored_is_lost_and_told(redis, start):
    one, two = (SessionClient(start("--redis", redis)) for _ in range(2))
    session = one.create(durable=True)
    stored = one.append(session.id, TEXT, durable=True)
    one.append(session.id, "in memory alone")
    taken = two.append(session.id, "y", durable=True)
    assert (taken.version, taken.position) == (stored.version + 1, stored.position + 1)
    code, message = refused(lambda: one.append(session.id, "x"))
    assert code == Code.ABORTED, message
    assert one.get(session.id).version == taken.version
    assert one.append(session.id, "x", durable=True).position == taken.position + 1


def test_after_the_end_of_the_first_server(redis, start):
    server = start("--redis", redis)
    one = SessionClient(server)
    stopped, killed = one.create(), one.create()
    one.append(stopped.id, TEXT)
    one.append(killed.id, TEXT, durable=True)
    server.signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    second = start("--redis", redis)
    two = SessionClient(second)
    assert {s.id for s in two.list()} == {stopped.id, killed.id}
    two.append(killed.id, TEXT, durable=True)
    kill(second)
    three = SessionClient(start("--redis", redis))
    assert three.get(killed.id).position == 2 * len(TEXT)
    assert three.append(stopped.id, TEXT).position == 2 * len(TEXT)


def test_a_server_that_stops_takes_no_session_from_another(redis, start):
    server, other = start("--redis", redis), start("--redis", redis)
    one, two = SessionClient(server), SessionClient(other)
    theirs = two.create(durable=True)
    one.get(theirs.id)
    two.append(theirs.id, TEXT)  # in the other's memory alone
    saved, unsaved = one.create(durable=True), one.create()
    one.append(unsaved.id, TEXT)
    server.signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert "lost" not in server.stderr()
    assert two.append(theirs.id, TEXT).position == 2 * len(TEXT)
    assert two.append(saved.id, TEXT).position == len(TEXT)
    assert two.append(unsaved.id, TEXT).position == 2 * len(TEXT)


def test_no_redis_is_an_error_at_the_start():
    from server_process import GOLDEN, run_server
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = run_server("--model", f"bytes={GOLDEN / 'bytes_untied'}", "--redis",
                          f"redis://:secret@127.0.0.1:{free.getsockname()[1]}")
    assert done.returncode == 1 and "redis" in done.stderr.lower() and "secret" not in done.stderr


def test_a_redis_that_ends_is_told(redis, start):
    """What is in memory goes on; what must be stored is refused, and nothing half done."""
    server = start("--redis", redis)
    client = SessionClient(server)
    session = client.create(durable=True)
    port = redis.rsplit(":", 1)[1]
    subprocess.run(["redis-cli", "-p", port, "shutdown", "nosave"], capture_output=True)
    wait_until(lambda: refused_to_connect(int(port)), "Redis is gone")
    assert client.append(session.id, TEXT).version == 2
    code, message = refused(lambda: client.append(session.id, TEXT, durable=True))
    assert code == Code.UNAVAILABLE, message
    assert (client.get(session.id).version, client.get(session.id).position) == (2, len(TEXT))
    assert client.generate(session.id, **SAMPLING).position.version == 3
    kill(server)  # it would go on trying to store


def refused_to_connect(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
