"""Variables of the environment: those that nobody reads, and those that Kubernetes sets."""

import os
import re
import subprocess

import pytest
from gateway_process import GatewayProcess
from server_process import BIN, GOLDEN, PATIENCE_SECONDS, ServerProcess, wait_until

PROGRAMS = ["tvq-server", "tvq-gateway", "tvq", "tvq-loadtest"]
UNKNOWN = ("TVQ_MAX_NUM_SEQ is set in the environment, and no program of tvq reads it; did you mean "
           "TVQ_MAX_NUM_SEQS?\n")


def read_by(*programs):
    """The variables that --help of these names."""
    texts = [subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True).stdout
             for program in programs]
    return set(re.findall(r"Env:\s*(TVQ_\w+)", "".join(texts)))


def test_each_program_tells_of_what_nobody_reads(server, api):
    variable = {"TVQ_MAX_NUM_SEQ": "3"}
    environment = {**os.environ, **variable}
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", environment=variable) as process:
        assert process.stderr().count(UNKNOWN) == 1
    with GatewayProcess(server.address, environment=variable) as gateway:
        wait_until(lambda: gateway.stderr().count(UNKNOWN) == 1, "the gateway tells of it")
    for command in (["tvq", "--server", server.address, "info"],
                    ["tvq-loadtest", "--grpc", server.address, "--concurrency", "1", "--requests", "1", "--duration", "1",
                     "--no-progress"],
                    ["tvq-verify", GOLDEN / "bytes_untied", GOLDEN / "bytes_untied" / "expected.safetensors"]):
        done = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, text=True, env=environment,
                              timeout=PATIENCE_SECONDS)
        assert done.returncode == 0 and done.stderr == f"{command[0]}: {UNKNOWN}", done.stderr


def test_no_program_tells_of_what_another_reads(server, tvq):
    names = read_by(*PROGRAMS)
    assert len(names) > 60
    others = {name: "1" for name in names - read_by("tvq")} | {"TVQ_BIN_DIR": str(BIN), "TVQ_PYTHON": "python3"}
    done = tvq("--server", server.address, "info", env={**os.environ, **others})
    assert (done.returncode, done.stderr) == (0, b"")
    own = {"TVQ_API_KEY": "key", "TVQ_TLS": "true"}
    assert own.keys() <= read_by("tvq")
    with GatewayProcess(server.address, environment=own) as gateway:
        assert "TVQ_" not in gateway.stderr()


@pytest.mark.parametrize("program", ["tvq-server", "tvq-gateway"])
def test_what_kubernetes_sets_for_a_service_is_named(program):
    service = {"TVQ_SERVICE_HOST": "10.0.0.1", "TVQ_SERVICE_PORT": "50051", "TVQ_PORT": "tcp://10.0.0.1:50051",
               "TVQ_PORT_50051_TCP": "tcp://10.0.0.1:50051"}
    done = subprocess.run([BIN / program, *(["--model", "a=b"] if program == "tvq-server" else [])], text=True,
                          capture_output=True, env={**os.environ, **service}, timeout=PATIENCE_SECONDS)
    assert done.returncode == 2
    assert done.stderr.startswith("TVQ_PORT: tcp://10.0.0.1:50051 is no whole number. Kubernetes sets it for a service ")
    assert "give --port" in done.stderr


def test_kubernetes_variables_are_no_mistake(server, api):
    service = {"TVQ_SERVICE_HOST": "10.0.0.1", "TVQ_SERVICE_PORT": "50051", "TVQ_PORT": "tcp://10.0.0.1:50051",
               "TVQ_PORT_50051_TCP_ADDR": "10.0.0.1"}
    with GatewayProcess(server.address, environment=service) as gateway:  # with --port
        assert gateway.get("/health").status == 200 and "TVQ_" not in gateway.stderr()
