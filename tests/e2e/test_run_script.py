"""scripts/run in a terminal: what it prints, and how it ends."""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest
from server_process import BIN, PATIENCE_SECONDS, ROOT, wait_until

CTRL_C = b"\x03"
ANYWHERE = ["--port", "0", "--http-port", "0"]  # other tests run beside this one


class Terminal:
    """scripts/run as the foreground job of a terminal, with the programs that are built already."""

    def __init__(self):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ["TVQ_BIN_DIR"] = str(BIN)
            os.execv(ROOT / "scripts" / "run", ["run", "--max-tokens", "5", *ANYWHERE])
        self.text, self.code, self.closing = "", None, False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while not self.closing:
            if not select.select([self.master], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self.master, 4096)
            except OSError:  # nobody has the other end open
                return
            self.text += re.sub(r"\x1b\[\d+m", "", data.decode(errors="replace"))

    def wait_for(self, words):
        wait_until(lambda: words in self.text or not self.reader.is_alive(), f"{words!r} in the terminal")
        assert words in self.text, self.text

    def address(self, words):
        """What the line with these words says, up to a space."""
        return re.search(re.escape(words) + r"(\S+)", self.text)[1]

    def press(self, key):
        os.write(self.master, key)

    def close(self):
        self.closing = True
        self.reader.join()
        os.close(self.master)

    def started(self):
        """The names and process ids of server and gateway."""
        found = {}
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields["PPid"]) == self.pid:
                found[fields["Name"]] = int(fields["Pid"])
        return found

    def ended(self):
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None


@pytest.fixture
def terminal():
    run = Terminal()
    run.wait_for("Ctrl-C stops both.")
    programs = run.started()
    yield run
    if not run.ended():
        os.kill(run.pid, signal.SIGTERM)
        wait_until(run.ended, "scripts/run ends")
    for pid in filter(there, programs.values()):
        os.kill(pid, signal.SIGKILL)
    if not run.closing:
        run.close()


def there(pid):
    return Path(f"/proc/{pid}").exists()


def stream(terminal):
    """A completion of the page's gateway that does not end by itself, and has begun."""
    body = {"model": "novels", "prompt": "Once", "max_tokens": 100_000_000, "ignore_eos": True, "stream": True}
    request = urllib.request.Request(terminal.address("The page is at ") + "v1/completions", json.dumps(body).encode())
    answer = urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)
    assert answer.readline().startswith(b"data: ")
    return answer


def test_serves_every_model_that_is_there(terminal):
    models = {path.parent.name for path in (ROOT / "models" / "zoo").glob("*/config.json")}
    with urllib.request.urlopen(terminal.address("The page is at ") + "v1/models", timeout=PATIENCE_SECONDS) as answer:
        assert {model["id"] for model in json.load(answer)["data"]} == models
    with urllib.request.urlopen(terminal.address("The page is at "), timeout=PATIENCE_SECONDS) as answer:
        assert "<html" in answer.read().decode()
    info = subprocess.run([BIN / "tvq", "--server", terminal.address("The server's address is ").rstrip("."), "info"],
                          capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert info.returncode == 0 and "novels" in info.stdout


def run_with(folder, ports=ANYWHERE, inside=()):
    """scripts/run outside of a terminal with the programs in `folder`; the finished process."""
    return subprocess.run([*inside, ROOT / "scripts" / "run", "--max-tokens", "2", *ports], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS,
                          env={**os.environ, "TVQ_BIN_DIR": str(folder)})


def test_takes_the_ports_of_the_documents():
    alone = ["unshare", "--map-root-user", "--net", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh"]
    if shutil.which("ip") is None or subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
        pytest.skip("the system allows no network namespace, in which all ports are free")
    done = run_with(BIN, ports=[], inside=alone)
    assert done.returncode == 0, done.stderr
    assert "The server's address is 127.0.0.1:50051. " in done.stdout
    assert "The page is at http://127.0.0.1:8000/\n" in done.stdout


def test_takes_free_ports_where_those_of_the_documents_are_taken():
    with contextlib.ExitStack() as taken:
        for port in (50051, 8000):
            with contextlib.suppress(OSError):  # another program has it
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
        done = run_with(BIN, ports=[])
    assert done.returncode == 0, done.stderr
    assert "Port 50051 is taken, so tvq-server takes another.\n" in done.stdout
    assert "Port 8000 is taken, so tvq-gateway takes another.\n" in done.stdout
    assert "127.0.0.1:50051" not in done.stdout and "127.0.0.1:8000" not in done.stdout


def test_a_port_that_was_asked_for_is_that_or_none():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_with(BIN, ports=["--port", str(port)])
    assert done.returncode == 1
    assert "run: tvq-server ended at once" in done.stderr and f"cannot listen on 127.0.0.1:{port}" in done.stderr


def test_writes_nothing_beside_the_programs(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("tvq-server", "tvq-gateway", "tvq"):
        (folder / program).symlink_to(BIN / program)
    done = run_with(folder)
    assert done.returncode == 0 and "listening on" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == [folder] and len(list(folder.iterdir())) == 3


def test_says_which_program_is_missing(tmp_path):
    done = run_with(tmp_path / "none")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert done.stderr == f"run: there is no tvq-server in TVQ_BIN_DIR, {tmp_path / 'none'}\n"


def test_one_interrupt_stops_both(terminal):
    programs = terminal.started()
    assert set(programs) == {"tvq-server", "tvq-gateway"}
    terminal.press(CTRL_C)
    wait_until(terminal.ended, "scripts/run ends")
    assert terminal.code == 0 and not any(map(there, programs.values()))


def test_a_second_interrupt_ends_running_requests(terminal):
    programs = terminal.started()
    with stream(terminal) as answer:
        terminal.press(CTRL_C)
        terminal.wait_for("Ctrl-C again")
        # What a client reads after the first interrupt shows that its request goes on.
        for _ in range(200):
            assert answer.readline()
        assert not terminal.ended() and all(map(there, programs.values()))
        terminal.press(CTRL_C)
        wait_until(terminal.ended, "scripts/run ends")
        assert terminal.code == 0 and not any(map(there, programs.values()))


@pytest.mark.parametrize("program", ["tvq-server", "tvq-gateway"])
def test_says_which_program_ended_by_itself(terminal, program):
    programs = terminal.started()
    os.kill(programs[program], signal.SIGKILL)
    terminal.wait_for(f"{program} ended by itself")
    wait_until(terminal.ended, "scripts/run ends")
    assert terminal.code == 1 and not any(map(there, programs.values()))


def test_a_terminal_that_is_closed_leaves_nothing_behind(terminal):
    programs = terminal.started()
    for pid in programs.values():  # as if they were in the terminal's session, too
        os.kill(pid, signal.SIGHUP)
    terminal.close()
    wait_until(terminal.ended, "scripts/run ends")
    assert terminal.code == 0
    wait_until(lambda: not any(map(there, programs.values())), "server and gateway end")
