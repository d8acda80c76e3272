"""Session, and the Client's methods that give one."""

import os
import re
import stat
from datetime import timedelta

import pytest


def test_create_find_delete(client, fake, tvq):
    session = client.create_session(label="mine", ttl=timedelta(minutes=2), keep_transcript=False, durability="disk")
    assert fake.requests[-1].keep_transcript is False and fake.sessions["s1"].ttl == 120
    assert (session.id, session.model, session.version, session.position) == ("s1", "fake", 0, 0)
    info = session.info()
    assert (info.label, info.parent_id, info.tier, info.has_transcript) == ("mine", None, "host", True)
    assert info.create_time.isoformat() == "2001-09-09T01:46:40+00:00" and info.expire_time is not None
    assert client.session("s1").info().id == "s1"
    session.delete()
    with pytest.raises(tvq.NotFound, match="s1"):
        client.session("s1")


def test_fractions_of_seconds_are_exact_to_the_nanosecond(client, fake):
    for ttl in (2.3, timedelta(seconds=2.3)):
        client.create_session(ttl=ttl)
        assert (fake.requests[-1].ttl.seconds, fake.requests[-1].ttl.nanos) == (2, 300_000_000)
    client.create_session(ttl=0.9999999999)
    assert (fake.requests[-1].ttl.seconds, fake.requests[-1].ttl.nanos) == (1, 0)


def test_append_generate_score(client, fake, tvq):
    session = client.create_session()
    assert session.append("abc") == tvq.Position("s1", 1, 0, 3)
    generation = session.generate("de", max_tokens=3, durability="disk")
    assert generation.text() == "DED" and generation.position == tvq.Position("s1", 2, 2, 8)
    assert (session.version, session.persisted_version, session.position) == (2, 2, 8)
    assert session.score([103]).position.position == 9 and session.version == 3
    assert session.generate(max_tokens=1).text() == "."
    assert fake.sessions["s1"].text == "abcdeDEDd."
    assert session.transcript()[:3] == [100, 101, 102]


def test_the_id_goes_as_a_header_that_a_proxy_can_route_by(client, fake, tvq):
    session = client.create_session()
    session.append("abc")
    session.generate("de", max_tokens=3).text()
    session.score([103])
    assert fake.routes == [None, "s1", "s1", "s1"]
    for id in ["two\nlines", "x" * 1000]:
        with pytest.raises(tvq.NotFound):
            client.session(id)
        assert fake.routes[-1] is None


@pytest.mark.parametrize("text", ["other, and longer", "a"])
def test_a_transcript_is_of_one_version(client, fake, text):
    """A session that changes between the answers that bring its transcript: grows, or is rewound."""
    session = client.create_session()
    session.append("a text")
    fake.change_amid_transcript(fake.sessions["s1"], text)
    assert session.transcript() == [ord(char) + 3 for char in text]


def test_failed_generation_leaves_the_session(client, fake, tvq):
    session = client.create_session()
    with pytest.raises(tvq.InvalidArgument):
        session.generate().text()
    fake.token_seconds = 0.005
    with session.generate("ab", max_tokens=1_000_000) as generation:
        next(generation)
    fake.wait_idle("s1")
    assert session.info().version == 0 and fake.sessions["s1"].text == ""


def test_cancel_can_commit(client, fake):
    session = client.create_session()
    fake.token_seconds = 0.005
    with session.generate("ab", max_tokens=1_000_000, commit_on_cancel=True) as generation:
        next(generation)
    fake.wait_idle("s1")
    assert session.info().version == 1 and fake.sessions["s1"].text.startswith("abA")
    assert session.version == 1  # info() brings it up to date


def test_closes_an_answer(client, fake):
    session = client.create_session()
    session.generate("a", max_tokens=1).text()
    assert not fake.requests[-1].HasField("answer_suffix")
    session.generate("b", max_tokens=1, answer_suffix="").text()
    assert fake.requests[-1].HasField("answer_suffix") and fake.requests[-1].answer_suffix == ""
    session.generate("c", max_tokens=1, answer_suffix="\n").text()
    assert fake.requests[-1].answer_suffix == "\n"


def test_compare_and_swap_and_idempotency(client, fake, tvq):
    one = client.create_session()
    two = client.session(one.id)
    one.append("a", expected_version=one.version)
    with pytest.raises(tvq.Aborted, match="version 1") as refused:
        two.append("b", expected_version=two.version)
    assert refused.value.code == "ABORTED" and refused.value.retry_after is None
    with pytest.raises(tvq.Aborted):
        two.generate("b", expected_version=0).text()
    for _ in range(2):
        assert one.append("c", idempotency_key="k").version == 2
    assert fake.sessions["s1"].text == "ac"
    with pytest.raises(ValueError, match="durability"):
        one.append("c", durability="paper")
    with pytest.raises(TypeError, match="allow_unknown"):
        one.append("c", allow_unknown=True)


