"""Serves a model directory with tvq-server and tvq-gateway: tokenizes texts, scores tokens, tells the size of a session."""

import ctypes
import http.client
import json
import os
import pathlib
import signal
import subprocess
import urllib.error
import urllib.request
from typing import List, Tuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("tvq-server", "tvq-gateway")
LISTENING = "listening on "
SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)


class ServeError(ValueError):
    """The programs are missing, or they do not serve; the message says why."""


def programs() -> pathlib.Path:
    """The folder of the built programs: $TVQ_BIN_DIR, or build/release/bin."""
    folder = pathlib.Path(os.environ.get("TVQ_BIN_DIR") or ROOT / "build" / "release" / "bin")
    for program in PROGRAMS:
        if not (folder / program).exists():
            raise ServeError(f"{folder} has no {program}: build it, or set TVQ_BIN_DIR")
    return folder


def message_of(answer: bytes) -> str:
    try:
        return json.loads(answer)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")


def end_with_parent() -> None:
    """Called in a child process before its program starts: the child ends when the parent is killed."""
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


class Served:
    """`longest`: the longest context in tokens; 0: as the model says."""

    def __init__(self, directory: pathlib.Path, longest: int = 0):
        self.directory, self.longest, self.processes = directory, longest, []

    def __enter__(self) -> "Served":
        try:
            server = self._start("tvq-server", "--model", f"model={self.directory.absolute()}", "--max-model-len", self.longest,
                                 "--state-dtype", "bfloat16", "--log-level", "warning")
            self.gateway = self._start("tvq-gateway", "--server", server, "--log-level", "warning")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            process.wait()
            process.stdout.close()

    def _start(self, program: str, *flags) -> str:
        """Starts a program -> the address where it listens"""
        process = subprocess.Popen([programs() / program, "--port", "0", *map(str, flags)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
        self.processes.append(process)
        line = process.stdout.readline().strip()
        if not line.startswith(LISTENING):
            raise ServeError(f"{program} does not serve {self.directory}; see above")
        return line[len(LISTENING):]

    def _ask(self, path: str, body: dict = None) -> dict:
        content = None if body is None else json.dumps(body).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the gateway is on this machine
        try:
            with opener.open(urllib.request.Request(f"{self.gateway}{path}", content)) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ServeError(f"{self.directory}: {message_of(error.read())}") from None
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
            raise ServeError(f"{self.directory}: tvq-server or tvq-gateway has ended: {error}") from None

    def tokenize(self, text: str) -> List[int]:
        return self._ask("/tokenize", {"model": "model", "prompt": text, "add_special_tokens": False})["tokens"]

    def nats(self, ids: List[int]) -> np.ndarray:
        """-> nats of each of ids[1:], given all ids before it"""
        answer = self._ask("/v1/completions", {"model": "model", "prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 0,
                                               "add_special_tokens": False})
        return -np.array(answer["choices"][0]["logprobs"]["token_logprobs"][1:])

    def against_best(self, ids: List[int]) -> List[Tuple[float, float]]:
        """-> nats of each of ids[1:], given all ids before it, and nats of the most likely token in its place"""
        answer = self._ask("/v1/completions", {"model": "model", "prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 1,
                                               "add_special_tokens": False})["choices"][0]["logprobs"]
        return [(-of_token, -max(best.values())) for of_token, best in zip(answer["token_logprobs"][1:], answer["top_logprobs"][1:])]

    def session_bytes(self, tokens: List[int]) -> List[int]:
        """-> the bytes of a session after each of these numbers of tokens"""
        model = self._ask("/v1/models/model")
        return [model["bytes_per_session"] + (count - model["quoted_tokens"]) * model["bytes_per_token"] for count in tokens]
