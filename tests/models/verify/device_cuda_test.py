"""What the programs of a build with CUDA say to --device cuda on a machine without a driver, and that the CPU works.

    device_cuda_test.py FOLDER_OF_PROGRAMS

Skips (exit code 77) where there is an NVIDIA driver: there the tests of the device itself run.
"""

import ctypes
import pathlib
import re
import subprocess
import sys

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden" / "bytes_untied"
REFUSAL = (r"device 'cuda': no NVIDIA driver on this machine \(libcuda\.so\.1 not found\); it takes one for CUDA \d+\.\d+ or "
           r"later\. Without a GPU choose the device 'cpu'\n")


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def check(program, *arguments):
    def run(device):
        command = [program, *map(str, arguments), "--device", device]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)

    refused = run("cuda")
    assert (refused.returncode, refused.stdout) == (2, ""), refused
    assert re.fullmatch(f"{program.name}: {REFUSAL}", refused.stderr), refused
    worked = run("cpu")
    assert worked.returncode == 0, worked


def main():
    if has_driver():
        return 77
    programs = pathlib.Path(sys.argv[1])
    check(programs / "tvq-verify", GOLDEN, GOLDEN / "expected.safetensors", "--mode", "prefill")
    check(programs / "tvq-bench", "decode", "--preset", "tiny", "--rounds", "1", "--seconds", "0.01")
    return 0


if __name__ == "__main__":
    sys.exit(main())
