"""Random operations on many sessions; every continuation is the reference's, bit for bit."""

import collections

from reliability.crowd import all_at_once
from reliability.history import Reference
from reliability.tracked import MOST_TOKENS, Tracked, imported, random_call
from reliability.world import TINY, Server, directory, workers

THREADS = 8
DISK = 2
# Then a session is deleted and a new one begun, so that the reference does not replay for ever.
LONGEST_HISTORY = 16

WEIGHTS = {"save": 3, "fork": 3, "mark": 3, "rewind": 3, "export": 2, "import": 2, "delete": 1, "unmark": 1}


class Worker:
    """A thread with sessions of its own."""

    def __init__(self, reference, random, sessions, most_tokens):
        self.reference = Reference(reference)
        self.random = random
        self.most_tokens = most_tokens
        self.slots = [None] * sessions
        self.snapshots = []  # (node, bytes)
        self.tally = collections.Counter()

    def durability(self):
        return self.random.choice([0, 0, DISK])

    def generate(self, server, tracked):
        call = random_call(self.random, tracked.node.depth == 0, self.most_tokens)
        outcome = tracked.call(server, call, self.durability())
        self.reference.check(tracked.node, outcome, f"session {tracked.id}")
        self.tally["generate"] += 1

    def operate(self, server, slot):
        """One random operation on what is in the slot; a new session if nothing is."""
        tracked = self.slots[slot]
        if tracked is None:
            self.slots[slot] = Tracked()
            self.slots[slot].create(server, self.durability())
            return None
        name = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if tracked.node.depth >= LONGEST_HISTORY:
            name = "delete"
        if name in ("rewind", "unmark") and not tracked.marks:
            name = "mark"
        if name == "import" and not self.snapshots:
            name = "export"
        getattr(self, name + "_one")(server, slot, tracked)
        return name

    def save_one(self, server, slot, tracked):
        tracked.save(server)

    def fork_one(self, server, slot, tracked):
        mark = self.random.choice(["", *tracked.marks])
        self._replace(server, self.random.randrange(len(self.slots)), tracked.fork(server, mark), keep=tracked)

    def mark_one(self, server, slot, tracked):
        tracked.mark(server, self.random.choice("ab"), self.durability())

    def unmark_one(self, server, slot, tracked):
        tracked.unmark(server, self.random.choice(list(tracked.marks)), self.durability())

    def rewind_one(self, server, slot, tracked):
        tracked.rewind(server, self.random.choice(list(tracked.marks)), self.durability())

    def export_one(self, server, slot, tracked):
        self.snapshots = [*self.snapshots[-3:], tracked.export(server)]

    def import_one(self, server, slot, tracked):
        self._replace(server, slot, imported(server, *self.random.choice(self.snapshots), self.durability()))

    def delete_one(self, server, slot, tracked):
        self._replace(server, slot, None)

    def _replace(self, server, slot, new, keep=None):
        old = self.slots[slot]
        if old is keep and keep is not None:
            new, old = old, new  # a fork that finds no other place goes at once
        if old is not None:
            old.delete(server)
        self.slots[slot] = new

    def run(self, server, operations):
        done = 0
        while done < operations:
            slot = self.random.randrange(len(self.slots))
            name = self.operate(server, slot)
            if name is not None:
                self.tally[name] += 1
                done += 1
            if self.slots[slot] is not None:
                self.generate(server, self.slots[slot])

    def resume(self, server):
        """After a restart."""
        for tracked in filter(None, self.slots):
            tracked.found(server)

    def finish(self, server):
        """Every session goes on once more."""
        for tracked in filter(None, self.slots):
            self.generate(server, tracked)


def run(api, operations, sessions, restarts, seed, model=TINY, most_tokens=MOST_TOKENS, flags=(), report=print):
    """`operations` in all, over `sessions` sessions, with `restarts` restarts, every other a kill -9."""
    tally = collections.Counter()
    with directory() as data, Server(api, model=model) as reference:
        crowd = [Worker(reference, random, sessions // THREADS, most_tokens) for random in workers(THREADS, seed)]
        share = -(-(operations - restarts) // ((restarts + 1) * THREADS))
        for part in range(restarts + 1):
            with Server(api, "--session-dir", data, *flags, model=model) as server:
                all_at_once(lambda worker: worker.resume(server), crowd)
                known = {tracked.id for worker in crowd for tracked in worker.slots if tracked}
                assert set(server.session_ids()) == known
                all_at_once(lambda worker: worker.run(server, share), crowd)
                all_at_once(lambda worker: worker.finish(server), crowd)
                if part == restarts:
                    break
                if part % 2 == 0:
                    server.stop()
                else:
                    all_at_once(lambda worker: [t.save(server) for t in worker.slots if t], crowd)
                    server.kill()
                tally["restart"] += 1
        for worker in crowd:
            tally.update(worker.tally)
        generated = tally.pop("generate")
        report(f"{sum(tally.values())} operations on {sessions} sessions ({dict(sorted(tally.items()))}), "
               f"{generated} calls between them: all equal to the reference")
