"""What a program that was started tells first."""

import select


def first_line(process, seconds):
    """The first line of its stdout, which it writes at once; nothing if it ends without. Raises TimeoutError and ends it if it
    says nothing for so long."""
    told = select.poll()
    told.register(process.stdout, select.POLLIN)
    if not told.poll(1000 * seconds):
        process.kill()
        raise TimeoutError(f"says nothing for {seconds} s")
    return process.stdout.readline()
