"""Clients that call from another address, as gRPC's cannot choose the one that they call from."""

import socket
import threading


class Relay:
    """A port whose connections go on to a server from `source`, an address of this machine such as 127.0.0.2."""

    def __init__(self, server_address, source):
        host, port = server_address.rsplit(":", 1)
        self._server, self._source = (host, int(port)), source
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = socket.create_connection(self._server, source_address=(self._source, 0))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=ends, daemon=True).start()


def _pump(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # the other way has ended
        pass
