"""Sessions that leave the server and come back: exported, imported, found after the end of the process."""

import random
import signal

import grpc
import pytest
from metrics_endpoint import Metrics
from server_process import GOLDEN, PATIENCE_SECONDS, ServerProcess
from session_client import CHUNK, SessionClient, Stopped, cancel_uploads, refused

Code = grpc.StatusCode
TEXT = "Once upon a time there was a miller who had three sons. "
SAMPLING = dict(seed=9, max_tokens=40, ignore_eos=True, logprobs=0)


def same(one, other):
    return one == other and [t.token.logprob for t in one.logprobs] == [t.token.logprob for t in other.logprobs]


@pytest.fixture(scope="module")
def client(server):
    return SessionClient(server)


@pytest.fixture(scope="module")
def snapshot(client):
    session = client.create()
    client.append(session.id, TEXT)
    client.generate(session.id, seed=1, max_tokens=5, ignore_eos=True)  # the last token is pending
    return client.export(session.id)


@pytest.fixture(params=["exact", "int8"])
def reading_client(request, client, start):
    """Of a server whose steps read states exactly, and of one whose steps read a copy and leave rows out."""
    if request.param == "exact":
        return client
    return SessionClient(start("--state-read-dtype", "int8", "--attention-skip-mass", "0.05"))


def kill(server):
    server.process.kill()
    server.process.wait(PATIENCE_SECONDS)
    server.process.returncode = 0  # as expected


def test_an_imported_session_goes_on_bit_for_bit(reading_client):
    client = reading_client
    session = client.create(label="tale", ttl=1000)
    client.append(session.id, TEXT)
    client.generate(session.id, seed=1, max_tokens=5, ignore_eos=True)
    snapshot = client.export(session.id)
    copies = [client.import_(snapshot, label="copy"), client.import_(snapshot, chunk=1000, model="bytes")]
    expected = client.generate(session.id, **SAMPLING).sample
    original, transcript = client.get(session.id, transcript=True)
    for copy in copies:
        assert copy.id != session.id
        assert same(client.generate(copy.id, **SAMPLING).sample, expected)
        after, ids = client.get(copy.id, transcript=True)
        assert (after.position, ids) == (original.position, transcript)
    assert client.get(copies[0].id).label == "copy"


def test_to_another_server(client, snapshot, start):
    other = SessionClient(start())
    imported = other.import_(snapshot)
    assert imported.model == "bytes"
    here = client.import_(snapshot)
    assert same(other.generate(imported.id, **SAMPLING).sample, client.generate(here.id, **SAMPLING).sample)


def test_export_of_a_session_in_use_is_of_its_committed_state(server, client, snapshot):
    session = client.import_(snapshot)
    running = client.stream(session.id, max_tokens=100_000_000, ignore_eos=True)
    next(running)
    copy = client.import_(client.export(session.id))
    running.cancel()
    assert copy.position == session.position
    server.wait_idle()


def test_export_may_expect_a_version(client, snapshot):
    session = client.import_(snapshot)
    assert refused(lambda: client.export(session.id, version=session.version + 1))[0] == Code.ABORTED


def refuses(client, snapshot, code, **kwargs):
    before = len(client.list())
    got, message = refused(lambda: client.import_(snapshot, **kwargs))
    assert got == code, message
    assert len(client.list()) == before
    return message


