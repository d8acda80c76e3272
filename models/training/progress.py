"""A progress bar on a terminal; if the output is a file, a line from time to time."""

import time

LINE_SECONDS = 30  # between lines of a log file
BAR = 24  # characters


class Progress:
    """Shows the fraction done and smoothed numbers (averages over about the last 50 calls)."""

    def __init__(self, stream):
        self.stream, self.terminal = stream, stream.isatty()
        self.smooth, self.shown_at = {}, 0.0

    def show(self, fraction: float, text: str, numbers: dict):
        for name, value in numbers.items():
            self.smooth[name] = value if name not in self.smooth else 0.98 * self.smooth[name] + 0.02 * value
        now = time.monotonic()
        if now - self.shown_at < (0.2 if self.terminal else LINE_SECONDS):
            return
        self.shown_at = now
        filled = int(BAR * min(1.0, fraction))
        bar = f"[{'#' * filled}{'.' * (BAR - filled)}] {100 * fraction:5.1f}%  {text}  "
        bar += "  ".join(f"{name} {value:.3f}" for name, value in self.smooth.items() if name != "rate")
        self.stream.write(f"\r{bar}\x1b[K" if self.terminal else bar + "\n")
        self.stream.flush()

    def note(self, text: str):
        self.stream.write(f"\r{text}\x1b[K\n" if self.terminal else text + "\n")
        self.stream.flush()
