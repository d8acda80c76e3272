"""What a new user reads: --help of every command, and what is said of wrong usage."""

import re

import pytest

COLUMN = 30  # where descriptions begin


def sections(text):
    """The lines of each part of a help text, by its title."""
    found, title = {}, None
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z]\w+:", line):
            title = found.setdefault(line[:-1], [])
        elif title is not None:
            title.append(line)
    return found


def described(lines):
    """What each entry of a part is called, and how it is described."""
    entries = []
    for line in lines:
        if not line.startswith("  "):
            continue
        name, text = line[:COLUMN].strip(), line[COLUMN:].strip()
        if not line[COLUMN - 1].isspace():  # a long name has its description on the next line
            name, text = line.strip(), ""
        if name:
            entries.append([name, text])
        else:
            entries[-1][1] += text
    return entries


def commands(cli, *words):
    """All commands, as lists of words, with their help texts."""
    text = cli.ok(*words, "--help")
    yield words, text
    for name, _ in described(sections(text).get("Subcommands", [])):
        yield from commands(cli, *words, name)


def test_help_describes_all_there_is(cli):
    found = dict(commands(cli))
    assert len(found) == 29
    for words, text in found.items():
        assert f"Usage: {' '.join(('tvq', *words))} [OPTIONS]" in text
        for title, lines in sections(text).items():
            for name, description in described(lines):
                assert description, f"{words}: {title}: {name}"


def test_help_of_every_command_tells_how_to_connect(cli):
    for words, text in commands(cli):
        for option in ("--server HOST:PORT", "--api-key KEY|@FILE", "--tls", "--ssl-ca-certs FILE", "--ssl-certfile FILE",
                       "--ssl-keyfile FILE", "--json", "--timeout SECONDS"):
            assert len(re.findall(f"  {re.escape(option)}(?![A-Za-z-])", text)) == 1, (words, option)


@pytest.mark.parametrize("words", [["generate"], ["session"], ["session", "show"], ["admin", "drain"], []])
def test_help_is_a_command(cli, words):
    assert cli.ok("help", *words) == cli.ok(*words, "--help")


def test_help_of_what_is_no_command(cli):
    done = cli.run("help", "sesion")
    assert done.returncode == 2 and done.stderr.startswith(b"Unknown command sesion; did you mean session?\n")


def test_short_names(cli, fake):
    assert cli.json("models") == cli.json("info")
    assert cli.ok("chat", "--keep", "--max-tokens", 3, "--suffix", "", input=b"ab\n") == "ABA"
    assert fake.sessions["s1"].text == "abABA"


@pytest.mark.parametrize("arguments, words", [
    (["session", "create", "--durability", "tape"], "--durability: tape is none of memory, disk"),
    (["--timeout", "-1", "info"], "--timeout: -1 is out of range, must be from 0 to 315576000000 seconds"),
    (["session", "create", "--ttl", "soon"], '--ttl: "soon" is no number of seconds'),
    (["session", "create", "--ttl", "1e300"], "--ttl: 1e300 is out of range, must be from 0 to"),
    (["encode", "--pooling", "max"], "--pooling: max is none of per_token, mean"),
    (["encode", "--text", "a", "--ids", "1"], "--text and --ids cannot be given together"),
    (["admin", "drain", "--shutdown-timeout", "nan"], '--shutdown-timeout: "nan" is no number of seconds'),
    (["generate", "--logit-bias", "x"], '--logit-bias: "x" is not ID=BIAS, two numbers such as 5=-1.5'),
    (["session", "create", "--transcript", "--no-transcript"], "cannot be given together"),
    (["score", "--session", "s1", "--commit-on-cancel"], "--commit-on-cancel"),
    (["score", "--pairs", "a", "--no-eos"], "--no-eos and --pairs cannot be given together"),
    (["score", "--images", "a", "--no-add-special-tokens"], "--no-add-special-tokens and --images cannot be given together"),
    (["frob"], "Unknown command frob"),
    (["frob", "--prompt", "x"], "Unknown command frob"),
    (["frob", "--timeout", "soon"], "Unknown command frob"),
    (["session", "frob"], "Unknown command frob"),
    (["session", "show", "--frob"], "Unknown option --frob"),
    (["session"], "A command is required: create, list, show"),
    ([], "A command is required: generate, score"),
    (["session", "fork", "s1", "--count", 0], "--count: 0 is out of range, must be from 1 to 128"),
    (["generate", "--prompt"], "--prompt: its value is missing"),
    (["generate", "--model", "a", "--model", "b"], "--model: is given 2 times, must be given once"),
    (["generate", "Once upon"], "Unexpected argument Once upon; a text is given with --prompt, a file with --prompt-file"),
    (["tokenize", "Once"], "a text is given with --text"),
    (["encode", "Once"], "a text is given with --text"),
    (["session", "append", "s1", "Once"], "Unexpected argument Once; a text is given with --text"),
    (["score", "book.txt"], "Unexpected argument book.txt; a file is given with --file"),
    (["draw", "a.png"], "Unexpected argument a.png; a file is given with --out"),
    (["session", "mark", "s1"], "name is required"),
    (["chat", "--suffix", "", "--system", "a"], "--system and --suffix cannot be given together"),
])
def test_wrong_usage_is_told(cli, arguments, words):
    done = cli.run(*arguments)
    assert done.returncode == 2
    assert words in done.stderr.decode() and done.stderr.endswith(b"Run with --help for more information.\n")


