"""Tests that need rights of the system's, where it does not grant them: as in a container, or a chroot."""

import os
import subprocess
import sys

import pytest
from server_process import ROOT

SCENARIOS = ["replicas", "cuts", "disk"]


def run_without(rights, ci):
    """The scenarios' tests in a process that has not these capabilities."""
    drop = ["setpriv", f"--bounding-set={rights}", "--inh-caps=-all"]
    if subprocess.run([*drop, "true"], capture_output=True).returncode != 0:
        pytest.skip("setpriv cannot drop capabilities here")
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [*drop, sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "test_reliability.py", "-k",
         " or ".join(f"[{name}]" for name in SCENARIOS)],
        cwd=ROOT / "tests" / "e2e", env={**kept, **ci}, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.parametrize("rights, left_out",
                         [("-net_admin", ["replicas", "cuts"]), ("-sys_admin,-net_admin", SCENARIOS)])
def test_scenarios_are_left_out_with_the_reason(rights, left_out):
    told = run_without(rights, {})
    assert "failed" not in told.splitlines()[-1], told
    reasons = [line.split(": ", 1)[1] for line in told.splitlines() if line.startswith("SKIPPED [1] ")]
    assert sorted(reason.split(":")[0] for reason in reasons) == sorted(left_out), told
    assert all("not permitted" in reason or "denied" in reason for reason in reasons), told


def test_scenarios_fail_for_a_machine():
    told = run_without("-sys_admin,-net_admin", {"CI": "true"})
    assert f"{len(SCENARIOS)} failed" in told.splitlines()[-1], told
    assert "cuts: network namespaces: " in told
    assert "CalledProcessError" not in told
