"""Sessions of two keys, interleaved at random: none ever sees anything of another.

Every session is a canary: its prompts are its own, its log-probabilities are known to the bit from a
run alone, and each key may choose only among ids of its own.
"""

import threading

import grpc
from reliability.crowd import all_at_once
from reliability.history import Call, Node, Reference, perform
from reliability.world import Server, directory, key_file, workers

ALPHABET = {"red": tuple(range(3, 131)), "blue": tuple(range(131, 259))}  # of each key
CALLS = 40  # of a session's life


def run(api, steps, sessions, seed, flags=(), report=print):
    """`steps` decode steps in all; `sessions` at a time, half of them of each key."""
    with directory() as data:
        keys = key_file(data, ALPHABET)
        with Server(api) as reference:
            lives = _lives(reference, sessions, seed)
        with Server(api, "--api-key-file", keys, "--max-num-seqs", max(2, sessions // 2), *flags, key="red") as server:
            crowd = _Crowd(server, lives, steps)
            crowd.run(workers(sessions, f"{seed} order"))
            report(f"{crowd.steps} decode steps on {crowd.sessions} sessions of two keys, {sessions} at a time: 0 "
                   f"contaminations; {crowd.refused} times the other key was told that there is no such session")


def _lives(reference, count, seed):
    """What `count` different sessions have to say, each alone: (key, nodes)."""
    lives = []
    for index, random in enumerate(workers(count, seed)):
        key = list(ALPHABET)[index % 2]
        checker, node, nodes = Reference(reference), Node(), []
        for _ in range(CALLS):
            prompt = tuple(random.choices(ALPHABET[key], k=random.randint(1, 8)))
            node = node.then(Call(prompt, random.randint(1, 40), random.getrandbits(32), random.choice([0.0, 1.0]),
                                  ALPHABET[key]))
            checker.expected(node)
            nodes.append(node)
        lives.append((key, nodes))
    return lives


class _Crowd:
    def __init__(self, server, lives, steps):
        self.server, self.lives, self.limit = server, lives, steps
        self.lock = threading.Lock()
        self.steps = self.sessions = self.refused = 0

    def run(self, randoms):
        all_at_once(self._work, randoms)

    def _work(self, random):
        while self.steps < self.limit:
            self._live(random, *random.choice(self.lives))

    def _live(self, random, key, nodes):
        server, api = self.server, self.server.api
        own = [("authorization", f"Bearer {key}")]
        other = [("authorization", f"Bearer {next(name for name in ALPHABET if name != key)}")]
        session = server.sessions.CreateSession(api.session.CreateSessionRequest(), metadata=own).session.id
        for node in nodes:
            outcome = perform(server, session, node.call, metadata=own)
            strangers = set(outcome.ids) - set(ALPHABET[key])
            assert not strangers, f"a session of {key} was given ids of the other key: {strangers}"
            assert outcome.same_as(node.outcome), f"contaminated: {outcome} instead of {node.outcome}"
            with self.lock:
                self.steps += len(outcome.ids)
            if random.random() < 0.05:
                self._must_be_hidden(session, other)
        server.sessions.DeleteSession(
            api.session.DeleteSessionRequest(session=api.session.SessionCall(session_id=session)), metadata=own)
        with self.lock:
            self.sessions += 1

    def _must_be_hidden(self, session, other):
        try:
            perform(self.server, session, Call((3,), 1), metadata=other)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND, error
            with self.lock:
                self.refused += 1
            return
        raise AssertionError("a key could use another's session")


def run_queue(api, requests, seed, report=print):
    """`requests` requests at once on a server for eight: each gets what it would get alone."""
    # One address may have 7/10 of the queue.
    with Server(api, "--max-num-admitted-seqs", 9, "--max-num-queued-reqs", 2 * requests) as server:
        random = workers(1, seed)[0]
        kinds = [server.request(ids=random.choices(range(3, 259), k=random.randint(1, 30)), model="",
                                seed=random.getrandbits(32), max_tokens=random.randint(1, 8), ignore_eos=True,
                                logprobs=1) for _ in range(32)]
        alone = [list(server.generation.Generate(kind)) for kind in kinds]
        calls = [(which, server.generation.Generate(kinds[which]))
                 for which in (random.randrange(len(kinds)) for _ in range(requests))]
        for which, call in calls:
            assert _tokens(call) == _tokens(alone[which])
        server.wait_idle()
        report(f"{requests} requests at once, 8 at a time: each equal to the same alone")


def _tokens(responses):
    deltas = [delta for response in responses for delta in response.deltas]
    return ([token for delta in deltas for token in delta.token_ids],
            [entry.token.logprob for delta in deltas for entry in delta.logprobs])
