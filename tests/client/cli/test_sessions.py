"""tvq session, and tvq generate and score on a session."""

import json
import os
import signal
import stat

import pytest


def test_create_prints_the_id(cli, fake):
    assert cli.ok("session", "create", "--label", "mine", "--ttl", 90) == "s1"
    assert fake.sessions["s1"].label == "mine" and fake.sessions["s1"].ttl == 90
    created = cli.json("session", "create", "--durability", "disk", "--no-transcript")
    assert created["id"] == "s2" and created["parent_id"] is None and created["expires"] is None
    assert fake.requests[-1].keep_transcript is False and fake.requests[-1].HasField("keep_transcript")
    cli.ok("session", "create")
    assert not fake.requests[-1].HasField("keep_transcript") and not fake.requests[-1].HasField("ttl")
    cli.ok("session", "create", "--ttl", 2.3)
    assert (fake.requests[-1].ttl.seconds, fake.requests[-1].ttl.nanos) == (2, 300_000_000)


def test_list_follows_pages(cli, fake):
    for i in range(5):
        cli.ok("session", "create", "--label", f"label {i}")
    lines = cli.ok("session", "list").splitlines()
    assert lines[0].split()[:2] == ["ID", "MODEL"] and len(lines) == 6
    assert lines[5].startswith("s5") and lines[5].endswith("label 4")
    assert [s["id"] for s in cli.json("session", "list")["sessions"]] == ["s1", "s2", "s3", "s4", "s5"]
    assert fake.calls.count("ListSessions") == 6


def test_append_and_show(cli, fake, tmp_path):
    cli.ok("session", "create")
    assert cli.ok("session", "append", "s1", "--text", "abc") == "3 tokens: position 3, version 1, not saved"
    (tmp_path / "file").write_text("def")
    assert cli.json("session", "append", "s1", "--file", tmp_path / "file")["position"] == 6
    cli.ok("session", "append", "s1", "--ids", "100,101")
    cli.ok("session", "append", "s1", input=b"stdin\n")
    assert fake.sessions["s1"].text == "abcdefabstdin\n"
    shown = cli.json("session", "show", "s1", "--transcript")
    assert shown["position"] == 14 and len(shown["transcript"]) == 14 and shown["transcript"][0] == 100
    assert "position   14" in cli.ok("session", "show", "s1")


@pytest.mark.parametrize("text", ["other, and longer", "a"])
def test_a_transcript_is_of_one_version(cli, fake, text):
    """A session that changes between the answers that bring its transcript: grows, or is rewound."""
    fake.change_amid_transcript(fake.new_session(text="a text"), text)
    shown = cli.json("session", "show", "s1", "--transcript")
    assert (shown["version"], shown["position"]) == (1, len(text))
    assert shown["transcript"] == [ord(char) + 3 for char in text]


def test_expected_version_durability_and_idempotency(cli, fake):
    cli.ok("session", "create")
    assert cli.json("session", "append", "s1", "--text", "a", "--expected-version", 0, "--durability", "disk")[
        "persisted_version"] == 1
    stale = cli.run("session", "append", "s1", "--text", "b", "--expected-version", 0)
    assert stale.returncode == 1 and b"ABORTED" in stale.stderr and b"version 1" in stale.stderr
    for _ in range(2):
        assert cli.json("session", "append", "s1", "--text", "c", "--idempotency-key", "k")["version"] == 2
    assert fake.sessions["s1"].text == "ac"
    assert cli.run("session", "append", "s1", "--text", "b", "--durability", "paper").returncode == 2


def test_fork_mark_rewind(cli, fake):
    cli.ok("session", "create")
    cli.ok("session", "append", "s1", "--text", "abc")
    cli.ok("session", "mark", "s1", "here")
    cli.ok("session", "append", "s1", "--text", "def")
    assert cli.ok("session", "fork", "s1", "--count", 2, "--label", "copy").split() == ["s2", "s3"]
    assert cli.json("session", "fork", "s1", "--mark", "here")["sessions"][0]["position"] == 3
    assert "position 3" in cli.ok("session", "rewind", "s1", "here")
    assert fake.sessions["s1"].text == "abc" and fake.sessions["s2"].text == "abcdef"
    cli.ok("session", "unmark", "s1", "here")
    assert cli.run("session", "rewind", "s1", "here").returncode == 1


