"""Servers that are stopped, killed and started again on the same data."""

import contextlib
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import grpc
from server_process import GOLDEN, PATIENCE_SECONDS, ROOT, ServerProcess

TINY = GOLDEN / "heads_unequal"
CONVERTED = GOLDEN / "hugging_face" / "converted_llama"  # one of softmax attention, whose state does not grow any more
ENDING_SECONDS = 10  # of a server's process, behind the grace that it gives calls
NOVELS = ROOT / "models" / "zoo" / "novels"  # the one that the project ships


class CannotRunHere(Exception):
    """This machine lacks what a scenario needs, such as a package."""


class NotAllowedHere(CannotRunHere):
    """The system does not let a scenario make what it needs, such as a mount: in a container, say."""

    def __init__(self, what, error):
        """`error`: of the command that failed; its first line suffices."""
        told = (getattr(error, "stderr", None) or str(error)).strip()
        super().__init__(f"{what}: {told.splitlines()[0]}")


def key_file(data, names):
    """A file of keys in the directory `data`; each key is its name."""
    file = data / "keys"
    file.write_text("".join(f"{name} {hashlib.sha256(name.encode()).hexdigest()}\n" for name in names))
    return file


def bearer(key):
    return [("authorization", f"Bearer {key}")]


class Server(ServerProcess):
    """A server of one model, by default a tiny one. The caller ends it: kill(), or stop(), or leaving the context."""

    def __init__(self, api, *flags, model=TINY, key=None, **process):
        super().__init__(api, "--model", f"m={model}", *flags, **process)
        self.metadata = bearer(key) if key else None

    def __enter__(self):
        super().__enter__()
        self.sessions = self.api.session_grpc.SessionServiceStub(self.channel)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop(hard=True)
        self.channel.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_SECONDS)

    def stop(self, hard=False):
        """SIGTERM, twice if `hard`; the server has to end well."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            if hard:
                self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the server did not stop in {PATIENCE_SECONDS} s:\n{self.stderr()}") from None
        assert code == 0, f"the server ended with {code}:\n{self.stderr()}"

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def session_ids(self):
        """Of all sessions, page by page."""
        ids, token = [], ""
        while True:
            page = self.sessions.ListSessions(
                self.api.session.ListSessionsRequest(page_size=1000, page_token=token), metadata=self.metadata)
            ids += [session.id for session in page.sessions]
            token = page.next_page_token
            if not token:
                return ids


class Redis:
    """A redis-server of a test's own, which writes its append-only file before it answers."""

    def __init__(self, directory, *flags):
        self.directory = Path(directory)
        self.directory.mkdir(exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.flags = flags
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process:
            self.kill()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
             "--appendfsync", "always", "--dir", self.directory, *self.flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_SECONDS
        while b"PONG" not in self.cli("PING"):
            assert time.monotonic() < end, "redis-server does not answer"
            time.sleep(0.01)

    def cli(self, *command):
        return subprocess.run(["redis-cli", "-p", str(self.port), *command], capture_output=True).stdout

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def directory(parent=None):
    """A directory that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="tvq-reliability-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def outcome_unknown(error):
    """Whether a call that ended so may have been done all the same."""
    return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN,
                            grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL)


def workers(count, seed):
    """A source of random numbers for each of `count` threads."""
    return [random.Random(f"{seed} {i}") for i in range(count)]
