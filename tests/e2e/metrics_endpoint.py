"""What a server's Prometheus endpoint says."""

import re
import socket
import urllib.request

from server_process import PATIENCE_SECONDS

SAMPLE = re.compile(r"^([a-z_:][a-z0-9_:]*(?:\{[^}]*\})?) (\S+)$")


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def scrape(port):
    """All values now, by names with labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_SECONDS) as answer:
        text = answer.read().decode()
    samples = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = SAMPLE.match(line).groups()
            assert name not in samples
            samples[name] = float(value)
    return samples


class Metrics:
    """A server's endpoint; metrics[name] is the value now, by a name with labels."""

    def __init__(self, start, *flags):
        self.port = free_port()
        self.server = start("--metrics-port", self.port, *flags)

    def scrape(self):
        return scrape(self.port)

    def __getitem__(self, name):
        return self.scrape().get(name, 0)

    def calls(self, method):
        """How many calls of a method have ended, by status code."""
        counter = re.compile(rf'tvq_grpc_calls_total\{{method="{method}",code="(\w+)"\}}')
        found = {counter.fullmatch(name): value for name, value in self.scrape().items()}
        return {match.group(1): value for match, value in found.items() if match}