def test_fork_mark_rewind(client, fake, tvq):
    session = client.create_session()
    session.append("abc")
    session.mark("here")
    session.append("def")
    fork = session.fork(label="copy")
    assert fork.info().parent_id == "s1" and fork.info().parent_version == 3 and fork.position == 6
    assert [f.position for f in session.forks(2, mark="here")] == [3, 3]
    assert [m.name for m in session.info().marks] == ["here"]
    assert session.rewind("here").position == 3 and session.position == 3
    assert fork.append("x").position == 7 and fake.sessions["s1"].text == "abc"
    session.unmark("here")
    with pytest.raises(tvq.NotFound, match="here"):
        session.rewind("here")


def test_list_follows_pages(client, fake):
    made = [client.create_session() for _ in range(3)]
    fork = made[0].fork()
    assert [s.id for s in client.sessions()] == ["s1", "s2", "s3", "s4"]
    assert [s.id for s in client.sessions(parent_id="s1")] == [fork.id]
    assert fake.calls.count("ListSessions") == 3


def test_save_export_import(client, fake, tvq, tmp_path):
    session = client.create_session()
    session.append("a text of more than one chunk")
    assert session.save().persisted_version == 1
    snapshot = b"".join(session.export())
    file = tmp_path / "snapshot"
    assert session.export_to(file) == len(snapshot) and file.read_bytes() == snapshot
    session.export_to(str(file))  # replaces it
    assert os.listdir(tmp_path) == ["snapshot"]
    for source in (snapshot, file, [snapshot[:5], snapshot[5:]], session.export()):
        again = client.import_session(source, label="back")
        assert again.position == session.position and fake.sessions[again.id].label == "back"
    with pytest.raises(tvq.InvalidArgument, match="truncated"):
        client.import_session(snapshot[:-1])
    with pytest.raises(TypeError):
        client.import_session("snapshot")
    with pytest.raises(FileNotFoundError):
        client.import_session(tmp_path / "nothing")


def test_export_into_a_pipe(client, tmp_path):
    """What is no regular file is written, not replaced."""
    session = client.create_session()
    session.append("a text of more than one chunk")
    expected = b"".join(session.export())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert session.export_to(pipe) == len(expected)
        assert os.read(reader, 1 << 16) == expected
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.lstat().st_mode) and os.listdir(tmp_path) == ["pipe"]


def test_export_through_links(client, tmp_path):
    """The links stay; what they point to is replaced, or made."""
    session = client.create_session()
    session.append("a text of more than one chunk")
    (tmp_path / "old").write_text("older")
    for name in ("old", "new"):
        link = tmp_path / f"link to {name}"
        link.symlink_to(name)
        session.export_to(link)
        assert link.is_symlink() and client.import_session(tmp_path / name).position == session.position
    assert len(os.listdir(tmp_path)) == 4


def test_incomplete_export(client, fake, tvq, tmp_path):
    session = client.create_session()
    whole = fake.ExportSession
    fake.ExportSession = lambda request, context: list(whole(request, context))[:-1]
    (tmp_path / "snapshot").write_text("older")
    with pytest.raises(tvq.DataLoss):
        session.export_to(tmp_path / "snapshot")
    assert os.listdir(tmp_path) == ["snapshot"] and (tmp_path / "snapshot").read_text() == "older"


def test_large_snapshot_goes_in_pieces(client, fake):
    session = client.create_session()
    fake.sessions["s1"].text = "x" * 3_000_000
    from fake_server import to_snapshot
    sizes = []
    taken = fake.ImportSession

    def importing(requests, context):
        def watched():
            for request in requests:
                sizes.append(len(request.chunk))
                yield request
        return taken(watched(), context)

    fake.ImportSession = importing
    assert client.import_session(to_snapshot(fake.sessions[session.id].text)).position == 3_000_000
    assert len(sizes) == 4 and max(sizes) <= 1 << 20


def test_an_argument_that_does_not_fit_is_named(client):
    session = client.create_session()
    for call, words in [(lambda: session.append(5), "prompt: must be a str or token ids, not 5"),
                        (lambda: session.append("a", expected_version="x"), "expected_version: must be an int, not 'x'"),
                        (lambda: session.append("a", idempotency_key=5), "idempotency_key: must be a str, not 5"),
                        (lambda: session.generate("a", answer_suffix=5), "answer_suffix: must be a str, not 5"),
                        (lambda: session.generate("a", commit_on_cancel="x"), "commit_on_cancel: must be True or False"),
                        (lambda: session.score(5), "text: must be a str or token ids, not 5"),
                        (lambda: session.forks("x"), "count: must be an int, not 'x'"),
                        (lambda: session.fork(ttl="x"), "ttl: must be a number of seconds"),
                        (lambda: session.mark(5), "name: must be a str, not 5"),
                        (lambda: session.rewind(None), "mark: must be a str, not None"),
                        (lambda: session.export_to(5), "path: must be a str or a path, not 5")]:
        with pytest.raises((TypeError, ValueError), match=f"^{re.escape(words)}"):
            call()


def test_a_folder_that_is_not_there_is_named_as_it_was_given(client, tmp_path):
    session = client.create_session()
    for path in (str(tmp_path / "none" / "snapshot"), ""):
        with pytest.raises(FileNotFoundError) as away:
            session.export_to(path)
        assert away.value.filename == path
