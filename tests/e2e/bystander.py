"""A client that others must not disturb."""

import threading
import time


class Bystander:
    """Makes one short call after the other beside the block; each has to answer what it does alone."""

    def __init__(self, server, metadata=None, channel=None, model="bytes"):
        stub = server.api.generation_grpc.GenerationServiceStub(channel or server.channel)
        self._generate, self._metadata = stub.Generate, metadata
        self._request = server.request("Once", model=model, max_tokens=3, ignore_eos=True, seed=1)
        self.seconds = []  # of each call
        self._stop, self._failure = threading.Event(), None
        self._alone = self._call()
        self._thread = threading.Thread(target=self._run)

    def _call(self):
        return [token for response in self._generate(self._request, metadata=self._metadata)
                for delta in response.deltas for token in delta.token_ids]

    def _run(self):
        try:
            while not self._stop.is_set() or not self.seconds:
                begin = time.monotonic()
                assert self._call() == self._alone, "other tokens than alone"
                self.seconds.append(time.monotonic() - begin)
        except Exception as failure:  # which __exit__ tells
            self._failure = failure

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        if self._failure:
            raise self._failure
