"""The recipes of docs/load-testing.md for load tools of others, as they stand there but for addresses and numbers."""

import os
import re
import shutil
import subprocess

import pytest
from clients.packages import GO_PROGRAMS, go_program
from gateway_process import GatewayProcess
from server_process import PATIENCE_SECONDS, ROOT

REQUESTS = 16  # of 8 clients: hey wants a multiple
# What stands in the document -> what this machine and a test's time allow.
SMALLER = [(r"novels", "bytes"), (r'"max_tokens":64', '"max_tokens":4'), (r"(-n|--total) 200", rf"\1 {REQUESTS}"),
           (r"-d10s", "-d1s"), (r"--duration 10s", "--duration 1s")]
# What a tool says when all went well.
WELL = {
    "grpcurl": r'"completion_?[tT]okens": "4"', "curl": r"(?m)^data: \[DONE\]$", "hey": rf"\[200\]\s+{REQUESTS} responses",
    "h2load": rf"(?s){REQUESTS} succeeded, 0 failed, 0 errored.*status codes: {REQUESTS} 2xx",
    "wrk": r"(?s)^(?!.*Non-2xx)(?!.*Socket errors).*\b[1-9]\d* requests in", "ghz": r"\[OK\]\s+\d+ responses",
}


@pytest.fixture(scope="module")
def recipes(server, tmp_path_factory):
    """recipes(tool) runs the tool's commands and returns what each printed."""
    text = (ROOT / "docs" / "load-testing.md").read_text()
    section = text[text.index("## Other tools"):text.index("## Capacity")]
    lines = re.findall(r"(?m)^    (.*)", section)
    for old, new in SMALLER:
        lines = [re.sub(old, new, line) for line in lines]
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "complete.lua").write_text("\n".join(line for line in lines if line.startswith("wrk.")))
    prepare = [line for line in lines if re.match(r"\w+=|echo ", line)]
    with GatewayProcess(server.address) as gateway:

        def run(tool):
            commands = [line for line in lines if line.startswith(tool + " ")]
            assert commands, f"no recipe for {tool}"
            for command in commands:
                script = "\n".join(["set -e", *prepare, command])
                script = script.replace("127.0.0.1:50051", server.address).replace("http://127.0.0.1:8000", gateway.url)
                yield subprocess.run(["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                                     text=True, timeout=PATIENCE_SECONDS)

        yield run


@pytest.mark.parametrize("tool", WELL)
def test_recipe(recipes, tool, monkeypatch):
    if tool in GO_PROGRAMS:
        monkeypatch.setenv("PATH", f"{go_program(tool).parent}:{os.environ['PATH']}")
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    for done in recipes(tool):
        assert done.returncode == 0 and re.search(WELL[tool], done.stdout), f"{done.args}\n{done.stdout}{done.stderr}"
