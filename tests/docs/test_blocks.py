"""What is found in a document, what is done with it, and what fails."""

import pytest
from code_blocks import BadDocument, blocks
from plan import NO_COMMAND, NOT_RUN, PYTHON, SHELL, Unclear, plan
from workplace import Failed, Workplace

NEEDS = {"encoder": None}


def found(text):
    return [(block.line, block.language, block.text, block.markers) for block in blocks("d.md", text)]


def planned(*lines, fence=None):
    """The plan of a document's one block, which the markers precede."""
    markers = [line for line in lines if line.startswith("<!--")]
    code = [line for line in lines if not line.startswith("<!--")]
    code = [f"```{fence}", *code, "```"] if fence is not None else ["    " + line for line in code]
    [block] = blocks("d.md", "\n".join(["Text:", "", *markers, *code]))
    return plan(block, NEEDS)


def test_blocks_are_found():
    text = "# Head\n    a\n\n    b\n\ntext\n\n```sh\nc\n\n  d\n```\n- item\n\n  ```\n  e\n  ```\n\ntext\n\n    f"
    assert found(text) == [(2, None, "a\n\nb\n", ()), (9, "sh", "c\n\n  d\n", ()), (16, "", "e\n", ()), (21, None, "f\n", ())]


def test_markers_belong_to_the_next_block():
    text = "text\n\n<!-- one: 1 -->\n<!-- two: 2 -->\n\n    a\n\n```\nb\n```"
    assert [block.markers for block in blocks("d.md", text)] == [("one: 1", "two: 2"), ()]


@pytest.mark.parametrize("text, place", [
    ("text\n    tvq info", "d.md:2: four spaces make no code block in a paragraph"),
    ("- item\n\n    tvq info", "d.md:3: four spaces make no code block in a list"),
    ("```sh\ntvq info", "d.md:1: this fence has no end"),
    ("<!-- not run: docker -->\n\ntext", "d.md:1: no code block follows"),
    ("<!-- not run: docker -->", "d.md:1: no code block follows"),
    ("<!-- not run:\ndocker -->\n    tvq info", "d.md:1: a marker is a line of its own"),
])
def test_what_is_not_certain_is_an_error(text, place):
    with pytest.raises(BadDocument, match=place):
        blocks("d.md", text)


def test_commands_and_data_need_no_marker():
    assert planned("build/release/bin/tvq info # all", "id=$(tvq session create \\", "  --label x)").kind == SHELL
    assert planned("# first", "scripts/demo-sessions", "tests/bench/peers.py").kind == SHELL
    assert planned("cd there", fence="sh").kind == SHELL
    assert planned("import tvq", fence="python").kind == PYTHON
    assert (planned('{"a": 1}', fence="json").kind, planned('{"a": 1}', fence="json").reason) == (NO_COMMAND, "json")


def test_markers_are_obeyed():
    assert planned("<!-- not run: needs docker -->", "docker build .").reason == "needs docker"
    assert planned("<!-- not run: needs docker -->", "docker build .").kind == NOT_RUN
    assert planned("<!-- not a command: formula -->", "y = x + 1").kind == NO_COMMAND
    shorter = planned("<!-- with: --rounds 15 => --rounds 1; FILE => a.txt -->", "<!-- needs: encoder -->",
                      "<!-- exits with: 2 -->", "tvq-bench reads --rounds 15 --text FILE")
    assert (shorter.text, shorter.needs, shorter.code) == ("tvq-bench reads --rounds 1 --text a.txt\n", ("encoder",), 2)


@pytest.mark.parametrize("lines, why", [
    (["y = x + 1"], "neither a command nor marked"),
    (["tvq info", "and then something"], "neither a command nor marked"),
    (["<!-- not a command: formula -->", "tvq info"], "marked as no command, but has one"),
    (["<!-- not a command: output -->", "done", "tvq info"], "marked as no command, but has one"),
    (["<!-- not-run: docker -->", "docker build ."], "no marker 'not-run'"),
    (["<!-- not run -->", "docker build ."], "a marker is NAME: VALUE"),
    (["<!-- not run: docker -->", "<!-- with: a => b -->", "docker build ."], "goes with no other marker"),
    (["<!-- with: --rounds 15 => --rounds 1 -->", "tvq info"], "needs an OLD that is in the block"),
    (["<!-- with: info -->", "tvq info"], "OLD => NEW"),
    (["<!-- needs: a-gpu -->", "tvq info"], "nothing is known of 'a-gpu'"),
])
def test_what_is_unclear_fails(lines, why):
    with pytest.raises(Unclear, match=f"^d.md:.*{why}"):
        planned(*lines)


