"""The frame: who is there, whose turn it is, what is shown and kept."""

from __future__ import annotations

import doctest
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import frame, rounds, turns
from benchmarks.frame import apart, check, collect, compare, trust
from benchmarks.rounds import Failure, Peers, Setting, find, interpreters
from benchmarks.tables import keep, kept_name, show
from benchmarks.workload import Claim, Workload
from benchmarks.workloads import workload

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "bandwidth", "corpora", "frame", "libraries", "rounds", "tables", "turns",
    "verdict", "workload",
)  # fmt: skip
WORK = Workload(
    name="toy",
    sizes={},
    data=lambda sizes, part: None,
    implementations=dict.fromkeys(("treadle", "torch", "torch-compile"), None),  # type: ignore[arg-type]
    claims=(Claim("step", "time", "fastest", 0.8, 0.5),),
    parts=("one", "two"),
)
PYTHONS = {"treadle": "python", "torch": "python"}
PEERS = Peers(("torch", "torch-compile"), {"jax": "not here"}, PYTHONS, {"torch": "9"})
SECONDS = {"treadle": 0.03, "torch": 0.06, "torch-compile": 0.05}


class Processes:
    """Stands in for fresh processes and notes which were asked for."""

    def __init__(
        self, fails: str = "", values: Any = None, others: Sequence[float] = ()
    ) -> None:
        self.others = list(others)
        self.asked: list[tuple[str, str]] = []
        self.fails, self.values = fails, values or {}

    def __call__(
        self, work: str, name: str, part: str, setting: Setting, python: str
    ) -> dict[str, Any]:
        self.asked.append((part, name))
        if name == self.fails:
            raise Failure(f"{name}: out of memory [1]")
        figure: dict[str, Any] = {"seconds": [SECONDS[name]] * 3, "megabytes": 7.0}
        if setting.check:
            figure = {"values": self.values[name]}
        others = self.others.pop(0) if self.others else 0.0
        return {"figures": {"step": {**figure, "work": 3e9}}, "others": others}


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(**given: Any) -> Processes:
        made = Processes(**given)
        monkeypatch.setattr(rounds, "measure", made)
        monkeypatch.setattr(frame, "measure", made)
        return made

    return install


def test_an_a_a_pair_then_all_in_turn(processes: Any) -> None:
    made, told = processes(), []
    outcome = compare(WORK, Setting(), PEERS, 2, True, told.append)
    names = ["treadle", "torch", "torch-compile"]
    turns = [("one", n) for n in names * 2] + [("two", n) for n in names * 2]
    assert made.asked == [("one", "treadle")] * 2 + turns
    assert told[0] == "A/A of treadle: 0.0% apart in the median, 0.0% at worst"
    (finding,) = outcome.findings
    assert (finding.peer, finding.verdict) == ("torch-compile", "floor met")


def test_a_claim_for_so_many_threads_speaks_of_them_alone(processes: Any) -> None:
    processes()
    both = (
        Claim("step", "time", "torch", 1.0, None, threads=1),
        Claim("step", "time", "torch-compile", 0.8, None, threads=2),
    )
    work = replace(WORK, claims=both, source=lambda: "data: drawn")
    told: list[str] = []
    for threads, against in ((1, "torch"), (2, "torch-compile")):
        outcome = compare(work, Setting(threads), PEERS, 1, True, told.append)
        (finding,) = outcome.findings
        assert finding.claim.against == against
        assert outcome.told[0] == "data: drawn"


def test_one_that_fails_is_told_and_left_out(processes: Any) -> None:
    made, told = processes(fails="torch"), []
    outcome = compare(WORK, Setting(), PEERS, 3, True, told.append)
    assert made.asked.count(("one", "torch")) == 1
    assert "one: failed: torch: out of memory [1]" in told
    assert "torch" not in outcome.samples["step", "time"]
    assert len(outcome.samples["step", "time"]["treadle"]) == 6


def test_what_others_disturb_is_repeated(
    processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "PAUSE", 0.0)
    made, setting = processes(others=[0.9, 0.4, 0.1, 0.7]), Setting(quiet=0.2)
    found = rounds.quietly("toy", "torch", "one", setting, "python")
    assert (found["others"], len(made.asked)) == (0.1, 3)
    made = processes(others=[0.9, 0.4, 0.8, 0.7, 0.6, 0.0])
    found = rounds.quietly("toy", "torch", "one", setting, "python")
    assert (found["others"], len(made.asked)) == (0.4, rounds.TRIES)