def test_tree(cli):
    cli.ok("session", "create", "--label", "root\x1b[31m")
    cli.ok("session", "append", "s1", "--text", "abc", "--durability", "disk")
    cli.ok("session", "mark", "s1", "start")
    cli.ok("session", "fork", "s1", "--count", 2)
    cli.ok("session", "fork", "s2")
    cli.ok("session", "create")
    assert cli.ok("session", "tree").splitlines() == [
        's1  position 3, version 2, saved at version 1  "root?[31m"  [start @3]',
        "├─ s2  position 3, version 0, not saved, forked at version 2",
        "│  └─ s4  position 3, version 0, not saved, forked at version 0",
        "└─ s3  position 3, version 0, not saved, forked at version 2",
        "s5  position 0, version 0, not saved"]
    assert cli.ok("session", "tree", "s2").splitlines() == [
        "s2  position 3, version 0, not saved, forked from s1 at version 2",
        "└─ s4  position 3, version 0, not saved, forked at version 0"]
    cli.ok("session", "delete", "s1", "s3")
    assert [line.split()[0] for line in cli.ok("session", "tree").splitlines()] == ["s2", "└─", "s5"]
    assert {s["id"]: s["parent_id"] for s in cli.json("session", "tree")["sessions"]} == {
        "s2": "s1", "s4": "s2", "s5": None}
    assert cli.run("session", "tree", "s1").returncode == 1


def test_save_and_load(cli, fake, tmp_path):
    cli.ok("session", "create")
    cli.ok("session", "append", "s1", "--text", "a long text of more than one chunk")
    assert cli.ok("session", "save", "s1") == "position 34, version 1, saved"
    file = tmp_path / "snapshot"
    file.write_text("older")
    saved = cli.json("session", "save", "s1", file)
    assert saved == {"session_id": "s1", "file": str(file), "bytes": file.stat().st_size}
    assert os.listdir(tmp_path) == ["snapshot"]
    assert cli.ok("session", "load", file, "--label", "back") == "s2"
    assert fake.sessions["s2"].text == fake.sessions["s1"].text and fake.sessions["s2"].label == "back"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "what a session holds is its owner's"
    piped = cli.run("session", "save", "s1", "-").stdout
    assert piped == file.read_bytes()
    assert cli.json("session", "load", "-", input=piped)["position"] == 34


def test_save_into_a_pipe(cli, fake, tmp_path):
    """What is no regular file is written, not replaced."""
    fake.new_session(text="a text of more than one chunk")
    expected = cli.run("session", "save", "s1", "-").stdout
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert cli.json("session", "save", "s1", pipe)["bytes"] == len(expected)
        assert os.read(reader, 1 << 16) == expected
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.lstat().st_mode) and os.listdir(tmp_path) == ["pipe"]


def test_save_through_links(cli, fake, tmp_path):
    """The links stay; what they point to is replaced, or made."""
    fake.new_session(text="a text of more than one chunk")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old").write_text("older")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "one").symlink_to("two")
    (tmp_path / "links" / "two").symlink_to("../data/old")
    (tmp_path / "links" / "new").symlink_to(tmp_path / "data" / "new")
    for link, file in (("one", "old"), ("new", "new")):
        cli.ok("session", "save", "s1", tmp_path / "links" / link)
        assert cli.ok("session", "load", tmp_path / "data" / file)
        assert (tmp_path / "links" / link).is_symlink()
    assert sorted(os.listdir(tmp_path / "data")) == ["new", "old"]
    assert sorted(os.listdir(tmp_path / "links")) == ["new", "one", "two"]
    (tmp_path / "links" / "two").unlink()
    (tmp_path / "links" / "two").symlink_to("one")
    circle = cli.run("session", "save", "s1", tmp_path / "links" / "one")
    assert circle.returncode == 2 and b"links/one" in circle.stderr


def test_failed_save_leaves_the_old_file(cli, fake, tmp_path):
    file = tmp_path / "snapshot"
    file.write_text("older")
    assert cli.run("session", "save", "nothing", file).returncode == 1
    assert file.read_text() == "older" and os.listdir(tmp_path) == ["snapshot"]
    fake.new_session()
    nowhere = cli.run("session", "save", "s1", tmp_path / "no" / "where")
    assert nowhere.returncode == 2 and b"no/where" in nowhere.stderr
    assert cli.run("session", "save", "s1", tmp_path).returncode == 2  # a folder
    fake.ExportSession = lambda request, context: iter(())
    assert cli.run("session", "save", "s1", file).returncode == 0  # no bytes, and none promised


