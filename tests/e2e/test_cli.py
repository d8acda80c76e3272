"""The command line client."""

import json
import math
import re
import subprocess

import pytest
from server_process import BIN, GOLDEN, ServerProcess


@pytest.fixture(scope="module")
def call(server, tvq):
    return lambda *arguments, **kwargs: tvq("--server", server.address, *arguments, **kwargs)


def test_generate(call, server):
    expected, _ = server.generate("Once", seed=7, max_tokens=20)
    flags = ["generate", "--model", "bytes", "--prompt", "Once", "--seed", 7, "--max-tokens", 20]
    done = call(*flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == expected[0].text
    as_json = json.loads(call(*flags, "--json").stdout)
    assert as_json["text"] == expected[0].text and as_json["token_ids"] == expected[0].ids
    assert as_json["usage"]["completion_tokens"] == len(expected[0].ids)
    assert as_json["finish_reason"] in ("length", "stop")


def test_generate_reads_stdin(call, server):
    expected, _ = server.generate("Once\n", temperature=0, max_tokens=9)
    done = call("generate", "--model", "bytes", "--temperature", 0, "--max-tokens", 9, input=b"Once\n")
    assert done.stdout.decode() == expected[0].text


def test_standard_files_that_are_closed(server):
    """No connection gets their numbers, and no text of ours goes into one."""
    def run(redirections, *arguments):
        command = " ".join(["exec", str(BIN / "tvq"), "--server", server.address, *arguments, *redirections])
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)

    done = run(["<&-"], "generate", "--max-tokens", "3")
    assert (done.returncode, done.stderr) == (2, "tvq: cannot read stdin: Bad file descriptor\n"), done
    done = run([">&-"], "generate", "--prompt", "Once", "--max-tokens", "3")
    assert done.returncode == 2 and done.stderr.startswith("tvq: cannot write stdout: "), done
    assert run(["<&-", "2>&-"], "generate", "--prompt", "Once", "--max-tokens", "3").returncode == 0
    assert run(["<&-", ">&-", "2>&-"], "info").returncode == 2


def test_samples_and_logprobs(call):
    done = call("generate", "--model", "bytes", "--prompt", "Once", "--n", 3, "--seed", 1, "--logprobs", 2,
                "--max-tokens", 4, "--ignore-eos", "--json")
    *samples, rest = map(json.loads, done.stdout.splitlines())
    assert sorted(s["index"] for s in samples) == [0, 1, 2] and rest["usage"]["completion_tokens"] == 12
    assert all(len(s["logprobs"]) == 4 and len(s["logprobs"][0]["top"]) == 2 for s in samples)


def test_score(call, server, api, tmp_path):
    text = "It was the best of times.\n" * 50
    (tmp_path / "text").write_text(text)
    done = call("score", "--model", "bytes", "--file", tmp_path / "text", "--json")
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    request = api.generation.ScoreRequest(model="bytes", text=text, prepend_eos=True, summary_only=True)
    summary = list(server.generation.Score(request))[-1].summary
    assert got["tokens"] == got["bytes"] == len(text)
    assert math.isclose(got["total_bits"], -summary.total_logprob / math.log(2), rel_tol=1e-9)
    assert math.isclose(got["bits_per_byte"], got["total_bits"] / len(text), rel_tol=1e-9)


def test_tokenize_and_back(call):
    done = call("tokenize", "--model", "bytes", "--text", "aé")
    assert done.stdout.split() == [b"100", b"198", b"172"]
    done = call("detokenize", "--model", "bytes", input=done.stdout)
    assert done.stdout.decode() == "aé"
    assert json.loads(call("detokenize", "--model", "bytes", "100,101", "--json").stdout) == {"text": "ab"}


def test_info(call, server):
    done = call("info")
    assert done.returncode == 0 and b"bytes" in done.stdout and b"sessions" in done.stdout
    info = json.loads(call("info", "--json").stdout)
    assert [m["name"] for m in info["models"]] == ["bytes", "pixels"]
    assert info["models"][0]["eos_token_id"] == 1 and info["models"][1]["eos_token_id"] is None


def test_model_may_be_left_out_where_there_is_one(start, tvq):
    server = start()
    done = tvq("generate", "--prompt", "Once", "--max-tokens", 3, "--ignore-eos", env={"TVQ_SERVER": server.address})
    assert done.returncode == 0, done.stderr


