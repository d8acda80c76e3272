"""A tvq-gateway process and the HTTP requests tests make on it."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile

from first_line import first_line
from server_process import BIN, PATIENCE_SECONDS


def run_gateway(*flags):
    """Runs a gateway that is expected to end by itself; returns the finished process."""
    return subprocess.run([BIN / "tvq-gateway", *map(str, flags)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=PATIENCE_SECONDS)


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class GatewayProcess:
    """`inside`: a command before the gateway's own, such as one that sets limits."""

    def __init__(self, server, *flags, environment=None, inside=()):
        self.server = server  # HOST:PORT
        self.inside = inside
        self.flags = [str(flag) for flag in flags]
        self.environment = {**os.environ, **(environment or {})}
        self.context = None  # of TLS

    def __enter__(self):
        self.stderr_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*self.inside, BIN / "tvq-gateway", "--port", "0", "--server", self.server,
                                         *self.flags], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.stderr_file, env=self.environment)
        line = first_line(self.process, PATIENCE_SECONDS)
        assert line.startswith("listening on http"), f"{line!r}; stderr: {self.stderr()}"
        self.url = line.split()[-1]
        self.host, _, port = self.url.split("//")[1].rpartition(":")
        self.port = int(port)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            # A second signal while it ends by itself would kill it; with requests under way it waits.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.5)
            self.process.send_signal(signal.SIGTERM)  # nothing happens to one that has ended
            self.process.wait(PATIENCE_SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        assert self.process.returncode == 0, f"exit code {self.process.returncode}: {self.stderr()}"
        assert "calls that do not end" not in self.stderr()

    def stderr(self):
        self.stderr_file.seek(0)
        return self.stderr_file.read()

    def connect(self):
        """An http.client connection."""
        if self.url.startswith("https"):
            return http.client.HTTPSConnection(self.host, self.port, timeout=PATIENCE_SECONDS, context=self.context)
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)

    def raw(self):
        """A plain socket."""
        return socket.create_connection((self.host, self.port), timeout=PATIENCE_SECONDS)

    def call(self, method, path, body=None, headers=None):
        """One request on a connection of its own. A body that is no bytes goes as JSON."""
        connection = self.connect()
        try:
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **kwargs):
        return self.call("GET", path, **kwargs)

    def post(self, path, body, **kwargs):
        return self.call("POST", path, body, **kwargs)

    def complete(self, prompt="Once", **fields):
        """POST /v1/completions; the parsed answer, which must be 200."""
        answer = self.post("/v1/completions", {"model": "bytes", "prompt": prompt, **fields})
        assert answer.status == 200, answer.body
        return answer.json

    def connections(self):
        """How many there are, with the one that asks."""
        text = self.get("/metrics").body.decode()
        return int(float(text.split("\ntvq_gateway_connections ")[1].split()[0]))

    def stream(self, path="/v1/completions", headers=None, **fields):
        """Opens a stream and returns it, an iterator of events."""
        return Stream(self, path, {"model": "bytes", "stream": True, **fields}, headers or {})

    def tls(self, ca):
        self.context = ssl.create_default_context(cafile=str(ca))


class Stream:
    """The events of a stream as documents, up to [DONE]; then `done` is true."""

    def __init__(self, gateway, path, body, headers):
        self.connection = gateway.connect()
        self.connection.request("POST", path, json.dumps(body), headers)
        self.socket = self.connection.sock
        self.response = self.connection.getresponse()
        self.done = False

    def __iter__(self):
        return self

    def __next__(self):
        assert self.response.status == 200, self.response.read()
        while True:
            line = self.response.readline().decode()
            if not line:
                raise StopIteration
            if line == "data: [DONE]\n":
                self.done = True
            elif line.startswith("data: "):
                return json.loads(line[6:])
            else:
                assert line == "\n" or line.startswith(":"), line

    def hang_up(self):
        self.socket.close()
        self.response.close()
        self.connection.close()


def text_of(events, index=0):
    """What a choice's events say together."""
    return "".join(choice["text"] for event in events for choice in event["choices"] if choice["index"] == index)
