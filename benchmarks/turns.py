"""Processes that stay and take turns: each sample of a case beside those of the others.

A machine that is slow for a while is slow for all of them, so the ratio of two samples
of one turn holds where medians of separate processes do not.
"""

from __future__ import annotations

import contextlib
import json
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.libraries import library_of
from benchmarks.rounds import PAUSE, ROOT, TRIES, Failure, Found, Setting
from benchmarks.workload import Workload

__all__ = ["TURNS", "beside", "together", "twins"]

TURNS = 11  # samples of a case in a round
Tell = Callable[[str], None]


class Staying:
    """A process of `benchmarks.one --turns`, and the case that it has ready."""

    def __init__(
        self, work: str, name: str, part: str, setting: Setting, python: str
    ) -> None:
        command = [python, "-m", "benchmarks.one", work, name, "--part", part]
        self.name, self.case = name, ""
        self.figures: dict[str, Any] = {}
        self.versions: dict[str, str] = {}
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, "--turns", *setting.arguments()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=ROOT,
            env=setting.environment(),
        )

    def ask(self, word: str) -> None:
        """Wake it and send a line; one that has died will not answer."""
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            print(word, file=self.process.stdin, flush=True)

    def heard(self) -> dict[str, Any]:
        """The next answer; raises Failure where there will be none.

        Then it is stopped: some libraries' threads spin long after their work.
        """
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                self.process.send_signal(signal.SIGSTOP)
                return answer
        self.errors.seek(0)
        said = self.errors.read().strip().splitlines()
        said = said or [f"exit status {self.process.wait()}"]
        raise Failure(f"{self.name}: {said[-1]}")

    def prepared(self) -> None:
        """Wait for the next case; "" where there is none."""
        said = self.heard()
        self.case = said.pop("case", "")
        if self.case:
            self.figures[self.case] = {**said, "seconds": [], "others": []}
        else:
            self.versions = said["versions"]

    def sampled(self) -> None:
        """One more sample of the case."""
        self.ask("turn")
        for key, value in self.heard().items():
            self.figures[self.case][key].append(value)

    def end(self) -> None:
        """Let go of the process, whatever it does."""
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def printed(self) -> dict[str, Any]:
        """What a process that measures alone prints."""
        busy = [figure.pop("others") for figure in self.figures.values()]
        others = statistics.median(map(statistics.fmean, busy)) if busy else 0.0
        return {"figures": self.figures, "others": others, "versions": self.versions}


def _each(group: Sequence[Staying], do: Callable[[Staying], None], tell: Tell) -> None:
    """Do it with all in turn; one that fails is told of and has no case any more."""
    for one in group:
        try:
            do(one)
        except Failure as failure:
            one.figures.pop(one.case, None)
            one.case = ""
            tell(f"failed: {failure}")


def _sampled(group: Sequence[Staying], count: int, quiet: float, tell: Tell) -> None:
    """Samples of all by turns, once more where others kept more than `quiet` busy."""
    for k in range(TRIES):
        for one in group:
            one.figures[one.case] |= {"seconds": [], "others": []}
        for _ in range(count):
            _each([one for one in group if one.case], Staying.sampled, tell)
        figures = (one.figures[one.case] for one in group if one.case)
        if max((statistics.fmean(f["others"]) for f in figures), default=0.0) <= quiet:
            return
        if k + 1 < TRIES:
            time.sleep(PAUSE)


def beside(
    work: str,
    names: Sequence[str],
    part: str,
    setting: Setting,
    pythons: Mapping[str, str],
    tell: Tell,
) -> list[dict[str, Any]]:
    """What processes that stay find: every case that several have, sample by sample."""
    group = [
        Staying(work, name, part, setting, pythons[library_of(name)]) for name in names
    ]
    try:
        _each(group, Staying.prepared, tell)
        while case := next((one.case for one in group if one.case), ""):
            now = [one for one in group if one.case == case]
            _sampled(now, 2 if setting.quick else TURNS, setting.quiet, tell)
            now = [one for one in now if one.case]
            for one in now:
                one.ask("next")
            _each(now, Staying.prepared, tell)
        return [one.printed() for one in group]
    finally:
        for one in group:
            one.end()


def together(
    work: Workload,
    setting: Setting,
    names: Sequence[str],
    pythons: Mapping[str, str],
    rounds: int,
    tell: Tell,
) -> Iterator[Found]:
    """All implementations sample by sample, `rounds` times, for each part."""
    for part in work.parts:
        for k in range(rounds):
            found = beside(work.name, names, part, setting, pythons, tell)
            for name, printed in zip(names, found, strict=True):
                if printed["figures"]:
                    yield Found(k, part, name, printed)


def twins(
    work: Workload, setting: Setting, implementation: str, python: str
) -> list[dict[str, Any]]:
    """The same implementation twice in turn: how far this machine can be trusted."""
    pythons = {library_of(implementation): python}
    told: list[str] = []
    names = [implementation] * 2
    for part in work.parts:  # the first that has a case
        found = beside(work.name, names, part, setting, pythons, told.append)
        if told:
            raise Failure(told[0])
        if found[0]["figures"]:
            return found
    raise Failure(f"no case is named {setting.only}")
