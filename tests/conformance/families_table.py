"""The table of docs/conformance.md: which check of the chain every kind of model passes, from the lists of the tests.

    families_table.py [--write] MODEL_TEST ENCODER_TEST    the programs that hold the tests

Fails where a kind lacks a check and no reason is given here, where a reason is given and the check is there, and where the
document has another table; --write puts it there.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "conformance.md"
GOLDEN = ROOT / "tests" / "golden" / "families"
HEAD = "| kind | block |"

# Of each row: how the shapes of the model test and the golden models of the kind begin.
KINDS = {
    "transformer_vq": ("", "vq"),
    "transformer_vq, toeplitz": ("toeplitz_", "vq_toeplitz"),
    "transformer_vq, rerope": ("rerope_", "vq_rerope"),
    "softmax_transformer": ("softmax_", "softmax"),
    "softmax_transformer, toeplitz": ("toeplitz_softmax_", "softmax_toeplitz"),
    "linear_transformer": ("linear_", "linear"),
    "soft_codebook": ("soft_", "soft"),
    "performer": ("performer_", "performer"),
    "vq_encoder": (None, "encoder"),
}
# The families with rotary positions, whose blocks are of one form.
ROTARY = "llama, mistral, qwen2, qwen3"
KINDS[ROTARY] = ("rotary_", "../hugging_face/llama_gqa")
BLOCKS = ("gated", "standard")


def has_block(kind: str, block: str) -> bool:
    return kind != ROTARY or block == "standard"

# Of each column but the golden one: tests that make it up, of ModelTest, on CPUs.
CHECKS = {
    "oracle, step": ["StepsGiveTheOraclesProbabilities"],
    "oracle, prefill": ["PrefillGivesTheOraclesProbabilities"],
    "batch = alone": ["BatchGivesEachRowTheBitsItHasAlone"],
    "threads": ["ThreadsDoNotChangeBits"],
    "chunks": ["PausingBetweenChunksDoesNotChangeBits"],
    "snapshot, fork": ["LoadedStateContinuesLikeTheOriginal", "ForkContinuesLikeTheOriginal"],
    "bytes": ["StateHasTheSizeThatWasQuoted"],
}
PYTORCH, STAND_IN, GPU = "PyTorch", "CUDA kernels, on a CPU", "GPU"

# An encoder's own tests in place of those.
ENCODER_CHECKS = {"chunks": "HowATextIsCutChangesNoBits", "bytes": "HowATextIsCutChangesNoBits"}

# What is not there, and why: a letter that the document explains.
WHOLE, HOST_ONLY = "a", "b"
REASONS = {
    **{("vq_encoder", block, check): WHOLE for block in BLOCKS
       for check in ("oracle, step", "oracle, prefill", "batch = alone", "threads", "snapshot, fork")},
    **{(kind, block, device): HOST_ONLY for device in (STAND_IN, GPU) for block in BLOCKS for kind in KINDS
       if not kind.startswith(("transformer_vq", "softmax_transformer", "linear_transformer", ROTARY))},
}


def tests_of(program) -> list:
    """["ModelTest.Name/case", ...]"""
    every = [program, "--gtest_list_tests", "--gtest_filter=*"]  # whatever GTEST_FILTER says
    listed = subprocess.run(every, check=True, capture_output=True, text=True).stdout
    names, suite = [], ""
    for line in listed.splitlines():
        name = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = name.split("/")[-1]
        else:
            names.append(suite + name)
    return names


def shape_kind(shape: str) -> str:
    """The kind of a shape of the model test: of the longest beginning."""
    return max((kind for kind, (begin, _) in KINDS.items() if begin is not None and shape.startswith(begin)),
               key=lambda kind: len(KINDS[kind][0]))


def found_checks(model_test, encoder_test) -> set:
    """{(kind, block, check)}"""
    found, cases = set(), {}
    for name in tests_of(model_test):
        match = re.fullmatch(r"ModelTest\.(\w+)/(cuda_stand_in\w*?|cuda|reference|cpu[a-z0-9]*)_(\w+)", name)
        if match:
            test, device, shape = match.groups()
            block = "standard" if "standard" in shape else "gated"
            device = STAND_IN if "stand_in" in device else GPU if device == "cuda" else device
            cases.setdefault((shape_kind(shape), block, device), set()).add(test)
    every_test = {test for tests in CHECKS.values() for test in tests}
    for (kind, block, device), tests in cases.items():
        if device in (STAND_IN, GPU):
            if every_test <= tests:
                found.add((kind, block, device))
        elif device.startswith("cpu"):
            found |= {(kind, block, check) for check, wanted in CHECKS.items() if set(wanted) <= tests}
    encoder = set(tests_of(encoder_test))
    found |= {("vq_encoder", block, check) for check, test in ENCODER_CHECKS.items() for block in BLOCKS
              if f"EncoderTest.{test}/{BLOCKS.index(block)}" in encoder}
    for kind, (_, golden) in KINDS.items():
        for block in BLOCKS:
            models = GOLDEN.glob(f"{golden}_{block}_*/expected.safetensors")
            if any(models) or (kind == ROTARY and (GOLDEN / golden / "expected.safetensors").exists()):
                found.add((kind, block, PYTORCH))
    return found


def table(found: set) -> str:
    columns = ["oracle, step", "oracle, prefill", PYTORCH, *list(CHECKS)[2:], STAND_IN, GPU]
    lines = [HEAD + "".join(f" {column} |" for column in columns), "|---|---|" + ":---:|" * len(columns)]
    for kind in KINDS:
        for block in filter(lambda block: has_block(kind, block), BLOCKS):
            cells = []
            for column in columns:
                there, reason = (kind, block, column) in found, REASONS.get((kind, block, column))
                if there == bool(reason):
                    sys.exit(f"{kind}, {block} block: {column} is "
                             + ("there, and a reason is given why not" if there else "missing, and no reason is given"))
                cells.append("x" if there else reason)
            lines.append(f"| {kind} | {block} |" + "".join(f" {cell} |" for cell in cells))
    return "\n".join(lines) + "\n"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    new = table(found_checks(*arguments))
    text = DOCUMENT.read_text(encoding="utf-8")
    old = "".join(re.findall(re.escape(HEAD) + r".*\n(?:\|.*\n)*", text))
    if "--write" in sys.argv:
        DOCUMENT.write_text(text.replace(old, new), encoding="utf-8")
    elif old != new:
        sys.exit(f"{DOCUMENT.relative_to(ROOT)} has another table than the tests make; {sys.argv[0]} --write mends it:\n{new}")


if __name__ == "__main__":
    main()
