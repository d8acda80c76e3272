"""Output: what comes when, and what cannot be written."""

import fcntl
import json
import math
import resource
import signal
import subprocess
import threading
import time

import pytest

from command_line import TVQ

FULL = "/dev/full"


@pytest.mark.parametrize("arguments", [
    ["info"],
    ["--json", "info"],
    ["tokenize", "--text", "a"],
    ["detokenize", "5"],
    ["encode", "--text", "a"],
    ["score", "--file", __file__],
    ["generate", "--prompt", "a", "--max-tokens", "3"],
    ["--json", "generate", "--prompt", "a", "--max-tokens", "3"],
    ["generate", "--prompt", "a", "--max-tokens", "3", "--n", "2"],
    ["session", "create"],
    ["session", "list"],
    ["admin", "drain"],
    ["--help"],
    ["generate", "--help"],
    ["--version"],
])
def test_a_full_disk_is_told_of(cli, arguments):
    with open(FULL, "wb") as full:
        done = subprocess.run([TVQ, "--server", cli.address, *arguments], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 2
    assert done.stderr.endswith(b"cannot write stdout: No space left on device\n"), done.stderr
    assert b"RESOURCE_EXHAUSTED" not in done.stderr


def test_a_snapshot_that_cannot_be_written(cli, fake, tmp_path):
    fake.new_session(text="a" * 1000)
    done = cli.run("session", "save", "s1", FULL)
    assert (done.returncode, done.stderr) == (2, b"tvq: cannot write /dev/full: No space left on device\n")
    run = cli.start("session", "save", "s1", tmp_path / "snapshot",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 2 and errors.endswith(b"/snapshot: File too large\n"), errors
    assert not any(tmp_path.iterdir())


def test_a_session_that_nobody_was_told_of_is_deleted(cli, fake, tmp_path):
    parent = fake.new_session(text="a")
    cli.ok("session", "save", parent.id, tmp_path / "snapshot")
    for arguments in (["create"], ["fork", parent.id, "--count", 2], ["load", tmp_path / "snapshot"],
                      ["--json", "create"], ["--json", "fork", parent.id]):
        flags, arguments = [a for a in arguments if a == "--json"], [a for a in arguments if a != "--json"]
        with open(FULL, "wb") as full:
            done = subprocess.run([TVQ, "--server", cli.address, *flags, "session", *map(str, arguments)],
                                  stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 2 and b"cannot write stdout" in done.stderr, done.stderr
        assert list(fake.sessions) == [parent.id], arguments
    with open(FULL, "wb") as full:
        done = subprocess.run([TVQ, "--server", cli.address, "session", "chat", parent.id, "--json"], input=b"/fork\n",
                              stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 2 and list(fake.sessions) == [parent.id]
    with open(FULL, "wb") as full:  # a retry would tell it
        subprocess.run([TVQ, "--server", cli.address, "session", "create", "--idempotency-key", "k"],
                       stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert len(fake.sessions) == 2


def test_nothing_is_computed_for_a_reader_that_has_gone(cli, fake):
    fake.token_seconds = 0.01
    began = time.monotonic()
    call = cli.start("generate", "--prompt", "a", "--max-tokens", 1_000_000,
                     preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
    assert call.stdout.read(3)
    call.stdout.close()
    assert call.wait(60) == 2 and b"Broken pipe" in call.stderr.read()
    assert time.monotonic() - began < 60


def test_a_chat_ends_when_nobody_reads_it(cli, fake):
    created = cli.ok("session", "create")
    with open(FULL, "wb") as full:
        done = subprocess.run([TVQ, "--server", cli.address, "session", "chat", created], input=b"one\ntwo\n",
                              stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 2 and b"cannot write stdout" in done.stderr, done.stderr


def test_only_json_shows_logprobs(cli, fake):
    for command in (["generate", "--prompt", "a"], ["session", "chat"]):
        for option in ("--logprobs", "--prompt-logprobs"):
            done = cli.run(*command, option, 1, input=b"a\n")
            assert done.returncode == 2 and option.encode() in done.stderr, done.stderr
    assert not any(type(request).__name__ == "CreateSessionRequest" for request in fake.requests)


def test_a_chat_has_one_answer(cli, fake):
    done = cli.run("session", "chat", "--n", 2, input=b"a\n")
    assert done.returncode == 2 and b"Unknown option --n" in done.stderr
    assert not any(type(request).__name__ == "CreateSessionRequest" for request in fake.requests)


def test_seeds_may_be_negative(cli, fake):
    for seed, bits in ((-1, 2**64 - 1), (-2**63, 2**63), (2**64 - 1, 2**64 - 1)):
        cli.ok("generate", "--prompt", "a", "--max-tokens", 1, "--seed", seed)
        assert fake.requests[-1].sampling.seed == bits
    too_small = cli.run("generate", "--prompt", "a", "--seed", -2**63 - 1)
    assert too_small.returncode == 2 and b"--seed: -9223372036854775809 is too small" in too_small.stderr


def lines(text):
    return list(map(json.loads, text.splitlines()))


def samples(fake, endless=False):
    """Has Generate answer with three samples, of which the second ends first; or the others do not end."""
    from tvq.v1 import generation_pb2

    def answer(request, context):
        length = generation_pb2.FINISH_REASON_LENGTH
        yield generation_pb2.GenerateResponse(deltas=[{"index": i, "text": "a", "token_ids": [5]} for i in range(3)])
        yield generation_pb2.GenerateResponse(deltas=[{"index": 1, "text": "b", "token_ids": [6], "finish_reason": length}])
        while endless and context.is_active():
            time.sleep(0.01)
        yield generation_pb2.GenerateResponse(deltas=[{"index": i, "finish_reason": length} for i in (0, 2)])
        yield generation_pb2.GenerateResponse(usage=generation_pb2.Usage(prompt_tokens=1, completion_tokens=4))

    fake.Generate = answer


def test_a_line_for_each_sample(cli, fake):
    samples(fake)
    second, first, third, rest = lines(cli.ok("--json", "generate", "--prompt", "a", "--n", 3))
    assert [(s["index"], s["text"], s["finish_reason"]) for s in (first, second, third)] == [
        (0, "a", "length"), (1, "ab", "length"), (2, "a", "length")]
    assert rest["usage"] == {"prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 4}


def test_an_interrupt_keeps_what_came(cli, fake):
    samples(fake, endless=True)
    run = cli.start("--json", "generate", "--prompt", "a", "--n", 3)
    second = json.loads(run.stdout.readline())  # before the others end
    run.send_signal(signal.SIGINT)
    first, third, rest = lines(run.communicate(timeout=60)[0])
    assert run.returncode == 130
    assert rest["usage"] == {"prompt_tokens": None, "cached_tokens": None, "completion_tokens": 4}
    assert [(s["index"], s["text"], s["finish_reason"]) for s in (first, second, third)] == [
        (0, "a", "cancelled"), (1, "ab", "length"), (2, "a", "cancelled")]


def test_an_interrupt_keeps_what_came_of_one_sample(cli, fake):
    fake.token_seconds = 0.01
    run = cli.start("--json", "generate", "--prompt", "ab", "--max-tokens", 1_000_000)
    while "Generate" not in fake.calls:
        time.sleep(0.01)
    time.sleep(1)  # for some of it to come
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    answer, = lines(out)
    assert answer["text"].startswith("AB") and answer["finish_reason"] == "cancelled"
    assert answer["usage"]["completion_tokens"] == len(answer["text"])


@pytest.mark.parametrize("command", [["generate"], ["generate", "--n", 2], ["chat", "--suffix", ""]])
def test_characters_that_end_lines_are_escaped(cli, fake, command):
    text = "A\x85\u2028\u2029"
    prompt, given = (["--prompt", text], b"") if command[0] == "generate" else ([], text.encode())
    out = cli.ok("--json", *command, *prompt, "--max-tokens", len(text), input=given)
    assert lines(out)[0]["text"] == text
    ids = ",".join(str(byte + 3) for byte in text.encode())
    assert lines(cli.ok("--json", "detokenize", ids)) == [{"text": text}]


def test_a_failure_keeps_what_came(cli, fake):
    samples(fake, endless=True)
    done = cli.run("--json", "--timeout", 1, "generate", "--prompt", "a", "--n", 3)
    assert done.returncode == 4 and b"DEADLINE_EXCEEDED" in done.stderr
    assert [s["finish_reason"] for s in lines(done.stdout)[:3]] == ["length", "error", "error"]


def test_an_interrupt_between_two_examples_keeps_what_was_scored(cli, fake, tmp_path):
    (tmp_path / "pairs").write_text("a\tbc\n" * 1000)
    run = cli.start("--json", "score", "--pairs", tmp_path / "pairs")
    fcntl.fcntl(run.stdout, fcntl.F_SETPIPE_SZ, 4096)
    scored = None
    while not scored or scored < fake.calls.count("Score"):  # until the pipe is full, and a line waits to be printed
        scored = fake.calls.count("Score")
        time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    time.sleep(0.5)  # for it to be heard before the line is taken
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    *pairs, total = lines(out)
    assert 1 <= len(pairs) < 1000 and (total["pairs"], total["scored_tokens"]) == (len(pairs), 2 * len(pairs))


def test_an_interrupt_keeps_what_was_scored_of_a_text(cli, fake, tmp_path):
    from tvq.v1 import generation_pb2
    half = threading.Event()

    def answer(request, context):
        tokens = [{"token": {"token_id": 5, "token": b"ab", "logprob": -math.log(4)}, "has_logprob": i > 0} for i in range(3)]
        yield generation_pb2.ScoreResponse(tokens=tokens, tokens_done=3)
        half.set()
        while context.is_active():
            time.sleep(0.01)

    fake.Score = answer
    (tmp_path / "long").write_text("ab" * 100)

    def interrupted(*flags):
        """stdout of a run that has had the first half."""
        for pause in (0.2, 1, 5, 25):  # for it to come
            half.clear()
            run = cli.start(*flags, "score", "--file", tmp_path / "long")
            assert half.wait(60)
            time.sleep(pause)
            run.send_signal(signal.SIGINT)
            out, _ = run.communicate(timeout=60)
            assert run.returncode == 130
            if out:
                return out
        raise AssertionError("nothing is kept")

    for flags in (["--json"], []):
        out = interrupted(*flags)
        if flags:
            total = json.loads(out)
            assert (total["tokens"], total["scored_tokens"], total["bytes"]) == (3, 2, 4)
            assert math.isclose(total["total_bits"], 4, rel_tol=1e-6) and math.isclose(total["bits_per_byte"], 1, rel_tol=1e-6)
        else:
            assert out.startswith(b"1.0000 bits per byte (4.0 bits, 4 bytes, 3 tokens, "), out


def test_an_interrupt_keeps_what_was_scored(cli, fake, tmp_path):
    score = fake.Score

    def answer(request, context):
        if fake.calls.count("Score") > 2:
            while context.is_active():
                time.sleep(0.01)
        return score(request, context)

    fake.Score = answer
    (tmp_path / "pairs").write_text("a\tbc\n\nd\te\nf\tg\n")
    for flags in (["--json"], []):
        fake.calls.clear()
        run = cli.start(*flags, "score", "--pairs", tmp_path / "pairs")
        while fake.calls.count("Score") < 3:
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
        assert run.returncode == 130
        if flags:
            first, second, total = lines(out)
            assert (first["line"], first["scored_tokens"], second["line"], second["scored_tokens"]) == (1, 2, 3, 1)
            assert (total["pairs"], total["scored_tokens"]) == (2, 3)
        else:
            assert out.startswith(b"2 pairs, 3 tokens scored: ")
