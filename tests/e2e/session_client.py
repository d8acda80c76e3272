"""Sessions as tests use them."""

import threading
import time

import grpc
from server_process import PATIENCE_SECONDS, Sample, wait_until

CHUNK = 1 << 20


class Generated:
    """What one Generate call on a session gave."""

    def __init__(self):
        self.sample, self.usage, self.position = Sample(), None, None

    def add(self, response):
        for delta in response.deltas:
            self.sample.add(delta)
        if response.HasField("usage"):
            self.usage = response.usage
        if response.HasField("session"):
            self.position = response.session

    @property
    def ids(self):
        return self.sample.ids


class SessionClient:
    """Session calls on a ServerProcess, with the metadata of one key."""

    def __init__(self, server, key=None):
        self.server, self.api = server, server.api
        self.stub = server.api.session_grpc.SessionServiceStub(server.channel)
        self.generation = server.generation
        self.metadata = [("authorization", f"Bearer {key}")] if key else None

    def call(self, session_id, version=None, durable=False, key="", commit_on_cancel=False):
        message = self.api.session.SessionCall(session_id=session_id, idempotency_key=key,
                                               commit_on_cancel=commit_on_cancel,
                                               durability="DURABILITY_DISK" if durable else "DURABILITY_MEMORY")
        if version is not None:
            message.expected_version = version
        return message

    def request(self, method, /, **fields):
        return getattr(self.api.session, f"{method}Request")(**fields)

    def do(self, method, /, **fields):
        return getattr(self.stub, method)(self.request(method, **fields), metadata=self.metadata)

    def create(self, model="bytes", ttl=None, durable=False, **fields):
        request = self.request("CreateSession", model=model, **fields)
        request.durability = 2 if durable else 1
        if ttl is not None:
            request.ttl.FromNanoseconds(int(ttl * 1e9))
        return self.stub.CreateSession(request, metadata=self.metadata).session

    def get(self, session_id, transcript=False):
        response = self.do("GetSession", session_id=session_id, include_transcript=transcript)
        return (response.session, list(response.transcript)) if transcript else response.session

    def append(self, session_id, text=None, ids=None, **call):
        fields = {"text": text} if ids is None else {"token_ids": self.api.session.TokenIds(ids=ids)}
        return self.do("AppendSession", session=self.call(session_id, **call), **fields).session

    def fork(self, session_id, count=0, mark="", label="", **call):
        return list(self.do("ForkSession", session=self.call(session_id, **call), count=count, mark=mark,
                            label=label).sessions)

    def mark(self, session_id, name, **call):
        return self.do("MarkSession", session=self.call(session_id, **call), name=name).session

    def rewind(self, session_id, mark, **call):
        return self.do("RewindSession", session=self.call(session_id, **call), mark=mark).session

    def save(self, session_id, **call):
        return self.do("SaveSession", session=self.call(session_id, **call)).session

    def delete(self, session_id, **call):
        self.do("DeleteSession", session=self.call(session_id, **call))

    def list(self, page_size=0, **fields):
        """All pages."""
        token, sessions = "", []
        while True:
            page = self.do("ListSessions", page_size=page_size, page_token=token, **fields)
            assert page_size == 0 or len(page.sessions) <= page_size
            sessions += page.sessions
            token = page.next_page_token
            if not token:
                return sessions

    def stream(self, session_id, text=None, ids=None, model="", version=None, durable=False, key="",
               commit_on_cancel=False, timeout=None, **sampling):
        request = self.server.request(text, ids, model, **sampling)
        request.session.CopyFrom(self.call(session_id, version, durable, key, commit_on_cancel))
        return self.generation.Generate(request, timeout=timeout, metadata=self.metadata)

    def generate(self, *args, **kwargs):
        generated = Generated()
        for response in self.stream(*args, **kwargs):
            generated.add(response)
        return generated

    def score(self, session_id, text, key="", **fields):
        request = self.api.generation.ScoreRequest(text=text, session=self.call(session_id, key=key), **fields)
        return list(self.generation.Score(request, metadata=self.metadata))

    def export(self, session_id, **call):
        responses = self.stub.ExportSession(self.request("ExportSession", session=self.call(session_id, **call)),
                                            metadata=self.metadata)
        total, parts = None, []
        for response in responses:
            total = response.total_bytes if total is None else total
            assert 0 < len(response.chunk) <= CHUNK
            parts.append(response.chunk)
        snapshot = b"".join(parts)
        assert total == len(snapshot)
        return snapshot

    def import_(self, snapshot, chunk=CHUNK, **fields):
        def messages():
            yield self.request("ImportSession", create=self.request("CreateSession", **fields),
                               chunk=snapshot[:chunk])
            for i in range(chunk, len(snapshot), chunk):
                yield self.request("ImportSession", chunk=snapshot[i:i + chunk])

        return self.stub.ImportSession(messages(), metadata=self.metadata).session

    def when_free(self, act):
        """act(), again while another call still works on the session: one that was cancelled, say."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return act()
            except grpc.RpcError as e:
                if e.code() != grpc.StatusCode.ABORTED or time.monotonic() > end:
                    raise
            time.sleep(0.01)


class Stopped:
    """The messages of a call, which then sends nothing more: neither another one nor an end."""

    def __init__(self, messages):
        self.messages = messages
        self.sent, self.released = threading.Event(), threading.Event()

    def __iter__(self):
        yield from self.messages
        self.sent.set()  # gRPC asks for the next when what came before is under way
        self.released.wait(PATIENCE_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.released.set()


def cancel_uploads(begin, first, chunk, metrics, method):
    """Cancels calls amid uploads, each as the server reads its last bytes. Together they send 160 MiB, more than the
    server lets be on their way at once."""
    for count in range(1, 21):
        with Stopped([first] + [chunk] * 8) as upload:
            call = begin(iter(upload))
            wait_until(lambda sent=upload.sent, call=call: sent.is_set() or call.done(), "the server read the chunks")
            assert upload.sent.is_set(), call
            call.cancel()
            wait_until(lambda count=count: metrics.calls(method) == {"CANCELLED": count}, "the call was cancelled")


def refused(act):
    """The status code and message with which act() is refused."""
    try:
        result = act()
        if hasattr(result, "__next__"):
            list(result)
    except grpc.RpcError as e:
        return e.code(), e.details()
    raise AssertionError("it was not refused")
