"""tvq session chat."""

import json
import signal
import time

import grpc
import pytest


def test_lines_are_answered(cli, fake):
    done = cli.run("session", "chat", "--keep", "--max-tokens", 3, "--suffix", "", input=b"ab\ncd\n")
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
    assert mark["command"] == "mark" and mark["id"] == "s1"
    assert fork["id"] == show["id"] == "s2" and fork["parent_id"] == "s1"


def test_error_ends_a_chat_without_a_terminal(cli, fake):
    done = cli.run("session", "chat", "--max-tokens", 1, input=b"/rewind nowhere\na\n")
    assert done.returncode == 1 and b"NOT_FOUND" in done.stderr
    assert not fake.sessions  # nothing was said
    assert cli.run("session", "chat", input=b"/dance\n").returncode == 1
    assert cli.run("session", "chat", "nothing", input=b"a\n").returncode == 1


def test_a_new_session_ends_with_the_chat(cli, fake):
    from fake_server import Refused
    for lines in b"", b"/quit\n", b"a\n", b"a\n/mark m\nb\n", b"a\n/dance\n":
        assert cli.run("session", "chat", "--max-tokens", 1, input=lines).returncode == (b"dance" in lines)
        assert not fake.sessions, lines
    fake.refuse["Generate"] = Refused(grpc.StatusCode.INVALID_ARGUMENT, "temperature: value is -5")
    assert cli.run("session", "chat", "--temperature", -5, input=b"a\n").returncode == 1
    fake.refuse["GetModel"] = Refused(grpc.StatusCode.UNAVAILABLE, "draining")
    assert cli.run("session", "chat", input=b"a\n").returncode == 3
    assert not fake.sessions


@pytest.mark.parametrize("arguments, lines", [
    (["s1"], b"a\n"), (["s1"], b""),
    (["--keep"], b"a\n"), (["--label", "mine"], b"a\n"), (["--ttl", 9], b"a\n"), (["--durability", "disk"], b"a\n"),
    (["--idempotency-key", "k"], b""),
    ([], b"a\n/save\n"), ([], b"/save\n"),
])
def test_what_is_kept_on_purpose_stays(cli, fake, arguments, lines):
    fake.new_session()
    assert cli.run("session", "chat", *arguments, "--max-tokens", 1, input=lines).returncode == 0
    assert len(fake.sessions) == (1 if arguments == ["s1"] else 2)


def test_one_that_is_to_be_kept_is_not_if_nothing_was_said(cli, fake):
    assert cli.run("session", "chat", "--keep", "--label", "mine", input=b"/show\n").returncode == 0
    assert not fake.sessions


def test_a_server_that_stores_nothing_keeps_what_is_saved_while_it_runs(cli, fake):
    from fake_server import Refused
    fake.refuse["SaveSession"] = Refused(grpc.StatusCode.FAILED_PRECONDITION, "no store")
    done = cli.run("session", "chat", "--max-tokens", 1, input=b"a\n/save\n")
    assert done.returncode == 1 and b"no store; session s1 stays until the server ends\n" in done.stderr, done.stderr
    assert list(fake.sessions) == ["s1"]


def test_what_is_saved_with_a_label_is_a_copy(cli, fake):
    fake.new_session()
    for arguments, left in (["s1"], ["s1", "s2"]), ([], ["s1", "s2", "s4"]):
        done = cli.run("session", "chat", *arguments, "--suffix", "", "--max-tokens", 1, input=b"a\n/save my copy\nb\n")
        assert done.returncode == 0, done.stderr
        assert list(fake.sessions) == left
        copy = fake.sessions[left[-1]]
        assert (copy.label, copy.text, copy.persisted) == ("my copy", "aAbB", copy.version - 1)


def test_forks_stay_and_so_does_what_they_are_of(cli, fake):
    assert cli.run("session", "chat", "--suffix", "", "--max-tokens", 1, input=b"a\n/fork\nb\n").returncode == 0
    assert [session.text for session in fake.sessions.values()] == ["aA", "aAbB"]


