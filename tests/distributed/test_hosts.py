"""Two hosts: the bits of one process, and a host that is cut off is told."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.hosts import NEW, refusal
from tests.distributed.jobs import LONGEST, ROOT
from tests.distributed.workloads import digest, trained

REFUSAL = refusal()
pytestmark = pytest.mark.skipif(bool(REFUSAL), reason=REFUSAL)

TRAIN = """
import platform, treadle as td
from tests.distributed.workloads import digest, trained
for name in ("images", "trees"):
    found = digest(*trained(name, 2, 4))
    line = f"{platform.node()} {td.distributed.rank()} {name} {found}\\n"
    print(line, end="", flush=True)  # in one piece: two write to one place
"""
CUT = """
import subprocess, treadle as td
d = td.distributed
d.world().timeout = 3
x = td.asarray([1.0])
d.all_reduce(x).numpy()
if d.rank() == 1:
    subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
d.all_reduce(x * 2).numpy()  # the line of the late call
"""


def on_hosts(tmp_path: Path, source: str, limit: float = LONGEST) -> tuple[int, str]:
    program = tmp_path / "program.py"
    program.write_text(source)
    words = [*NEW, sys.executable, "-m", "tests.distributed.hosts", str(program)]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=ROOT, timeout=limit, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_two_hosts_come_to_the_bits_of_one_process(tmp_path: Path) -> None:
    code, text = on_hosts(tmp_path, TRAIN)
    assert code == 0, text
    for name in ("images", "trees"):
        alone = digest(*trained(name, 2, 4))
        for number, host in enumerate(("h1", "h2")):
            assert f"{host} {number} {name} {alone}" in text, text


def test_a_host_that_is_cut_off_is_named(tmp_path: Path) -> None:
    code, text = on_hosts(tmp_path, CUT)
    assert code != 0
    assert re.search(r"AllReduce \(call \d\) has waited 3 s: rank 1 has not come", text)
    assert "the line of the late call" in text
