"""Keys, TLS on both sides, and pages of other origins."""

import ssl
import subprocess

import pytest
from certificates import Authority
from gateway_process import GatewayProcess, run_gateway
from server_process import wait_until
from test_keys import keys, line  # noqa: F401  (keys is a fixture)


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


BODY = {"model": "bytes", "prompt": "a", "max_tokens": 1}


def test_keys_pass_through(start, keys):  # noqa: F811
    server = start("--api-key-file", keys)
    with GatewayProcess(server.address) as gateway:
        assert gateway.post("/v1/completions", BODY, headers=bearer("alpha")).status == 200
        for headers, status in [(None, 401), (bearer("wrong"), 401), ({"Authorization": "alpha"}, 401),
                                (bearer("\xff"), 401), (bearer("x" * 12_000), 401), (bearer("gamma"), 403)]:
            answer = gateway.post("/v1/completions", BODY, headers=headers)
            assert answer.status == status, answer.body
            assert (answer.headers["WWW-Authenticate"] == "Bearer") == (status == 401)
        assert gateway.get("/v1/models").status == 401
        assert gateway.get("/v1/models", headers=bearer("gamma")).status == 200
        for path in ["/health", "/v1/health/ready", "/version", "/metrics", "/", "/openapi.json"]:
            assert gateway.get(path).status == 200
        session = gateway.post("/v1/sessions", {}, headers=bearer("alpha")).json["id"]
        for headers, status in [(bearer("gamma"), 404), (bearer("alpha"), 200)]:
            assert gateway.get(f"/v1/sessions/{session}", headers=headers).status == status
            assert gateway.get(f"/v1/sessions/{session}/export", headers=headers).status == status
        assert "alpha" not in gateway.stderr()


def test_a_key_reaches_no_session_of_another(start, tmp_path):
    (tmp_path / "keys").write_text(line("ana", "alpha") + line("ben", "delta"))
    server = start("--api-key-file", tmp_path / "keys", "--session-dir", tmp_path / "sessions")
    with GatewayProcess(server.address) as gateway:
        session = gateway.post("/v1/sessions", {"model": "bytes"}, headers=bearer("alpha")).json["id"]
        path = f"/v1/sessions/{session}"
        assert gateway.post(f"{path}/marks", {"name": "m"}, headers=bearer("alpha")).status == 200
        before = gateway.get(path, headers=bearer("alpha")).json
        calls = [("GET", path, None), ("DELETE", path, None), ("GET", f"{path}/export", None),
                 ("POST", f"{path}/append", {"text": "a"}), ("POST", f"{path}/fork", {}),
                 ("POST", f"{path}/marks", {"name": "n"}), ("DELETE", f"{path}/marks/m", None),
                 ("POST", f"{path}/rewind", {"mark": "m"}), ("POST", f"{path}/save", {}),
                 ("POST", "/v1/completions", {**BODY, "session_id": session}),
                 ("POST", "/v1/completions", {**BODY, "session_id": session, "stream": True})]
        never_there = "0" * len(session)
        for method, target, body in calls:
            answer = gateway.call(method, target, body, headers=bearer("delta"))
            assert (answer.status, answer.error["param"]) == (404, "session_id"), (method, target, answer.body)
            # It is not told that there is such a session.
            body = {**body, "session_id": never_there} if body and "session_id" in body else body
            unknown = gateway.call(method, target.replace(session, never_there), body, headers=bearer("delta"))
            assert unknown.body.replace(never_there.encode(), session.encode()) == answer.body
        assert gateway.get("/v1/sessions", headers=bearer("delta")).json["data"] == []
        assert gateway.get(path, headers=bearer("alpha")).json == before


def test_rate_limit_says_when_to_come_again(start):
    server = start("--max-requests-per-second", "1")
    with GatewayProcess(server.address) as gateway:
        answers = [gateway.get("/v1/models") for _ in range(4)]
        refused = [answer for answer in answers if answer.status == 429]
        assert refused and refused[0].error["type"] == "rate_limit_error"
        assert 1 <= int(refused[0].headers["Retry-After"]) <= 2
        assert 0 < int(refused[0].headers["retry-after-ms"]) <= 1000


def test_full_server_says_when_to_come_again(start):
    server = start("--max-num-admitted-seqs", "1", "--max-num-queued-reqs", "1")
    with GatewayProcess(server.address) as gateway:
        endless = {"max_tokens": 100_000_000, "ignore_eos": True, "prompt": "a"}
        first = gateway.stream(**endless)
        next(first)
        import threading
        queued = threading.Thread(target=lambda: gateway.post("/v1/completions", BODY))
        queued.start()
        from server_process import wait_until
        wait_until(lambda: server.info().requests_waiting == 1, "the second waits")
        answer = gateway.post("/v1/completions", {**BODY, "stream": True})
        assert answer.status == 429 and int(answer.headers["Retry-After"]) >= 1
        first.hang_up()
        queued.join()


