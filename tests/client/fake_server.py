"""A server without a model, for tests of the clients: sessions are kept in memory and hold text.

The answer to a prompt is the prompt in capitals, repeated, a token per byte. The calls follow the comments of
proto/tvq/v1 as far as a client can see them.
"""

import itertools
import json
import threading
import time
from concurrent import futures

import grpc
from tvq.v1 import admin_pb2, generation_pb2, model_pb2, refusal_pb2, session_pb2

MAGIC = b"fake snapshot "
SERVICES = {"GenerationService": generation_pb2, "SessionService": session_pb2, "ModelService": model_pb2,
            "AdminService": admin_pb2}


def break_calls(listener):
    """Takes connections of HTTP/2, and closes each as soon as a call comes, as a server does that is killed."""
    empty_settings = b"\0\0\0\4\0\0\0\0\0"
    headers = 1  # the type of a frame
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as incoming:
            connection.sendall(empty_settings)
            incoming.read(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
            while (frame := incoming.read(9)) and frame[3] != headers:
                incoming.read(int.from_bytes(frame[:3], "big"))


class Refused(Exception):
    """A call that ends with this status; with a reason it has the details of a server's."""

    def __init__(self, code, message, reason=None, field=None, retry_after_ms=None):
        super().__init__(message)
        self.code, self.reason, self.field, self.retry_after_ms = code, reason, field, retry_after_ms

    def details(self):
        details = refusal_pb2.StatusDetails(code=self.code.value[0], message=str(self))
        parts = [("ErrorInfo", refusal_pb2.ErrorInfo(reason=self.reason, domain="tvq"))]
        if self.field:
            parts.append(("BadRequest", refusal_pb2.BadRequest(field_violations=[{"field": self.field}])))
        if self.retry_after_ms is not None:
            delay = {"seconds": self.retry_after_ms // 1000, "nanos": self.retry_after_ms % 1000 * 1_000_000}
            parts.append(("RetryInfo", refusal_pb2.RetryInfo(retry_delay=delay)))
        for name, part in parts:
            details.details.add(type_url=f"type.googleapis.com/google.rpc.{name}", value=part.SerializeToString())
        return details.SerializeToString()


class FakeSession:
    def __init__(self, number, text="", label="", parent=None):
        self.id, self.text, self.label, self.parent = f"s{number}", text, label, parent
        self.parent_version = parent.version if parent else 0
        self.version, self.persisted, self.marks, self.writing = 0, 0, {}, False
        self.ttl = None

    def message(self):
        message = session_pb2.Session(
            id=self.id, model="fake", parent_id=self.parent.id if self.parent else "",
            parent_version=self.parent_version, version=self.version, persisted_version=self.persisted,
            position=len(self.text), bytes=64, tier=session_pb2.SESSION_TIER_HOST, has_transcript=True,
            label=self.label)
        message.create_time.FromSeconds(1_000_000_000)
        message.last_use_time.GetCurrentTime()
        if self.ttl:
            message.expire_time.FromSeconds(int(time.time()) + self.ttl)
        for name, text in self.marks.items():
            message.marks.add(name=name, position=len(text))
        return message

    def position(self):
        return session_pb2.SessionPosition(session_id=self.id, version=self.version, persisted_version=self.persisted,
                                           position=len(self.text))


class FakeServer:
    """Listens at `address`. `keys`: if not empty, calls need one of them. `calls`: names of the methods called.
    `refuse`: method name -> Refused, raised instead of an answer. `token_seconds`: how long a token takes.
    `commit_seconds`: how long a session stays busy after an interrupted answer. `chat_template`: the model's.
    `conversation_templates`: names of the model's own; each writes <ROLE>CONTENT, and the answer to a conversation is
    its last message in capitals, once. `silent`: each answer is complete with no token."""

    def __init__(self, credentials=None):
        self.lock = threading.RLock()
        self.sessions, self.outcomes, self.made = {}, {}, 0
        self.keys, self.calls, self.routes, self.refuse, self.requests = set(), [], [], {}, []
        self.token_seconds, self.commit_seconds, self.silent = 0, 0, False
        self.chat_template, self.conversation_templates = None, []
        self.server = grpc.server(futures.ThreadPoolExecutor(16))
        for name, module in SERVICES.items():
            self.server.add_generic_rpc_handlers([self._service(module.DESCRIPTOR.services_by_name[name], module)])
        if credentials is None:
            port = self.server.add_insecure_port("127.0.0.1:0")
        else:
            port = self.server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"  # a name would be resolved, which leaks in c-ares
        self.server.start()

    def stop(self):
        self.server.stop(0).wait()

    def wait_idle(self, session_id):
        """Waits until no call writes to the session."""
        while self.sessions[session_id].writing:
            time.sleep(0.01)

    def _service(self, service, module):
        handlers = {}
        for method in service.methods:
            description = service_method(method)
            make = {(False, False): grpc.unary_unary_rpc_method_handler,
                    (False, True): grpc.unary_stream_rpc_method_handler,
                    (True, False): grpc.stream_unary_rpc_method_handler,
                    (True, True): grpc.stream_stream_rpc_method_handler}
            streams = description.client_streaming, description.server_streaming
            request = getattr(module, method.input_type.name)
            if hasattr(self, method.name):
                handlers[method.name] = make[streams](
                    self._handler(method.name, streams[1]), request_deserializer=request.FromString,
                    response_serializer=lambda message: message.SerializeToString())
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _handler(self, name, streams):
        def begin(request, context):
            self.calls.append(name)
            self.routes.append(dict(context.invocation_metadata()).get("tvq-session-id"))
            self.requests.append(request)
            key = dict(context.invocation_metadata()).get("authorization")
            if self.keys and key not in {f"Bearer {k}" for k in self.keys}:
                raise Refused(grpc.StatusCode.UNAUTHENTICATED, "a key is needed")
            if name in self.refuse:
                raise self.refuse[name]

        def abort(context, refused):
            if refused.reason is not None:
                context.set_trailing_metadata([("grpc-status-details-bin", refused.details())])
            context.abort(refused.code, str(refused))

        def unary(request, context):
            try:
                begin(request, context)
                return getattr(self, name)(request, context)
            except Refused as refused:
                abort(context, refused)

        def stream(request, context):
            try:
                begin(request, context)
                yield from getattr(self, name)(request, context)
            except Refused as refused:
                abort(context, refused)

        return stream if streams else unary

    # Sessions

    def find(self, call, writes=True):
        session = self.sessions.get(call.session_id)
        if session is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, f'session_id: no session "{call.session_id}"')
        if writes and session.writing:
            raise Refused(grpc.StatusCode.ABORTED, f"session {session.id} is busy")
        if call.HasField("expected_version") and call.expected_version != session.version:
            raise Refused(grpc.StatusCode.ABORTED, f"session {session.id} is at version {session.version}")
        return session

    def commit(self, session, call, text):
        session.text = text
        session.version += 1
        if call.durability == session_pb2.DURABILITY_DISK:
            session.persisted = session.version

    def new_session(self, **fields):
        with self.lock:
            self.made += 1
            session = FakeSession(self.made, **fields)
            self.sessions[session.id] = session
            return session

    def CreateSession(self, request, context):
        session = self.new_session(label=request.label)
        session.ttl = request.ttl.seconds
        if request.durability == session_pb2.DURABILITY_DISK:
            session.persisted = session.version
        return session_pb2.CreateSessionResponse(session=session.message())

    def GetSession(self, request, context):
        call = session_pb2.SessionCall(session_id=request.session_id)
        session = self.find(call, writes=False)
        transcript = [byte + 3 for byte in session.text.encode()] if request.include_transcript else []
        begin = request.transcript_start  # short answers, to have several
        if begin > len(transcript):
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"transcript_start: is {begin}")
        return session_pb2.GetSessionResponse(session=session.message(), transcript=transcript[begin:begin + 2])

    def change_amid_transcript(self, session, text):
        """Has the session hold another text after the first of the answers that bring its transcript."""
        answer, calls = self.GetSession, itertools.count()

        def watched(request, context):
            if next(calls) == 1:
                self.commit(session, session_pb2.SessionCall(), text)
            return answer(request, context)

        self.GetSession = watched

    def ListSessions(self, request, context):
        chosen = [s for s in self.sessions.values()
                  if not request.parent_id or s.parent and s.parent.id == request.parent_id]
        begin, size = int(request.page_token or 0), min(request.page_size or 100, 2)  # short pages, to have several
        return session_pb2.ListSessionsResponse(
            sessions=[s.message() for s in chosen[begin:begin + size]],
            next_page_token=str(begin + size) if begin + size < len(chosen) else "")

    def AppendSession(self, request, context):
        with self.lock:
            key = request.session.idempotency_key
            if key and key in self.outcomes:
                return self.outcomes[key]
            session = self.find(request.session)
            text = read_input(request)
            self.commit(session, request.session, session.text + text)
            reply = session_pb2.AppendSessionResponse(session=session.position(), tokens=len(text))
            self.outcomes[key] = reply
            return reply

    def ForkSession(self, request, context):
        parent = self.find(request.session)
        text = self.marked(parent, request.mark) if request.mark else parent.text
        forks = [self.new_session(text=text, label=request.label, parent=parent) for _ in range(request.count or 1)]
        return session_pb2.ForkSessionResponse(sessions=[fork.message() for fork in forks])

    def MarkSession(self, request, context):
        session = self.find(request.session)
        if not request.name:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "name: must have 1 to 128 bytes")
        session.marks[request.name] = session.text
        self.commit(session, request.session, session.text)
        return session_pb2.MarkSessionResponse(session=session.position())

    def UnmarkSession(self, request, context):
        session = self.find(request.session)
        self.marked(session, request.name)
        del session.marks[request.name]
        self.commit(session, request.session, session.text)
        return session_pb2.UnmarkSessionResponse(session=session.position())

    def RewindSession(self, request, context):
        session = self.find(request.session)
        self.commit(session, request.session, self.marked(session, request.mark))
        return session_pb2.RewindSessionResponse(session=session.position())

    def marked(self, session, name):
        if name not in session.marks:
            raise Refused(grpc.StatusCode.NOT_FOUND, f'mark: session {session.id} has no mark "{name}"')
        return session.marks[name]

    def SaveSession(self, request, context):
        session = self.find(request.session)
        session.persisted = session.version
        return session_pb2.SaveSessionResponse(session=session.position())

    def DeleteSession(self, request, context):
        del self.sessions[self.find(request.session).id]
        return session_pb2.DeleteSessionResponse()

    def ExportSession(self, request, context):
        snapshot = to_snapshot(self.find(request.session, writes=False).text)
        return chunks(session_pb2.ExportSessionResponse, snapshot)

    def ImportSession(self, requests, context):
        create, snapshot = None, b""
        for request in requests:
            create = create or request.create
            snapshot += request.chunk
        session = self.new_session(text=from_snapshot(snapshot), label=create.label)
        return session_pb2.ImportSessionResponse(session=session.message())

    # Generation

    def answer(self, prompt, params, context, once=False):
        """Deltas of one token each; ends early when the call does."""
        if self.silent:
            delta = generation_pb2.SampleDelta(finish_reason=generation_pb2.FINISH_REASON_STOP)
            yield generation_pb2.GenerateResponse(deltas=[delta])
            return
        count = params.max_tokens if params.HasField("max_tokens") else 16
        pattern, reason = prompt.upper() or ".", generation_pb2.FINISH_REASON_LENGTH
        if once and len(pattern) <= count:
            count, reason = len(pattern), generation_pb2.FINISH_REASON_STOP
        for i in range(count):
            if not context.is_active():
                return
            time.sleep(self.token_seconds)
            char = pattern[i % len(pattern)]
            delta = generation_pb2.SampleDelta(text=char, token_ids=[ord(char) + 3])
            if i + 1 == count:
                delta.finish_reason = reason
            yield generation_pb2.GenerateResponse(deltas=[delta])

    def Generate(self, request, context):
        if not request.HasField("session"):
            yield from self.answer(read_input(request), request.sampling, context)
            yield generation_pb2.GenerateResponse(usage=self.usage(request))
            return
        with self.lock:
            session = self.find(request.session)
            if not session.text and not read_input(request) and not request.HasField("conversation"):
                raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "prompt: must not be empty on an empty session")
            session.writing = True
        text, whole = session.text + read_input(request), False
        asked, once = read_input(request), request.HasField("conversation")
        if once:  # what the session has and the conversation has not is gone
            text, asked = written(request.conversation), json.loads(request.conversation.messages)[-1]["content"]
        try:
            for reply in self.answer(asked, request.sampling, context, once):
                text += reply.deltas[0].text
                yield reply
            whole = context.is_active()
        finally:
            if not whole:
                time.sleep(self.commit_seconds)
            if whole or request.session.commit_on_cancel:
                self.commit(session, request.session, text)
            session.writing = False
        yield generation_pb2.GenerateResponse(usage=self.usage(request), session=session.position())

    def usage(self, request):
        return generation_pb2.Usage(prompt_tokens=len(read_input(request)), cached_tokens=1,
                                    completion_tokens=request.sampling.max_tokens)

    def GenerateWithState(self, requests, context):
        first = next(requests)
        request = first.generate
        snapshot = first.chunk + b"".join(more.chunk for more in requests)
        text = (from_snapshot(snapshot) if snapshot else "") + read_input(request)
        for reply in self.answer(read_input(request), request.sampling, context):
            text += reply.deltas[0].text
            yield generation_pb2.GenerateWithStateResponse(generate=reply)
        yield generation_pb2.GenerateWithStateResponse(
            generate=generation_pb2.GenerateResponse(usage=self.usage(request)))
        yield from chunks(generation_pb2.GenerateWithStateResponse, to_snapshot(text))

    def Score(self, request, context):
        text = read_input(request)
        reply = generation_pb2.ScoreResponse(tokens_done=len(text))
        reply.summary.tokens = reply.summary.scored_tokens = reply.summary.bytes = len(text)
        reply.summary.total_logprob = -len(text)
        if request.HasField("session"):
            session = self.find(request.session)
            self.commit(session, request.session, session.text + text)
            reply.session.CopyFrom(session.position())
        if not request.summary_only:
            for char in text:
                token = generation_pb2.TokenLogprob(token_id=ord(char) + 3, token=char.encode(), logprob=-1, rank=2)
                reply.tokens.add(token=token, has_logprob=True)
        yield reply

    def Encode(self, request, context):
        """Of each byte the vector [byte, byte / 2]."""
        rows = [(byte, byte / 2) for byte in read_input(request).encode()]
        if request.pooling == generation_pb2.POOLING_MEAN:
            rows = [[sum(column) / len(rows) for column in zip(*rows)]]
        return generation_pb2.EncodeResponse(vectors=[x for row in rows for x in row],
                                             tokens=len(read_input(request).encode()), width=2)

    def Tokenize(self, request, context):
        return generation_pb2.TokenizeResponse(token_ids=[byte + 3 for byte in request.text.encode()])

    def Detokenize(self, request, context):
        return generation_pb2.DetokenizeResponse(text=bytes(i - 3 for i in request.token_ids).decode())

    # Models and operation

    def ListModels(self, request, context):
        return model_pb2.ListModelsResponse(models=[self.model()])

    def GetModel(self, request, context):
        if request.name not in ("", "fake"):
            raise Refused(grpc.StatusCode.NOT_FOUND, f'no model "{request.name}"; there is fake')
        return model_pb2.GetModelResponse(model=self.model())

    def model(self):
        return model_pb2.Model(name="fake", family="none", vocab_size=259, bytes_per_session=64, tokenizer="bytes",
                               eos_token_id=1, fingerprint="f1ngerpr1nt", chat_template=self.chat_template,
                               conversation_templates=self.conversation_templates)

    def GetServerInfo(self, request, context):
        return model_pb2.GetServerInfoResponse(version="0.0", device="none")

    def Drain(self, request, context):
        return admin_pb2.DrainResponse(requests_running=3)

    def ReloadCredentials(self, request, context):
        return admin_pb2.ReloadCredentialsResponse(keys=2, certificates_reloaded=True)


