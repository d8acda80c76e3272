"""The program under test in a terminal."""

import codecs
import fcntl
import os
import pty
import select
import signal
import subprocess
import termios

from command_line import TVQ


class Terminal:
    """tvq as the only program of a terminal; `others`: other files than the terminal for stdin, stdout or stderr.
    `program`: another one."""

    def __init__(self, address, *arguments, program=None, **others):
        self.master, slave = pty.openpty()
        files = {"stdin": slave, "stdout": slave, "stderr": slave, **others}
        self.process = subprocess.Popen(program or [TVQ, "--server", address, *map(str, arguments)],
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0), **files)
        os.close(slave)
        self.decode = codecs.getincrementaldecoder("utf-8")().decode
        self.text = ""

    def wait_for(self, words):
        while words not in self.text:
            assert select.select([self.master], [], [], 60)[0], self.text
            self.text += self.decode(os.read(self.master, 4096))

    def type(self, text):
        os.write(self.master, text.encode())

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        """The exit code, when all has been read."""
        try:
            while data := os.read(self.master, 4096):
                self.text += self.decode(data)
        except OSError:  # nobody has the other end open
            pass
        return self.process.wait(60)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