def test_truncated_export_is_an_error(cli, fake, tmp_path):
    fake.new_session(text="a text of more than one chunk")
    whole = fake.ExportSession
    fake.ExportSession = lambda request, context: list(whole(request, context))[:-1]
    done = cli.run("session", "save", "s1", tmp_path / "snapshot")
    assert done.returncode == 1 and b"DATA_LOSS" in done.stderr and os.listdir(tmp_path) == []


def test_load_of_what_is_no_snapshot(cli, tmp_path):
    (tmp_path / "file").write_text("no snapshot")
    done = cli.run("session", "load", tmp_path / "file")
    assert done.returncode == 1 and b"INVALID_ARGUMENT" in done.stderr
    assert cli.run("session", "load", tmp_path / "nothing").returncode == 2
    assert cli.run("session", "load", tmp_path).returncode == 2  # a folder


def test_generate_on_a_session(cli, fake):
    cli.ok("session", "create")
    assert cli.ok("generate", "--session", "s1", "--prompt", "ab", "--max-tokens", 3) == "ABA"
    assert fake.sessions["s1"].text == "abABA"
    done = cli.json("generate", "--session", "s1", "--prompt", "c", "--max-tokens", 1, "--expected-version", 1,
                    "--durability", "disk")
    assert done["session"] == {"id": "s1", "version": 2, "persisted_version": 2, "position": 7}
    assert cli.run("generate", "--session", "s1", "--prompt", "c", "--expected-version", 1).returncode == 1
    assert cli.run("generate", "--prompt", "c", "--expected-version", 1).returncode == 2  # of which session?
    assert "session" not in cli.json("generate", "--prompt", "c", "--max-tokens", 1)


def interrupt_generation(cli, fake, *flags):
    fake.token_seconds = 0.005
    fake.new_session()
    run = cli.start("generate", "--session", "s1", "--prompt", "ab", "--max-tokens", 1_000_000, *flags)
    assert run.stdout.read(1) == b"A"
    run.send_signal(signal.SIGINT)
    rest, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    fake.wait_idle("s1")
    return "A" + rest.decode()


def test_interrupt_leaves_the_session_as_it_was(cli, fake):
    interrupt_generation(cli, fake)
    assert fake.sessions["s1"].text == "" and fake.sessions["s1"].version == 0


def test_interrupt_can_commit(cli, fake):
    shown = interrupt_generation(cli, fake, "--commit-on-cancel")
    assert fake.sessions["s1"].text.startswith("ab" + shown) and fake.sessions["s1"].version == 1


def test_score_on_a_session(cli, fake):
    fake.new_session(text="abc")
    scored = cli.json("score", "--session", "s1", input=b"def")
    assert scored["model"] == "fake" and scored["session"]["position"] == 6
    assert not fake.requests[-1].prepend_eos
    assert "session" not in cli.json("score", input=b"def")
    assert fake.requests[-1].prepend_eos


def test_unknown_session(cli):
    for arguments in (["show", "x"], ["append", "x", "--text", "a"], ["fork", "x"], ["mark", "x", "m"],
                      ["unmark", "x", "m"], ["rewind", "x", "m"], ["save", "x"], ["delete", "x"]):
        done = cli.run("session", *arguments)
        assert done.returncode == 1 and b"NOT_FOUND" in done.stderr, arguments
    assert cli.run("session").returncode == 2


def test_delete_as_json(cli, fake):
    fake.new_session()
    fake.new_session()
    assert cli.ok("session", "delete", "s1", "s2", "--json") == '{"deleted":"s1"}\n{"deleted":"s2"}'
    assert fake.sessions == {}


def test_delete_tells_what_it_did_before_it_failed(cli, fake):
    fake.new_session()
    done = cli.run("session", "delete", "s1", "nothing", "--json")
    assert done.returncode == 1 and done.stdout == b'{"deleted":"s1"}\n' and b"nothing" in done.stderr


def test_what_cannot_be_deleted_is_told_and_the_others_are_deleted(cli, fake):
    for _ in range(2):
        fake.new_session()
    done = cli.run("session", "delete", "s1", "none", "s2", "other")
    assert done.returncode == 1 and fake.sessions == {}
    assert done.stderr.count(b"NOT_FOUND") == 2 and b'"none"' in done.stderr and b'"other"' in done.stderr, done.stderr
