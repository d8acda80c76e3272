"""Redis goes and comes back under load; two servers share one Redis."""

import collections
import signal
import time

import grpc
from reliability.crowd import working
from reliability.history import Reference
from reliability.tracked import Tracked, random_call
from reliability.world import Redis, Server, directory, workers
from server_process import wait_until

THREADS = 4
DISK = 2
LONGEST_HISTORY = 20


class Client:
    """Works on live sessions. Without Redis they go on; what cannot be saved is said."""

    def __init__(self, reference, random, sessions):
        self.reference = Reference(reference)
        self.random = random
        self.sessions = [Tracked() for _ in range(sessions)]
        self.tally = collections.Counter()
        self.stopping = False

    def prepare(self, server):
        for tracked in self.sessions:
            tracked.create(server, DISK)

    def work(self, server):
        while not self.stopping:
            self._step(server, self.random.choice(self.sessions))

    def stop(self):
        self.stopping = True

    def _step(self, server, tracked):
        durability = self.random.choice([0, DISK])
        call = random_call(self.random, first=tracked.node.depth == 0)
        try:
            outcome = tracked.call(server, call, durability)
        except grpc.RpcError as error:
            # A call that promises nothing durable needs no Redis.
            assert durability == DISK and error.code() == grpc.StatusCode.UNAVAILABLE, error
            assert "redis://" in error.details(), error.details()
            self.tally["refused"] += 1
            self._is_where_it_was(server, tracked)
            return
        self.reference.check(tracked.node, outcome, f"session {tracked.id}")
        self.tally["saved" if durability == DISK else "in memory"] += 1
        if tracked.node.depth >= LONGEST_HISTORY:
            self._replace(server, tracked)

    def _is_where_it_was(self, server, tracked):
        session = server.sessions.GetSession(
            server.api.session.GetSessionRequest(session_id=tracked.id)).session
        assert session.version == tracked.version, "a commit that was refused was not undone"

    def _replace(self, server, tracked):
        fresh = Tracked()
        try:
            fresh.create(server, DISK)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
            return
        self.sessions[self.sessions.index(tracked)] = fresh
        try:
            tracked.delete(server)
        except grpc.RpcError as error:  # it may be done all the same
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error

    def finish(self, server, after_restart):
        for tracked in self.sessions:
            if after_restart:
                tracked.found(server)
            else:
                tracked.save(server)
            outcome = tracked.call(server, random_call(self.random, first=tracked.node.depth == 0), DISK)
            self.reference.check(tracked.node, outcome, f"session {tracked.id} at the end")


def run_outages(api, outages, sessions, seed, load_seconds, report=print):
    """Redis is killed, or frozen, and comes back, `outages` times."""
    with directory() as data, Redis(data / "redis") as redis, Server(api) as reference:
        clients = [Client(reference, random, sessions // THREADS) for random in workers(THREADS, seed)]
        pause = workers(1, f"{seed} pauses")[0]
        with Server(api, "--redis", redis.url) as server:
            for client in clients:
                client.prepare(server)
            with working(lambda client: client.work(server), clients, stop=lambda: [c.stop() for c in clients]):
                for outage in range(outages):
                    time.sleep(pause.uniform(0.2, 1) * load_seconds)
                    redis.freeze() if outage % 4 == 3 else redis.kill()
                    time.sleep(pause.uniform(0.2, 1) * load_seconds)
                    redis.thaw() if outage % 4 == 3 else redis.start()
                time.sleep(load_seconds)
            wait_until(lambda: _can_save(server, clients[0].sessions[0]), "Redis is used again")
            for client in clients:
                client.finish(server, after_restart=False)
            server.kill()
        with Server(api, "--redis", redis.url) as server:
            for client in clients:
                client.finish(server, after_restart=True)
        tally = sum((client.tally for client in clients), collections.Counter())
        report(f"Redis gone {outages} times under load: {tally['in memory']} calls in memory, none failed; "
               f"{tally['saved']} saved, {tally['refused']} refused because they could not be; afterwards and after a "
               f"kill -9 all {sessions} sessions equal to the reference")


def _can_save(server, tracked):
    try:
        tracked.save(server)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        return False
    return True


def run_handover(api, steps, sessions, seed, report=print):
    """Each call goes to one of two servers on the same Redis, as it comes."""
    with directory() as data, Redis(data / "redis") as redis, Server(api) as reference, \
            Server(api, "--redis", redis.url) as one, Server(api, "--redis", redis.url) as other:
        random = workers(1, seed)[0]
        checker = Reference(reference)
        crowd = [Tracked() for _ in range(sessions)]
        for tracked in crowd:
            tracked.create(random.choice([one, other]), DISK)
        last, moves = {}, 0
        for _ in range(steps):
            tracked, server = random.choice(crowd), random.choice([one, other])
            outcome = tracked.call(server, random_call(random, first=tracked.node.depth == 0), DISK)
            checker.check(tracked.node, outcome, f"session {tracked.id}")
            moves += last.get(tracked, server) is not server
            last[tracked] = server
        report(f"{steps} calls on {sessions} sessions by two servers on one Redis, {moves} handovers: all equal to the "
               "reference")


def run_fencing(api, rounds, seed, report=print):
    """A server is frozen with an unsaved version, another takes over, the first wakes up."""
    with directory() as data, Redis(data / "redis") as redis, Server(api) as reference, \
            Server(api, "--redis", redis.url) as stale, Server(api, "--redis", redis.url) as valid:
        random = workers(1, seed)[0]
        checker = Reference(reference)
        for _ in range(rounds):
            tracked = Tracked()
            tracked.create(stale, DISK)
            outcome = tracked.call(stale, random_call(random, True), DISK)
            checker.check(tracked.node, outcome, "before")
            saved = tracked.node, tracked.version
            tracked.call(stale, random_call(random, False))  # in memory, so it will not count
            stale.signal(signal.SIGSTOP)
            tracked.node, tracked.version = saved
            outcome = tracked.call(valid, random_call(random, False), DISK)
            checker.check(tracked.node, outcome, "on the server that took over")
            stale.signal(signal.SIGCONT)
            try:
                Tracked.save(_Copy(tracked), stale)
                raise AssertionError("the stale server said that it saved")
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.ABORTED, error
            for server in (valid, stale):
                outcome = tracked.call(server, random_call(random, False), DISK)
                checker.check(tracked.node, outcome, "after the stale server woke")
            tracked.delete(stale)
        report(f"{rounds} times a server woke up after another had taken its session: ABORTED each time, and both went "
               "on equal to the reference")


class _Copy(Tracked):
    """What a client of the stale server believes."""

    def __init__(self, tracked):
        super().__init__(tracked.node)
        self.id, self.version = tracked.id, tracked.version
