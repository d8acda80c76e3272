"""A copy of the tree in which a document's blocks run, one after the other, and the servers that they speak to."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from first_line import first_line
from plan import PYTHON, commands, serves

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("TVQ_BIN_DIR", ROOT / "build" / "release" / "bin")).resolve()
PATIENCE_SECONDS = 300

# As the documents have them; the programs get free ports, and the blocks the addresses with these.
SERVER, GATEWAY = "127.0.0.1:50051", "127.0.0.1:8000"
ZOO = ("--model-dir", "models/zoo")
CALLS_SERVER = re.compile(r"(^|[\s(/])tvq ")
OF_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}


class Failed(Exception):
    """Says what was run, how it ended and what it printed."""


def make_tree(folder):
    """The files of the tree where the documents expect them. What a block may write to is a copy, all else a link."""
    for source in ROOT.iterdir():
        if source.name not in {"build", "client", "docs", ".cache", ".git"}:
            (folder / source.name).symlink_to(source)
    shutil.copytree(ROOT / "docs", folder / "docs")
    (folder / "client").mkdir()
    for source in (ROOT / "client").iterdir():
        if source.name != "python":
            (folder / "client" / source.name).symlink_to(source)
    shutil.copytree(ROOT / "client" / "python", folder / "client" / "python", symlinks=True,
                    ignore=shutil.ignore_patterns("v1", "build", "__pycache__"))
    (folder / "build" / "release").mkdir(parents=True)
    (folder / "build" / "release" / "bin").symlink_to(BIN)
    # Here scripts keep what they fetch.
    (ROOT / ".cache").mkdir(exist_ok=True)
    (folder / ".cache").symlink_to(ROOT / ".cache")


class Served:
    """A program that serves until it is stopped, by a command of the shell, but on a free port."""

    def __init__(self, command, folder, environment):
        name = command.split()[0].split("/")[-1]
        self.is_server = name == "tvq-server"
        port = re.search(r" --port (\d+)", command)
        self.documented = f"127.0.0.1:{port[1]}" if port else SERVER if self.is_server else GATEWAY
        command = command.replace(port[0], "") if port else command
        with open(folder / f"{name}.log", "w+") as log:
            self.process = subprocess.Popen(["bash", "-c", f"exec {command} --port 0"], cwd=folder, env=environment,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                line = first_line(self.process, PATIENCE_SECONDS)
            except TimeoutError as late:
                line = f"It {late}.\n"
            if not line.startswith("listening on "):
                self.stop()
                log.seek(0)
                raise Failed(f"{command}\ndoes not listen:\n{line}{log.read()}")
        self.address = line.split()[-1].removeprefix("http://")

    def stop(self):
        for _ in range(2):  # the second signal ends requests that still run
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()
            self.process.stdout.close()


class Servers:
    """A server and a gateway before it: those that the document starts, or `models` when they are called and not there."""

    def __init__(self, place, *models):
        self.place, self.models, self.running = place, models, {}

    def start(self, command):
        """In the place of the one of its address; with a server its gateway goes, too."""
        served = Served(self.rewrite(command), self.place.folder, self.place.environment())
        for documented in [GATEWAY, SERVER] if served.is_server else [served.documented]:
            self.stop(documented)
        self.running[served.documented] = served

    def stop(self, documented):
        if documented in self.running:
            self.running.pop(documented).stop()

    def stop_all(self):
        for documented in reversed(list(self.running)):
            self.stop(documented)

    def provide(self, text):
        """Starts what the text calls and nobody has started."""
        gateway = GATEWAY in text
        if (gateway or SERVER in text or CALLS_SERVER.search(text)) and SERVER not in self.running:
            self.start(" ".join(["build/release/bin/tvq-server", *self.models]))
        if gateway and GATEWAY not in self.running:
            self.start(f"build/release/bin/tvq-gateway --server {SERVER}")

    def rewrite(self, text):
        """The text with the addresses of what runs."""
        for documented, served in self.running.items():
            text = text.replace(documented, served.address)
        return text

    def environment(self):
        return {"TVQ_SERVER": self.running[SERVER].address} if SERVER in self.running else {}


class Workplace:
    """Where the blocks of one document run. What one writes, and the shell's variables that it sets, the next ones have."""

    def __init__(self, folder):
        self.folder, self.variables, self.path = folder, {}, [folder / "path", BIN]
        self.servers = Servers(self, *ZOO)
        make_tree(folder)
        (folder / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")  # an answer of 4xx or 5xx fails
        (folder / "path").mkdir()
        python = folder / "path" / "python3"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)

    def close(self):
        self.servers.stop_all()

    def environment(self, **more):
        path = ":".join(map(str, [*self.path, os.environ["PATH"]]))
        return {**os.environ, **self.variables, "PATH": path, "CURL_HOME": str(self.folder), "TVQ_BIN_DIR": str(BIN),
                "PYTHONDONTWRITEBYTECODE": "1", **more}

    def run(self, plan, python=sys.executable, models=None, path=None):
        """Raises Failed. `models`: the flags of a server for this block alone; `path`: a folder of programs, from here on."""
        if path:
            self.path.insert(0, path)
        servers = Servers(self, *models) if models else self.servers
        try:
            if plan.kind == PYTHON:
                servers.provide(plan.text)
                self.finish([python, "-c", servers.rewrite(plan.text)], plan.code, self.environment(PYTHONPATH=self.package()))
            else:
                self.shell(commands(plan.text), plan.code, servers)
        finally:
            if models:
                servers.stop_all()

    def shell(self, script, code, servers):
        before = []
        for command in script:
            if serves(command):
                self.script(before, 0, servers)
                before = []
                servers.start(command)
            else:
                before.append(command)
        self.script(before, code, servers)

    def script(self, script, code, servers):
        if not script:
            return
        text = "\n".join(script)
        servers.provide(text)
        environment = self.environment(**servers.environment())
        variables = self.folder / "variables"
        self.finish(["bash", "-c", f"set -aeuo pipefail; trap 'env -0 >{variables}' EXIT\n{servers.rewrite(text)}"], code,
                    environment)
        for line in variables.read_text().split("\0")[:-1]:
            name, _, value = line.partition("=")
            if environment.get(name) != value and name not in OF_THE_SHELL:
                self.variables[name] = value

    def finish(self, command, code, environment):
        process = subprocess.Popen(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Failed(f"{command[-1]}\ndid not end in {PATIENCE_SECONDS} s") from None
        if process.returncode != code:
            raise Failed(f"{command[-1]}\nended with {process.returncode}, not {code}:\n{output.decode(errors='replace')}")

    def package(self):
        """The Python client, as its README has it used without pip."""
        package = self.folder / "client" / "python"
        if not (package / "tvq" / "v1").exists():
            subprocess.run([sys.executable, package / "stubs.py"], check=True)
        return str(package)
