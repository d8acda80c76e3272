"""Tells what was run of the documents and what was not."""

import collections
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))


def pytest_terminal_summary(terminalreporter):
    told = collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                told.update(value for name, value in report.user_properties if name == "block")
    for what, count in sorted(told.items()):
        terminalreporter.write_line(f"{count:4} blocks {what}")
