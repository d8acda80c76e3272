"""Storms from many addresses at once, without a key, beside clients that call on."""

import dataclasses
import signal
import statistics
import time

import grpc
from address_storm import Storms
from bystander import Bystander
from certificates import Authority
from reliability.world import ENDING_SECONDS, Server, directory, key_file
from server_process import PATIENCE_SECONDS

MOST = 512 << 20
LONGEST_SECONDS = 1
GRACE_SECONDS = 30  # --shutdown-timeout
AGAIN_SECONDS = 0.2

# Streams that are begun and reset, or left, or carry messages; at once, or when the server has spoken.
STORMS = (("resets",), ("resets", "--late"), ("opened",), ("opened", "--late"), ("bodies",))


@dataclasses.dataclass
class Place:
    """Where storms come from, and where to."""
    addresses: int = 64
    connections: int = 4  # of each
    host: str = "127.0.0.1"
    tls: bool = False


PLACES = {"64 addresses": Place(), "one address": Place(1, 16), "TLS": Place(tls=True), "IPv6": Place(1, 16, "::1")}


def run(api, seconds, seed, report=print, places=tuple(PLACES), storms=STORMS, keys=(True, False), timed=True):
    """Each storm from each place, on a server with keys or without.

    `timed`: no call of the other client may take longer than it should, which holds on a machine that does nothing else.
    """
    for place in places:
        for with_keys in keys:
            for kind, *flags in storms:
                name = f"{place}, {' '.join([kind, *flags])}, {'with' if with_keys else 'without'} keys"
                _storm(api, name, PLACES[place], kind, flags, seconds, "ana" if with_keys else None, timed, report)


def _storm(api, name, place, kind, flags, seconds, key, timed, report):
    with directory() as data:
        options, credentials = _options(data, place, key)
        with Server(api, *options, key=key) as server, _channel(server, credentials) as channel:
            before = server.resident_bytes()
            flags = [*flags, *(["--tls"] if place.tls else [])]
            bystander = Bystander(server, server.metadata, channel, model="m")
            with Storms(server.address, kind, place.addresses, place.connections, 2 * seconds + GRACE_SECONDS, *flags):
                with bystander:
                    newcomers = _newcomers(api, server, credentials, time.monotonic() + seconds)
                most = server.most_resident_bytes() - before
                stopping = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                server.process.wait(GRACE_SECONDS + ENDING_SECONDS)
                stopping = time.monotonic() - stopping
    longest = max(bystander.seconds)
    report(f"{name}: {most / (1 << 20):.0f} MiB more at most; {len(bystander.seconds)} calls beside, "
           f"{1e3 * statistics.median(bystander.seconds):.1f} ms (median; the longest {1e3 * longest:.0f}); "
           f"{len(newcomers)} new clients, {1e3 * statistics.median(newcomers):.0f} ms (the longest "
           f"{1e3 * max(newcomers):.0f}); ended {stopping:.1f} s after SIGTERM")
    assert most <= MOST, f"{name}: the server has grown by {most >> 20} MiB"
    assert not timed or longest < LONGEST_SECONDS, f"{name}: a call took {longest:.1f} s"


def _options(data, place, key):
    """Of the server; and the credentials of its clients, None without TLS."""
    options, credentials = ["--host", place.host, "--max-connection-bytes", "64m"], None
    if key:
        options += ["--api-key-file", key_file(data, [key])]
    if place.tls:
        authority = Authority(data)
        certificate, secret = authority.issue("server")
        options += ["--ssl-certfile", certificate, "--ssl-keyfile", secret]
        credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    return options, credentials


def _channel(server, credentials):
    """With a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    if credentials:
        return grpc.secure_channel(server.address, credentials, options)
    return grpc.insecure_channel(server.address, options)


def _newcomers(api, server, credentials, until):
    """How long clients wait that have just come; those that are closed among attackers connect again."""
    seconds = []
    while time.monotonic() < until:
        begin = time.monotonic()
        with _channel(server, credentials) as channel:
            get_info = api.model_grpc.ModelServiceStub(channel).GetServerInfo
            while not _answers(get_info, api.model.GetServerInfoRequest(), server.metadata):
                assert time.monotonic() < begin + PATIENCE_SECONDS, "a new client is let in"
        seconds.append(time.monotonic() - begin)
        time.sleep(AGAIN_SECONDS)
    return seconds


def _answers(call, request, metadata):
    try:
        call(request, metadata=metadata, timeout=PATIENCE_SECONDS, wait_for_ready=True)
        return True
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        return False
