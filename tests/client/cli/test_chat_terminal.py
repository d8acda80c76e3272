"""tvq chat in a terminal: what keys do."""

import os
import re
import signal
import time

import pytest

from command_line import TVQ

UP, LEFT, DELETE, HOME = "\x1b[A", "\x1b[D", "\x1b[3~", "\x1b[H"
PROMPT = "> "


@pytest.fixture(params=["xterm"])
def chat(request, terminal, fake, monkeypatch):
    """A chat on session s1: what is asked is what its text has before the answer."""
    monkeypatch.setenv("TERM", request.param)
    fake.token_seconds = 0.005
    fake.new_session()
    return start(terminal)


def start(terminal, *arguments):
    run = terminal("chat", *(arguments or ("s1", "--suffix", "", "--max-tokens", 1)))
    run.wait_for(PROMPT)
    return run


def say(run, line):
    """Types a line, and waits until it is answered: the terminal keeps what is typed meanwhile, but not all keys."""
    run.text = ""
    run.type(line + "\n")
    run.wait_for("\x1b[?2004h")


def asked(fake, count):
    """The text of each call, when there are so many."""
    deadline = time.monotonic() + 60
    while True:
        texts = [request.text for request in fake.requests if hasattr(request, "sampling")]
        if len(texts) >= count or time.monotonic() > deadline:
            return texts
        time.sleep(0.01)


def both_terminals(function):
    """With an editor, and in a terminal that has no keys for one."""
    return pytest.mark.parametrize("chat", ["xterm", "dumb"], indirect=True)(function)


@both_terminals
def test_errors_are_told_and_the_chat_goes_on(chat, fake):
    chat.type("/rewind nowhere\n")
    chat.wait_for("NOT_FOUND")
    chat.type("abc\n")
    assert asked(fake, 1) == ["abc"]
    chat.type("/quit\n")
    assert chat.end() == 0


@both_terminals
def test_ctrl_c_ends_the_answer_and_not_the_chat(chat, terminal, fake):
    run = start(terminal, "s1", "--suffix", "")
    run.type("abc\n")
    run.wait_for("ABCABC")
    run.text = ""
    run.type("\x03")
    run.wait_for("\r\n" + (PROMPT if os.environ["TERM"] == "dumb" else "\x1b[?2004h"))
    run.type("\x03")  # at the prompt: only a hint
    run.wait_for("/quit leaves")
    run.type("/quit\n")
    assert run.end() == 0
    fake.wait_idle("s1")
    assert fake.sessions["s1"].text.startswith("abcABCABC")


@both_terminals
def test_a_second_ctrl_c_at_the_prompt_leaves(chat):
    chat.type("\x03")
    chat.wait_for("/quit leaves")
    chat.type("\x03")
    assert chat.end() == 130


@both_terminals
def test_ctrl_d_leaves(chat, fake):
    chat.type("\x04")
    assert chat.end() == 0 and "Generate" not in fake.calls


@both_terminals
def test_a_new_session_is_deleted_at_the_end(chat, terminal, fake):
    run = start(terminal, "--max-tokens", 1)
    run.type("a\n")
    asked(fake, 1)
    assert len(fake.sessions) == 2
    run.type("/quit\n")
    assert run.end() == 0 and list(fake.sessions) == ["s1"]


@both_terminals
@pytest.mark.parametrize("typed, text", [
    ("a\\\nb\\\n\nc", "a\nb\n"),
    ('"""\n/a\n\nb\\\n"""\nc', "/a\n\nb\\"),
    ('"""a\nb"""\nc', "a\nb"),
    ("//a\nc", "/a"),
])
def test_messages_of_several_lines(chat, fake, typed, text):
    chat.type(typed + "\n")
    assert asked(fake, 2) == [text, "c"]


@both_terminals
def test_undo_takes_the_last_message_back(chat, fake):
    for number, line in enumerate(["a", "b", "/undo", "c"]):
        chat.type(line + "\n")
        if line == "/undo":
            chat.wait_for("position 2, ")
        else:
            asked(fake, number + 1 if number < 2 else 3)
    fake.wait_idle("s1")
    assert fake.sessions["s1"].text == "aAcC"
    chat.type("/undo\n/undo\n")
    chat.wait_for("undo: nothing was said since")
    chat.type("/quit\n")
    assert chat.end() == 0 and fake.sessions["s1"].text == "aA" and not fake.sessions["s1"].marks


@pytest.mark.parametrize("arguments", [[], ["--keep"]])
def test_undo_leaves_no_mark_and_cannot_be_repeated(terminal, fake, monkeypatch, arguments):
    monkeypatch.setenv("TERM", "xterm")
    run = start(terminal, "--suffix", "", "--max-tokens", 1, *arguments)
    run.type("a\n/undo\n/undo\n")
    run.wait_for("undo: nothing was said since")
    assert not fake.sessions["s1"].marks
    run.type("b\n/fork\n/quit\n")
    assert run.end() == 0 and [session.marks for session in fake.sessions.values()] == [{}, {}]


def test_undo_where_nothing_was_said(chat):
    chat.type("/undo\n")
    chat.wait_for("tvq: undo: nothing was said yet")  # the name of a status would help nobody


def test_undo_brings_the_system_message_back(terminal, fake, monkeypatch):
    from tvq.v1 import model_pb2
    monkeypatch.setenv("TERM", "xterm")
    role = model_pb2.ChatTemplate.Role
    fake.chat_template = model_pb2.ChatTemplate(user=role(prefix="U:"), system=role(prefix="S:"), assistant=role())
    run = start(terminal, "--system", "x", "--max-tokens", 1)
    run.type("a\n/undo\nb\nc\n")
    assert asked(fake, 3) == ["S:xU:a", "S:xU:b", "U:c"]


