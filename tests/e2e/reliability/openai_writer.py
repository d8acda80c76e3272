"""Writes on sessions with the package openai, which makes calls again by itself, until standard input ends.

Needs nothing but that package. Each answer must equal, probabilities included, that of a server left alone, and each
call must count once. The environment names both, how many sessions and the seed; the last line printed counts calls."""

import json
import os
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import openai

THREADS = 4
RETRIES = 100
PATIENCE_SECONDS = 60

ended = threading.Event()


class Client(openai.OpenAI):
    """Counts what goes out."""

    def __init__(self, url):
        self.requests = 0
        super().__init__(base_url=url, api_key="none is needed", max_retries=RETRIES, timeout=PATIENCE_SECONDS,
                         http_client=httpx2.Client(event_hooks={"request": [self._count]}))

    def _count(self, _):
        self.requests += 1

    def new_session(self, key):
        session = self.post("/sessions", cast_to=object, body={"model": "m"},
                            options={"headers": {"Idempotency-Key": key}})
        return session["id"], session["version"]


class Writer:
    """Its sessions, each with a twin on the server left alone."""

    def __init__(self, name, sessions):
        self.random = random.Random(name)
        self.here, self.alone = Client(os.environ["TVQ_URL"]), Client(os.environ["TVQ_REFERENCE_URL"])
        self.pairs = [self._pair() for _ in range(sessions)]
        self.calls = sessions

    def _key(self):
        return f"{self.random.getrandbits(64):x}"

    def _pair(self):
        key = self._key()
        return [*self.here.new_session(key), self.alone.new_session(key)[0]]

    def write(self):
        while not ended.is_set():
            self._step(self.random.choice(self.pairs))
        for pair in self.pairs:
            self._step(pair)

    def _step(self, pair):
        session, version, twin = pair
        call = {"model": "m", "prompt": self.random.choices(range(3, 259), k=self.random.randint(1, 8)),
                "max_tokens": self.random.randint(1, 8), "seed": self.random.getrandbits(31), "logprobs": 2,
                "temperature": self.random.choice([0.0, 0.7, 1.0])}
        answer = self.here.completions.create(**call, extra_headers={"Idempotency-Key": self._key()},
                                              extra_body={"session_id": session, "durability": "disk"})
        expected = self.alone.completions.create(**call, extra_body={"session_id": twin})
        assert answer.choices == expected.choices, f"got\n  {answer.choices}\ninstead of\n  {expected.choices}"
        pair[1] = answer.model_extra["session"]["version"]
        assert pair[1] == version + 1, f"version {version} was followed by {pair[1]}"
        self.calls += 1


def main():
    sessions, seed = int(os.environ["TVQ_SESSIONS"]), os.environ["TVQ_SEED"]
    writers = [Writer(f"{seed} {i}", sessions // THREADS) for i in range(THREADS)]
    print("begun", flush=True)
    with ThreadPoolExecutor(THREADS) as pool:
        results = [pool.submit(writer.write) for writer in writers]
        sys.stdin.read()
        ended.set()
    for result in results:
        result.result()
    calls = sum(writer.calls for writer in writers)
    print(json.dumps({"calls": calls, "again": sum(writer.here.requests for writer in writers) - calls}))


main()
