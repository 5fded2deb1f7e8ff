"""The commands that look, run files and measure; wrong words are told in one line."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import treadle as td
from treadle.cli import main
from treadle.cli.parser import show

NET = """
import treadle as td

layer = td.nn.Linear(6, 3)
w = td.param("w", (6, 3))
number = 7


def forward(x, scale=1.0):
    return td.softmax(layer(x)) * scale


def picked(ids, table):
    return td.embedding(table, ids)


def loop(x):
    return float(x)


def broken(x):
    raise KeyError("no such")


def nothing():
    return 3


def wrong(x):
    return x @ td.ones((3, 3))
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"viewed_{tmp_path.name}.py").write_text(NET)
    monkeypatch.setattr("sys.dont_write_bytecode", True)


@pytest.fixture
def net(tmp_path: Path) -> str:
    return f"viewed_{tmp_path.name}"


def saved(name: str = "model.npz") -> str:
    x = td.placeholder((2, 3), name="x")
    count = td.Variable(0, name="count")
    count.assign(count + 1)
    outputs = {"double": x * 2.0, "sums": [x.sum(), x.sum(0)]}
    td.save(name, td.computation(outputs, x))
    return name


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "--help")
    for name in ("train", "view", "run", "bench", "info", "cache"):
        assert name in out
        assert "usage: treadle " + name in said(capsys, name, "--help")


def test_view_prints_the_graph_and_its_memory(
    capsys: pytest.CaptureFixture[str], net: str
) -> None:
    out = said(capsys, "view", f"{net}:forward", "--shape", "5,6")
    assert "placeholder 'x' : float32[5, 6]" in out and "Softmax" in out
    assert "workspace" in out and "parameters" in out and "84" in out
    assert f"  {net}.py:10: return td" in out, "the user's line"
    out = said(capsys, "view", f"{net}:picked", "--shape", "table=9,4",
               "--shape", "ids=2,5:int64")  # fmt: skip
    assert "int64[2, 5]" in out and "float32[2, 5, 4]" in out
    assert "parameter 'w'" in said(capsys, "view", f"{net}:w")
    assert "float32[6]" in said(capsys, "view", f"{net}:layer", "--shape", "6")


@pytest.mark.parametrize("name", ["model.npz", "model.safetensors"])
def test_view_shows_a_file(capsys: pytest.CaptureFixture[str], name: str) -> None:
    out = said(capsys, "view", saved(name))
    assert "placeholder 'x' : float32[2, 3]" in out and "variable 'count'" in out
    assert "inputs" in out


def test_view_draws(capsys: pytest.CaptureFixture[str], net: str) -> None:
    target = ["view", f"{net}:forward", "--shape", "5,6"]
    for name in ("g.svg", "m.svg"):
        words = ["--output", name] if name == "g.svg" else ["--memory", name]
        assert said(capsys, *target, *words) == f"wrote {name}\n"
        ElementTree.parse(name)
    assert "Softmax" in Path("g.svg").read_text()
    said(capsys, *target, "--output", "both.svg", "--optimized")
    assert len(Path("both.svg").read_text()) > len(Path("g.svg").read_text())
    said(capsys, *target, "--output", "g.dot")
    assert Path("g.dot").read_text().startswith("digraph")
    said(capsys, *target, "--output", "g.txt", "--workspace", "1MB")
    assert "%0" in Path("g.txt").read_text()


INPUTS: dict[str, list[str]] = {
    "by name": ["x=x.npy"],
    "in order": ["x.npy"],
    "an archive by names": ["x.npz"],
    "an archive of one": ["x=x.npz"],
    "written out": ["x=[[0,1,2],[3,4,5]]"],
}


@pytest.mark.parametrize("words", INPUTS.values(), ids=INPUTS)
def test_run_takes_inputs(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    saved()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save("x.npy", x)
    np.savez("x.npz", x=x)
    given = [part for word in words for part in ("--input", word)]
    out = said(capsys, "run", "model.npz", *given, "--output", "y.npz")
    assert out == "wrote y.npz: double, sums.0, sums.1\n"
    with np.load("y.npz") as found:
        assert (found["double"] == 2 * x).all() and (found["sums.1"] == x.sum(0)).all()
        assert found["sums.0"] == 15
    out = said(capsys, "run", "model.npz", *given)
    assert "sums.0: float32[]\n15.0\n" in out and "[ 6.,  8., 10.]" in out


def test_run_tells_what_a_file_takes(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "run", saved())
    words = [line.split() for line in out.splitlines()]
    assert words[0] == ["takes", "x", "float32[2,", "3]"]
    assert ["changes", "count", "int32[]"] in words or "int64[]" in words[-1]


def test_run_writes_one_array(capsys: pytest.CaptureFixture[str]) -> None:
    x = td.placeholder((3,), name="x")
    td.save("one.npz", td.computation(td.exp(x), x))
    said(capsys, "run", "one.npz", "--input", "[0, 0, 0]", "--output", "y.npy")
    assert (np.load("y.npy") == 1).all()


def test_run_draws_by_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    td.save("draws.npz", td.computation(td.random.normal((3,))))
    found = [said(capsys, "run", "draws.npz", "--seed", s) for s in "112"]
    assert found[0] == found[1] != found[2]


def test_bench_measures(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "bench", "--seconds", "0.001", "--json"))
    assert len(found) == 8 and all(row["value"] >= 0 for row in found.values())
    assert {"GB/s", "GFLOP/s", "us", "ms"} <= {row["unit"] for row in found.values()}


