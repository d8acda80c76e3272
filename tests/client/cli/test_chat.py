"""tvq session chat."""

import json
import os
import pty
import select
import signal
import subprocess
import time

import grpc
import pytest

from command_line import TVQ


def read_until(descriptor, text):
    got = b""
    while text not in got:
        assert select.select([descriptor], [], [], 60)[0], got
        got += os.read(descriptor, 4096)
    return got


@pytest.fixture
def terminal(fake):
    """A chat on session s1 in a terminal: the process, and the terminal's other end."""
    fake.token_seconds = 0.005
    fake.new_session()
    master, slave = pty.openpty()
    chat = subprocess.Popen([TVQ, "--server", fake.address, "session", "chat", "s1", "--suffix", ""], stdin=slave,
                            stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    yield chat, master
    chat.kill()
    chat.wait()
    os.close(master)


def test_lines_are_answered(cli, fake):
    done = cli.run("session", "chat", "--max-tokens", 3, "--suffix", "", input=b"ab\ncd\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"ABA\nCDC\n"
    assert b"new session s1" in done.stderr
    assert fake.sessions["s1"].text == "abABAcdCDC"


def test_continues_a_session_and_adds_newlines(cli, fake):
    fake.new_session(text="x")
    assert cli.ok("session", "chat", "s1", "--max-tokens", 2, input=b"ab\n") == "AB"
    assert fake.sessions["s1"].text == "xab\nAB"
    cli.ok("session", "chat", "s1", "--max-tokens", 2, input=b"//no command\n\n")
    assert fake.sessions["s1"].text == "xab\nAB/no command\n/N.."  # the empty line lets the model go on
    cli.ok("session", "chat", "s1", "--durability", "disk", input=b"ab")
    assert fake.sessions["s1"].persisted == fake.sessions["s1"].version
    assert fake.requests[-1].sampling.max_tokens == 256 and fake.requests[-1].sampling.limit_to_context
    cli.ok("session", "chat", "s1", "--min-tokens", 300, input=b"ab")
    assert fake.requests[-1].sampling.max_tokens == 300
    cli.ok("session", "chat", "s1", "--max-tokens", 3, input=b"ab")
    assert fake.requests[-1].sampling.max_tokens == 3 and not fake.requests[-1].sampling.limit_to_context


def test_lines_are_messages_where_the_model_has_a_template(cli, fake):
    from tvq.v1 import model_pb2
    role = model_pb2.ChatTemplate.Role
    fake.chat_template = model_pb2.ChatTemplate(user=role(prefix="U:", suffix="|"), stop=["U:"],
                                                assistant=role(prefix="A:", suffix="$"))
    fake.new_session(text="x")
    cli.ok("session", "chat", "s1", "--max-tokens", 2, "--stop", "!", input=b"ab\n\n")
    message, more = (request for request in fake.requests if hasattr(request, "sampling"))
    assert message.text == "U:ab|A:" and message.answer_suffix == "$" and list(message.sampling.stop) == ["!", "U:"]
    assert not more.text and not more.HasField("answer_suffix") and list(more.sampling.stop) == ["!", "U:"]
    cli.ok("session", "chat", "s1", "--suffix", "", "--max-tokens", 2, input=b"ab\n")
    assert fake.requests[-1].text == "ab" and not fake.requests[-1].HasField("answer_suffix")


@pytest.mark.parametrize("prefix", [None, "", "U:"])
def test_complaints_count_bytes_of_the_typed_line(cli, fake, prefix):
    from fake_server import Refused
    from tvq.v1 import model_pb2
    if prefix is not None:
        role = model_pb2.ChatTemplate.Role
        fake.chat_template = model_pb2.ChatTemplate(user=role(prefix=prefix, suffix="|"), assistant=role(prefix="A:"))
    fake.new_session()
    for line in ["☃a", "a☃", "//☃", "//a☃"]:
        sent = (prefix or "") + line.removeprefix("/")
        offset = len(sent.partition("☃")[0].encode())
        fake.refuse["Generate"] = Refused(grpc.StatusCode.INVALID_ARGUMENT, f"text: ☃ at byte offset {offset} is not")
        done = cli.run("session", "chat", "s1", input=line.encode())
        assert done.returncode == 1 and fake.requests[-1].text.startswith(sent)
        typed = len(line.partition("☃")[0].encode())
        assert f"text: ☃ at byte offset {typed} is not" in done.stderr.decode()


def test_commands(cli, fake):
    fake.new_session()
    lines = ["a", "/mark first", "b", "/rewind first", "/save", "/fork my copy", "c", "/show", "/help", "/quit", "d"]
    done = cli.run("session", "chat", "s1", "--max-tokens", 1, "--suffix", "", input="\n".join(lines).encode())
    assert done.returncode == 0, done.stderr
    assert fake.sessions["s1"].text == "aA" and fake.sessions["s1"].persisted == fake.sessions["s1"].version
    assert fake.sessions["s2"].text == "aAcC" and fake.sessions["s2"].label == "my copy"
    assert b"now in session s2" in done.stderr and b"position   4" in done.stderr and b"/rewind NAME" in done.stderr


def test_json(cli, fake):
    done = cli.ok("session", "chat", "--json", "--max-tokens", 1, "--suffix", "", input=b"a\n/mark m\n/fork\n/show\n")
    answer, mark, fork, show = map(json.loads, done.splitlines())
    assert answer["text"] == "A" and answer["session"]["position"] == 2 and answer["finish_reason"] == "length"
    assert mark["command"] == "mark" and mark["session_id"] == "s1"
    assert fork["id"] == show["id"] == "s2" and fork["parent_id"] == "s1"


def test_error_ends_a_chat_without_a_terminal(cli, fake):
    done = cli.run("session", "chat", "--max-tokens", 1, input=b"/rewind nowhere\na\n")
    assert done.returncode == 1 and b"NOT_FOUND" in done.stderr
    assert not fake.sessions  # nothing was said
    assert cli.run("session", "chat", input=b"/dance\n").returncode == 1
    assert cli.run("session", "chat", "nothing", input=b"a\n").returncode == 1


def test_a_new_session_to_which_nothing_was_said_is_deleted(cli, fake):
    from fake_server import Refused
    assert cli.run("session", "chat", input=b"").returncode == 0
    assert cli.run("session", "chat", input=b"/quit\n").returncode == 0
    fake.refuse["Generate"] = Refused(grpc.StatusCode.INVALID_ARGUMENT, "temperature: value is -5")
    assert cli.run("session", "chat", "--temperature", -5, input=b"a\n").returncode == 1
    fake.refuse["GetModel"] = Refused(grpc.StatusCode.UNAVAILABLE, "draining")
    assert cli.run("session", "chat", input=b"a\n").returncode == 3
    assert not fake.sessions
    # What was kept on purpose, was there before, or can be asked for again, stays.
    fake.refuse.clear()
    fake.new_session()
    for arguments, lines in ([], b"/mark m\n"), (["--idempotency-key", "k"], b""), (["s5"], b""), ([], b"a\n"):
        before = len(fake.sessions)
        assert cli.run("session", "chat", *arguments, "--max-tokens", 1, input=lines).returncode == 0
        assert len(fake.sessions) == before + (arguments != ["s5"]), arguments


def test_interrupt_stops_the_answer_and_not_the_chat(cli, fake):
    fake.token_seconds, fake.commit_seconds = 0.005, 0.3
    fake.new_session()
    chat = cli.start("session", "chat", "s1", "--json", "--suffix", "")
    chat.stdin.write(b"a\n")
    chat.stdin.flush()
    while not fake.sessions["s1"].writing:
        time.sleep(0.01)
    chat.send_signal(signal.SIGINT)
    answer = json.loads(chat.stdout.readline())
    assert answer["finish_reason"] == "cancelled"
    # The next line finds the session busy until the server has committed the first answer.
    rest, errors = chat.communicate(b"/mark here\n", timeout=60)
    assert chat.returncode == 0, errors
    assert json.loads(rest)["version"] == 2
    assert fake.sessions["s1"].text.startswith("a" + answer["text"])
    assert fake.calls.count("MarkSession") > 1


def test_terminal(terminal, fake):
    chat, master = terminal
    read_until(master, b"> ")
    os.write(master, b"/rewind nowhere\n")  # an error is told and the chat goes on
    read_until(master, b"NOT_FOUND")
    os.write(master, b"abc\n")
    read_until(master, b"ABCABC")
    chat.send_signal(signal.SIGINT)
    read_until(master, b"> ")
    chat.send_signal(signal.SIGINT)  # at the prompt: only a hint
    read_until(master, b"/quit leaves")
    os.write(master, b"/quit\n")
    assert chat.wait(60) == 0
    fake.wait_idle("s1")
    assert fake.sessions["s1"].text.startswith("abcABCABC")


def test_second_interrupt_at_the_prompt_leaves(terminal):
    chat, master = terminal
    read_until(master, b"> ")
    chat.send_signal(signal.SIGINT)
    read_until(master, b"/quit leaves")
    chat.send_signal(signal.SIGINT)
    assert chat.wait(60) == 130


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGHUP, -signal.SIGHUP),
                                          (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_deletes_a_new_session_to_which_nothing_was_said(cli, fake, number, code):
    for said in (b"", b"a\n"):
        chat = cli.start("session", "chat", "--max-tokens", 1)
        assert chat.stderr.readline().startswith(b"new session ")
        chat.stdin.write(said)
        chat.stdin.flush()
        if said:
            assert chat.stdout.readline() == b"A\n"
        chat.send_signal(number)
        assert chat.wait(60) == code
        chat.communicate()
        assert bool(fake.sessions) == bool(said)


def test_an_ignored_signal_does_not_end_a_chat(cli):
    chat = cli.start("session", "chat", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    chat.stderr.readline()
    chat.send_signal(signal.SIGHUP)
    chat.communicate(timeout=60)  # the end of its lines does
    assert chat.returncode == 0


@pytest.mark.parametrize("line, words", [
    ("/mrak a", "no command /mrak; did you mean /mark? /help names them"),
    ("/exit", "no command /exit; /help names them"),
    ("/\x1b[31m", "no command /?[31m; /help names them"),
    ("/quit now", "/quit: takes nothing behind it"),
    ("/save file", "/save: takes nothing behind it"),
    ("/show it", "/show: takes nothing behind it"),
    ("/mark", "/mark: needs the name of a mark"),
    ("/rewind ", "/rewind: needs the name of a mark"),
])
def test_what_is_wrong_with_a_command_is_told(cli, fake, line, words):
    fake.new_session()
    done = cli.run("session", "chat", "s1", input=line.encode() + b"\n")
    assert done.returncode == 1 and done.stderr.endswith(f"INVALID_ARGUMENT: {words}\n".encode()), done.stderr
    assert fake.sessions["s1"].version == 0


def test_lines_that_end_as_on_windows(cli, fake):
    fake.new_session()
    cli.ok("session", "chat", "s1", "--max-tokens", 2, "--suffix", "", input=b"ab\r\n/mark\tplace\r\n/quit\r\n")
    assert fake.sessions["s1"].text == "abAB" and list(fake.sessions["s1"].marks) == ["place"]
