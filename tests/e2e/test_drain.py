"""Sessions of a server that stops: stored, handed to another server, or named as lost."""

import concurrent.futures
import hashlib
import signal
import threading
import time

import grpc
import pytest
from certificates import Authority
from server_process import GOLDEN, PATIENCE_SECONDS, run_server, wait_until
from session_client import SessionClient, refused
from test_snapshots import SAMPLING, TEXT, same

USER, ADMIN = "user-key", "admin-key"


@pytest.fixture
def keys(tmp_path):
    """The flags of servers that share a file of keys."""
    file = tmp_path / "keys"
    file.write_text("".join(f"{name} {hashlib.sha256(key.encode()).hexdigest()} {permissions}\n" for name, key, permissions in
                            [("user", USER, "generate,sessions"), ("ops", ADMIN, "admin")]))
    return ["--api-key-file", file]


def stop(server, number=signal.SIGTERM):
    server.signal(number)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    return server.stderr()


def two_sessions(client):
    """One in the midst of its text, one without any; and what the first would say next."""
    session, empty = client.create(label="tale"), client.create()
    client.append(session.id, TEXT)
    client.generate(session.id, seed=1, max_tokens=5, ignore_eos=True)
    fork, = client.fork(session.id)
    expected = client.generate(fork.id, **SAMPLING).sample
    client.delete(fork.id)
    return client.get(session.id), client.get(empty.id), expected


def test_what_is_lost_is_named(start):
    server = start()
    session = SessionClient(server).create()
    assert f"session {session.id} is lost" in stop(server)


def test_nothing_is_lost_with_a_directory(start, tmp_path):
    server = start("--session-dir", tmp_path)
    client = SessionClient(server)
    session = client.create()
    client.append(session.id, TEXT)
    assert "is lost" not in stop(server)
    assert SessionClient(start("--session-dir", tmp_path)).get(session.id).version == 2


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


@pytest.mark.parametrize("durable", [False, True])
def test_the_peer_goes_on(start, keys, tmp_path, durable):
    """With the same id and version, bit for bit; and only there."""
    peer = start(*keys, *(["--session-dir", tmp_path / "peer"] if durable else []))
    flags = [*keys, "--drain-peer", peer.address, "--drain-peer-key", ADMIN]
    if durable:
        flags += ["--session-dir", tmp_path / "here"]
    server = start(*flags)
    session, empty, expected = two_sessions(SessionClient(server, USER))
    text = stop(server)
    assert "took 2 sessions; 0 are left" in text and "lost" not in text
    client = SessionClient(peer, USER)
    found, transcript = client.get(session.id, transcript=True)
    assert (found.version, found.position, found.label) == (session.version, session.position, "tale")
    assert found.create_time == session.create_time and len(transcript) == session.position
    assert found.persisted_version == (found.version if durable else 0)
    assert client.get(empty.id).version == empty.version
    assert same(client.generate(session.id, **SAMPLING).sample, expected)
    assert peer.info(client.metadata).prefill_tokens_computed == 1  # the token that was pending
    if durable:
        assert SessionClient(start(*keys, "--session-dir", tmp_path / "here"), USER).list() == []


def test_marks_go_along(start, keys, tmp_path):
    peer = start(*keys)
    server = start(*keys, "--drain-peer", peer.address, "--drain-peer-key", ADMIN)
    client = SessionClient(server, USER)
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
    assert "took 1 sessions; 0 are left" in stop(server)
    client = SessionClient(peer, USER)
    assert list(client.get(session.id).marks) == list(marks)
    assert client.rewind(session.id, "one").position == len(TEXT)
    assert same(client.generate(session.id, **SAMPLING).sample, expected)


def test_a_session_whose_mark_cannot_be_read_stays(start, keys, tmp_path):
    """Nothing of it is lost here because a part of it is."""
    here = tmp_path / "here"
    server = start(*keys, "--session-dir", here)
    client = SessionClient(server, USER)
    session = client.create()
    client.append(session.id, TEXT)
    marked = client.mark(session.id, "kept")
    client.append(session.id, TEXT, durable=True)
    stop(server)
    file, = [f for f in here.rglob("*") if f.is_file() and session.id in str(f) and str(marked.version) in f.name]
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)
    peer = start(*keys)
    text = stop(start(*keys, "--session-dir", here, "--drain-peer", peer.address, "--drain-peer-key", ADMIN))
    assert f"session {session.id} was not handed over" in text and "lost" not in text
    assert SessionClient(peer, USER).list() == []
    assert SessionClient(start(*keys, "--session-dir", here), USER).get(session.id).position == 2 * len(TEXT)


def test_a_session_that_was_stored_is_kept_if_the_peer_cannot_store_it(start, keys, tmp_path):
    peer = start(*keys)
    server = start(*keys, "--drain-peer", peer.address, "--drain-peer-key", ADMIN, "--session-dir", tmp_path / "here")
    client = SessionClient(server, USER)
    session = client.create(durable=True)
    stop(server)
    assert SessionClient(peer, USER).get(session.id).version == 1
    assert SessionClient(start(*keys, "--session-dir", tmp_path / "here"), USER).get(session.id).version == 1


