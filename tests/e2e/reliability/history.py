"""What a session has been through, and what it has to answer: the reference.

A session's state is the result of the calls that made it. A `Node` is such a list of calls, shared
by all that have its beginning in common. The reference makes the same calls on a session that is
never saved, forked, rewound, exported, moved or interrupted, on a server of its own.
"""

import collections
from dataclasses import dataclass

# Sessions that each Reference keeps to go on from; others are made anew from the first call. Eight times so
# many states of the shipped model are 0.8 GB.
MAX_MIRRORS = 32


@dataclass(frozen=True)
class Call:
    prompt: tuple  # token ids
    tokens: int  # to generate; 0: the prompt is appended
    seed: int = 0
    temperature: float = 0.0
    allowed: tuple = ()  # the only ids that may be generated; empty: any

    def request(self, api, use):
        ids = api.session.TokenIds(ids=self.prompt)
        if self.tokens == 0:
            return api.session.AppendSessionRequest(session=use, token_ids=ids)
        sampling = api.generation.SamplingParams(max_tokens=self.tokens, temperature=self.temperature, seed=self.seed,
                                                 ignore_eos=True, logprobs=1, allowed_token_ids=self.allowed)
        return api.generation.GenerateRequest(session=use, token_ids=ids, sampling=sampling)


@dataclass(frozen=True)
class Outcome:
    """Tokens, log-probabilities with the best alternatives, and where the session stands."""

    ids: tuple = ()
    logprobs: tuple = ()
    position: int = 0
    version: int = 0
    persisted_version: int = 0

    def same_as(self, other):
        """Equal to the bit. Versions are not part of it."""
        return (self.ids, self.logprobs, self.position) == (other.ids, other.logprobs, other.position)


class Node:
    __slots__ = ("parent", "call", "position", "depth", "outcome")

    def __init__(self, parent=None, call=None, position=None):
        self.parent = parent
        self.call = call
        self.depth = 0 if parent is None else parent.depth + 1
        self.position = 0 if parent is None else parent.position + len(call.prompt) + call.tokens
        self.outcome = None

    def then(self, call):
        return Node(self, call)

    def path(self):
        nodes, node = [], self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


def perform(server, session_id, call, timeout=None, metadata=None, **use):
    """Makes a call on a session; returns its outcome."""
    api, metadata = server.api, metadata or server.metadata
    request = call.request(api, api.session.SessionCall(session_id=session_id, **use))
    if call.tokens == 0:
        reply = server.sessions.AppendSession(request, timeout=timeout, metadata=metadata)
        return _outcome([], [], reply.session)
    return collect(server.generation.Generate(request, timeout=timeout, metadata=metadata))


def collect(stream):
    """The outcome of a Generate call on a session."""
    ids, logprobs, position = [], [], None
    for response in stream:
        for delta in response.deltas:
            ids += delta.token_ids
            logprobs += [(entry.token.logprob, *((top.token_id, top.logprob) for top in entry.top))
                         for entry in delta.logprobs]
        if response.HasField("session"):
            position = response.session
    assert position is not None, "the stream ended without the session's position"
    return _outcome(ids, logprobs, position)


def _outcome(ids, logprobs, position):
    return Outcome(tuple(ids), tuple(logprobs), position.position, position.version, position.persisted_version)


class Reference:
    """Used by one thread; several may share the server."""

    def __init__(self, server):
        self.server = server
        self.mirrors = collections.OrderedDict()  # Node -> session that is there

    def expected(self, node):
        """The outcome of the node's last call."""
        if node.outcome is None:
            self._reach(node)
        return node.outcome

    def check(self, node, outcome, what):
        expected = self.expected(node)
        assert outcome.same_as(expected), (
            f"{what}: after {node.depth} calls, {node.call}: got\n  {outcome}\ninstead of\n  {expected}")

    def _reach(self, node):
        session = self.mirrors.pop(node.parent, None)
        path = [node]
        if session is None:
            api = self.server.api
            session = self.server.sessions.CreateSession(api.session.CreateSessionRequest()).session.id
            path = node.path()
        for step in path:
            outcome = perform(self.server, session, step.call)
            assert outcome.position == step.position, f"the reference is at {outcome.position}, not {step.position}"
            assert step.outcome is None or outcome.same_as(step.outcome), "two runs of the reference differ"
            step.outcome = outcome
        self.mirrors[node] = session
        while len(self.mirrors) > MAX_MIRRORS:
            _, oldest = self.mirrors.popitem(last=False)
            self._delete(oldest)

    def _delete(self, session):
        api = self.server.api
        self.server.sessions.DeleteSession(
            api.session.DeleteSessionRequest(session=api.session.SessionCall(session_id=session)))
