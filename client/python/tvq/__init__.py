"""Client of a tvq server: generation, and sessions that stay there between calls.

    import tvq

    with tvq.Client("127.0.0.1:50051") as client:
        for delta in client.generate("Once upon a time", max_tokens=50):
            print(delta.text, end="")

Requests and limits are described in the comments of proto/tvq/v1/*.proto; names are the same here.
"""

import os

# gRPC reads it when it is loaded. What it would write to stderr about a call is in the call's tvq.Error.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from tvq.admin import Admin
from tvq.client import Client
from tvq.errors import (Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, Error, FailedPrecondition, InternalError,
                        InvalidArgument, NotFound, PermissionDenied, ResourceExhausted, Unauthenticated,
                        Unavailable, Unimplemented)
from tvq.generation import Generation, StatefulGeneration
from tvq.options import Conversation, Durability, GeneratePrompt, Pooling, Prompt, Sampling, Tls
from tvq.session import Session
from tvq.values import (Delta, Encoding, Mark, Model, Position, Sample, Score, ServerInfo, SessionInfo, SessionSize, TokenLogprob,
                        TokenLogprobs, Usage)

__all__ = [
    "Aborted", "Admin", "AlreadyExists", "Cancelled", "Client", "Conversation", "DataLoss", "DeadlineExceeded", "Delta", "Durability",
    "Encoding", "Error", "FailedPrecondition", "GeneratePrompt", "Generation", "InternalError", "InvalidArgument", "Mark", "Model", "NotFound",
    "PermissionDenied", "Pooling", "Position", "Prompt", "ResourceExhausted", "Sample", "Sampling", "Score", "ServerInfo",
    "Session", "SessionInfo", "SessionSize", "StatefulGeneration", "Tls", "TokenLogprob", "TokenLogprobs", "Unauthenticated",
    "Unavailable", "Unimplemented", "Usage",
]
