"""What to tell where gRPC, not a server of tvq, says why a call failed."""

from __future__ import annotations

import re

import grpc

from tvq.address import unreachable

NO_SUCH_CALL = "this server does not take such calls: it is no tvq-server, or of another version than this client"
OTHER_ANSWER = "what answers there is no tvq-server, or one of another version than this client"
_BROKEN_OFF = "the server broke the call off, or something before it did; is this the address of tvq-server?"

# How gRPC's messages begin, those of its servers in other languages too, and what to tell.
_WORDS = [
    (r"(?:Stream removed \()?Deadline Exceeded", "the call took longer than its timeout"),
    (r"(?:SERVER: )?Received message larger than max \((\d+) vs\. (\d+)\)",
     r"the request has \1 bytes, the server takes at most \2; a longer text can be appended to a session in parts"),
    (r"received (?:initial )?metadata size exceeds",
     "the server does not take headers that are so long; the key is too long to be one of its keys"),
    (r"Received http2 header with status: (\w+)",
     r"an HTTP server or a proxy answers with status \1 in the place of tvq-server; give the address of tvq-server itself"),
    (r"Stream removed|(?:Received )?RST_STREAM", _BROKEN_OFF),
    (r"Exception deserializing response!", OTHER_ANSWER),
    (r"Failed to create secure client channel", "gRPC can make nothing of the server's address"),
    (r"Method not found|unknown (?:service|method) |The server does not implement the method ", NO_SUCH_CALL),
]


def unwrapped(message: str) -> str:
    """Without what newer versions put around why a stream ended."""
    wrapped = re.fullmatch(r"Stream removed \((.*)\)", message, flags=re.DOTALL)
    return wrapped[1] if wrapped else message


def without_grpc_words(code: grpc.StatusCode, message: str) -> str:
    """What to tell about a call that failed with this code and message: the message itself if a server of tvq wrote
    it, else what gRPC's own words stand for."""
    if code == grpc.StatusCode.UNAVAILABLE and (told := unreachable(message)):
        return told
    if not message:  # so gRPC answers for a service that is not there
        return NO_SUCH_CALL if code == grpc.StatusCode.UNIMPLEMENTED else "the server did not say why"
    for begin, told in _WORDS:
        if found := re.match(begin, message):
            return found.expand(told)
    return message
