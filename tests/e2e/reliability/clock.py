"""The wall clock jumps by hours, to and fro: deadlines keep to the steady clock, times to live to the wall clock."""

import collections
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
from reliability.crowd import working
from reliability.history import Call, Reference
from reliability.tracked import Tracked, random_call
from reliability.world import Server, directory, workers
from server_process import PATIENCE_SECONDS, wait_until

THREADS = 4
DISK = 2
LONGEST_HISTORY = 20
HOUR = 3600
FARTHEST_HOURS = 48  # from the true time, in either direction
LIFE_HOURS = 24 * 30  # of sessions that no jump may end
GENEROUS_SECONDS = 600  # a deadline that is not reached, but would be by any jump forward

# A client of its own process, which can be frozen: begins a call with a deadline and reads nothing more.
BEGIN_CALL = """
import sys, grpc, api
address, session, seconds = sys.argv[1:]
api = api.load()
call = api.generation_grpc.GenerationServiceStub(grpc.insecure_channel(address)).Generate(
    api.generation.GenerateRequest(
        session=api.session.SessionCall(session_id=session),
        token_ids=api.session.TokenIds(ids=[40]),
        sampling=api.generation.SamplingParams(max_tokens=10**9, ignore_eos=True)), timeout=float(seconds))
next(call)
print("begun", flush=True)
sys.stdin.read()
"""


class WallClock:
    """The wall clock of the servers that are started with `environment`."""

    def __init__(self, directory):
        self.path, library = directory / "clock", directory / "wall_clock.so"
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-shared", "-fPIC", "-o", library,
                        Path(__file__).with_name("wall_clock.cc")], check=True)
        self.environment = {"TVQ_TEST_CLOCK": self.path, "LD_PRELOAD": library,
                            # A sanitizer wants to be loaded before all others.
                            "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")}
        self.path.touch()
        self.set(0)

    def set(self, hours):
        """Hours before or after the true time."""
        self.hours = hours
        with open(self.path, "r+b") as file:
            file.write(struct.pack("=q", int(hours * HOUR * 1e9)))


class Jitter:
    """The clock jumps all the time."""

    def __init__(self, clock, random):
        self.clock, self.random, self.stopping = clock, random, threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()

    def _run(self):
        while not self.stopping.wait(0.002):
            self.clock.set(self.random.uniform(-FARTHEST_HOURS, FARTHEST_HOURS))


class Client:
    """Works on live sessions, all with deadlines and lives that no jump may end."""

    def __init__(self, reference, random, sessions):
        self.reference = Reference(reference)
        self.random = random
        self.sessions = [Tracked() for _ in range(sessions)]
        self.calls = 0
        self.stopping = False

    def begin(self, server):
        for index, tracked in enumerate(self.sessions):
            if tracked.id is None:
                tracked.create(server, DISK, ttl_seconds=LIFE_HOURS * HOUR if index % 2 else None)
            else:
                tracked.found(server)

    def work(self, server):
        self.stopping = False
        while not self.stopping:
            self._step(server, self.random.randrange(len(self.sessions)))

    def stop(self):
        self.stopping = True

    def _step(self, server, index):
        tracked = self.sessions[index]
        if tracked.node.depth >= LONGEST_HISTORY:
            tracked.delete(server)
            tracked = self.sessions[index] = Tracked()
            tracked.create(server, DISK)
        call = random_call(self.random, first=tracked.node.depth == 0)
        outcome = tracked.call(server, call, self.random.choice([0, DISK]), timeout=GENEROUS_SECONDS)
        self.reference.check(tracked.node, outcome, f"session {tracked.id}")
        self.calls += 1