@pytest.mark.parametrize("key", [ADMIN, USER, "unknown"])
def test_a_peer_that_takes_nothing(start, keys, tmp_path, key):
    """It is gone, or does not let this server in: the sessions are stored here."""
    peer = start(*keys)
    if key == ADMIN:
        stop(peer)
    server = start(*keys, "--drain-peer", peer.address, "--drain-peer-key", key, "--session-dir", tmp_path / "here")
    session, empty, expected = two_sessions(SessionClient(server, USER))
    text = stop(server)
    assert "was not handed over" in text and "lost" not in text
    client = SessionClient(start(*keys, "--session-dir", tmp_path / "here"), USER)
    assert {s.id for s in client.list()} == {session.id, empty.id}
    assert same(client.generate(session.id, **SAMPLING).sample, expected)


def test_a_second_signal_ends_a_session_on_its_way(start, keys, tmp_path, api):
    """The peer has begun to read it and does not go on."""
    begun, end = threading.Event(), threading.Event()

    class Peer(api.admin_grpc.AdminServiceServicer):
        def AdoptSession(self, requests, context):
            next(requests)
            begun.set()
            end.wait()

    peer = grpc.server(concurrent.futures.ThreadPoolExecutor())
    api.admin_grpc.add_AdminServiceServicer_to_server(Peer(), peer)
    port = peer.add_insecure_port("127.0.0.1:0")
    peer.start()
    server = start(*keys, "--session-dir", tmp_path, "--drain-peer", f"127.0.0.1:{port}", "--drain-peer-key", ADMIN,
                   "--shutdown-timeout", 3600)
    session = SessionClient(server, USER).create()
    server.signal(signal.SIGTERM)
    assert begun.wait(PATIENCE_SECONDS)
    text = stop(server, signal.SIGINT)
    end.set()
    peer.stop(None)
    assert f"session {session.id} was not handed over" in text and f"session {session.id} is lost" in text


def test_an_operator_names_the_peer(start, keys):
    """Only the one of the flags: no other server is told the key."""
    peer, other = start(*keys), start(*keys)
    server = start(*keys, "--drain-peer", peer.address, "--drain-peer-key", ADMIN)
    session, _, expected = two_sessions(SessionClient(server, USER))

    def drain(server, named):
        server.api.admin_grpc.AdminServiceStub(server.channel).Drain(
            server.api.admin.DrainRequest(peer=named), metadata=[("authorization", f"Bearer {ADMIN}")])

    for asked in server, other:
        code, message = refused(lambda asked=asked: drain(asked, other.address))
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "peer" in message
    assert server.info([("authorization", f"Bearer {USER}")]).draining is False
    drain(server, peer.address)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert same(SessionClient(peer, USER).generate(session.id, **SAMPLING).sample, expected)


@pytest.mark.parametrize("peer", ["10.1.2.3:50051", "tvq.example:50051", "127.0.0.1.example:50051", "[fe80::1]:50051"])
def test_the_key_goes_to_no_other_machine_in_plain_text(peer):
    done = run_server("--model", f"bytes={GOLDEN / 'bytes_untied'}", "--drain-peer", peer, "--drain-peer-key", "secret")
    assert done.returncode == 2
    assert peer in done.stderr and "--ssl-certfile" in done.stderr and "secret" not in done.stderr


def test_over_tls_with_certificates_on_both_sides(start, keys, tmp_path):
    authority = Authority(tmp_path / "authority")

    def secured(name, *flags):
        certificate, key = authority.issue(name)
        server = start(*keys, "--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certs", authority.ca, *flags)
        server.channel.close()
        certificate, key = authority.issue("client")
        server.channel = grpc.secure_channel(server.address, grpc.ssl_channel_credentials(
            authority.ca.read_bytes(), key.read_bytes(), certificate.read_bytes()))
        return server

    peer = secured("peer")
    server = secured("server", "--drain-peer", peer.address, "--drain-peer-key", ADMIN)
    session = SessionClient(server, USER).create()
    assert "took 1 sessions; 0 are left" in stop(server)
    assert SessionClient(peer, USER).get(session.id).version == 1


def test_adopting_needs_the_admin_permission(start, keys):
    server = start(*keys)
    stub = server.api.admin_grpc.AdminServiceStub(server.channel)
    message = server.api.admin.AdoptSessionRequest(chunk=b"x")
    for key, code in [(USER, grpc.StatusCode.PERMISSION_DENIED), (ADMIN, grpc.StatusCode.INVALID_ARGUMENT)]:
        got, text = refused(lambda key=key: stub.AdoptSession(iter([message]),
                                                             metadata=[("authorization", f"Bearer {key}")]))
        assert got == code, text