def test_https(start, tmp_path):
    server = start()
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("gateway")
    with GatewayProcess(server.address, "--ssl-certfile", certificate, "--ssl-keyfile", key) as gateway:
        gateway.tls(authority.ca)
        assert gateway.url.startswith("https://")
        assert gateway.complete("Once", max_tokens=3)["usage"]["completion_tokens"] == 3
        stream = gateway.stream(prompt="Once", max_tokens=100)
        assert len(list(stream)) > 0 and stream.done
        large = gateway.post("/v1/completions", {**BODY, "prompt": "x" * 1_000_000})
        assert large.status == 200
        out = subprocess.run(["curl", "-sS", "--cacert", authority.ca, "--max-time", "60", f"{gateway.url}/health"],
                             capture_output=True, text=True, check=True)
        assert out.stdout == '{"status":"ok"}'
        # Plain HTTP, old TLS, another authority's client: refused, and the gateway goes on.
        with gateway.raw() as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert b"HTTP" not in sock.recv(1000)
        other = ssl.create_default_context()
        with pytest.raises(ssl.SSLError):
            with gateway.raw() as sock:
                other.wrap_socket(sock, server_hostname="127.0.0.1")
        # A hang-up is noticed under TLS, too.
        endless = gateway.stream(prompt="Once", max_tokens=100_000_000, ignore_eos=True)
        next(endless)
        endless.hang_up()
        server.wait_idle()
        # New files are used for new connections.
        certificate.write_bytes(b"")

        def noticed():
            assert gateway.get("/health").status == 200
            return "the certificates in use stay: certificate file" in gateway.stderr()
        wait_until(noticed, "the log says that the file is no certificate")
        second = Authority(tmp_path / "second")
        new_certificate, new_key = second.issue("gateway")
        certificate.write_bytes(new_certificate.read_bytes())
        key.write_bytes(new_key.read_bytes())
        gateway.tls(second.ca)
        def taken():
            try:
                return gateway.get("/health").status == 200
            except ssl.SSLError:
                return False
        wait_until(taken, "the new certificate is used")


def test_mutual_tls_towards_the_server(start, tmp_path):
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("server")
    mine, my_key = authority.issue("gateway")
    # The server's own address in the tests is plain: its health is asked for by the gateway alone.
    server = start("--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certs", authority.ca)
    flags = ["--server-ssl-ca-certs", authority.ca, "--server-ssl-certfile", mine, "--server-ssl-keyfile", my_key]
    with GatewayProcess(server.address, *flags) as gateway:
        assert gateway.get("/v1/health/ready").status == 200
        assert gateway.complete("Once", max_tokens=3)["usage"]["completion_tokens"] == 3
    with GatewayProcess(server.address, *flags[:2]) as gateway:
        assert gateway.get("/v1/health/ready").status == 503
        assert gateway.post("/v1/completions", BODY).status == 503


def test_origins(start):
    server = start()
    with GatewayProcess(server.address, "--allowed-origins", "https://one.example,https://two.example") as gateway:
        body = {**BODY}
        for origin, allowed in [("https://one.example", True), ("https://two.example", True),
                                ("https://three.example", False), ("null", False)]:
            answer = gateway.post("/v1/completions", body, headers={"Origin": origin})
            assert answer.status == (200 if allowed else 403)
            assert answer.headers["Access-Control-Allow-Origin"] == (origin if allowed else None)
            asked = gateway.call("OPTIONS", "/v1/completions", headers={
                "Origin": origin, "Access-Control-Request-Method": "POST"})
            assert asked.status == 204
            assert asked.headers["Access-Control-Allow-Methods"] == ("OPTIONS, POST" if allowed else None)
            for either in (answer, asked):  # a cache must not give one page's answer to another
                assert either.headers["Vary"] == "Origin"
        same = f"http://{gateway.host}:{gateway.port}"
        assert gateway.post("/v1/completions", body, headers={"Origin": same}).status == 200
        # What OpenAI's client asks for in a page.
        asked = gateway.call("OPTIONS", "/v1/chat/completions", headers={
            "Origin": "https://one.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang,x-stainless-os"})
        allowed = [name.strip().lower() for name in asked.headers["Access-Control-Allow-Headers"].split(",")]
        assert "*" in allowed and "authorization" in allowed  # which * does not include
        # A page whose name was made to resolve to this machine.
        for headers in ({"Host": "evil.example:8000", "Origin": "http://evil.example:8000"},
                        {"Host": "evil.example:8000"}):
            assert gateway.post("/v1/completions", body, headers=headers).status == 403
            assert gateway.get("/v1/sessions", headers=headers).status == 403
        for host in ("one.example", "localhost:1", "[::1]"):
            assert gateway.get("/v1/models", headers={"Host": host}).status == 200
    with GatewayProcess(server.address, "--allowed-origins", "*") as gateway:
        answer = gateway.get("/v1/models", headers={"Origin": "https://any.example"})
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Retry-After" in answer.headers["Access-Control-Expose-Headers"]


def test_wrong_flags(tmp_path):
    assert run_gateway("--port", "x").returncode == 2
    assert run_gateway("--ssl-certfile", "a").returncode == 2
    missing = run_gateway("--ssl-certfile", tmp_path / "a", "--ssl-keyfile", tmp_path / "b")
    assert missing.returncode == 1 and "certificate file" in missing.stderr
    unreadable = run_gateway("--server-ssl-ca-certs", tmp_path / "a")
    assert unreadable.returncode == 1 and "cannot be read" in unreadable.stderr
    assert run_gateway("--host", "203.0.113.1").returncode == 1
    assert "TVQ_ALLOWED_ORIGINS" in run_gateway("--help").stdout
