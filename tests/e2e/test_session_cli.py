"""tvq session, and tvq generate on a session, against the server."""

import json
import signal
import subprocess

import pytest
from gateway_process import GatewayProcess
from server_process import BIN, GOLDEN, PATIENCE_SECONDS, ServerProcess, wait_until

TEXT = "It was late in the evening when the carriage stopped before the old house."


class Cli:
    def __init__(self, tvq, address):
        self.tvq, self.address = tvq, address

    def run(self, *arguments, **kwargs):
        return self.tvq("--server", self.address, *arguments, **kwargs)

    def ok(self, *arguments, **kwargs):
        done = self.run(*arguments, **kwargs)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().rstrip("\n")

    def json(self, *arguments, **kwargs):
        return json.loads(self.ok("--json", *arguments, **kwargs))

    def show(self, session_id):
        return self.json("session", "show", session_id)

    def continued(self, session_id):
        """What the session says next: token ids and their log-probabilities."""
        done = self.json("generate", "--session", session_id, "--seed", 5, "--max-tokens", 30, "--ignore-eos",
                         "--logprobs", 0)
        return done["token_ids"], [token["logprob"] for token in done["logprobs"]]


@pytest.fixture
def cli(start, tvq):
    return Cli(tvq, start().address)


def test_a_session_looks_as_it_does_over_http(cli):
    session = cli.ok("session", "create", "--label", "a story", "--ttl", 3600)
    cli.ok("session", "mark", session, "m")
    with GatewayProcess(cli.address) as gateway:
        assert cli.show(session) == gateway.get(f"/v1/sessions/{session}").json
        assert cli.show(cli.json("session", "fork", session)["sessions"][0]["id"])["parent_id"] == session


def test_from_create_to_delete(cli):
    session = cli.ok("session", "create", "--label", "a story", "--ttl", 3600)
    shown = cli.show(session)
    assert (shown["label"], shown["position"]) == ("a story", 0) and shown["expires"] - shown["created"] == 3600
    appended = cli.json("session", "append", session, "--text", TEXT)
    assert appended["tokens"] == appended["position"] == len(TEXT)
    generated = cli.json("generate", "--session", session, "--max-tokens", 20, "--ignore-eos")
    assert generated["session"]["position"] == len(TEXT) + 20
    assert generated["session"]["version"] == appended["version"] + 1
    scored = cli.json("score", "--session", session, input=b" Nobody")
    assert scored["session"]["position"] == len(TEXT) + 27 and scored["scored_tokens"] == 7
    with_transcript = cli.json("session", "show", session, "--transcript")
    assert len(with_transcript["transcript"]) == len(TEXT) + 27
    assert session in cli.ok("session", "list") and "a story" in cli.ok("session", "list")
    cli.ok("session", "delete", session)
    gone = cli.run("session", "show", session)
    assert gone.returncode == 1 and b"NOT_FOUND" in gone.stderr


def test_forks_marks_and_the_tree(cli):
    session = cli.ok("session", "create")
    cli.ok("session", "append", session, "--text", TEXT)
    cli.ok("session", "mark", session, "arrival")
    one, two = cli.ok("session", "fork", session, "--count", 2).split()
    assert cli.continued(one) == cli.continued(two) == cli.continued(session)
    from_mark = cli.ok("session", "fork", session, "--mark", "arrival")
    cli.ok("session", "rewind", session, "arrival")
    assert cli.show(session)["position"] == cli.show(from_mark)["position"] == len(TEXT)
    lines = cli.ok("session", "tree", session).splitlines()
    assert lines[0].startswith(session) and f"[arrival @{len(TEXT)}]" in lines[0]
    assert [line[:3] for line in lines[1:]] == ["├─ ", "├─ ", "└─ "]
    assert {line.split()[1] for line in lines[1:]} == {one, two, from_mark}
    cli.ok("session", "unmark", session, "arrival")
    assert cli.run("session", "rewind", session, "arrival").returncode == 1


