#!/usr/bin/env python3
"""random_models.py: each family's directory, at a small size, is one that tvq-bench reads and decodes with."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import random_models

SMALL = {"rwkv7": {"layers": 2, "width": 128, "vocab": 259}, "mamba2": {"layers": 2, "width": 64, "vocab": 259},
         "qwen3_5": {"layers": 4, "width": 64, "vocab": 259, "heads": 2, "head": 32, "attention": 2, "wide": 32}}


class RandomModelsTest(unittest.TestCase):
    def test_every_family_decodes(self):
        self.assertEqual(set(SMALL), set(random_models.FAMILIES))
        for family, size in SMALL.items():
            with self.subTest(family), tempfile.TemporaryDirectory() as folder:
                model, report = Path(folder, "model"), Path(folder, "report.json")
                random_models.write(model, *random_models.FAMILIES[family](**size))
                done = subprocess.run([bench, "decode", "--model", model, "--ceiling-megabytes", "64", "--context", "0",
                                       "--seconds", "0.01", "--rounds", "1", "--json", report], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreater(json.loads(report.read_text())["cases"][0]["tokens_per_second"], 0)


if __name__ == "__main__":
    bench = sys.argv.pop(1)
    unittest.main()
