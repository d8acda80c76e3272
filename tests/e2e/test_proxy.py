"""The deployed nginx when none of its servers answers: what its clients are told."""

import shutil

import grpc
import pytest
from gateway_process import GatewayProcess
from reliability.replicas import Proxy
from server_process import dead_addresses

UNAVAILABLE_EXIT_CODE = 3  # of tvq


@pytest.fixture
def proxy(api, tmp_path):
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    with dead_addresses(3) as servers, Proxy(api, tmp_path, servers) as running:
        yield running


def test_python(proxy, api):
    stub = api.model_grpc.ModelServiceStub(proxy.channel)
    for _ in range(2):  # the second time nginx no longer tries them
        with pytest.raises(grpc.RpcError) as caught:
            stub.ListModels(api.model.ListModelsRequest())
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNAVAILABLE, "no server answers")
    with pytest.raises(grpc.RpcError) as caught:
        next(proxy.generation.Generate(api.generation.GenerateRequest(model="m", text="Once")))
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_cpp(proxy, tvq):
    done = tvq("--server", proxy.address, "info")
    assert done.returncode == UNAVAILABLE_EXIT_CODE and b"no server answers" in done.stderr, done.stderr


def test_gateway(proxy):
    with GatewayProcess(proxy.address) as gateway:
        assert gateway.get("/v1/models").status == 503
        assert gateway.get("/v1/health/ready").status == 503
