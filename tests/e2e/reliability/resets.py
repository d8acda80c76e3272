"""Storms of streams that are opened and reset at once, by a host without a key."""

import statistics

from bystander import Bystander
from reliability.crowd import all_at_once
from reliability.world import Server, bearer, directory, key_file
from reset_storm import GENERATE, UNKNOWN, requests, storm
from server_process import wait_until

MOST_LEFT = 64 << 20


def run(api, storms, streams, at_once, seed, report=print):
    """Storms one after the other, then over several connections that come back when they are closed."""
    for path in (GENERATE, UNKNOWN):
        data = b"".join(requests(streams, path))
        _storms(api, f"{storms} storms of {streams} streams to {path}",
                lambda server, data=data: _in_a_row(server, data, storms), report)
    data = b"".join(requests(streams))
    _storms(api, f"{storms} storms over each of {at_once} connections at once",
            lambda server: all_at_once(lambda _: _in_a_row(server, data, storms), range(at_once)), report)


def _in_a_row(server, data, storms):
    for _ in range(storms):
        assert storm(server.address, data), "the server did not close the connection of a storm"


def _storms(api, name, attack, report):
    with directory() as data, Server(api, "--api-key-file", key_file(data, ["ana"]), "--max-connection-bytes", "64m",
                                     key="ana") as server:
        with Bystander(server, bearer("ana"), model="m") as bystander:
            before = server.resident_bytes()
            attack(server)
        wait_until(lambda: server.resident_bytes() - before < MOST_LEFT, "memory goes back to the system")
        mib = [bytes / (1 << 20) for bytes in (before, server.most_resident_bytes(), server.resident_bytes())]
        report(f"{name}: {mib[0]:.0f} MiB before, {mib[1]:.0f} at most, {mib[2]:.0f} after; {len(bystander.seconds)} "
               f"calls beside them, {1e3 * statistics.median(bystander.seconds):.1f} ms (median; the longest "
               f"{1e3 * max(bystander.seconds):.0f})")
