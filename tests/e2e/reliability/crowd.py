"""Threads that work at the same time. What goes wrong in one reaches the caller."""

import contextlib
from concurrent.futures import ThreadPoolExecutor


@contextlib.contextmanager
def working(action, members, stop=lambda: None):
    """`action(member)` of all members, each in a thread, beside the block; after it `stop()`, and all are awaited."""
    with ThreadPoolExecutor(len(members)) as pool:
        results = [pool.submit(action, member) for member in members]
        try:
            yield
        finally:
            stop()
    for result in results:
        result.result()


def all_at_once(action, members):
    """`action(member)` of all members, each in a thread, until all have returned."""
    with working(action, members):
        pass
