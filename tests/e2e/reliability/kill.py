"""kill -9 under load: what was acknowledged as saved is there, and goes on to the bit."""

import collections
import threading
import time

import grpc
from reliability.crowd import working
from reliability.history import Reference
from reliability.tracked import MOST_TOKENS, Tracked, random_call
from reliability.world import TINY, Server, directory, workers

THREADS = 8
DISK = 2
LONGEST_HISTORY = 12
LONGEST_LOAD_SECONDS = 0.5


class Client:
    """A thread that works on sessions of its own until the server is gone."""

    def __init__(self, reference, random, sessions, most_tokens):
        self.reference = Reference(reference)
        self.random = random
        self.most_tokens = most_tokens
        self.sessions = [Tracked() for _ in range(sessions)]
        self.leaving = set()  # ids whose deletion was asked for and not acknowledged
        self.tally = collections.Counter()

    def work(self, server, killing):
        """Until the server is gone: `killing` is set before it is killed, and not a call may fail before."""
        try:
            while True:
                self._step(server, self.random.randrange(len(self.sessions)))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE or not killing.is_set():
                raise

    def _step(self, server, index):
        tracked = self.sessions[index]
        if tracked.id is None:
            tracked.create(server, DISK)
            self.tally["saved"] += 1
            return
        if tracked.node.depth >= LONGEST_HISTORY:
            self._replace(server, index)
            return
        durability = self.random.choice([0, DISK])
        kind = self.random.random()
        if kind < 0.1:
            tracked.save(server)
            durability = DISK
        elif kind < 0.2 and tracked.marks:
            tracked.rewind(server, self.random.choice(list(tracked.marks)), durability)
        elif kind < 0.3:
            tracked.mark(server, self.random.choice("ab"), durability)
        else:
            call = self._random_call(tracked)
            outcome = tracked.call(server, call, durability)
            self.reference.check(tracked.node, outcome, f"session {tracked.id}")
        self.tally["calls"] += 1
        self.tally["saved"] += durability == DISK

    def _random_call(self, tracked):
        return random_call(self.random, tracked.node.depth == 0, self.most_tokens)

    def _replace(self, server, index):
        old = self.sessions[index]
        self.leaving.add(old.id)
        self.sessions[index] = Tracked()
        old.delete(server)
        self.leaving.discard(old.id)
        self.tally["deleted"] += 1

    def resume(self, server, listed):
        """After the kill: nothing is lost, nothing has changed, nothing goes on differently."""
        for tracked in self.sessions:
            if tracked.id is None:
                continue
            assert tracked.id in listed, (
                f"session {tracked.id}, saved at version {tracked.saved}, is lost:\n{server.stderr()}")
            before = tracked.version
            tracked.found(server)
            self.tally["older" if tracked.version < before else "newest"] += 1
            call = self._random_call(tracked)
            outcome = tracked.call(server, call)
            self.reference.check(tracked.node, outcome, f"session {tracked.id} after the kill")
            self.tally["continued"] += 1


def run(api, rounds, sessions, seed, model=TINY, most_tokens=MOST_TOKENS, flags=(), report=print):
    with directory() as data, Server(api, model=model) as reference:
        clients = [Client(reference, random, sessions // THREADS, most_tokens) for random in workers(THREADS, seed)]
        pause = workers(1, f"{seed} pauses")[0]
        for round_number in range(rounds + 1):
            with Server(api, "--session-dir", data, *flags, model=model) as server:
                listed = set(server.session_ids())
                _check_nothing_else(server, clients, listed)
                for client in clients:
                    client.resume(server, listed)
                if round_number == rounds:
                    break
                killing = threading.Event()
                with working(lambda client, server=server, killing=killing: client.work(server, killing), clients):
                    time.sleep(pause.uniform(0.01, LONGEST_LOAD_SECONDS))
                    killing.set()
                    server.kill()
        tally = sum((client.tally for client in clients), collections.Counter())
        report(f"{rounds} times killed under load ({tally['calls']} calls, {tally['saved']} of them acknowledged as "
               f"saved, {tally['deleted']} sessions deleted): 0 saved sessions lost, 0 found damaged or too old, all "
               f"{tally['continued']} continuations equal to the reference ({tally['newest']} at the newest version, "
               f"{tally['older']} at an older one that was saved)")


def _check_nothing_else(server, clients, listed):
    """Only sessions that a client has, or was making or deleting when the server died."""
    known = {tracked.id for client in clients for tracked in client.sessions}
    leaving = set().union(*(client.leaving for client in clients))
    labels = {tracked.label for client in clients for tracked in client.sessions if tracked.id is None}
    for session in listed - known:
        label = server.sessions.GetSession(
            server.api.session.GetSessionRequest(session_id=session)).session.label
        assert session in leaving or label in labels, f"session {session} with label {label} was deleted, or never made"
        server.sessions.DeleteSession(server.api.session.DeleteSessionRequest(
            session=server.api.session.SessionCall(session_id=session)))
    for client in clients:
        client.leaving.clear()
