"""tvq chat with a model that has a Jinja template: the program keeps the messages, the server writes them."""

import json
import signal
import time

import grpc
import pytest


@pytest.fixture(autouse=True)
def templates(fake):
    fake.conversation_templates = ["default"]


def conversations(fake):
    return [request.conversation for request in fake.requests if hasattr(request, "sampling")]


def said(fake):
    """The messages of each call, as ROLE: CONTENT."""
    return [[f"{message['role'][0]}: {message['content']}" for message in json.loads(conversation.messages)]
            for conversation in conversations(fake)]


def test_the_whole_conversation_is_sent(cli, fake):
    assert cli.ok("chat", input=b"ab\ncd\n") == "AB\nCD"
    assert said(fake) == [["u: ab"], ["u: ab", "a: AB", "u: cd"]]
    assert all(not c.HasField("add_generation_prompt") and not c.template_kwargs for c in conversations(fake))
    create = next(request for request in fake.requests if type(request).__name__ == "CreateSessionRequest")
    assert create.keep_transcript and not fake.sessions
    sampling = next(request.sampling for request in fake.requests if hasattr(request, "sampling"))
    assert sampling.max_tokens == 4096 and sampling.limit_to_context


def test_an_empty_line_lets_the_answer_go_on(cli, fake):
    done = cli.run("chat", input=b"\n")
    assert done.returncode == 1 and b"text: there is no answer yet that could go on" in done.stderr
    assert cli.ok("chat", "--max-tokens", 2, input=b"abc\n\nd\n") == "AB\nAB\nD"
    assert said(fake) == [["u: abc"], ["u: abc", "a: AB"], ["u: abc", "a: ABAB", "u: d"]]
    assert [c.continue_final_message for c in conversations(fake)] == [False, True, False]
    assert not conversations(fake)[1].add_generation_prompt and conversations(fake)[1].HasField("add_generation_prompt")


def test_system_and_what_the_template_is_given_besides(cli, fake):
    kwargs = '{"enable_thinking": false}'
    lines = b"a\n/system Be brief.\nb\n/system\nc\n"
    cli.ok("chat", "--chat-template-kwargs", kwargs, "--system", "Be long.", input=lines)
    assert [messages[0] for messages in said(fake)] == ["s: Be long.", "s: Be brief.", "u: a"]
    assert {c.template_kwargs for c in conversations(fake)} == {kwargs}


def test_undo_takes_back_as_much_as_was_said(cli, fake):
    lines = ["a", "b", "/undo", "c", "/undo", "/undo", "d", "/undo", "/undo"]
    done = cli.run("chat", input="\n".join(lines).encode())
    assert said(fake) == [["u: a"], ["u: a", "a: A", "u: b"], ["u: a", "a: A", "u: c"], ["u: d"]]
    assert done.returncode == 1 and b"undo: nothing was said yet" in done.stderr
    assert done.stderr.count(b"taken back: ") == 4 and "MarkSession" not in fake.calls
    undone = [json.loads(line) for line in cli.ok("chat", "--json", input=b"a\n/undo\n").splitlines()][1]
    assert undone.pop("session_id").startswith("s") and undone == {"command": "undo", "message": "a"}


def test_marks_and_forks_have_the_messages(cli, fake):
    lines = ["a", "/mark m", "b", "/undo", "/undo", "x", "/rewind m", "c", "/fork", "d"]
    done = cli.run("chat", input="\n".join(lines).encode())
    assert done.returncode == 0, done.stderr
    assert said(fake)[-2:] == [["u: a", "a: A", "u: c"], ["u: a", "a: A", "u: c", "a: C", "u: d"]]
    assert [session.text for session in fake.sessions.values()] == [
        "<user>a<assistant>A<user>c<assistant>C", "<user>a<assistant>A<user>c<assistant>C<user>d<assistant>D"]
    done = cli.run("chat", input=b"a\n/rewind m\n")
    assert done.returncode == 1 and b'mark: this chat has no mark "m"' in done.stderr


def test_a_saved_session_goes_on(cli, fake, state):
    cli.ok("chat", "--system", "Be.", input=b"a\n/mark m\nb\n/save\nc\n")
    file = state / "chats" / "s1.json"
    assert file.stat().st_mode & 0o777 == 0o600 and (state / "chats").stat().st_mode & 0o777 == 0o700
    cli.ok("chat", "s1", input=b"d\n/rewind m\ne\n")
    assert said(fake)[-2:] == [["s: Be.", "u: a", "a: A", "u: b", "a: B", "u: c", "a: C", "u: d"],
                               ["s: Be.", "u: a", "a: A", "u: e"]]
    cli.ok("chat", "s1", input=b"f\n")
    assert said(fake)[-1] == ["s: Be.", "u: a", "a: A", "u: e", "a: E", "u: f"]


def test_forks_are_kept_with_their_messages(cli, fake):
    cli.ok("chat", input=b"a\n/fork\nb\n")
    for session, messages in ("s1", ["u: a", "a: A", "u: c"]), ("s2", ["u: a", "a: A", "u: b", "a: B", "u: c"]):
        cli.ok("chat", session, input=b"c\n")
        assert said(fake)[-1] == messages


def test_sessions_that_do_not_stay_leave_nothing(cli, fake, state):
    cli.ok("chat", input=b"a\n")
    assert not state.exists()