def test_undo_needs_a_terminal_or_a_conversation(cli, fake):
    done = cli.run("chat", "--max-tokens", 1, input=b"a\n/undo\n")
    assert done.returncode == 1 and b"undo: only in a terminal is the place before a message kept" in done.stderr
    assert "MarkSession" not in fake.calls


def test_one_message(cli, fake):
    assert cli.ok("chat", "--message", "/a\nb", "--suffix", "", "--max-tokens", 4, input=b"c\n") == "/A\nB"
    assert not fake.sessions
    assert fake.requests[-2].text == "/a\nb"
    assert cli.json("chat", "--message", "ab", "--max-tokens", 1)["text"] == "A"
    assert cli.run("chat", "nothing", "--message", "a").returncode == 1


def test_the_system_message_stands_before_the_next(cli, fake):
    from tvq.v1 import model_pb2
    role = model_pb2.ChatTemplate.Role
    fake.chat_template = model_pb2.ChatTemplate(user=role(prefix="U:", suffix="|"), system=role(prefix="S:", suffix="|"),
                                                assistant=role(prefix="A:"))
    fake.new_session()
    lines = b"a\n/system Be\n/system Be brief.\nb\nc\n/system d\n/system\ne\n"
    cli.ok("chat", "s1", "--system", "Be long.", "--max-tokens", 1, input=lines)
    texts = [request.text for request in fake.requests if hasattr(request, "sampling")]
    assert texts == ["S:Be long.|U:a|A:", "S:Be brief.|U:b|A:", "U:c|A:", "U:e|A:"]


@pytest.mark.parametrize("template", [None, {}])
def test_a_system_message_that_cannot_be_told(cli, fake, template):
    from tvq.v1 import model_pb2
    if template is not None:
        fake.chat_template = model_pb2.ChatTemplate(user={}, assistant={})
    words = b"system: lines are fed as they are" if template is None else b"system: the chat template of fake has no system"
    for arguments, lines in ([], b"/system Be brief.\n"), (["--system", "Be brief."], b"a\n"):
        done = cli.run("chat", *arguments, input=lines)
        assert done.returncode == 1 and words in done.stderr, done.stderr
    assert "Generate" not in fake.calls and not fake.sessions
    done = cli.run("chat", "--chat-template-kwargs", "{}", input=b"a\n")
    assert done.returncode == 1 and b"--chat-template-kwargs: is for a model with a Jinja template" in done.stderr


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


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGHUP, -signal.SIGHUP),
                                          (signal.SIGTERM, -signal.SIGTERM)])
@pytest.mark.parametrize("said", [b"", b"a\n"])
@pytest.mark.parametrize("keep", [[], ["--keep"]])
def test_a_signal_deletes_a_new_session(cli, fake, number, code, said, keep):
    chat = cli.start("session", "chat", *keep, "--max-tokens", 1)
    assert chat.stderr.readline().startswith(b"new session ")
    chat.stdin.write(said)
    chat.stdin.flush()
    if said:
        assert chat.stdout.readline() == b"A\n"
    chat.send_signal(number)
    assert chat.wait(60) == code
    chat.communicate()
    assert bool(fake.sessions) == bool(said and keep)


def test_a_signal_amid_an_answer_deletes_a_new_session(cli, fake):
    fake.token_seconds, fake.commit_seconds = 0.005, 0.2
    chat = cli.start("session", "chat", "--suffix", "", "--max-tokens", 1_000_000)
    chat.stdin.write(b"a\n")
    chat.stdin.flush()
    assert chat.stdout.read(3) == b"AAA"
    chat.send_signal(signal.SIGTERM)
    assert chat.wait(60) == -signal.SIGTERM
    chat.communicate()
    assert not fake.sessions


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
    ("/undo it", "/undo: takes nothing behind it"),
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
