"""Three servers on one Redis, each on a machine of its own as far as the network goes, behind nginx."""

import collections
import contextlib
import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path

import grpc
import pytest
from clients.packages import python_with_openai
from gateway_process import GatewayProcess
from reliability.crowd import working
from reliability.history import Reference
from reliability.tracked import Tracked, random_call
from reliability.world import CannotRunHere, NotAllowedHere, Redis, Server, directory, outcome_unknown, workers
from server_process import PATIENCE_SECONDS, ROOT, wait_until

REPLICAS = 3
THREADS = 4
DISK = 2
LONGEST_HISTORY = 20
OPENAI_WRITER = Path(__file__).with_name("openai_writer.py")
PROXY_CONFIGURATION = ROOT / "server" / "deploy" / "kubernetes" / "nginx.conf"


class Machine:
    """A network namespace with two links to this one: for clients, and for Redis."""

    def __init__(self, index):
        self.index = index
        self.name = f"tvq{os.getpid()}-{index}"
        self.prefix = ["ip", "netns", "exec", self.name]
        self.address = self._subnet(0) + "2"
        self.redis_host = self._subnet(1) + "1"

    def _subnet(self, link):
        return f"10.213.{2 * self.index + link}."

    def _outside(self, link):
        return f"t{os.getpid()}-{self.index}{link}"  # at most 15 characters

    def __enter__(self):
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError) as error:
            self._remove()
            raise NotAllowedHere("network namespaces", error) from None
        except BaseException:
            self._remove()
            raise
        return self

    def _make(self):
        _run("ip", "netns", "add", self.name)
        _run("ip", "-n", self.name, "link", "set", "lo", "up")
        for link in (0, 1):
            inside = f"eth{link}"
            _run("ip", "link", "add", self._outside(link), "type", "veth", "peer", "name", inside, "netns", self.name)
            _run("ip", "addr", "add", self._subnet(link) + "1/30", "dev", self._outside(link))
            _run("ip", "link", "set", self._outside(link), "up")
            _run("ip", "-n", self.name, "addr", "add", self._subnet(link) + "2/30", "dev", inside)
            _run("ip", "-n", self.name, "link", "set", inside, "up")
        _run(*self.prefix, "true")  # it mounts, too, which a chroot does not allow

    def __exit__(self, *_):
        self._remove()

    def _remove(self):
        with contextlib.suppress(OSError):  # there is no such program
            for link in (0, 1):  # a namespace outlives its name while a connection in it closes
                subprocess.run(["ip", "link", "del", self._outside(link)], capture_output=True)
            subprocess.run(["ip", "netns", "del", self.name], capture_output=True)

    def cut_redis(self):
        _run("ip", "link", "set", self._outside(1), "down")

    def mend_redis(self):
        _run("ip", "link", "set", self._outside(1), "up")


def _run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