def test_a_fence_of_an_unknown_language_fails():
    with pytest.raises(Unclear, match="neither a command"):
        planned("puts 1", fence="ruby")


@pytest.fixture
def place(tmp_path):
    workplace = Workplace(tmp_path)
    yield workplace
    workplace.close()


def test_files_and_variables_stay_for_the_next_block(place):
    place.run(planned("word=here; other=$word", "echo $word >file", fence="sh"))
    place.run(planned("other=there", fence="sh"))
    place.run(planned('[ "$word $other $(cat file)" = "here there here" ]', fence="sh"))
    place.run(planned("assert open('file').read() == 'here\\n'", fence="python"))


@pytest.mark.parametrize("command", ["false; true", "false | true", "echo $nowhere", "nothing-of-this-name"])
def test_a_command_that_fails_fails(place, command):
    with pytest.raises(Failed, match="ended with"):
        place.run(planned(command, fence="sh"))


def test_a_program_of_python_that_fails_fails(place):
    with pytest.raises(Failed, match="ended with 1, not 0:[^$]*KeyError"):
        place.run(planned("{}[1]", fence="python"))


def test_a_command_fails_as_the_document_says(place):
    place.run(planned("<!-- exits with: 3 -->", "exit 3", fence="sh"))
    with pytest.raises(Failed, match="ended with 0, not 3"):
        place.run(planned("<!-- exits with: 3 -->", "exit 0", fence="sh"))


def test_nothing_is_written_into_the_tree(place):
    place.run(planned("echo >docs/of-a-test.svg; echo >of-a-test; echo >client/python/of-a-test", fence="sh"))
    assert not any((place.folder.joinpath(name)).is_symlink() for name in ["docs", "client", "client/python", "build"])


SERVING = """#!/usr/bin/env python3
import signal, socket, sys
if "--trouble" in sys.argv: sys.exit("trouble")
if "--silence" in sys.argv: signal.pause()
assert sys.argv[-2:] == ["--port", "0"], sys.argv
open("started", "a").write(sys.argv[0].split("/")[-1] + " " + " ".join(sys.argv[1:-2]) + "\\n")
here = socket.create_server(("127.0.0.1", 0))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print(f"listening on 127.0.0.1:{here.getsockname()[1]}", flush=True)
while True:
    there, _ = here.accept()
    there.close()
"""


@pytest.fixture
def stand_ins(tmp_path_factory, monkeypatch):
    """Programs in the place of tvq-server and tvq-gateway, which write down that they were started."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("tvq-server", "tvq-gateway"):
        (folder / name).write_text(SERVING)
        (folder / name).chmod(0o755)
    monkeypatch.setattr("workplace.BIN", folder)


def test_servers_of_the_document_and_of_its_own(stand_ins, place):
    connect = "import socket\nhost, port = '127.0.0.1:8000'.split(':')\nsocket.create_connection((host, int(port)))\n" \
        "assert port != '8000'"
    place.run(planned(connect, fence="python"))
    place.run(planned(connect, fence="python"))
    place.run(planned("tvq-server --model a=b --port 50051", "echo 127.0.0.1:50051 >where"))
    place.run(planned(connect, fence="python"))
    server = place.servers.running["127.0.0.1:50051"].address
    assert (place.folder / "where").read_text().strip() == server
    started = (place.folder / "started").read_text().splitlines()
    assert [line.split()[0] for line in started] == ["tvq-server", "tvq-gateway", "tvq-server", "tvq-gateway"]
    assert started[0] == "tvq-server --model-dir models/zoo" and started[2] == "tvq-server --model a=b"
    assert started[3] == f"tvq-gateway --server {server}"


def test_a_server_that_does_not_listen_fails(stand_ins, place):
    with pytest.raises(Failed, match="does not listen:\ntrouble"):
        place.run(planned("tvq-server --port 50051 --trouble"))


def test_a_server_that_says_nothing_is_not_waited_for_without_end(stand_ins, place, monkeypatch):
    monkeypatch.setattr("workplace.PATIENCE_SECONDS", 1)
    with pytest.raises(Failed, match="does not listen:\nIt says nothing for 1 s."):
        place.run(planned("tvq-server --port 50051 --silence"))
