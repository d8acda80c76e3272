"""Lets a process that uses gRPC start programs.

gRPC 1.51 tells its event engine of each fork, also while another thread destroys the engine with the last channel or
call: "pure virtual method called" ends the process then. A channel that stays open keeps the engine.
"""

import os

# The other handlers of forks may abort a process with open channels, or one whose server is at work.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import grpc  # noqa: E402

kept_open = grpc.insecure_channel("127.0.0.1:1")  # nobody calls