def test_truncated(client, snapshot):
    for size in [0, 1, 7, 8, 100, len(snapshot) // 2, len(snapshot) - 1]:
        refuses(client, snapshot[:size], Code.INVALID_ARGUMENT)


def test_more_than_a_snapshot(client, snapshot):
    refuses(client, snapshot + b"\0", Code.INVALID_ARGUMENT)


def test_one_bit_flipped(client, snapshot):
    """Anywhere: in what names the format, another one is seen; else it is corrupt."""
    chance = random.Random(3)
    bits = list(range(0, 64 * 8, 7)) + [chance.randrange(len(snapshot) * 8) for _ in range(150)]
    for bit in bits:
        flipped = bytearray(snapshot)
        flipped[bit // 8] ^= 1 << bit % 8
        code, message = refused(lambda flipped=flipped: client.import_(bytes(flipped)))
        assert code in (Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION), f"bit {bit}: {code} {message}"
        assert bit < 64 * 8 or code == Code.INVALID_ARGUMENT, f"bit {bit}: {message}"


def test_nothing_of_the_kind(client):
    for content in [b"x", b"\0" * 1000, TEXT.encode() * 1000]:
        refuses(client, content, Code.INVALID_ARGUMENT)


def test_of_another_model(client, snapshot, api):
    told = refuses(client, snapshot, Code.FAILED_PRECONDITION, model="pixels")
    assert "another model" in told
    assert told.endswith('; it was tried with the model "pixels", and the snapshot says that it is of "bytes"')
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'pixels_abs'}") as server:
        refuses(SessionClient(server), snapshot, Code.FAILED_PRECONDITION)


def test_what_is_no_snapshot_is_told_how_one_begins(client):
    for upload, told in [(b"text", 'the 8 bytes that it begins with, "TVQSNAPS": ends at byte 4, must have 8 more from byte 0 on'),
                         (b"no snapshot", 'begins with "no snaps", must begin with "TVQSNAPS"')]:
        assert refuses(client, upload, Code.INVALID_ARGUMENT) == f"snapshot: {told}"


def test_there_and_back_through_a_server_that_reads_states_otherwise(client, snapshot, start):
    """What decode reads is no part of a snapshot."""
    other = SessionClient(start("--state-read-dtype", "int8"))
    back = client.import_(other.export(other.import_(snapshot).id))
    here = client.import_(snapshot)
    assert same(client.generate(back.id, **SAMPLING).sample, client.generate(here.id, **SAMPLING).sample)


def test_of_another_dtype(snapshot, start):
    message = refuses(SessionClient(start("--state-dtype", "bfloat16")), snapshot, Code.FAILED_PRECONDITION)
    assert "bfloat16" in message and "float32" in message


def test_larger_than_the_limit(snapshot, start):
    client = SessionClient(start("--max-snapshot-bytes", len(snapshot) - 1))
    refuses(client, snapshot, Code.RESOURCE_EXHAUSTED)
    client = SessionClient(start("--max-snapshot-bytes", len(snapshot)))
    client.import_(snapshot)


def test_messages_out_of_order(client, snapshot):
    def send(*messages):
        with pytest.raises(grpc.RpcError) as caught:
            client.stub.ImportSession(iter(messages))
        assert caught.value.code() == Code.INVALID_ARGUMENT
        return caught.value.details()

    create = client.request("CreateSession")
    chunk = client.request("ImportSession", chunk=snapshot[:1000])
    first = client.request("ImportSession", create=create, chunk=snapshot[:1000])
    assert "no message" in send()
    assert send(chunk).startswith("create:")
    assert send(first, first).startswith("create:")
    assert send(client.request("ImportSession", create=create, chunk=b"x" * (CHUNK + 1))).startswith("chunk:")


def test_cancelled_upload_leaves_nothing(start, snapshot):
    metrics = Metrics(start)
    client = SessionClient(metrics.server)
    cancel_uploads(client.stub.ImportSession.future,
                   client.request("ImportSession", create=client.request("CreateSession")),
                   client.request("ImportSession", chunk=b"x" * CHUNK), metrics, "SessionService/ImportSession")
    assert client.list() == []
    client.import_(snapshot)


def test_upload_that_stops_is_ended(start, snapshot):
    client = SessionClient(start("--paused-timeout", 1))
    first = client.request("ImportSession", create=client.request("CreateSession"), chunk=snapshot[:1000])
    with Stopped([first]) as upload:
        assert refused(lambda: client.stub.ImportSession(iter(upload)))[0] == Code.DEADLINE_EXCEEDED
    client.import_(snapshot)


def test_restart(start, tmp_path):
    """Everything that was committed is there after a graceful stop, and goes on bit for bit."""
    server = start("--session-dir", tmp_path / "sessions")
    client = SessionClient(server)
    session = client.create(label="tale", ttl=100_000)
    client.append(session.id, TEXT)
    client.mark(session.id, "here")
    client.generate(session.id, seed=1, max_tokens=5, ignore_eos=True)
    fork, = client.fork(session.id)
    copy = client.import_(client.export(session.id))
    empty = client.create()
    expected = client.generate(copy.id, **SAMPLING).sample
    before = {s.id: s for s in client.list()}
    server.signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    client = SessionClient(start("--session-dir", tmp_path / "sessions"))
    after = {s.id: s for s in client.list()}
    assert after.keys() == before.keys()
    for id, found in after.items():
        known = before[id]
        assert (found.version, found.position, found.label, found.parent_id) == (
            known.version, known.position, known.label, known.parent_id)
        assert found.persisted_version == found.version and found.create_time == known.create_time
    for id in [session.id, fork.id]:
        assert same(client.generate(id, **SAMPLING).sample, expected)
    assert client.server.info().prefill_tokens_computed == 2  # of each the token that was pending
    assert client.rewind(session.id, "here").position == len(TEXT)
    client.append(empty.id, TEXT)


def test_killed(start, tmp_path):
    """What was acknowledged as saved is found; what was not may be at an earlier version."""
    server = start("--session-dir", tmp_path / "sessions")
    client = SessionClient(server)
    saved, durable, lost = client.create(), client.create(durable=True), client.create()
    client.append(saved.id, TEXT)
    assert client.save(saved.id).persisted_version == 2
    position = client.append(durable.id, TEXT, durable=True)
    assert position.persisted_version == position.version == 2
    generated = client.generate(durable.id, durable=True, seed=1, max_tokens=5, ignore_eos=True)
    assert generated.position.persisted_version == generated.position.version == 3
    client.append(lost.id, TEXT)
    reference, = client.fork(durable.id)
    expected = client.generate(reference.id, **SAMPLING).sample
    kill(server)
    client = SessionClient(start("--session-dir", tmp_path / "sessions"))
    assert client.get(saved.id).version == 2
    found, transcript = client.get(durable.id, transcript=True)
    assert (found.version, found.position, len(transcript)) == (3, len(TEXT) + 5, len(TEXT) + 5)
    assert same(client.generate(durable.id, **SAMPLING).sample, expected)


def test_killed_at_random_points(start, tmp_path):
    """Rounds of a writer whose server dies under it: every version that was acknowledged is there."""
    chance = random.Random(8)
    known = {}
    for _ in range(4):
        server = start("--session-dir", tmp_path / "sessions")
        client = SessionClient(server)
        for id, version in known.items():
            assert client.get(id).version >= version
        id = client.create(durable=True).id
        known[id] = 1
        rounds = chance.randrange(1, 8)
        for _ in range(rounds):
            known[id] = client.append(id, TEXT, durable=True).version
        pending = client.stub.AppendSession.future(client.request(
            "AppendSession", session=client.call(id, durable=True), text=TEXT))
        kill(server)
        pending.exception()


def test_a_corrupt_file_harms_only_its_session(start, tmp_path):
    directory = tmp_path / "sessions"
    server = start("--session-dir", directory)
    client = SessionClient(server)
    good, bad = client.create(), client.create()
    for session in [good, bad]:
        client.append(session.id, TEXT, durable=True)
    server.signal(signal.SIGTERM)
    server.process.wait(PATIENCE_SECONDS)
    file, = [f for f in (directory / bad.id).iterdir() if f.suffix == ".snap"]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
    client = SessionClient(start("--session-dir", directory))
    assert refused(lambda: client.generate(bad.id, **SAMPLING))[0] == Code.DATA_LOSS
    assert client.generate(good.id, **SAMPLING).usage.completion_tokens == 40


def test_no_two_servers_in_a_directory(start, tmp_path):
    from server_process import run_server
    start("--session-dir", tmp_path)
    done = run_server("--model", f"bytes={GOLDEN / 'bytes_untied'}", "--session-dir", tmp_path)
    assert done.returncode == 1 and str(tmp_path) in done.stderr
