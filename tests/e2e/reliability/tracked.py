"""Sessions under test, and what their client knows of them."""

import itertools

import grpc
from reliability.history import Call, Node, perform
from reliability.world import outcome_unknown

VOCABULARY = range(3, 256)  # ids that every model has
MOST_TOKENS = 8  # that a call generates

_labels = itertools.count()


def random_call(random, first, most_tokens=MOST_TOKENS):
    """Greedy or seeded, generated or appended, with or without a prompt; the first one has one."""
    prompt = tuple(random.choices(VOCABULARY, k=random.randint(1 if first else 0, 12)))
    tokens = random.randint(0 if prompt else 1, most_tokens)
    return Call(prompt, tokens, random.getrandbits(32), random.choice([0.0, 0.7, 1.0]))


class Tracked:
    """One session. `at` has every version it may be found at after a crash."""

    def __init__(self, node=None):
        self.id = None
        self.label = f"s{next(_labels)}"
        self.node = node or Node()
        self.version = 0
        self.saved = 0  # newest version acknowledged as persisted
        self.marks = {}  # name -> Node
        self.at = {}  # version -> (node, marks)

    def create(self, server, durability=0, ttl_seconds=None):
        request = server.api.session.CreateSessionRequest(label=self.label, durability=durability)
        if ttl_seconds is not None:
            request.ttl.FromSeconds(ttl_seconds)
        self.adopt(server.sessions.CreateSession(request, metadata=server.metadata).session)

    def adopt(self, session):
        """Takes over what a reply says of a new session at self.node."""
        assert session.position == self.node.position, (session, self.node.position)
        self.id = session.id
        self._now_at(session.version, session.persisted_version)

    def _now_at(self, version, persisted):
        self.version = version
        self.saved = max(self.saved, persisted)
        self.at[version] = (self.node, dict(self.marks))
        self.at = {v: known for v, known in self.at.items() if v >= self.saved}

    def _attempt(self, change, node, marks):
        """Calls change(), after which the session is one version on, at `node` with `marks`."""
        try:
            reply = change()
        except grpc.RpcError as error:
            if outcome_unknown(error):
                self.at[self.version + 1] = (node, marks)
            raise
        assert reply.version == self.version + 1, f"version {self.version} was followed by {reply.version}"
        assert reply.position == node.position, f"is at position {reply.position} instead of {node.position}"
        self.node, self.marks = node, marks
        self._now_at(reply.version, reply.persisted_version)
        return reply

    def use(self, server, durability=0):
        return server.api.session.SessionCall(session_id=self.id, durability=durability)

    def call(self, server, call, durability=0, **use):
        """Appends or generates; returns the outcome, which the caller checks."""
        node = self.node.then(call)
        return self._attempt(lambda: perform(server, self.id, call, durability=durability, **use), node, self.marks)

    def mark(self, server, name, durability=0):
        request = server.api.session.MarkSessionRequest(session=self.use(server, durability), name=name)
        self._attempt(lambda: server.sessions.MarkSession(request, metadata=server.metadata).session, self.node,
                      {**self.marks, name: self.node})

    def unmark(self, server, name, durability=0):
        request = server.api.session.UnmarkSessionRequest(session=self.use(server, durability), name=name)
        self._attempt(lambda: server.sessions.UnmarkSession(request, metadata=server.metadata).session, self.node,
                      {other: node for other, node in self.marks.items() if other != name})

    def rewind(self, server, name, durability=0):
        request = server.api.session.RewindSessionRequest(session=self.use(server, durability), mark=name)
        self._attempt(lambda: server.sessions.RewindSession(request, metadata=server.metadata).session,
                      self.marks[name], self.marks)

    def save(self, server):
        request = server.api.session.SaveSessionRequest(session=self.use(server))
        reply = server.sessions.SaveSession(request, metadata=server.metadata).session
        assert reply.version == self.version, f"a save at version {self.version} says version {reply.version}"
        assert reply.persisted_version == self.version, f"saved {reply.persisted_version}, not {self.version}"
        self._now_at(self.version, reply.persisted_version)

    def fork(self, server, mark=""):
        """A new session, where this one or its mark is."""
        request = server.api.session.ForkSessionRequest(session=self.use(server), mark=mark, label="fork")
        reply = server.sessions.ForkSession(request, metadata=server.metadata)
        assert len(reply.sessions) == 1
        forked = Tracked(self.marks[mark] if mark else self.node)
        forked.adopt(reply.sessions[0])
        return forked

    def export(self, server):
        request = server.api.session.ExportSessionRequest(session=self.use(server))
        stream = server.sessions.ExportSession(request, metadata=server.metadata)
        chunks = list(stream)
        snapshot = b"".join(chunk.chunk for chunk in chunks)
        assert len(snapshot) == chunks[0].total_bytes
        return self.node, snapshot

    def delete(self, server):
        server.sessions.DeleteSession(server.api.session.DeleteSessionRequest(session=self.use(server)),
                                      metadata=server.metadata)

    def found(self, server):
        """After a crash or a restart: the session must be there, at a version not older than saved."""
        session = server.sessions.GetSession(server.api.session.GetSessionRequest(session_id=self.id),
                                             metadata=server.metadata).session
        assert session.version >= self.saved, f"version {self.saved} was saved, {session.version} is found"
        assert session.version in self.at, f"found at version {session.version}, which was one of {sorted(self.at)}"
        self.node, self.marks = self.at[session.version]
        assert session.position == self.node.position, (session, self.node.position)
        assert {mark.name: mark.position for mark in session.marks} == {
            name: node.position for name, node in self.marks.items()}, "other marks than were made"
        self.at = {session.version: (self.node, dict(self.marks))}
        self.version = self.saved = session.version


def imported(server, node, snapshot, durability=0):
    """A new session from an export."""
    session, session_grpc = server.api.session, server.sessions

    def requests():
        yield session.ImportSessionRequest(
            create=session.CreateSessionRequest(label="import", durability=durability))
        for begin in range(0, len(snapshot), 1 << 20):
            yield session.ImportSessionRequest(chunk=snapshot[begin:begin + (1 << 20)])

    tracked = Tracked(node)
    tracked.adopt(session_grpc.ImportSession(requests(), metadata=server.metadata).session)
    return tracked