@pytest.mark.parametrize("arguments, option", [
    (["generate", "--session", ""], "--session"),
    (["generate", "--prompt-file", ""], "--prompt-file"),
    (["score", "--session", ""], "--session"),
    (["score", "--file", ""], "--file"),
    (["score", "--pairs", ""], "--pairs"),
    (["score", "--images", ""], "--images"),
    (["encode", "--file", ""], "--file"),
    (["draw", "--out", ""], "--out"),
    (["draw", "--out", "a.png", "--complete", ""], "--complete"),
    (["chat", ""], "id"),
    (["session", "show", ""], "id"),
    (["session", "tree", ""], "id"),
    (["session", "append", "", "--text", "a"], "id"),
    (["session", "delete", "s1", ""], "ids"),
    (["session", "list", "--parent", ""], "--parent"),
    (["session", "fork", "s1", "--mark", ""], "--mark"),
    (["session", "save", "s1", ""], "file"),
    (["session", "load", ""], "file"),
])
def test_what_is_empty_is_not_taken_for_left_out(cli, fake, arguments, option):
    """As of a shell's variable that is not set."""
    fake.new_session()
    done = cli.run(*arguments)
    assert done.returncode == 2 and done.stderr.startswith(f"{option}: it is empty, must be a".encode()), done.stderr
    assert fake.calls == [] and list(fake.sessions) == ["s1"]


@pytest.mark.parametrize("arguments, words", [
    (["session", "chat", "s1", "--model", "fake"], "--model: is for a new session"),
    (["chat", "s1", "--label", "x"], "--label: is for a new session"),
    (["chat", "s1", "--ttl", 5], "--ttl: is for a new session"),
    (["chat", "s1", "--no-transcript"], "--no-transcript: is for a new session"),
    (["chat", "s1", "--add-special-tokens"], "--add-special-tokens: is for a new session"),
    (["chat", "s1", "--idempotency-key", "k"], "--idempotency-key: is for a new session"),
    (["chat", "s1", "--keep"], "--keep: is for a new session"),
    (["chat", "--chat-template-kwargs", "[]"], "--chat-template-kwargs must be a JSON object"),
    (["score", "--count", 5], "--count: is for --pairs or --images"),
    (["session", "save", "s1", "file", "--durability", "disk"], "--durability: is for `session save` without a file"),
    (["session", "save", "s1", "file", "--idempotency-key", "k"], "--idempotency-key: is for `session save` without a file"),
])
def test_an_option_without_effect_is_told(cli, fake, arguments, words):
    fake.new_session()
    done = cli.run(*arguments)
    assert done.returncode == 2 and done.stderr.startswith(f"tvq: {words}".encode()), done.stderr
    assert fake.calls == []


def test_one_is_not_many(cli, fake):
    fake.new_session()
    assert cli.ok("session", "append", "s1", "--text", "a").startswith("1 token: ")
    assert cli.ok("session", "append", "s1", "--text", "bc").startswith("2 tokens: ")
