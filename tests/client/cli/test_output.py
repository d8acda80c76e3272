"""Output that cannot be written."""

import signal
import subprocess
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
    assert b"cannot write stdout" in done.stderr and b"No space left on device" in done.stderr, done.stderr


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