def test_tables_and_file_tell_everything(
    processes: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    processes()
    outcome = compare(WORK, Setting(quick=True), PEERS, 1, True, lambda text: None)
    show(outcome)
    printed = capsys.readouterr().out
    for word in ("step time", "torch-compile", "GFLOP/s", "0.6", "floor met", "quick"):
        assert word in printed
    path = tmp_path / "results" / kept_name(outcome)
    assert path.name.startswith("toy-plain-")
    keep(outcome, path)
    kept = json.loads(path.read_text())
    assert {"commit", "cpu", "python", "versions", "missing", "told"} <= set(kept)
    assert kept["missing"] == {"jax": "not here"}
    assert kept["findings"][0]["verdict"] == "floor met"
    assert len(kept["processes"]) == 6
    times = [f for f in kept["figures"] if f["quantity"] == "time"]
    assert [round(f["median"]) for f in times] == [30, 60, 50]


def test_ordinary_programs_are_shown_by_cases(
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = replace(WORK, steps=8, claims=(), alike=("a", "b"))
    outcome = frame.Outcome(work, Setting(threads=1), PEERS)
    figures = {"treadle": (1e-3, 2e-3, 9e-3), "torch": (4e-3, 2e-3, 1e-3)}
    for slow in (2.0, 1.0):  # of what the turns have, the least counts
        for name, seconds in figures.items():
            factor = slow if name == "treadle" else 1.0
            cases = zip("abc", seconds, strict=True)
            found = {case: {"seconds": [factor * s] * 3} for case, s in cases}
            outcome.raw.append({"implementation": name, "figures": found})
    show(outcome)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = {
        words[1]: words[3::2] for words in shown if words[1:2] in (["a"], ["b"], ["c"])
    }
    assert rows == {
        "a": ["1000", "4000", "0.25"],
        "b": ["2000", "2000", "1.00"],
        "c": ["9000", "1000", "9.00"],
    }
    (spread,) = (words for words in shown if "alike:" in words)
    assert [w for w in spread if w[:1].isdigit()] == ["2.00", "2.00"]


def test_a_bound_is_the_slowest_limit_over_the_time() -> None:
    figure = {"seconds": [0.2, 0.1, 0.4], "bounds": {"copy": 0.1, "cache": 0.15}}
    raw = [{"implementation": "treadle", "figures": {"exp": figure}}]
    found = collect(raw)
    assert found["exp", "time"]["treadle"] == [200.0]
    assert found["exp", "bound"]["treadle"] == [pytest.approx(0.75)]


def test_results_agree_or_the_check_fails(processes: Any) -> None:
    values = {"treadle": [1.0, 2.0], "torch": [1.0, 2.0], "torch-compile": [1.0, 2.0]}
    processes(values=values)
    assert check(WORK, Setting(check=True), PEERS, lambda text: None)
    told: list[str] = []
    processes(values={**values, "torch": [1.0, 2.01]})
    assert not check(WORK, Setting(check=True), PEERS, told.append)
    assert "step: treadle and torch DIFFER: 5.0e-03" in told
    processes(values=values, fails="treadle")
    assert not check(WORK, Setting(check=True), PEERS, lambda text: None)
    nobody = Peers((), {}, PYTHONS, {})
    processes(values=values)
    assert not check(WORK, Setting(check=True), nobody, lambda text: None)


def test_not_a_number_differs_from_everything() -> None:
    assert apart([float("nan")], [1.0]) == float("inf")
    assert apart([1000.0], [1001.0]) == pytest.approx(1e-3, rel=0.01)
    with pytest.raises(ValueError, match="2 values beside 1"):
        apart([1.0, 2.0], [1.0])


def test_a_pair_that_differs_is_not_trusted() -> None:
    a, b = ({"figures": {"x": {"seconds": [s]}}} for s in (0.1, 0.11))
    assert trust(b, a)["x"] == pytest.approx(0.1)
    assert "not quiet" in frame.trusted(trust(a, b))


def test_peers_are_found_by_the_packages_of_their_interpreter() -> None:
    pythons = {"treadle": sys.executable, "torch": "/nowhere/python"}
    found = find(WORK, (), pythons)
    assert found.present == ()
    assert set(found.missing) == {"torch", "torch-compile"}
    assert "/nowhere/python" in found.missing["torch"]
    only = find(WORK, ["torch-compile"], pythons)
    assert set(only.missing) == {"torch-compile"}
    with pytest.raises(ValueError, match="toy has no peer 'mlx'"):
        find(WORK, ["mlx"], pythons)


def test_interpreters_by_option_and_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TREADLE_BENCH_PYTHON", raising=False)
    monkeypatch.setenv("TREADLE_BENCH_PYTHON_JAX", "/jax/python")
    monkeypatch.setenv("TREADLE_BENCH_PYTHON_DYNET", "/dynet/python")
    assert interpreters([])["dynet"] == "/dynet/python"
    assert interpreters(["torch=/a"])["torch"] == "/a"
    assert interpreters([])["jax"] == "/jax/python"
    assert interpreters([])["torch"] == sys.executable
    monkeypatch.setenv("TREADLE_BENCH_PYTHON", "/all/python")
    found = interpreters([])
    assert (found["torch"], found["treadle"]) == ("/all/python", sys.executable)
    with pytest.raises(ValueError, match="NAME=PATH"):
        interpreters(["torch"])


def test_a_fresh_process_prints_one_line_of_figures() -> None:
    setting = Setting(threads=1, sizes="tiny", quick=True)
    found = rounds.measure("contraction", "openblas", "gemm", setting, sys.executable)
    assert len(found["figures"]) == 3
    assert all(min(f["seconds"]) > 0 for f in found["figures"].values())
    assert "numpy" in found["versions"]
    with pytest.raises(Failure, match="there is no workload 'nothing'"):
        rounds.measure("nothing", "treadle", "x", setting, sys.executable)


def test_a_pattern_names_the_cases() -> None:
    setting = Setting(threads=1, sizes="tiny", quick=True, only="skinny *")
    found = rounds.measure("contraction", "openblas", "gemm", setting, sys.executable)
    assert list(found["figures"]) == ["skinny 1x13"]
    nothing = replace(setting, only="nothing")
    with pytest.raises(Failure, match="no case is named nothing"):
        turns.twins(workload("contraction"), nothing, "openblas", sys.executable)


def test_processes_that_stay_take_turns_for_each_sample() -> None:
    setting = Setting(threads=1, sizes="tiny", quick=True)
    names = ["treadle", "openblas"]
    pythons = {"treadle": sys.executable, "openblas": sys.executable}
    told: list[str] = []
    both = turns.beside("contraction", names, "gemm", setting, pythons, told.append)
    assert told == []
    for found in both:
        assert len(found["figures"]) == 3
        assert all(len(f["seconds"]) == 2 for f in found["figures"].values())
        assert min(s for f in found["figures"].values() for s in f["seconds"]) > 0
        assert found["others"] >= 0.0 and "numpy" in found["versions"]
    samples = collect(
        [{**f, "implementation": n} for f, n in zip(both, names, strict=True)], True
    )
    assert all(len(s) == 2 for f in samples.values() for s in f.values())


def test_one_that_fails_leaves_the_others_their_turns() -> None:
    setting = Setting(threads=1, sizes="tiny", quick=True)
    pythons = {"nothing": sys.executable, "openblas": sys.executable}
    names, told = ["nothing", "openblas"], []
    found = turns.beside("contraction", names, "gemm", setting, pythons, told.append)
    assert [len(one["figures"]) for one in found] == [0, 3]
    assert told == ["failed: nothing: KeyError: 'nothing'"]


def test_the_command_line_shows_and_keeps(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    command = [sys.executable, "-m", "benchmarks", "contraction", "--tiny", "--quick"]
    command += ["--rounds", "1", "--peer", "openblas", "--json", str(path)]
    command += ["--peers-only", "--python", f"openblas={sys.executable}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "treadle was not measured" in done.stdout
    assert json.loads(path.read_text())["workload"] == "contraction"


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_docstrings(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    assert doctest.testmod(module).failed == 0
