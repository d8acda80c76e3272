"""Full disks, readers that are slow, calls that are cancelled."""

import subprocess
import time

import grpc
from reliability.crowd import all_at_once
from reliability.history import Call, Reference, collect
from reliability.tracked import Tracked, random_call
from reliability.world import NotAllowedHere, Server, directory, workers

DISK = 2


class SmallDisk:
    """A file system in memory. Needs root."""

    def __init__(self, path, size):
        self.path, self.size = path, size

    def __enter__(self):
        self.path.mkdir()
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.size}", "tmpfs", self.path], check=True,
                           capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotAllowedHere("mounting a tmpfs", error) from None
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=True)


def run_full_disk(api, fills, seed, report=print):
    """Sessions are saved until the disk is full; live ones go on, and what was acknowledged is there after a kill."""
    random = workers(1, seed)[0]
    with directory() as data, SmallDisk(data / "small", 1 << 20) as disk, Server(api) as reference:
        checker, crowd, saved = Reference(reference), [], 0

        def go_on(server, tracked):
            outcome = tracked.call(server, random_call(random, first=tracked.node.depth == 0))
            checker.check(tracked.node, outcome, f"session {tracked.id}")

        for _ in range(fills):
            with Server(api, "--session-dir", disk) as server:
                for tracked in crowd:
                    tracked.found(server)
                    go_on(server, tracked)
                for tracked in random.sample(crowd, len(crowd) // 2):
                    tracked.delete(server)
                    crowd.remove(tracked)
                full = False
                while not full:
                    tracked = Tracked()
                    tracked.create(server)
                    go_on(server, tracked)
                    full = not _saved(tracked, server)
                    if not full:
                        crowd.append(tracked)
                        saved += 1
                    go_on(server, tracked)
                for tracked in crowd:
                    go_on(server, tracked)
                    saved += _saved(tracked, server)
                server.kill()
        with Server(api, "--session-dir", disk) as server:
            for tracked in crowd:
                tracked.found(server)
                go_on(server, tracked)
        report(f"the disk filled {fills} times and the server killed each time: {saved} saves acknowledged, none lost; "
               "live sessions went on, all equal to the reference")


def _saved(tracked, server):
    try:
        tracked.save(server)
        return True
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
        return False


def run_cancels(api, cancels, seed, flags=(), report=print):
    """Calls are cancelled at random points: they are done whole, not at all, or, if asked, as far as they came."""
    counts = {"whole": 0, "not at all": 0, "in part": 0}

    def work(server, reference, random):
        checker = Reference(reference)
        tracked = _begun(server, checker, random)
        for _ in range(cancels // 8):
            if tracked.node.depth >= 12:
                tracked.delete(server)
                tracked = _begun(server, checker, random)
            _cancel_once(server, random, tracked, counts)
            _go_on(server, checker, tracked, random_call(random, first=False))

    with Server(api) as reference, Server(api, *flags) as server:
        all_at_once(lambda random: work(server, reference, random), workers(8, seed))
        server.wait_idle()
    report(f"{sum(counts.values())} calls cancelled at random points, done {counts}: every session went on equal to the "
           "reference")


def _begun(server, checker, random):
    tracked = Tracked()
    tracked.create(server)
    _go_on(server, checker, tracked, random_call(random, first=True))
    return tracked


def _go_on(server, checker, tracked, call):
    outcome = tracked.call(server, call)
    checker.check(tracked.node, outcome, f"session {tracked.id}")


def _cancel_once(server, random, tracked, counts):
    call = Call(tuple(random.choices(range(3, 259), k=random.choice([1, 5, 40]))), random.choice([4, 50, 300]),
                random.getrandbits(32), random.choice([0.0, 1.0]))
    keep = random.random() < 0.5
    begun_at = tracked.version
    use = server.api.session.SessionCall(session_id=tracked.id, expected_version=begun_at, commit_on_cancel=keep)
    stream = server.generation.Generate(call.request(server.api, use), metadata=server.metadata)
    try:
        for _ in range(random.choice([0, 0, 1, 3, 30])):
            next(stream)
        time.sleep(random.choice([0, 0, 0.001, 0.01]))
    except StopIteration:
        pass
    stream.cancel()
    session = _settle(server, tracked)
    if session.version == begun_at:
        assert session.position == tracked.node.position
        counts["not at all"] += 1
    else:
        generated = session.position - tracked.node.position - len(call.prompt)
        assert session.version == begun_at + 1
        assert generated == call.tokens or keep, "a cancelled call was kept that nobody asked to keep"
        assert 0 <= generated <= call.tokens
        counts["whole" if generated == call.tokens else "in part"] += 1
        tracked.node = tracked.node.then(Call(call.prompt, generated, call.seed, call.temperature))
    tracked.version = session.version + 1  # settling wrote, too


def _settle(server, tracked):
    """The session as a cancelled call left it. Marks it there, so that the call comes too late if it is still on its
    way: the session is not at the version any more that the call expects."""
    api = server.api
    while True:
        session = server.sessions.GetSession(api.session.GetSessionRequest(session_id=tracked.id),
                                             metadata=server.metadata).session
        request = api.session.MarkSessionRequest(
            session=api.session.SessionCall(session_id=tracked.id, expected_version=session.version), name="settled")
        try:
            server.sessions.MarkSession(request, metadata=server.metadata)
            return session
        except grpc.RpcError as error:  # another call works on it, or has worked on it since
            assert error.code() == grpc.StatusCode.ABORTED, error
            time.sleep(0.001)


def run_slow_readers(api, readers, tokens, seed, report=print):
    """Readers that read a message now and then hold up neither the others nor the commit."""
    with Server(api) as reference, Server(api, "--max-num-seqs", 2) as server:
        random = workers(1, seed)[0]
        checker = Reference(reference)
        slow = []
        for _ in range(readers):
            tracked = Tracked()
            tracked.create(server)
            call = Call(tuple(random.choices(range(3, 259), k=5)), tokens, random.getrandbits(32), 1.0)
            use = server.api.session.SessionCall(session_id=tracked.id)
            slow.append((tracked, call, server.generation.Generate(call.request(server.api, use))))
        messages = {tracked: [next(stream)] for tracked, _, stream in slow}
        quick = _begun(server, checker, random)
        for step in range(readers * 4):
            tracked, _, stream = random.choice(slow)
            response = next(stream, None)
            messages[tracked] += [response] if response else []
            _go_on(server, checker, quick, random_call(random, first=False))
        for tracked, call, stream in slow:
            outcome = collect(iter([*messages[tracked], *stream]))
            node = tracked.node.then(call)
            checker.check(node, outcome, f"session {tracked.id}, read slowly")
            tracked.node, tracked.version = node, outcome.version
            _go_on(server, checker, tracked, random_call(random, first=False))
        report(f"{readers} slow readers of {tokens} tokens each beside a quick one: all equal to the reference")
