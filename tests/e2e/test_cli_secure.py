"""The command line client of a server with keys and TLS, and its admin calls."""

import json

import pytest
from certificates import Authority
from server_process import PATIENCE_SECONDS
from test_keys import line


@pytest.fixture
def call(start, tvq, tmp_path):
    """call(*arguments) runs tvq with all that a server with keys and mutual TLS asks for; call.server is that server,
    call.keys its file of keys."""
    authority = Authority(tmp_path / "certificates")
    keys = tmp_path / "keys.txt"
    keys.write_text(line("ana", "alpha") + line("ops", "beta", "admin"))
    (tmp_path / "ana").write_text("alpha\n")
    (tmp_path / "ops").write_text("beta\n")
    (tmp_path / "stranger").write_text("delta\n")
    server_certificate, client_certificate = authority.issue("server"), authority.issue("client")
    server = start("--api-key-file", keys, "--ssl-certfile", server_certificate[0], "--ssl-keyfile",
                   server_certificate[1], "--ssl-ca-certs", authority.ca)

    def run(*arguments, key="ana", **kwargs):
        return tvq("--server", server.address, "--ssl-ca-certs", authority.ca, "--ssl-certfile", client_certificate[0],
                   "--ssl-keyfile", client_certificate[1], "--api-key", f"@{tmp_path / key}", *arguments, **kwargs)

    run.server, run.keys = server, keys
    return run


def test_keys_and_certificates(call, tvq):
    done = call("generate", "--prompt", "Once", "--max-tokens", 3, "--ignore-eos")
    assert done.returncode == 0, done.stderr
    denied = call("generate", "--prompt", "Once", key="ops")
    assert denied.returncode == 1 and b"PERMISSION_DENIED" in denied.stderr
    unknown = call("info", key="stranger")
    assert unknown.returncode == 1 and b"UNAUTHENTICATED" in unknown.stderr
    assert tvq("--server", call.server.address, "--api-key", "alpha", "info").returncode == 3  # plaintext
    assert len(json.loads(call("info", "--json").stdout)["models"][0]["fingerprint"]) > 0


def test_reload_and_drain(call):
    denied = call("admin", "reload")
    assert denied.returncode == 1 and b"PERMISSION_DENIED" in denied.stderr
    with call.keys.open("a") as keys:
        keys.write(line("ben", "gamma"))
    assert json.loads(call("admin", "reload", "--json", key="ops").stdout)["keys"] == 3
    assert json.loads(call("admin", "drain", "--json", key="ops").stdout) == {"requests_running": 0}
    assert call.server.process.wait(PATIENCE_SECONDS) == 0