def service_method(method):
    """What a method streams, which older releases of protobuf tell only in the description's message."""
    from google.protobuf import descriptor_pb2
    service = descriptor_pb2.ServiceDescriptorProto()
    method.containing_service.CopyToProto(service)
    return service.method[method.index]


def read_input(request):
    if "conversation" in request.DESCRIPTOR.fields_by_name and request.HasField("conversation"):
        return "".join(message["content"] for message in json.loads(request.conversation.messages))
    return bytes(i - 3 for i in request.token_ids.ids).decode() if request.HasField("token_ids") else request.text


def written(conversation):
    text = "".join(f"<{message['role']}>{message['content']}" for message in json.loads(conversation.messages))
    return text if conversation.continue_final_message else text + "<assistant>"


def to_snapshot(text):
    return MAGIC + json.dumps(text).encode()


def from_snapshot(snapshot):
    if not snapshot.startswith(MAGIC):
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "snapshot: not one of ours")
    try:
        return json.loads(snapshot[len(MAGIC):])
    except ValueError:
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "snapshot: truncated") from None


def chunks(kind, snapshot, size=7):
    """The messages of a snapshot, of few bytes each, to have several."""
    for begin in range(0, len(snapshot), size):
        message = kind(chunk=snapshot[begin:begin + size])
        if begin == 0:
            message.total_bytes = len(snapshot)
        yield message
