#!/usr/bin/env python3
"""On which side of the wait for the kernel before (kernels/cuda/overlap.cuh) memory is touched in machine code.

    tests/kernels/cuda/wait_order.py CUOBJDUMP OBJECT...

The assembler may move what no rule holds, and neither a test on the CPU nor a wrong value would show it. In every
kernel that waits nothing is written, no copy into shared memory begins, and no thread ends, ahead of the wait; those
that are to have weights or keys under way have loads there. Prints what is not so, and ends with 1.
"""

import re
import subprocess
import sys

LOADS_AHEAD = ("TensorKernel", "Float32Kernel", "HeadScoresKernel")
TOO_EARLY = re.compile(r"(ST|STG|LDGSTS|ATOM|ATOMG|RED|REDG|EXIT)(\.|$)")


def kernels(listing: str) -> dict[str, list[str]]:
    """The names of instructions of each function, in their order, without predicates and operands."""
    found: dict[str, list[str]] = {}
    for line in listing.splitlines():
        if function := re.search(r"Function : (\S+)", line):
            found[function[1]] = instructions = []
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@\S+\s+)?([A-Z][\w.]*)", line):
            instructions.append(instruction[1])
    return found


def faults(name: str, instructions: list[str]) -> list[str]:
    ahead = instructions[: instructions.index("ACQBULK")]
    wrong = [f"{name}: {early} ahead of the wait" for early in ahead if TOO_EARLY.match(early)]
    if any(kernel in name for kernel in LOADS_AHEAD) and not any(i.startswith("LDG") for i in ahead):
        wrong.append(f"{name}: no load is on its way during the wait")
    return wrong


def main() -> int:
    waiting, wrong = set(), []
    for path in sys.argv[2:]:
        listing = subprocess.run([sys.argv[1], "-sass", path], check=True, capture_output=True, text=True).stdout
        for name, instructions in kernels(listing).items():
            if "ACQBULK" in instructions:
                waiting.add(name)
                wrong += faults(name, instructions)
    for kernel in LOADS_AHEAD:
        if not any(kernel in name for name in waiting):
            wrong.append(f"{kernel}: no machine code that waits; is this built for compute capability 9.0 or later?")
    print(f"{len(waiting)} kernels wait for the one before", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