def test_what_was_said_goes_with_the_session(cli, fake, state):
    for _ in range(3):
        cli.ok("chat", "--keep", input=b"a\n")
    files = [state / "chats" / f"s{number}.json" for number in (1, 2, 3)]
    assert all(file.exists() for file in files)
    assert cli.ok("session", "delete", "s1", "s2", "--json") == '{"deleted":"s1"}\n{"deleted":"s2"}'
    assert [file.exists() for file in files] == [False, False, True]
    fake.new_session()
    cli.ok("session", "delete", "s4")  # of which there is no file


def test_a_file_that_cannot_be_deleted_is_told_and_the_other_sessions_are_deleted(cli, fake, state):
    for _ in range(2):
        cli.ok("chat", "--keep", input=b"a\n")
    file = state / "chats" / "s1.json"
    file.unlink()
    file.mkdir()
    done = cli.run("session", "delete", "s1", "s2")
    assert done.returncode == 1 and fake.sessions == {} and not (state / "chats" / "s2.json").exists()
    assert f"session s1 is deleted, but what was said on it is still in {file}".encode() in done.stderr, done.stderr


@pytest.mark.parametrize("command", [["chat", "s1"], ["session", "delete", "s1"]])
def test_a_session_that_is_gone_has_left_what_was_said_on_it(cli, fake, state, command):
    assert b"what was said" not in cli.run(*command, input=b"b\n").stderr
    cli.ok("chat", "--keep", input=b"a\n")
    fake.sessions.clear()
    done = cli.run(*command, input=b"b\n")
    assert done.returncode == 1 and b'no session "s1"; what was said on it is still in ' in done.stderr
    assert f"{state}/chats/s1.json\n".encode() in done.stderr, done.stderr
    assert (state / "chats" / "s1.json").exists()  # the server that was asked may be another one


def test_an_unused_session_takes_its_file_with_it(cli, fake, state):
    done = cli.run("chat", "--keep", input=b"/system Be brief.\n")
    assert done.returncode == 0 and "DeleteSession" in fake.calls, done.stderr
    assert not list(state.glob("chats/*"))


def test_a_session_of_which_nothing_is_known(cli, fake, state):
    fake.new_session(text="<user>a")
    done = cli.run("chat", "s1", input=b"b\n")
    assert done.returncode == 1 and b"session s1: what was said on it is not known here" in done.stderr, done.stderr
    for content in "{", '{"messages": [{"role": 1, "content": "a"}], "system": "", "marks": {}}', "{}":
        (state / "chats").mkdir(parents=True, exist_ok=True)
        (state / "chats" / "s1.json").write_text(content)
        done = cli.run("chat", "s1", input=b"b\n")
        assert done.returncode == 1 and b"chats/s1.json" in done.stderr, done.stderr
    assert "Generate" not in fake.calls and fake.sessions["s1"].text == "<user>a"
    assert cli.ok("chat", "s1", "--suffix", "", "--max-tokens", 1, input=b"b\n") == "B"  # as a text


def test_a_session_that_is_empty_needs_none(cli, fake):
    fake.new_session()
    assert cli.ok("chat", "s1", input=b"a\n") == "A"


def test_a_call_that_failed_was_not_said(cli, fake):
    from fake_server import Refused
    fake.new_session()
    fake.refuse["Generate"] = Refused(grpc.StatusCode.INVALID_ARGUMENT, "conversation.messages: \x1b]0;no\x07\nnever")
    done = cli.run("chat", "s1", input=b"a\n")
    assert done.returncode == 1
    assert done.stderr.endswith(b"INVALID_ARGUMENT: conversation.messages: ?]0;no?\nnever\n"), "a template's words"
    fake.refuse.clear()
    cli.ok("chat", "s1", input=b"b\n")
    assert said(fake)[-1] == ["u: b"]


def test_what_is_no_utf8_is_told(cli, fake):
    done = cli.run("chat", input=b"ab\xff\n")
    assert done.returncode == 1 and b"INVALID_ARGUMENT: text: " in done.stderr and b"Generate" not in done.stderr


def test_an_interrupted_answer_is_kept_as_far_as_it_came(cli, fake):
    fake.token_seconds = 0.01
    fake.new_session()
    chat = cli.start("chat", "s1")
    chat.stdin.write(b"x" * 1000 + b"\n")
    chat.stdin.flush()
    begin = chat.stdout.read(3)
    chat.send_signal(signal.SIGINT)
    begin += chat.stdout.readline()
    out, errors = chat.communicate(b"b\n", timeout=60)
    assert chat.returncode == 0 and out == b"B\n", errors
    assert said(fake)[-1] == ["u: " + "x" * 1000, "a: " + begin.decode().rstrip("\n"), "u: b"]


def test_a_complete_answer_may_be_empty(cli, fake):
    fake.silent = True
    assert cli.ok("chat", input=b"a\nb\n\n/undo\nc\n") == ""
    assert said(fake) == [["u: a"], ["u: a", "a: ", "u: b"], ["u: a", "a: ", "u: b", "a: "], ["u: a", "a: ", "u: c"]]


def test_of_what_was_interrupted_before_anything_came_nothing_was_said(cli, fake):
    fake.token_seconds = 2
    session = fake.new_session()
    chat = cli.start("chat", session.id)
    chat.stdin.write(b"a\n")
    chat.stdin.flush()
    while not session.writing:
        time.sleep(0.01)
    chat.send_signal(signal.SIGINT)
    fake.wait_idle(session.id)
    fake.token_seconds = 0
    out, errors = chat.communicate(b"b\n", timeout=60)
    assert chat.returncode == 0 and out.endswith(b"B\n"), errors
    assert said(fake)[-1] == ["u: b"]
