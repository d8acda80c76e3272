"""Logits that are not finite: the request that has them ends, and nobody else notices.

The model is a golden one with two rows of its embedding exchanged. Every weight is finite, so it is
served; but what these two ids lead to is too large for a float32.
"""

import collections
import itertools
import json
import shutil
import struct

import grpc
from golden_file import read
from reliability.crowd import all_at_once
from reliability.history import Call, Reference, perform
from reliability.tracked import Tracked, random_call
from reliability.world import Server, directory, workers
from server_process import GOLDEN

MODEL = GOLDEN / "bytes_untied"  # without a norm before its logits

# Ids that stand for no byte. OVERFLOW gives logits that are not finite and leaves a good state;
# after POISON the state itself is infinite, whatever follows.
OVERFLOW, POISON = 0, 2

LARGE = 3e38
THREADS = 8
LONGEST_HISTORY = 12


def make_model(path):
    """A copy of MODEL in which OVERFLOW and POISON are never drawn, unless nothing else is allowed."""
    shutil.copytree(MODEL, path, ignore=shutil.ignore_patterns("expected.safetensors"))
    tensors = {name: values.copy() for name, values in read(MODEL / "model.safetensors").items()}
    embedding, value = tensors["embedding.weight"], tensors["layers.0.v_proj.weight"]
    embedding[OVERFLOW] = LARGE
    embedding[:, 0] = 0  # read by a single column of values, which only POISON reaches
    embedding[POISON] = 0
    embedding[POISON, 0] = 1
    value[0] = 0
    value[0, 0] = LARGE
    tensors["layers.0.norm.bias"][0] = 0
    tensors["lm_head.bias"][[OVERFLOW, POISON]] = -1e4
    _write(path / "model.safetensors", tensors)
    return path


def _write(path, tensors):
    header, offset = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(values.tobytes() for values in tensors.values()))


# name -> (the prompt ends so, what is asked)
FAULTS = {
    "in the prompt's last logits": ((OVERFLOW,), "generate"),
    "in a sampled token's logits": ((), "forced"),
    "in the logits an append leaves": ((OVERFLOW,), "append"),
    "in the state, by an append": ((POISON, 40), "append"),
    "in the state, by a prompt": ((POISON, 40, 41), "generate"),
    "in the state, by a sampled token": ((), "poisoned"),
    "in a score": ((OVERFLOW, 40), "score"),
    "without a session": ((POISON, 40), "alone"),
}


class Worker:
    """A thread with sessions of its own, some of whose calls fail."""

    def __init__(self, reference, random, sessions):
        self.reference = Reference(reference)
        self.random = random
        self.sessions = [Tracked() for _ in range(sessions)]
        self.faults = itertools.cycle(random.sample(list(FAULTS), len(FAULTS)))
        self.tally = collections.Counter()

    def run(self, server, steps):
        for tracked in self.sessions:
            tracked.create(server)
            self.go_on(server, tracked)
        for step in range(steps):
            tracked = self.random.choice(self.sessions)
            if step % 4 == 3:
                self.fail(server, tracked, next(self.faults))
            if tracked.node.depth >= LONGEST_HISTORY:
                tracked.delete(server)
                self.sessions.remove(tracked)
                self.sessions.append(tracked := Tracked())
                tracked.create(server)
            self.go_on(server, tracked)

    def go_on(self, server, tracked):
        call = random_call(self.random, first=tracked.node.depth == 0, most_tokens=20)
        outcome = tracked.call(server, call, durability=self.random.choice([0, 2]))
        self.reference.check(tracked.node, outcome, f"session {tracked.id}")
        self.tally["calls"] += 1

    def fail(self, server, tracked, name):
        """A call that has to end with INTERNAL and to leave the session as it was."""
        end, kind = FAULTS[name]
        prompt = tuple(self.random.choices(range(3, 259), k=self.random.choice([1, 7, 300]))) + end
        try:
            self._make(server, tracked, prompt, kind)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INTERNAL and "finite" in error.details(), (name, error)
        else:
            raise AssertionError(f"not finite {name}: the call ended well")
        session = server.sessions.GetSession(
            server.api.session.GetSessionRequest(session_id=tracked.id)).session
        assert (session.version, session.position) == (tracked.version, tracked.node.position), (name, session)
        self.tally["failed"] += 1

    def _make(self, server, tracked, prompt, kind):
        generation = server.api.generation
        if kind == "alone":
            list(server.generation.Generate(server.request(ids=prompt, model="", max_tokens=5)))
        elif kind == "score":
            request = generation.ScoreRequest(session=tracked.use(server))
            request.token_ids.ids.extend(prompt)
            list(server.generation.Score(request))
        else:
            forced = {"forced": (OVERFLOW,), "poisoned": (POISON,)}.get(kind, ())
            call = Call(prompt, 0 if kind == "append" else 5, self.random.getrandbits(32), 1.0, forced)
            perform(server, tracked.id, call, durability=self.random.choice([0, 2]))


def run(api, steps, sessions, seed, report=print):
    """`steps` calls of each of eight threads on `sessions` sessions in all; every fourth time another fails first."""
    with directory() as data:
        model = make_model(data / "model")
        with Server(api, model=model) as reference, \
                Server(api, "--session-dir", data / "sessions", model=model) as server:
            crowd = [Worker(reference, random, sessions // THREADS) for random in workers(THREADS, seed)]
            all_at_once(lambda worker: worker.run(server, steps), crowd)
            server.wait_idle()
            tally = sum((worker.tally for worker in crowd), collections.Counter())
            report(f"{tally['failed']} calls with logits that are not finite: each ended with INTERNAL and left its "
                   f"session at its version; {tally['calls']} calls beside and after them, all equal to the reference")
