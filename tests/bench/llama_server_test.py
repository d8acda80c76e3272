#!/usr/bin/env python3
"""Slot files made longer, in both layouts of the values."""

import struct
import tempfile
import unittest
from pathlib import Path

from llama_server import MAGIC, VERSION, repeat


def slot(tokens, keys, values, transposed, columns=2):
    """A slot file of one layer: keys are rows of 4 bytes, values columns of 2 bytes, one of each a token."""
    packed = [-1, 1, len(tokens), *tokens, 0]
    data = struct.pack("<III", MAGIC, VERSION, len(packed)) + struct.pack(f"<{len(packed)}i", *packed)
    data += struct.pack("<II", 1, len(tokens))
    data += b"".join(struct.pack("<iIi", position, 1, 0) for position in range(len(tokens)))
    data += struct.pack("<II", transposed, 1) + struct.pack("<iQ", 1, 4) + b"".join(keys)
    if transposed:
        data += struct.pack("<iII", 1, 2, columns)
        data += b"".join(row[2 * c:2 * c + 2] for c in range(columns) for row in values)
    else:
        data += struct.pack("<iQ", 1, 2 * columns) + b"".join(values)
    return data


class RepeatTest(unittest.TestCase):
    def repeated(self, data, tokens):
        with tempfile.TemporaryDirectory() as name:
            source, target = Path(name) / "short.bin", Path(name) / "long.bin"
            source.write_bytes(data)
            repeat(source, target, tokens)
            return target.read_bytes()

    def test_is_the_file_of_a_longer_prompt_with_the_cells_again(self):
        keys, values = [b"aaaa", b"bbbb"], [b"ccdd", b"eeff"]
        for transposed in (False, True):
            with self.subTest(transposed=transposed):
                self.assertEqual(self.repeated(slot([7, 8], keys, values, transposed), [1, 2, 3, 4, 5]),
                                 slot([1, 2, 3, 4, 5], (keys * 3)[:5], (values * 3)[:5], transposed))

    def test_refuses_another_format(self):
        data = slot([7, 8], [b"aaaa"] * 2, [b"bbbb"] * 2, False)
        with self.assertRaisesRegex(SystemExit, "not a slot file"):
            self.repeated(data[:4] + struct.pack("<I", VERSION + 1) + data[8:], [1, 2, 3])


if __name__ == "__main__":
    unittest.main()
