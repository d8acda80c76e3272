"""A tvq-server process and the calls tests make on it."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import grpc
from first_line import first_line

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
BIN = Path(os.environ.get("TVQ_BIN_DIR", ROOT / "build" / "release" / "bin"))

# How long a test waits for what must happen; a sanitizer build on a busy machine is slow.
PATIENCE_SECONDS = 120


def wait_until(condition, what):
    """Polls until condition() is true; fails, saying what did not happen, when patience ends."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"{what}: did not happen in {PATIENCE_SECONDS} s"
        time.sleep(0.01)


def run_server(*flags, port=0):
    """Runs a server that is expected to end by itself; returns the finished process."""
    return subprocess.run([BIN / "tvq-server", "--port", str(port), *map(str, flags)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE_SECONDS)


@contextlib.contextmanager
def dead_addresses(count):
    """HOST:PORTs that refuse connections and that nobody else is given meanwhile."""
    with contextlib.ExitStack() as bound:
        sockets = [bound.enter_context(socket.socket()) for _ in range(count)]
        for unused in sockets:
            unused.bind(("127.0.0.1", 0))  # and does not listen
        yield [f"127.0.0.1:{unused.getsockname()[1]}" for unused in sockets]


class ServerProcess:
    """`inside`: a command before the server's own, such as one that enters a namespace."""

    def __init__(self, api, *flags, environment=None, inside=(), port=0):
        self.api = api
        self.command = [*inside, BIN / "tvq-server", "--port", str(port), *(str(flag) for flag in flags)]
        self.environment = {**os.environ, **(environment or {})}

    def __enter__(self):
        self.stderr_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.stderr_file, env=self.environment)
        line = first_line(self.process, PATIENCE_SECONDS)
        assert line.startswith("listening on "), f"{line!r}; stderr: {self.stderr()}"
        self.address = line.split()[-1]
        self.channel = grpc.insecure_channel(self.address, options=[("grpc.max_receive_message_length", -1),
                                                                    ("grpc.max_metadata_size", 1 << 20)])
        self.generation = self.api.generation_grpc.GenerationServiceStub(self.channel)
        self.models = self.api.model_grpc.ModelServiceStub(self.channel)
        return self

    def __exit__(self, *_):
        self.channel.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        assert self.process.returncode == 0, self.stderr()

    def stderr(self):
        self.stderr_file.seek(0)
        return self.stderr_file.read()

    def signal(self, number):
        self.process.send_signal(number)

    def resident_bytes(self):
        return self._status_bytes("VmRSS")

    def most_resident_bytes(self):
        """Of its whole life so far."""
        return self._status_bytes("VmHWM")

    def _status_bytes(self, field):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{field}:")[1].split()[0]) * 1024

    def info(self, metadata=None):
        return self.models.GetServerInfo(self.api.model.GetServerInfoRequest(), metadata=metadata)

    def wait_idle(self):
        wait_until(lambda: self.info().requests_running == 0 and self.info().requests_waiting == 0,
                   "requests freed their places")

    def request(self, text=None, ids=None, model="bytes", **sampling):
        message = self.api.generation.GenerateRequest(
            model=model, sampling=self.api.generation.SamplingParams(**sampling))
        if text is not None:
            message.text = text
        if ids is not None:
            message.token_ids.ids.extend(ids)
        return message

    def stream(self, text=None, ids=None, model="bytes", timeout=None, **sampling):
        """Starts a Generate call and returns it, an iterator of responses."""
        return self.generation.Generate(self.request(text, ids, model, **sampling), timeout=timeout)

    def endless(self):
        """A Generate call that has begun and does not end by itself in a test's time."""
        call = self.stream("Once", max_tokens=100_000_000, ignore_eos=True)
        next(call)
        return call

    def generate(self, *args, **kwargs):
        """The collected samples of a Generate call and its usage."""
        samples, usage = {}, None
        for response in self.stream(*args, **kwargs):
            for delta in response.deltas:
                sample = samples.setdefault(delta.index, Sample())
                sample.add(delta)
            if response.HasField("usage"):
                usage = response.usage
        return [samples[i] for i in sorted(samples)], usage


class Sample:
    def __init__(self):
        self.text, self.ids, self.logprobs, self.finish, self.stop = "", [], [], 0, None

    def add(self, delta):
        assert self.finish == 0, "a delta after the last one"
        self.text += delta.text
        self.ids += delta.token_ids
        self.logprobs += delta.logprobs
        self.finish = delta.finish_reason
        which = delta.WhichOneof("stop_reason")
        self.stop = getattr(delta, which) if which else self.stop

    def __eq__(self, other):
        return (self.text, self.ids, self.finish) == (other.text, other.ids, other.finish)

    def __repr__(self):
        return f"Sample({self.text!r}, {self.ids}, {self.finish})"
