#!/usr/bin/env python3
"""Whether machine code touches memory in the order that kernels rely on.

    tests/kernels/cuda/memory_order.py CUOBJDUMP OBJECT...

The compiler and the assembler may move what no rule holds, and neither a test on the CPU nor a wrong value would show
it. Prints what is not so, and ends with 1:

- In every kernel that waits for the kernel before (kernels/cuda/common/overlap.cuh) nothing is written, no copy into shared
  memory begins, and no thread ends, ahead of the wait; those that are to have weights or keys under way have loads there.
- What blocks leave for the last of them (kernels/cuda/common/tickets.cuh) is in memory before a ticket is drawn, and nothing
  that was read earlier is taken for it: a fence directly ahead of each draw, and the first cache dropped behind it.
"""

import re
import subprocess
import sys

LOADS_AHEAD = ("TensorKernel", "Float32Kernel", "HeadScoresKernel")
DRAWS = ("TensorKernel", "HeadScoresKernel", "AttendKernel")
TOO_EARLY = re.compile(r"(ST|STG|LDGSTS|ATOM|ATOMG|RED|REDG|EXIT)(\.|$)")
DRAW = re.compile(r"(ATOM|ATOMG|RED|REDG)\.")
MEMORY = re.compile(r"(LD|LDG|LDS|LDGSTS|ST|STG|STS|ATOM|ATOMG|ATOMS|RED|REDG|BAR)(\.|$)")


def kernels(listing: str) -> list[tuple[str, list[str]]]:
    """Functions, of each GPU's code, and the names of their instructions, without predicates and operands."""
    found: list[tuple[str, list[str]]] = []
    for line in listing.splitlines():
        if function := re.search(r"Function : (\S+)", line):
            found.append((function[1], []))
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@\S+\s+)?([A-Z][\w.]*)", line):
            found[-1][1].append(instruction[1])
    return found


def waits_wrong(name: str, instructions: list[str]) -> list[str]:
    ahead = instructions[: instructions.index("ACQBULK")]
    wrong = [f"{name}: {early} ahead of the wait" for early in ahead if TOO_EARLY.match(early)]
    if any(kernel in name for kernel in LOADS_AHEAD) and not any(i.startswith("LDG") for i in ahead):
        wrong.append(f"{name}: no load is on its way during the wait")
    return wrong


def next_to(instructions: list[str], wanted: str) -> bool:
    """Whether it comes before anything that touches memory."""
    for instruction in instructions:
        if instruction.startswith(wanted):
            return True
        if MEMORY.match(instruction):
            return False
    return False


def draws_wrong(name: str, instructions: list[str]) -> list[str]:
    wrong = []
    for at, instruction in enumerate(instructions):
        if not DRAW.match(instruction):
            continue
        if not next_to(instructions[:at][::-1], "MEMBAR"):
            wrong.append(f"{name}: {instruction} without a fence directly ahead of it")
        if not next_to(instructions[at + 1 :], "CCTL.IVALL"):
            wrong.append(f"{name}: {instruction} without the first cache dropped behind it")
    return wrong


def main() -> int:
    waiting, drawing, wrong = set(), set(), []
    for path in sys.argv[2:]:
        listing = subprocess.run([sys.argv[1], "-sass", path], check=True, capture_output=True, text=True).stdout
        for name, instructions in kernels(listing):
            if "ACQBULK" in instructions:
                waiting.add(name)
                wrong += waits_wrong(name, instructions)
            if any(DRAW.match(instruction) for instruction in instructions):
                drawing.add(name)
                wrong += draws_wrong(name, instructions)
    for kernel in LOADS_AHEAD:
        if not any(kernel in name for name in waiting):
            wrong.append(f"{kernel}: no machine code that waits; is this built for compute capability 9.0 or later?")
    for kernel in DRAWS:
        if not any(kernel in name for name in drawing):
            wrong.append(f"{kernel}: no machine code that draws a ticket")
    print(f"{len(waiting)} kernels wait for the one before, {len(drawing)} draw tickets", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