def test_a_model_that_is_not_named_is_the_first(call, tvq, api, server, tmp_path):
    (tmp_path / "pairs").write_text("a\tb\n")
    assert json.loads(call("generate", "--prompt", "Once", "--seed", 7, "--max-tokens", 9, "--json").stdout)["text"] == (
        server.generate("Once", seed=7, max_tokens=9)[0][0].text)
    assert json.loads(call("score", "--json", input=b"a text").stdout)["model"] == "bytes"
    pairs = call("score", "--pairs", tmp_path / "pairs", "--json").stdout.splitlines()
    assert json.loads(pairs[-1])["model"] == "bytes"
    assert call("tokenize", "--text", "a").stdout == b"100\n" and call("detokenize", "100").stdout == b"a"
    for command in (["session", "create", "--json"], ["session", "chat", "--keep", "--max-tokens", 1, "--ignore-eos"]):
        done = call(*command, input=b"Once\n")
        assert done.returncode == 0, done.stderr
    sessions = json.loads(call("session", "list", "--json").stdout)["sessions"]
    assert [session["model"] for session in sessions[-2:]] == ["bytes", "bytes"]
    with ServerProcess(api, "--model", f"pixels={GOLDEN / 'pixels_abs'}") as pixels:
        assert tvq("--server", pixels.address, "draw", "--out", tmp_path / "a.png").returncode == 0


def test_what_the_first_model_cannot_do_is_told(call, tmp_path):
    done = call("draw", "--out", tmp_path / "a.png")
    assert done.returncode == 2 and b"--model: the tokens of bytes are no pixels" in done.stderr
    done = call("encode", "--text", "a")
    assert done.returncode == 1 and b'model: "bytes" has no encoder' in done.stderr and b"can_encode" in done.stderr
    session = call("session", "create").stdout.decode().strip()
    for command in (["save", session], ["append", session, "--text", "a", "--durability", "disk"]):
        done = call("session", *command)
        assert done.returncode == 1 and b"--session-dir" in done.stderr, done.stderr


def test_a_text_that_is_too_large_is_told(call):
    done = call("tokenize", "--model", "bytes", input=(17 << 20) * b"a")
    assert done.returncode == 1 and re.search(rb"RESOURCE_EXHAUSTED: the request has 178\d+ bytes, the server takes at most 16777216;",
                                              done.stderr), done.stderr


@pytest.mark.parametrize("program", ["tvq", "tvq-server", "tvq-gateway", "tvq-loadtest", "tvq-bench", "tvq-verify"])
def test_every_program_tells_its_version(program):
    done = subprocess.run([BIN / program, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "") and re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout), done.stdout


def test_exit_codes(call, tvq, tmp_path):
    assert call("generate", "--model", "bytes", "--prompt", "a", "--top-p", 0).returncode == 1
    no_text = call("generate", "--model", "bytes", "--prompt", "ab\udcff")  # the byte FF
    assert no_text.returncode == 1 and no_text.stderr.startswith(b"tvq: INVALID_ARGUMENT: text: text is not valid UTF-8")
    unknown = call("generate", "--model", "other", "--prompt", "a")
    assert unknown.returncode == 1 and b"NOT_FOUND" in unknown.stderr and b"other" in unknown.stderr
    assert call("generate", "--no-such-flag").returncode == 2
    for flag in ["--max-tokens", "--temperature", "--seed", "--allowed-token-ids", "--prompt-ids"]:
        empty = call("generate", "--model", "bytes", flag, "")
        assert empty.returncode == 2 and flag.encode() in empty.stderr and b"is empty" in empty.stderr, flag
    assert call("detokenize", "--model", "bytes", "").returncode == 2
    assert call().returncode == 2
    assert call("score", "--model", "bytes", "--file", tmp_path / "nothing").returncode == 2
    assert tvq("--server", "127.0.0.1:1", "info").returncode == 3
    slow = call("--timeout", 0.3, "generate", "--model", "bytes", "--prompt", "a", "--max-tokens", 100_000_000,
                "--ignore-eos")
    assert slow.returncode == 4


@pytest.mark.parametrize("command, words", [
    ("", "--server HOST:PORT"),
    ("generate", "--prompt-file FILE"),
    ("score", "--no-eos"),
    ("encode", "--pooling per_token|mean"),
    ("tokenize", "--text TEXT"),
    ("detokenize", "[ids...]"),
    ("info", "how much fits"),
    ("session", "outlive the server"),
    ("session create", "--no-transcript"),
    ("session list", "--parent ID"),
    ("session show", "--transcript"),
    ("session tree", "descends from it"),
    ("session delete", "ids..."),
    ("session append", "--ids INT"),
    ("session fork", "--count INT"),
    ("session mark", "id name"),
    ("session unmark", "id name"),
    ("session rewind", "id mark"),
    ("session save", "id [file]"),
    ("session load", "--label TEXT"),
    ("session chat", "--suffix TEXT"),
    ("admin", "drain"),
    ("admin drain", "--shutdown-timeout SECONDS"),
    ("admin reload", "certificates"),
])
def test_help(tvq, command, words):
    done = tvq(*command.split(), "--help")
    assert done.returncode == 0 and done.stderr == b""
    text = done.stdout.decode()
    assert f"Usage: tvq {command}".rstrip() + " [OPTIONS]" in text and words in text