def test_versions_and_retries(cli):
    session = cli.ok("session", "create")
    version = cli.json("session", "append", session, "--text", "a")["version"]
    stale = cli.run("generate", "--session", session, "--expected-version", version - 1, "--prompt", "b")
    assert stale.returncode == 1 and b"ABORTED" in stale.stderr
    retried = [cli.json("session", "append", session, "--text", "b", "--idempotency-key", "k") for _ in range(2)]
    assert retried[0]["version"] == retried[1]["version"] == version + 1
    assert cli.show(session)["position"] == 2


def test_snapshot_goes_to_another_server(cli, start, tvq, tmp_path):
    session = cli.ok("session", "create")
    cli.ok("session", "append", session, "--text", TEXT)
    saved = cli.json("session", "save", session, tmp_path / "snapshot")
    assert saved["bytes"] == (tmp_path / "snapshot").stat().st_size > 0
    other = Cli(tvq, start().address)
    moved = other.ok("session", "load", tmp_path / "snapshot", "--label", "moved")
    assert other.show(moved)["position"] == len(TEXT)
    assert other.continued(moved) == cli.continued(session)
    damaged = bytearray((tmp_path / "snapshot").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "snapshot").write_bytes(damaged)
    refused = other.run("session", "load", tmp_path / "snapshot")
    assert refused.returncode == 1 and b"INVALID_ARGUMENT" in refused.stderr


def test_saved_session_survives_kill(api, tvq, tmp_path):
    flags = ["--model", f"bytes={GOLDEN / 'bytes_untied'}", "--session-dir", tmp_path / "sessions"]
    with ServerProcess(api, *flags) as first:
        cli = Cli(tvq, first.address)
        session = cli.ok("session", "create")
        cli.ok("session", "append", session, "--text", TEXT)
        copy = cli.ok("session", "fork", session)
        assert cli.ok("session", "save", session).endswith(", saved")
        expected = cli.continued(copy)
        first.process.kill()
        first.process.wait()
        first.process.returncode = 0  # as told
    with ServerProcess(api, *flags) as second:
        cli = Cli(tvq, second.address)
        assert cli.show(session)["position"] == len(TEXT)
        assert cli.continued(session) == expected


def test_chat(cli):
    session = cli.ok("session", "create")
    said = cli.ok("session", "chat", session, "--json", "--max-tokens", 5, "--ignore-eos", "--suffix", "",
                  input=b"Once\n/mark here\n upon\n/rewind here\n/fork\n\n")
    first, mark, second, rewound, fork, last = map(json.loads, said.splitlines())
    assert first["session"]["position"] == mark["position"] == rewound["position"] == fork["position"] == 9
    assert second["session"]["position"] == 19
    assert last["session"] == {"id": fork["id"], "version": fork["version"] + 1, "position": 14,
                               "persisted_version": 0}


def interrupt(cli, session, *flags):
    """Generates until some text came, then Ctrl-C; returns what was shown, of "a" and "b" alone."""
    run = subprocess.Popen([BIN / "tvq", "--server", cli.address, "generate", "--session", session, "--prompt", "Once",
                            "--max-tokens", "100000000", "--allowed-token-ids", "100,101", *flags],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)  # communicate() skips buffers
    begin = run.stdout.read(1)
    run.send_signal(signal.SIGINT)
    rest, _ = run.communicate(timeout=PATIENCE_SECONDS)
    assert run.returncode == 130
    return (begin + rest).decode()


def test_interrupt_leaves_the_session_as_it_was(cli):
    session = cli.ok("session", "create")
    before = cli.show(session)
    interrupt(cli, session)
    wait_until(lambda: cli.run("session", "append", session, "--text", "a").returncode == 0, "the session is free")
    after = cli.show(session)
    assert (after["version"], after["position"]) == (before["version"] + 1, 1)


def test_interrupt_can_keep_what_came(cli):
    session = cli.ok("session", "create")
    before = cli.show(session)
    shown = interrupt(cli, session, "--commit-on-cancel")
    wait_until(lambda: cli.show(session)["version"] == before["version"] + 1, "the answer was kept")
    transcript = cli.json("session", "show", session, "--transcript")["transcript"]
    kept = cli.json("detokenize", input=" ".join(map(str, transcript)).encode())["text"]
    assert kept.startswith("Once" + shown)
