"""What is said in a terminal, and nowhere else."""

import os
import re
import time

import pytest

@pytest.mark.parametrize("arguments, what", [
    (["generate", "--max-tokens", 3], "prompt"),
    (["generate", "--max-tokens", 3, "--prompt", "-"], "prompt"),
    (["score"], "text"),
    (["tokenize"], "text"),
    (["detokenize"], "token ids"),
    (["encode"], "text"),
    (["session", "append", "s1"], "text"),
])
def test_says_what_is_to_be_typed(terminal, fake, arguments, what):
    fake.new_session()
    run = terminal(*arguments)
    run.wait_for(f"tvq: type the {what}; Ctrl-D at the beginning of a line ends it\r\n")
    run.type("100\n\x04")
    assert run.end() == 0, run.text


def test_what_is_typed_is_the_prompt(terminal, fake):
    run = terminal("generate", "--max-tokens", 4)
    run.wait_for("type the prompt")
    run.type("ab\n\x04")
    assert run.end() == 0 and fake.requests[-1].text == "ab\n"


def test_a_session_goes_on_without_a_prompt(terminal, fake):
    fake.new_session(text="abc")
    run = terminal("generate", "--session", "s1", "--max-tokens", 2)
    assert run.end() == 0 and run.text == "..\r\n"


def test_nothing_is_said_elsewhere(cli):
    done = cli.run("generate", "--max-tokens", 3, input=b"ab")
    assert (done.stdout, done.stderr) == (b"ABA", b"")


@pytest.mark.parametrize("flags", [[], ["--n", 2]])
def test_the_line_ends_after_an_interrupt(terminal, fake, flags):
    fake.token_seconds = 0.005
    run = terminal("generate", "--prompt", "ab", "--max-tokens", 1_000_000, *flags)
    while "Generate" not in fake.calls:
        time.sleep(0.01)
    if not flags:
        run.wait_for("ABAB")
    run.interrupt()
    assert run.end() == 130 and run.text.endswith("\r\n") and not run.text.endswith("\r\n\r\n")


def test_the_line_ends_where_nothing_runs_yet(terminal):
    run = terminal("tokenize")
    run.wait_for("ends it\r\n")
    run.interrupt()
    assert run.end() == 130 and run.text.endswith("ends it\r\n\r\n")


def test_an_error_has_a_line_of_its_own(terminal, fake):
    fake.token_seconds = 0.01
    run = terminal("--timeout", 1, "generate", "--prompt", "ab", "--max-tokens", 1_000_000)
    assert run.end() == 4 and "\r\ntvq: DEADLINE_EXCEEDED" in run.text


def test_no_snapshot_in_a_terminal(terminal, fake):
    fake.new_session()
    for name in ("-", "/dev/stdout"):
        run = terminal("session", "save", "s1", name)
        assert run.end() == 2 and "file: a terminal cannot show a snapshot" in run.text
    assert "ExportSession" not in fake.calls


def drawing(fake):
    """The fake's model draws."""
    from tvq.v1 import model_pb2
    model = fake.model()
    model.image.CopyFrom(model_pb2.ImageShape(height=4, width=4, channels=1, levels=2, first_token_id=3))
    fake.model = lambda: model


@pytest.mark.parametrize("arguments, what, call", [
    (["session", "load"], "snapshot", "ImportSession"),
    (["draw", "--out", os.devnull, "--complete"], "PNG file", "Generate"),
    (["score", "--images"], "images", "Score"),
])
@pytest.mark.parametrize("name, said", [("-", "stdin"), ("/dev/stdin", "/dev/stdin")])
def test_what_is_no_text_is_not_typed(terminal, fake, arguments, what, call, name, said):
    drawing(fake)
    run = terminal(*arguments, name)
    run.wait_for(f"{said}: a terminal cannot give the {what}; name a file, or pipe one into stdin\r\n")
    assert run.end() == 2 and "type the" not in run.text and call not in fake.calls


LONG = "a" * 10_000


def slow(answer, seconds=1.5):
    """The same answer of a server that first reads for so long."""
    def answer_later(request, context):
        time.sleep(seconds)
        return answer(request, context)

    return answer_later


def test_shows_that_a_long_prompt_is_read(terminal, fake, tmp_path):
    (tmp_path / "long").write_text(LONG)
    fake.Generate = slow(fake.Generate)
    run = terminal("generate", "--prompt-file", tmp_path / "long", "--max-tokens", 3)
    run.wait_for("\rreading 10,000 tokens … 1 s")
    assert run.end() == 0
    assert re.search(r"\r\x1b\[Kread 10,000 tokens in \d\.\d s \([\d,]+ tokens/s\)\r\nAAA\r\n$", run.text), run.text


def test_shows_that_a_session_reads_a_long_text(terminal, fake, tmp_path):
    (tmp_path / "long").write_text(LONG)
    fake.new_session()
    fake.AppendSession = slow(fake.AppendSession)
    run = terminal("session", "append", "s1", "--file", tmp_path / "long")
    run.wait_for("\rreading 10,000 tokens … 1 s")
    assert run.end() == 0 and re.search(r"read 10,000 tokens in .*\r\n10000 tokens: position 10000", run.text), run.text


@pytest.mark.parametrize("command, method", [(["generate", "--max-tokens", 3, "--prompt-file"], "Generate"),
                                             (["session", "append", "s1", "--file"], "AppendSession")])
@pytest.mark.parametrize("others", [0, 1])
def test_shows_how_much_of_a_long_prompt_is_read_while_nothing_else_runs(terminal, fake, tmp_path, command, method, others):
    from tvq.v1 import model_pb2
    (tmp_path / "long").write_text(LONG)
    fake.new_session()

    def info(request, context):
        reads = method in fake.calls
        return model_pb2.GetServerInfoResponse(requests_running=others + reads,
                                               prefill_tokens_computed=500 + 4_000 * reads)

    fake.GetServerInfo = info
    setattr(fake, method, slow(getattr(fake, method), seconds=2))
    run = terminal(*command, tmp_path / "long")
    run.wait_for(" … 1 s" if others else "\rreading 10,000 tokens [##########               ] 40%, ")
    assert run.end() == 0 and ("40%" in run.text) == (not others), run.text


def test_shows_how_much_of_a_text_is_scored(terminal, fake, tmp_path):
    from tvq.v1 import generation_pb2
    (tmp_path / "long").write_text(LONG)
    score = fake.Score

    def answer(request, context):
        yield generation_pb2.ScoreResponse(tokens_done=4_000)
        time.sleep(1.5)
        yield from score(request, context)

    fake.Score = answer
    run = terminal("score", "--file", tmp_path / "long")
    run.wait_for("\rreading 10,000 tokens [##########               ] 40%, ")
    assert run.end() == 0
    assert re.search(r"40%, [\d,]+ tokens/s, 1 s.*\r\x1b\[K\d\.\d+ bits per byte", run.text, re.DOTALL), run.text


@pytest.mark.parametrize("prompt, stderr", [("a", True), (LONG, False)])
def test_shows_nothing_of_a_short_prompt_or_elsewhere(terminal, fake, tmp_path, prompt, stderr):
    (tmp_path / "prompt").write_text(prompt)
    fake.Generate = slow(fake.Generate)
    with open(tmp_path / "stderr", "w+") as file:
        run = terminal("generate", "--prompt-file", tmp_path / "prompt", "--max-tokens", 3,
                       **({} if stderr else {"stderr": file}))
        assert run.end() == 0 and "read" not in run.text
        assert (tmp_path / "stderr").read_text() == ""
