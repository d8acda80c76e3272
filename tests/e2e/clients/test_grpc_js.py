"""@grpc/grpc-js with @grpc/proto-loader against the server; what they do is in grpc_cases.mjs."""

from packages import HERE, node_packages, run_cases
from server_process import ROOT


def test_grpc_js(server):
    run_cases(["node", "--test", HERE / "grpc_cases.mjs"], TVQ_NODE_PACKAGES=str(node_packages()),
              TVQ_ADDRESS=server.address, TVQ_PROTO=str(ROOT / "proto"))
