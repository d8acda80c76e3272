"""TLS, client certificates, and certificates that are exchanged while the server runs."""

import shutil
import socket
import ssl

import grpc
import pytest
from certificates import Authority
from server_process import GOLDEN, PATIENCE_SECONDS, run_server, wait_until
from test_keys import bearer, line


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def files(authority, tmp_path):
    """Paths of the server's certificate and key, which a test may overwrite."""
    made = authority.issue("server")
    return [shutil.copy(file, tmp_path / file.name) for file in made]


def connect(server, ca, certificate=None, key=None):
    credentials = grpc.ssl_channel_credentials(
        ca.read_bytes(), key.read_bytes() if key else None, certificate.read_bytes() if certificate else None)
    return grpc.secure_channel(server.address, credentials)


def list_models(server, channel, metadata=None):
    stub = server.api.model_grpc.ModelServiceStub(channel)
    return stub.ListModels(server.api.model.ListModelsRequest(), metadata=metadata, timeout=PATIENCE_SECONDS).models


def is_refused(server, channel):
    with pytest.raises(grpc.RpcError) as caught:
        list_models(server, channel)
    return caught.value.code() == grpc.StatusCode.UNAVAILABLE


def name_shown(server, ca):
    """The subject of the certificate that a new connection meets; None if there is no handshake."""
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    host, port = server.address.split(":")
    try:
        with socket.create_connection((host, int(port))) as plain, \
                context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
            return dict(pair[0] for pair in secured.getpeercert()["subject"])["commonName"]
    except ssl.SSLError:
        return None


def test_tls(start, authority, files):
    server = start("--ssl-certfile", files[0], "--ssl-keyfile", files[1])
    with connect(server, authority.ca) as channel:
        assert len(list_models(server, channel)) == 1
    assert is_refused(server, server.channel)  # which is not encrypted


def test_clients_do_not_trust_a_stranger(start, files, tmp_path):
    server = start("--ssl-certfile", files[0], "--ssl-keyfile", files[1])
    with connect(server, Authority(tmp_path / "other").ca) as channel:
        assert is_refused(server, channel)


def test_client_certificates(start, authority, files, tmp_path):
    server = start("--ssl-certfile", files[0], "--ssl-keyfile", files[1], "--ssl-ca-certs", authority.ca)
    with connect(server, authority.ca, *authority.issue("client")) as channel:
        assert len(list_models(server, channel)) == 1
    with connect(server, authority.ca) as channel:
        assert is_refused(server, channel)
    with connect(server, authority.ca, *Authority(tmp_path / "other").issue("client")) as channel:
        assert is_refused(server, channel)


def test_exchanged_files_are_used_without_restart(start, authority, files):
    server = start("--ssl-certfile", files[0], "--ssl-keyfile", files[1])
    with connect(server, authority.ca) as old:
        assert list_models(server, old)
        assert name_shown(server, authority.ca) == "server"
        for made, used in zip(authority.issue("successor"), files):
            shutil.copy(made, used)
        wait_until(lambda: name_shown(server, authority.ca) == "successor", "the new certificate is shown")
        assert list_models(server, old)  # an open connection goes on


def test_exchanged_authorities_decide_who_may_connect(start, authority, files, tmp_path):
    trusted = tmp_path / "trusted.crt"
    shutil.copy(authority.ca, trusted)
    server = start("--ssl-certfile", files[0], "--ssl-keyfile", files[1], "--ssl-ca-certs", trusted)
    successor = Authority(tmp_path / "successor")
    old, new = authority.issue("client"), successor.issue("client")
    with connect(server, authority.ca, *new) as channel:
        assert is_refused(server, channel)
    shutil.copy(successor.ca, trusted)

    def accepted():
        with connect(server, authority.ca, *new) as channel:
            try:
                return list_models(server, channel)
            except grpc.RpcError:
                return False

    wait_until(accepted, "the new authority is trusted")
    with connect(server, authority.ca, *old) as channel:
        assert is_refused(server, channel)


def test_half_exchanged_files_harm_nobody(start, authority, files):
    server = start("--ssl-certfile", files[0], "--ssl-keyfile", files[1])
    certificate, key = authority.issue("successor")
    shutil.copy(certificate, files[0])
    wait_until(lambda: "is not the key" in server.stderr(), "the server noticed")
    assert name_shown(server, authority.ca) == "server"
    shutil.copy(key, files[1])
    wait_until(lambda: name_shown(server, authority.ca) == "successor", "the new certificate is shown")


def test_reload_credentials(start, authority, files, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(line("ops", "beta", "admin"))
    server = start("--ssl-certfile", files[0], "--ssl-keyfile", files[1], "--api-key-file", keys)
    with connect(server, authority.ca) as channel:
        admin = server.api.admin_grpc.AdminServiceStub(channel)
        request = server.api.admin.ReloadCredentialsRequest()
        response = admin.ReloadCredentials(request, metadata=bearer("beta"))
        assert (response.keys, response.certificates_reloaded) == (1, False)

        # Also when the server has found them by itself.
        for made, used in zip(authority.issue("successor"), files):
            shutil.copy(made, used)
        wait_until(lambda: name_shown(server, authority.ca) == "successor", "the new certificate is shown")
        assert admin.ReloadCredentials(request, metadata=bearer("beta")).certificates_reloaded
        assert not admin.ReloadCredentials(request, metadata=bearer("beta")).certificates_reloaded

        # Neither keys nor certificates change when one of them is wrong.
        keys.write_text(line("ops", "beta", "admin") + line("ana", "alpha"))
        open(files[1], "w").write("no key")
        with pytest.raises(grpc.RpcError) as caught:
            admin.ReloadCredentials(request, metadata=bearer("beta"))
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert str(files[1]) in caught.value.details()
        with pytest.raises(grpc.RpcError) as caught:
            list_models(server, channel, bearer("alpha"))
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert name_shown(server, authority.ca) == "successor"


@pytest.mark.parametrize("damage, words", [
    (lambda files: open(files[0], "w").write("nothing"), ["server.crt", "no certificate"]),
    (lambda files: open(files[0], "a").write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
     ["server.crt", "certificate 2 is damaged"]),
    (lambda files: open(files[1], "w").write(""), ["server.key", "private key"]),
    (lambda files: shutil.copy(files[0], files[1]), ["server.key", "private key"]),
])
def test_damaged_files_are_refused_at_start(files, damage, words):
    damage(files)
    done = run_server("--model", f"bytes={GOLDEN / 'bytes_untied'}", "--ssl-certfile", files[0], "--ssl-keyfile", files[1])
    assert done.returncode == 1
    for word in words:
        assert word in done.stderr


def test_mismatching_and_missing_files_are_refused_at_start(authority, files, tmp_path):
    model = ["--model", f"bytes={GOLDEN / 'bytes_untied'}"]
    other = authority.issue("other")[1]
    done = run_server(*model, "--ssl-certfile", files[0], "--ssl-keyfile", other)
    assert done.returncode == 1
    assert str(files[0]) in done.stderr and str(other) in done.stderr

    missing = tmp_path / "missing.crt"
    done = run_server(*model, "--ssl-certfile", files[0], "--ssl-keyfile", files[1], "--ssl-ca-certs", missing)
    assert done.returncode == 1
    assert str(missing) in done.stderr

    done = run_server(*model, "--ssl-certfile", files[0])
    assert done.returncode == 2
    assert "--ssl-keyfile" in done.stderr