def test_a_message_is_answered_where_there_is_no_room_for_marks(chat, fake):
    import grpc
    from fake_server import Refused
    fake.refuse["MarkSession"] = Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "no room")
    chat.type("a\n")
    assert asked(fake, 1) == ["a"]  # all the same
    chat.type("/undo\n")
    chat.wait_for("RESOURCE_EXHAUSTED: no room")


@pytest.mark.parametrize("typed, text", [
    ("ac" + LEFT + "b", "abc"),
    ("xab" + HOME + DELETE, "ab"),
    ("ab cd\x17ef", "ab ef"),
    ("abc\x01x\x05y", "xabcy"),
    ("ab\x15cd", "cd"),
    ("ab\x01\x0bcd", "cd"),
    ("äö☃" + LEFT + "\x7fx", "äx☃"),
    ("日本" + LEFT + "の", "日の本"),
])
def test_editing(chat, fake, typed, text):
    chat.type(typed + "\n")
    assert asked(fake, 1) == [text]


def test_history(chat, terminal, fake, state):
    for number, line in enumerate(["one", "two\\\nlines", '"""\n/three\n"""']):
        chat.type(line + "\n")
        asked(fake, number + 1)
    chat.type(UP + UP + UP + "s\n")
    assert asked(fake, 4) == ["one", "two\nlines", "/three", "ones"]
    chat.type("/quit\n")
    assert chat.end() == 0
    assert (state / "history").stat().st_mode & 0o777 == 0o600
    again = start(terminal)
    say(again, UP + UP + UP)  # of the chat before, whose last line was /quit
    assert asked(fake, 5)[-1] == "/three"
    say(again, UP * 5)
    assert asked(fake, 6)[-1] == "two\nlines"
    again.type("\x12on")
    again.wait_for("ones")
    again.type("\n")
    assert asked(fake, 7)[-1] == "ones"


def test_a_history_that_cannot_be_kept_is_told_once(terminal, fake, state, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    (state / "history").mkdir(parents=True)
    run = start(terminal, "--max-tokens", 1)
    run.type("a\nb\n/quit\n")
    assert run.end() == 0 and run.text.count("no history: ") == 1 and str(state / "history") in run.text


def test_no_history_without_an_editor(cli, fake, state):
    assert cli.run("chat", "--max-tokens", 1, input=b"a\n").returncode == 0
    assert not (state / "history").exists()


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_what_is_pasted_is_one_message(chat, fake, end):
    chat.type(f"a\x1b[200~b{end}{end}/c\\{end}d\x1b[201~e\n")
    assert asked(fake, 1) == ["ab\n\n/c\\\nde"]


def test_what_is_pasted_has_no_keys(chat, fake):
    chat.type("\x1b[200~a\x1b[Ab\x04\tc\x00d\x1b[201~\n")
    assert asked(fake, 1) == ["a[Ab\tcd"]


def test_ctrl_c_drops_what_was_typed(chat, fake):
    chat.type("abc")
    chat.wait_for("abc")
    chat.type("\x03")
    chat.wait_for("^C")
    chat.type("d\\\n")
    chat.wait_for("... ")
    chat.text = ""
    chat.type("\x03")
    chat.wait_for("^C")
    chat.type("e\n")
    assert asked(fake, 1) == ["e"] and "leaves" not in chat.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(terminal, fake, monkeypatch, number):
    import termios
    monkeypatch.setenv("TERM", "xterm")
    run = terminal("chat")
    before = termios.tcgetattr(run.master)
    run.wait_for(PROMPT)
    assert termios.tcgetattr(run.master) != before
    run.process.send_signal(number)
    assert run.process.wait(60) == -number and not fake.sessions
    assert termios.tcgetattr(run.master) == before
    run.wait_for("\x1b[?2004l")


def test_ctrl_z_stops_and_goes_on(terminal, fake, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    shell = terminal(program=["bash", "--noprofile", "--norc", "-i"])
    shell.type(f"{TVQ} --server {fake.address} chat --suffix '' --max-tokens 1\n")
    shell.wait_for("\x1b[?2004h> ")
    shell.type("ab")
    shell.wait_for("ab")
    shell.type("\x1a")
    shell.wait_for("Stopped")
    shell.text = ""
    shell.type("fg\n")
    shell.wait_for("> ab")
    shell.type("c\n")
    assert asked(fake, 1) == ["abc"]


def test_thinking_is_dimmed(terminal, fake, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    answer = fake.answer

    def thinks(prompt, params, context, once=False):
        return answer("<THINK>well</THINK>yes", params, context, once)

    def lower(*arguments):
        for reply in thinks(*arguments):
            reply.deltas[0].text = reply.deltas[0].text.lower()
            yield reply

    fake.answer = lower
    run = start(terminal, "--max-tokens", 22)
    run.type("a\n")
    run.wait_for("\x1b[2m<think>well</think>\x1b[22myes")


def test_shows_that_the_answer_can_go_on(terminal, fake, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    fake.conversation_templates = ["default"]
    run = start(terminal, "--max-tokens", 2)
    run.type("abc\n\nd\n/quit\n")
    assert run.end() == 0 and re.search("AB\r\n.*AB\r\n.*D\r\n", run.text, re.DOTALL)