def test_info_tells_of_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "info")
    for word in ("processor", "cores", "memory", "cache", "reserve=0", "llvmlite"):
        assert word in out
    assert not any(line.endswith(" ") for line in out.splitlines())


def test_rows_need_no_optional_package(
    capsys: pytest.CaptureFixture[str], net: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert "processor" in said(capsys, "info") and "place" in said(capsys, "cache")
    out = said(capsys, "view", f"{net}:forward", "--shape", "5,6")
    assert "workspace" in out and "84" in out


def test_rows_stand_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show([("a", 1, "x"), ("bcd", 22, 333)], ("n", "bytes", ""), right=(1, 2))
    assert capsys.readouterr().out == ("n    bytes\na        1    x\nbcd     22  333\n")
    show([("k", "word " * 25), ("k2", "")], wrap=True)
    assert capsys.readouterr().out == (
        f"k   {'word ' * 19}".rstrip() + f"\n    {'word ' * 6}".rstrip() + "\nk2\n"
    )


def test_cache_tells_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "cache")
    assert [line.split()[0] for line in out.splitlines()] == ["place", "files", "bytes"]


MISTAKES: list[tuple[list[str], int, str]] = [
    (["view"], 2, "TARGET"),
    (["view", "none"], 2, "neither a file nor module:function"),
    (["view", "none.npz"], 1, "none.npz: No such file"),
    (["view", "bad.npz"], 1, "bad.npz: "),
    (["view", "arrays.npz"], 1, "holds arrays but no graph"),
    (["view", "pickle.npz"], 1, "pickle.npz: "),
    (["view", "nowhere:f"], 1, "No module named 'nowhere'"),
    (["view", "NET:missing"], 1, "has no missing (it has"),
    (["view", "NET:forward"], 2, "missing a required argument: 'x'"),
    (["view", "NET:forward", "--shape", "a,b"], 2, "'a,b' is no shape"),
    (["view", "NET:forward", "--shape", "2:float99"], 2, "is no shape"),
    (["view", "NET:forward", "--shape", "y=2,6"], 2, "argument"),
    (["view", "NET:w", "--shape", "2"], 2, "--shape goes with a function"),
    (["view", "NET:number"], 1, "no tensor in a int"),
    (["view", "NET:nothing"], 1, "no tensor in a int"),
    (["view", "NET:broken", "--shape", "2"], 1, "KeyError: 'no such'"),
    (["view", "NET:loop", "--shape", "scalar"], 1, "'x' has no value"),
    (["view", "NET:wrong", "--shape", "2,2"], 1, "shapes (2, 2) and (3, 3)"),
    (["view", "NET:forward", "--shape", "2,6", "--output", "g.png"], 2, ".svg"),
    (["view", "NET:forward", "--shape", "2,6", "--memory", "m.dot"], 2, ".svg"),
    (["view", "NET:forward", "--shape", "2,6", "--optimized"], 2, "--output"),
    (["view", "NET:forward", "--shape", "2,6", "--output", "no/g.svg"], 1, "no/g.svg"),
    (["view", "NET:forward", "--shape", "2,6", "--workspace", "x"], 2, "'x'"),
    (["view", "NET:forward", "--shape", "999,6", "--workspace", "9"], 1, "needs"),
    (["view", "model.npz", "--shape", "2"], 2, "--shape goes with module:function"),
    (["run"], 2, "FILE"),
    (["run", "none.npz"], 1, "none.npz: No such file"),
    (["run", "bad.npz"], 1, "bad.npz: "),
    (["run", "model.npz", "--input", "y=3"], 1, "no placeholder is named y"),
    (["run", "model.npz", "--input", "x=red"], 2, "'red' is no value"),
    (["run", "model.npz", "--input", "x=[[1],[1,2]]"], 2, "is no value"),
    (["run", "model.npz", "--input", "x=[1,2,3,4]"], 1, "float32[2, 3]"),
    (["run", "model.npz", "--input", "x=none.npy"], 1, "none.npy: No such file"),
    (["run", "model.npz", "--input", "x=bad.npy"], 1, "bad.npy: "),
    (["run", "model.npz", "--input", "x=object.npy"], 1, "object.npy: "),
    (["run", "model.npz", "--input", "x=arrays.npz"], 1, "it holds 2 arrays"),
    (["run", "model.npz", "--input", "x=1", "--input", "x=2"], 2, "given twice"),
    (["run", "model.npz", "--input", "x=1", "--output", "y.npy"], 2, "there are 3"),
    (["run", "model.npz", "--input", "x=1", "--output", "y.txt"], 2, "y.txt"),
    (["run", "model.npz", "--input", "x=1", "--output", "no/y.npz"], 1, "no/y.npz"),
    (["run", "model.npz", "--seed", "-1", "--input", "x=1"], 2, "seed"),
    (["bench", "--seconds", "0"], 2, "--seconds"),
    (["bench", "--threads", "-1"], 2, "threads"),
    (["cache", "--colour"], 2, "--colour"),
]