class _Route(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Says by which session a proxy shall route, as the clients of tvq do."""

    def intercept_unary_unary(self, proceed, details, request):
        return proceed(self._routed(details, request), request)

    intercept_unary_stream = intercept_unary_unary

    @staticmethod
    def _routed(details, request):
        session_id = getattr(getattr(request, "session", request), "session_id", "")
        if not session_id:
            return details
        return details._replace(metadata=[*(details.metadata or []), ("tvq-session-id", session_id)])


class Proxy:
    """nginx with the configuration that is deployed, but for addresses. Looks like a server to a client."""

    def __init__(self, api, path, servers):
        self.api, self.metadata = api, None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        text = PROXY_CONFIGURATION.read_text()
        for i, server in enumerate(servers):
            text = text.replace(f"server tvq-server-{i}:50051 ", f"server {server} ")
        text = text.replace("listen 50051", f"listen {self.address}").replace("/tmp/", f"{path}/")
        assert "tvq-server-" not in re.sub(r"(?m)#.*", "", text), "the configuration names other servers"
        self.configuration = path / "nginx.conf"
        self.configuration.write_text(text)

    def __enter__(self):
        self.process = subprocess.Popen(["nginx", "-c", self.configuration, "-g", "daemon off; user root;"],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.channel = grpc.insecure_channel(self.address)
        grpc.channel_ready_future(self.channel).result(PATIENCE_SECONDS)
        routed = grpc.intercept_channel(self.channel, _Route())
        self.generation = self.api.generation_grpc.GenerationServiceStub(routed)
        self.sessions = self.api.session_grpc.SessionServiceStub(routed)
        return self

    def __exit__(self, *_):
        self.channel.close()
        self.process.terminate()
        self.process.wait(PATIENCE_SECONDS)


class Client:
    """Works on sessions of its own through the proxy, and makes a call again whose outcome it does not know."""

    def __init__(self, reference, random, sessions):
        self.reference = Reference(reference)
        self.random = random
        self.sessions = [Tracked() for _ in range(sessions)]
        self.tally = collections.Counter()
        self.stopping = False

    def prepare(self, proxy):
        for tracked in self.sessions:
            tracked.create(proxy)

    def work(self, proxy):
        while not self.stopping:
            self.step(proxy, self.random.choice(self.sessions))

    def step(self, proxy, tracked):
        call = random_call(self.random, first=tracked.node.depth == 0)
        key = f"{self.random.getrandbits(64)}"
        outcome = self._until_done(lambda: tracked.call(proxy, call, DISK, idempotency_key=key))
        self.reference.check(tracked.node, outcome, f"session {tracked.id}")
        self.tally["calls"] += 1
        if tracked.node.depth >= LONGEST_HISTORY:
            self._replace(proxy, tracked)

    def _replace(self, proxy, tracked):
        fresh = Tracked()
        self._until_done(lambda: fresh.create(proxy))
        self.sessions[self.sessions.index(tracked)] = fresh
        self._until_done(lambda: _delete(proxy, tracked))

    def _until_done(self, attempt):
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return attempt()
            except grpc.RpcError as error:
                # ABORTED: the server that has begun the same call has not ended it.
                assert outcome_unknown(error) or error.code() == grpc.StatusCode.ABORTED, error
                assert time.monotonic() < end, f"still refused after {PATIENCE_SECONDS} s: {error}"
                self.tally["retries"] += 1
                time.sleep(0.05)

    def finish(self, proxy):
        for tracked in self.sessions:
            self.step(proxy, tracked)


def _delete(proxy, tracked):
    try:
        tracked.delete(proxy)
    except grpc.RpcError as error:  # by the attempt before
        if error.code() != grpc.StatusCode.NOT_FOUND:
            raise


class Replicas:
    """Servers on machines of their own, with fixed addresses, so that they can be started again."""

    def __init__(self, api, machines, redis, stack):
        self.api, self.machines, self.redis, self.stack = api, machines, redis, stack
        self.servers = [None] * len(machines)

    def start(self, i):
        machine = self.machines[i]
        url = f"redis://{machine.redis_host}:{self.redis.port}/0"
        self.servers[i] = self.stack.enter_context(
            Server(self.api, "--host", machine.address, "--redis", url, inside=machine.prefix, port=50051))
        return self.servers[i]


@contextlib.contextmanager
def world(api):
    """Replicas, the proxy before them, and a server alone for the reference."""
    with contextlib.ExitStack() as stack:
        data = stack.enter_context(directory())
        machines = [stack.enter_context(Machine(i)) for i in range(REPLICAS)]
        redis = stack.enter_context(Redis(data / "redis", "--protected-mode", "no", "--bind", "127.0.0.1",
                                          *(machine.redis_host for machine in machines)))
        replicas = Replicas(api, machines, redis, stack)
        for i in range(REPLICAS):
            replicas.start(i)
        proxy = stack.enter_context(Proxy(api, data, [server.address for server in replicas.servers]))
        yield replicas, proxy, stack.enter_context(Server(api))


def run_kills(api, kills, sessions, seed, load_seconds, report=print):
    """Servers are killed in turn under load and come back; clients only ever see the proxy."""
    with world(api) as (replicas, proxy, reference):
        clients = [Client(reference, random, sessions // THREADS) for random in workers(THREADS, seed)]
        pause = workers(1, f"{seed} pauses")[0]
        for client in clients:
            client.prepare(proxy)
        with working(lambda client: client.work(proxy), clients, stop=lambda: [_stop(c) for c in clients]):
            _end_in_turn(replicas, kills, pause, load_seconds)
        for client in clients:
            client.finish(proxy)
        tally = sum((client.tally for client in clients), collections.Counter())
        report(f"{kills} times one of {REPLICAS} servers was killed or, every other time, stopped: {tally['calls']} calls through the proxy, "
               f"{tally['retries']} made again, none lost, all equal to the reference")


def _stop(client):
    client.stopping = True


def _end_in_turn(replicas, ends, pause, load_seconds):
    """Ends one server after the other: kills it, or every second time stops it as servers are stopped."""
    for end in range(ends):
        time.sleep(pause.uniform(0.5, 1) * load_seconds)
        server = replicas.servers[end % REPLICAS]
        if end % 2 == 0:
            server.kill()
        else:
            server.stop()
        time.sleep(pause.uniform(0.5, 1) * load_seconds)
        replicas.start(end % REPLICAS)
    time.sleep(load_seconds)


def run_kills_behind_gateway(api, kills, sessions, seed, load_seconds, report=print):
    """The same, but clients are OpenAI's package and see the gateway before the proxy."""
    try:
        python = python_with_openai()
    except pytest.skip.Exception as reason:
        raise CannotRunHere(str(reason)) from None
    with world(api) as (replicas, proxy, reference), GatewayProcess(proxy.address) as gateway, \
            GatewayProcess(reference.address) as alone:
        environment = {**os.environ, "TVQ_URL": f"{gateway.url}/v1", "TVQ_REFERENCE_URL": f"{alone.url}/v1",
                       "TVQ_SESSIONS": str(sessions), "TVQ_SEED": str(seed)}
        writer = subprocess.Popen([python, OPENAI_WRITER], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=environment)
        try:
            assert writer.stdout.readline() == "begun\n", writer.stderr.read()
            _end_in_turn(replicas, kills, workers(1, f"{seed} pauses")[0], load_seconds)
            out, errors = writer.communicate(timeout=10 * PATIENCE_SECONDS)
        finally:
            writer.kill()
        assert writer.returncode == 0, errors
        tally = json.loads(out)
        report(f"{kills} times one of {REPLICAS} servers was killed or, every other time, stopped: {tally['calls']} calls of the package openai through "
               f"the gateway, {tally['again']} made again by itself, none lost, all equal to the reference")


def run_cuts(api, cuts, seed, report=print):
    """A server is cut off from Redis with a version of its own; the others go on; it comes back, fenced."""
    with world(api) as (replicas, proxy, reference):
        random = workers(1, seed)[0]
        checker = Reference(reference)
        for cut in range(cuts):
            stale, machine = replicas.servers[cut % REPLICAS], replicas.machines[cut % REPLICAS]
            valid = replicas.servers[(cut + 1) % REPLICAS]
            tracked = Tracked()
            tracked.create(stale, DISK)
            checker.check(tracked.node.then(call := random_call(random, True)), tracked.call(stale, call, DISK),
                          "before the cut")
            saved = tracked.node, tracked.version
            machine.cut_redis()
            # In memory it goes on; what it promises to keep it refuses.
            call = random_call(random, False)
            checker.check(tracked.node.then(call), tracked.call(stale, call), "cut off")
            try:
                tracked.call(stale, random_call(random, False), DISK)
                raise AssertionError("a server without Redis said that it saved")
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE, error
            tracked.node, tracked.version = saved
            outcome = tracked.call(valid, random_call(random, False), DISK)
            checker.check(tracked.node, outcome, "on the server that took over")
            machine.mend_redis()
            overtaken = tracked.node, tracked.version
            wait_until(lambda: _aborted(stale, tracked), "the server that was cut off is told")
            tracked.node, tracked.version = overtaken
            for server in (valid, stale, proxy):
                outcome = tracked.call(server, random_call(random, False), DISK)
                checker.check(tracked.node, outcome, "after the cut")
            tracked.delete(proxy)
        report(f"{cuts} times a server was cut off from Redis and overtaken: ABORTED each time it came back, nothing "
               "overwritten, all equal to the reference")


def _aborted(server, tracked):
    """Whether a save on a server is refused because another has the session; not yet while Redis is away."""
    use = server.api.session.SessionCall(session_id=tracked.id)
    try:
        server.sessions.SaveSession(server.api.session.SaveSessionRequest(session=use))
    except grpc.RpcError as error:
        assert error.code() in (grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE), error
        return error.code() == grpc.StatusCode.ABORTED
    raise AssertionError("the server that was cut off said that it saved")
