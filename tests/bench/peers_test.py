#!/usr/bin/env python3
"""peers.py with engines that answer at once: who is asked what, and what is made of it."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PEERS = Path(__file__).with_name("peers.py")

# Speeds rise from round to round: bfloat16 10, 20, 30 tokens/s, int8 and an int8 copy of states twice as many each; the peer
# half of that at depth 0.
OURS = """#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1]
count = len(open({log!r}).read().split()) // {asked} + 1
open({log!r}, "a").write("x\\n")
speed = 10 * count * (2 if option("--dtype") == "int8" else 1) * (2 if "--state-read-dtype" in words else 1)
cases = [{{"context": int(c), "tokens_per_second": speed, "ceiling_n_threads": {{"median": 40}}}}
         for c in option("--context").split(",")]
json.dump({{"cases": cases}}, open(option("--json"), "w"))
"""

PEER = """#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1]
count = len(open({log!r}).read().split()) + 1
open({log!r}, "a").write("x\\n")
assert option("-m") == "model.gguf" and "-fa" in words, words
print(json.dumps([{{"n_depth": int(d), "avg_ts": 5 * count / (1 + int(d))}} for d in option("-d").split(",")]))
"""

BATCHED = """#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1]
assert option("-m") == "model.gguf" and option("-fa") == "on", words
print("a word of its own")
print(json.dumps({{"pl": int(option("-npl")), "speed_tg": 5}}))
"""


class PeersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, name, source, **values):
        log = self.folder / f"{name}.log"
        log.touch()
        path = self.folder / name
        path.write_text(source.format(log=str(log), **values))
        path.chmod(0o755)
        return path

    def ask(self, *options, peer=PEER):
        ours = self.program("tvq-bench", OURS, asked=2)
        peer = self.program("llama-bench", peer)
        report = self.folder / "report.json"
        done = subprocess.run(
            [sys.executable, PEERS, "--tvq-bench", ours, "--peer", f"peer={peer},model.gguf,-fa,1", "--json", report,
             "--rounds", "3", *options], capture_output=True, text=True)
        return done, json.loads(report.read_text()) if report.exists() else None

    def test_ratios_are_those_of_a_round(self):
        done, report = self.ask("--contexts", "0,4")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {(r["side"], r["at"]): r for r in report["rows"]}
        self.assertEqual(rows["peer", 0]["faster"], {"tvq bfloat16": {"median": 2, "min": 2, "max": 2},
                                                     "tvq int8": {"median": 4, "min": 4, "max": 4}})
        self.assertEqual(rows["peer", 4]["faster"]["tvq bfloat16"]["median"], 10)
        self.assertEqual(rows["tvq bfloat16", 0]["tokens_per_second"], {"median": 20, "min": 10, "max": 30})
        self.assertEqual(report["ceilings"], [40, 40, 40])
        self.assertIn("4.00  4.00 to  4.00", done.stdout)

    def test_ours_may_have_flags(self):
        done, report = self.ask("--contexts", "0", "--ours", "--dtype int8 --state-read-dtype int8")
        self.assertEqual(done.returncode, 0, done.stderr)
        [ours] = [row for row in report["rows"] if row["side"] == "tvq int8 --state-read-dtype int8"]
        self.assertEqual(ours["tokens_per_second"]["min"], 40)

    def test_a_peer_may_have_fewer_contexts(self):
        _, report = self.ask("--contexts", "0,4", "--peer-contexts", "4")
        self.assertEqual([r["at"] for r in report["rows"] if r["side"] == "peer"], [4])

    def test_sessions_together_are_asked_of_the_program_beside(self):
        self.program("llama-batched-bench", BATCHED)
        done, report = self.ask("--contexts", "0", "--batches", "16", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        [peer] = [row for row in report["rows"] if row["what"] == "batch" and row["side"] == "peer"]
        self.assertEqual(peer["at"], 16)
        # Ours answered at 10 tokens/s, then, in its second turn, at 20 times two.
        self.assertEqual([peer["faster"][side]["median"] for side in ("tvq bfloat16", "tvq int8")], [2, 8])

    def test_names_the_program_that_failed(self):
        done, report = self.ask(peer="#!/bin/sh\necho no such model >&2\nexit 1\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("llama-bench", done.stderr)
        self.assertIn("no such model", done.stderr)
        self.assertIsNone(report)


if __name__ == "__main__":
    unittest.main()