@pytest.mark.parametrize("words, code, message", MISTAKES, ids=lambda v: str(v)[:60])
def test_mistakes_are_told_in_one_line(
    capsys: pytest.CaptureFixture[str],
    net: str,
    words: list[str],
    code: int,
    message: str,
) -> None:
    saved()
    Path("bad.npz").write_bytes(b"PK wrong")
    Path("bad.npy").write_bytes(b"\x93NUMPY\x01\x00")
    np.save("object.npy", np.array([{}], object), allow_pickle=True)
    np.savez("arrays.npz", a=np.ones(2), b=np.ones(2))
    Path("pickle.npz").write_bytes(pickle.dumps({"a": 1}))
    assert main([word.replace("NET", net) for word in words]) == code
    shown = capsys.readouterr()
    assert message in shown.err and shown.err.startswith("treadle"), shown.err
    assert shown.err.count("\n") == 1 and "Traceback" not in shown.err


def test_view_writes_a_page(capsys: pytest.CaptureFixture[str], net: str) -> None:
    target = ["view", f"{net}:forward", "--shape", "5,6"]
    assert said(capsys, *target, "--html", "g.html") == "wrote g.html\n"
    page = Path("g.html").read_text()
    assert "Softmax" in page and f"<title>{net}:forward</title>" in page
    out = said(capsys, *target, "--html", "b.html", "--optimized", "--output", "g.txt")
    assert out == "wrote g.txt\nwrote b.html\n"
    assert '"compiled"' in Path("b.html").read_text()


def test_an_onnx_file_is_viewed_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    layers = td.nn.Linear(6, 4), td.nn.ReLU(), td.nn.Linear(4, 2)
    x = np.ones((3, 6), np.float32)
    y = td.nn.Sequential(*layers)(x).numpy()
    td.to_onnx(td.nn.Sequential(*layers), "m.onnx", x, inputs=["x"],
               dynamic={"x": {0: "batch"}})  # fmt: skip
    assert "placeholder 'x' : float32[1, 6]" in said(capsys, "view", "m.onnx")
    out = said(capsys, "view", "m.onnx", "--shape", "x=5,6")
    assert "placeholder 'x' : float32[5, 6]" in out
    assert "float32[7, 6]" in said(capsys, "view", "m.onnx", "--shape", "7,6")
    said(capsys, "view", "m.onnx", "--html", "m.html")
    assert "<title>m.onnx</title>" in Path("m.html").read_text()
    assert "float32[batch, 6]" in said(capsys, "run", "m.onnx")
    np.save("x.npy", x)
    out = said(capsys, "run", "m.onnx", "--input", "x=x.npy", "--output", "y.npy")
    assert out == "wrote y.npy: output\n"
    np.testing.assert_allclose(np.load("y.npy"), y, rtol=1e-5, atol=1e-6)
    assert "output: float32[3, 2]" in said(capsys, "run", "m.onnx", "--input", "x.npy")


ONNX_MISTAKES = [
    (["run", "m.onnx", "--input", "z=[1]"], "takes x, got", 1),
    (["run", "m.onnx", "--code"], "an ONNX file has no machine code", 2),
    (["run", "none.onnx"], "none.onnx", 1),
    (["view", "m.onnx", "--shape", "z=3"], "there is no input 'z'", 2),
    (["view", "m.onnx", "--shape", "x=3,4"], "x", 1),
]


@pytest.mark.parametrize(
    ("words", "told", "code"), ONNX_MISTAKES, ids=lambda x: str(x)[:24]
)
def test_what_is_wrong_with_an_onnx_file_is_told(
    words: list[str], told: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    x = td.placeholder((2, 3), name="x")
    td.to_onnx(td.computation(x @ td.param("w", (3, 2)), x), "m.onnx")
    assert main(words) == code
    error = capsys.readouterr().err
    assert error.startswith("treadle: ") and error.count("\n") == 1 and told in error
