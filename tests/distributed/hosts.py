"""Hosts of one machine: network namespaces that a slow link joins, and ranks on them.

    python -m tests.distributed.hosts PROGRAM [ARGUMENT ...]

runs a program on a rank each of two hosts, h1 and h2, that reach each other by TCP at 1
Gbit/s alone. It has to be called where namespaces may be made: see `NEW`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.distributed.jobs import MPIEXEC, ROOT

__all__ = ["NEW", "refusal"]

# Namespaces of their own, which end with the command.
NEW = ["unshare", "-n", "-m", "-p", "-f", "--mount-proc", "--propagation", "private"]
HOSTS = ("h1", "h2")
RATE = "1gbit"
# As ssh: the first word that is no option is the host, the others are the command.
SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host; $*"
"""


def refusal() -> str:
    """Why no hosts can be made here; nothing where they can."""
    if MPIEXEC is None:
        return "MPI is not installed"
    tried = [*NEW, "sh", "-c", "ip link add br0 type bridge && which tc"]
    try:
        done = subprocess.run(tried, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return f"no network namespaces here: {done.stderr.strip()}" * bool(done.returncode)


def run(*words: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(words, check=True)


def join_hosts(folder: Path) -> None:
    """Make the hosts, each with one link to a bridge that this process is at, too."""
    run("mount", "-t", "tmpfs", "none", "/run")
    run("ip", "link", "add", "br0", "type", "bridge")
    run("ip", "addr", "add", "10.77.0.254/24", "dev", "br0")
    for link in ("lo", "br0"):
        run("ip", "link", "set", link, "up")
    names = folder / "hosts"
    lines = ["127.0.0.1 localhost"]
    for k, host in enumerate(HOSTS, 1):
        inside = ("ip", "-n", host)
        run("ip", "netns", "add", host)
        run("ip", "link", "add", f"to-{host}", "type", "veth",
            "peer", "name", "eth0", "netns", host)  # fmt: skip
        run("ip", "link", "set", f"to-{host}", "master", "br0", "up")
        run(*inside, "addr", "add", f"10.77.0.{k}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            run(*inside, "link", "set", link, "up")
        limit = ("root", "tbf", "rate", RATE, "burst", "256kb", "latency", "50ms")
        run("tc", "qdisc", "add", "dev", f"to-{host}", *limit)
        run("tc", "-n", host, "qdisc", "add", "dev", "eth0", *limit)
        lines.append(f"10.77.0.{k} {host}")
    names.write_text("\n".join(lines) + "\n")
    run("mount", "--bind", str(names), "/etc/hosts")


def main(program: list[str]) -> int:
    """The exit code of the ranks."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        join_hosts(folder)
        shell = folder / "shell"
        shell.write_text(SHELL)
        shell.chmod(0o755)
        words = [str(MPIEXEC), "-launcher", "ssh", "-launcher-exec", str(shell)]
        words += ["-localhost", "10.77.0.254", "-hosts", ",".join(HOSTS), "-n", "2"]
        variables = {
            "PYTHONPATH": str(ROOT),
            "TREADLE_THREADS": "1",
            # Namespaces share memory, which UCX would find; hosts have none in common.
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": "eth0",
        }
        done = subprocess.run(
            [*words, sys.executable, *program],
            env={**os.environ, **variables}, check=False,
        )  # fmt: skip
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