def run(api, jumps, restarts, sessions, seed, report=print):
    """`jumps` jumps under load in each of `restarts` + 1 lives of a server; they end in turn by SIGTERM and SIGKILL."""
    tally = collections.Counter()
    with directory() as data, Server(api) as reference:
        clock = WallClock(data)
        random = workers(1, f"{seed} jumps")[0]
        clients = [Client(reference, own, sessions // THREADS) for own in workers(THREADS, seed)]
        waiting = []  # sessions that end when the server is not running
        for life in range(restarts + 1):
            with Server(api, "--session-dir", data / "sessions", "--paused-timeout", HOUR,
                        environment=clock.environment) as server:
                for session in waiting:
                    wait_until(lambda session=session: _is_gone(server, session), "a session over at the start ends")
                tally["ended"] += len(waiting)
                for client in clients:
                    client.begin(server)
                with working(lambda client, server=server: client.work(server), clients,
                             stop=lambda: [client.stop() for client in clients]):
                    for _ in range(jumps):
                        _jump(server, clock, random, tally)
                if life == restarts:
                    break
                waiting = [_new(server, ttl=HOUR, durability=DISK)]
                if life % 2 == 0:
                    # Nobody saves before: stopping has to.
                    with Jitter(clock, random):
                        server.stop()
                    _assert_all_saved(clients)
                else:
                    server.kill()
                clock.set(FARTHEST_HOURS + 2)
        report(f"{tally['jumps']} jumps of the wall clock by up to {2 * FARTHEST_HOURS} hours, and jumps all the time "
               f"while it stopped, {restarts} restarts: {sum(client.calls for client in clients)} calls with deadlines "
               f"and 0 ended by a jump, all equal to the reference; {tally['deadlines']} deadlines kept by the steady "
               f"clock; {tally['ended']} sessions ended by the wall clock, none that should not")


def _assert_all_saved(clients):
    """What the next life has to find: the newest version, not only those acknowledged as saved."""
    for client in clients:
        for tracked in client.sessions:
            tracked.saved = tracked.version


def _jump(server, clock, random, tally):
    target = random.uniform(-FARTHEST_HOURS, FARTHEST_HOURS)
    if abs(target - clock.hours) < 2:
        target = -clock.hours
    short = _new(server, ttl=HOUR)
    busy, frozen = _new(server, ttl=HOUR), _new(server)
    call = _endless(server, busy)
    with _Frozen(server, frozen):
        before = clock.hours
        clock.set(target)
        wait_until(lambda: _follows(server, clock), "the server sees the jump")
        tally["jumps"] += 1
        # Its own client cannot tell the server that its time is over.
        wait_until(lambda: _is_free(server, frozen), "a deadline passes while the wall clock jumps")
        assert _get(server, frozen).version == 1
        tally["deadlines"] += 1
    assert server.info().uptime.seconds < HOUR, "what the server measures with the wall clock"
    if target > before:
        wait_until(lambda: _is_gone(server, short), "a session ends when the wall clock passes its end")
        tally["ended"] += 1
    else:
        probe = _new(server, ttl=0.01)  # when it has gone, the sweep has been
        wait_until(lambda: _is_gone(server, probe), "the sweep goes on when the clock is set back")
        assert not _is_gone(server, short), "a session ended though its time is not over"
        _delete(server, short)
        tally["ended"] += 1
    for _ in range(3):
        next(call)  # a session that is used does not end, nor does its call
    call.cancel()
    wait_until(lambda: _is_free(server, busy), "a call that was cancelled ends")
    assert _get(server, busy).version == 2, "what a cancelled call generated was not kept"
    for session in (busy, frozen):
        _delete(server, session)


def _new(server, ttl=None, durability=0):
    request = server.api.session.CreateSessionRequest(durability=durability)
    if ttl is not None:
        request.ttl.FromNanoseconds(int(ttl * 1e9))
    return server.sessions.CreateSession(request).session.id


def _follows(server, clock):
    """Whether the server knows what time it is. Abseil's clock looks only every few seconds."""
    session = _new(server)
    seen = _get(server, session).create_time.seconds
    _delete(server, session)
    return abs(seen - (time.time() + clock.hours * HOUR)) < HOUR / 2


def _get(server, session):
    return server.sessions.GetSession(server.api.session.GetSessionRequest(session_id=session)).session


def _is_gone(server, session):
    try:
        _get(server, session)
        return False
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error
        return True


def _is_free(server, session):
    """Whether no call works on it."""
    use = server.api.session.SessionCall(session_id=session)
    try:
        server.sessions.UnmarkSession(server.api.session.UnmarkSessionRequest(session=use, name="none"))
    except grpc.RpcError as error:
        assert error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ABORTED), error
        return error.code() == grpc.StatusCode.NOT_FOUND  # there is no such mark
    raise AssertionError("a mark was removed that nobody made")


def _delete(server, session):
    use = server.api.session.SessionCall(session_id=session)
    server.sessions.DeleteSession(server.api.session.DeleteSessionRequest(session=use))


def _endless(server, session):
    use = server.api.session.SessionCall(session_id=session, commit_on_cancel=True)
    call = server.generation.Generate(Call((40,), 1_000_000_000).request(server.api, use), timeout=GENEROUS_SECONDS)
    next(call)
    return call


class _Frozen:
    """A call on `session` with a deadline, whose client does not move any more."""

    def __init__(self, server, session):
        self.server, self.session = server, session

    def __enter__(self):
        seconds = 1
        while not self._begins(seconds):  # a machine that is busy needs a later deadline
            wait_until(lambda: _is_free(self.server, self.session), "a call that passed its deadline ends")
            assert seconds < PATIENCE_SECONDS, f"a call does not begin in {seconds} s"
            seconds *= 2
        self.process.send_signal(signal.SIGSTOP)

    def _begins(self, seconds):
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN_CALL, self.server.address, self.session, str(seconds)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        begins = self.process.stdout.readline() == b"begun\n"
        if not begins:
            self.process.wait()
        return begins

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
