"""What programs say to --device cuda on a machine that has no GPU, or whose build has no CUDA.

    device_cuda_test.py FOLDER_OF_PROGRAMS

Skips (exit code 77) where there is an NVIDIA driver: there the tests of the device itself run.
"""

import ctypes
import pathlib
import subprocess
import sys

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden" / "bytes_untied"


def run(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def check(program, device_error, *arguments):
    refused = run(program, *arguments, "--device", "cuda")
    assert refused.returncode == 2, (program, refused)
    assert refused.stdout == "", (program, refused.stdout)
    assert refused.stderr == f"{program.name}: device 'cuda': {device_error}\n", (program, refused.stderr)
    worked = run(program, *arguments, "--device", "cpu")
    assert worked.returncode == 0, (program, worked)


def main():
    if has_driver():
        return 77
    folder = pathlib.Path(sys.argv[1])
    error = run(folder / "tvq-verify", GOLDEN, GOLDEN / "expected.safetensors", "--device", "cuda").stderr
    if "no CUDA backend" in error:
        expected = "this build has no CUDA backend; build with cmake --preset cuda"
    else:
        expected = ("no NVIDIA driver on this machine (libcuda.so.1 not found); it takes one for CUDA 13.0 or later. "
                    "Without a GPU choose the device 'cpu'")
    check(folder / "tvq-verify", expected, GOLDEN, GOLDEN / "expected.safetensors", "--mode", "prefill")
    check(folder / "tvq-bench", expected, "decode", "--preset", "tiny", "--rounds", "1", "--seconds", "0.01")
    return 0


if __name__ == "__main__":
    sys.exit(main())
