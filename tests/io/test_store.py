"""td.save and td.load: what fits, what does not, and what is told of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import treadle as td
from treadle import nn
from treadle.nn.state import choose

ENDINGS = [".npz", ".safetensors", ".bin"]


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.mark.parametrize("ending", [*ENDINGS, ".dynet"])
def test_a_network_comes_back(tmp_path: Path, ending: str) -> None:
    first, second = net(), net()
    td.save(tmp_path / f"a{ending}", first)
    loaded = td.load(tmp_path / f"a{ending}", second)
    assert sorted(loaded) == sorted(first.state_dict())
    for name, array in first.state_dict().items():
        assert second.state_dict()[name].tobytes() == array.tobytes()


def test_a_part_has_the_name_it_was_saved_by(tmp_path: Path) -> None:
    a, b = net(), net()
    first, second = td.optim.Adam(a), td.optim.Adam(b)
    x = np.ones((2, 3), np.float32)
    first.step(td.sum(a(x)))
    td.save(tmp_path / "run.npz", {"net": a, "opt": first.state_dict(), "epoch": 3})
    run = td.load(tmp_path / "run.npz")
    b.load_state_dict(run["net"])
    second.load_state_dict(run["opt"])
    assert run["epoch"] == 3 and run["net"]["0"].keys() == {"weight", "bias"}
    for model, optimizer in ((a, first), (b, second)):
        optimizer.step(td.sum(model(x) ** 2))
    assert a(x).tolist() == b(x).tolist()
    with pytest.raises(KeyError, match="ne"):
        run["ne"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_loading_copies_and_runs_nothing(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*given: object) -> None:
        raise AssertionError("an engine was asked to run something")

    a, b, c = (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(3))
    path = tmp_path / f"a{ending}"
    td.save(path, a)
    state = a.state_dict()
    monkeypatch.setattr("treadle.runtime.values.chosen", asked)
    loaded = td.load(path, b)
    c.load_state_dict(state)
    assert loaded.keys() == state.keys()
    for array in (*loaded.values(), *state.values()):
        if array.flags.writeable:
            array[...] = 7  # a copy of what the networks have
    for module in (b, c):
        for name, value in module._state_variables().items():
            array = value.committed.array
            assert array is not None and not array.flags.writeable
            assert np.array_equal(array, a._state_variables()[name].committed.array)


def test_what_was_assigned_before_is_carried_out_first() -> None:
    layer = nn.Linear(1, 1)
    state = {"weight": np.full((1, 1), 5.0), "bias": np.zeros(1)}
    layer.weight.assign(layer.weight * 0 + 2)
    before = layer.weight * 10
    layer.load_state_dict(state)
    assert float(layer.weight.sum()) == 5.0 and float(before.sum()) == 20.0


def test_a_transaction_takes_back_what_it_has_loaded() -> None:
    layer = nn.Linear(1, 1)
    before = layer.state_dict()
    with pytest.raises(ZeroDivisionError), td.transaction():
        layer.load_state_dict({k: v + 1 for k, v in before.items()})
        assert layer.weight.numpy() == before["weight"] + 1
        raise ZeroDivisionError
    assert layer.weight.numpy() == before["weight"]


def test_training_goes_on_from_what_was_loaded_between_steps() -> None:
    layer, optimizer = nn.Linear(2, 1), td.optim.SGD(lr=0.5)
    state = layer.state_dict()
    x = np.ones((4, 2), np.float32)
    first = [float(optimizer.step((layer(x) ** 2).mean())) for _ in range(5)]
    layer.load_state_dict(state)
    again = [float(optimizer.step((layer(x) ** 2).mean())) for _ in range(5)]
    assert again == first
    assert len(set(first)) > 1


def test_what_is_no_state_is_none_by_any_path() -> None:
    class Part(nn.Module):
        def __init__(self) -> None:
            self.register_buffer("passing", [1.0], persistent=False)
            self.register_buffer("kept", [2.0])

    net = nn.Module()
    net.a = net.b = Part()
    assert list(net.state_dict()) == ["a.kept", "b.kept"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_training_goes_on_alike(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run{ending}"
    x = np.ones((2, 3), "f4")

    def step(model: nn.Module, optimizer: td.optim.Optimizer) -> None:
        optimizer.step(td.mean(model(x) ** 2))

    with td.options(seed=1):
        model, optimizer = net(), td.optim.Adam(lr=0.1)
    step(model, optimizer)
    td.save(path, {"model": model, "optimizer": optimizer})
    step(model, optimizer)
    again, other = net(), td.optim.Adam(lr=0.5)
    td.load(path, {"model": again, "optimizer": other})
    assert other.lr == 0.1
    step(again, other)
    for name, array in model.state_dict().items():
        assert again.state_dict()[name].tobytes() == array.tobytes()
    for name, array in optimizer.state_dict().items():
        assert other.state_dict()[name].tobytes() == array.tobytes()


def test_dynet_says_why_it_keeps_no_optimizer(tmp_path: Path) -> None:
    with pytest.raises(td.ModelFileError, match=r"'step': dynet has no int64; convert"):
        td.save(tmp_path / "a.dynet", td.optim.Adam())
    assert not list(tmp_path.iterdir())


def test_everything_that_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    model, path = net(), tmp_path / "a.npz"
    before = model.state_dict()
    state = dict(before)
    state["0.weight"] = np.zeros((3, 4), "f4")
    state["2.bias"] = state["2.bias"].astype("c8")
    del state["0.bias"], state["2.weight"]
    td.save(path, state | {"extra": np.zeros(1), "more": np.zeros(1)})
    with pytest.raises(td.ModelFileError) as caught:
        td.load(path, model)
    text = str(caught.value)
    for part in (
        f"{path}: the state does not fit Sequential",
        "misshapen: 0.weight is (3, 4), here (4, 3)",
        "of another kind: 2.bias is complex64, here float32",
        "missing: 0.bias, 2.weight",
        "unexpected: extra, more",
    ):
        assert part in text
    with pytest.raises(td.ModelFileError, match="misshapen"):
        td.load(path, model, strict=False)
    assert all(model.state_dict()[k].tobytes() == before[k].tobytes() for k in before)


def test_parts_are_all_told_and_none_is_loaded(tmp_path: Path) -> None:
    a, b, path = nn.Linear(2, 2), nn.Linear(3, 3), tmp_path / "a.bin"
    td.save(path, {"a": a, "b": a})
    with pytest.raises(td.ModelFileError) as caught:
        td.load(path, {"a": b, "b": b, "c": td.param("c", (2,))})
    text = str(caught.value)
    assert "a: the state" in text and "b: the state" in text and "here: " in text
    before = b.state_dict()
    with pytest.raises(td.ModelFileError):
        td.load(path, {"a": a, "b": b})
    assert all(b.state_dict()[k].tobytes() == before[k].tobytes() for k in before)


def test_not_strict_tells_what_is_left(tmp_path: Path) -> None:
    a, b = nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
    td.save(tmp_path / "a.npz", a)
    loaded = td.load(tmp_path / "a.npz", b, strict=False)
    assert loaded.keys_left.unexpected_keys == ["bias"] and list(loaded) == ["weight"]
    td.save(tmp_path / "b.npz", b)
    loaded = td.load(tmp_path / "b.npz", a, strict=False)
    assert loaded.keys_left == (["bias"], [])


def test_names_are_prefixed_and_renamed(tmp_path: Path) -> None:
    model, path = net(), tmp_path / "a.safetensors"
    state = {
        f"teacher.{k}".replace(".0.", ".in."): v for k, v in net().state_dict().items()
    }
    td.save(path, state | {"student.w": np.ones(1), "teacher.step": np.ones(1)})
    td.load(path, model, prefix="teacher.", rename={"in.": "0.", "step": None})
    assert (model[0].weight.numpy() == state["teacher.in.weight"]).all()

    def shorter(name: str) -> str | None:
        return None if name == "step" else name.replace("in.", "0.")

    td.load(path, model, prefix="teacher.", rename=shorter)
    model.load_state_dict(state, prefix="teacher.", rename={"in.": "0."})
    with pytest.raises(td.ModelFileError) as caught:
        td.load(path, model, prefix="teacher.", rename={"in.": "2.", "typo": "x"})
    text = str(caught.value)
    assert (
        "renamed to one name: 2.bias (from teacher.2.bias and teacher.in.bias)" in text
    )
    assert "not there to rename: typo" in text and "unexpected: step" in text


def test_the_longest_beginning_renames() -> None:
    rename = {"a.": "x.", "a.b.": "y.", "a.b.c": "z", "d/": None}
    names = choose(["a.w", "a.b.w", "a.b.c", "d/e"], rename).names
    assert names == {"x.w": "a.w", "y.w": "a.b.w", "z": "a.b.c"}


def test_arrays_come_from_bytes_and_lists(tmp_path: Path) -> None:
    first, second = net(), net()
    td.save(tmp_path / "a.bin", first)
    pairs = list(first.state_dict().items())
    sources = [(tmp_path / "a.bin").read_bytes(), pairs, dict(pairs), iter(pairs)]
    for source in sources:
        second.load_state_dict({k: v * 0 for k, v in pairs})
        td.load(source, second)  # type: ignore[arg-type]
        assert all((second.state_dict()[k] == v).all() for k, v in pairs)
    with pytest.raises(td.ModelFileError, match=r"'a': the name is given twice"):
        td.load([("a", np.ones(1)), ("a", np.ones(1))])
    for wrong in ([1], 3):
        with pytest.raises((td.ArgumentError, TypeError)):
            td.load(wrong)  # type: ignore[arg-type]


def test_what_has_no_names() -> None:
    with pytest.raises(td.ArgumentError, match="a ndarray has no names"):
        td.save("a.npz", np.ones(2))
    with pytest.raises(td.ArgumentError, match="not by 1"):
        td.save("a.npz", {1: np.ones(2)})
    with pytest.raises(td.ArgumentError, match="two values are named"):
        td.save("a.npz", {"a": {"b": 1}, "a.b": 2})
    with pytest.raises(td.ArgumentError, match=r"loaded into a int \('n'\)"):
        td.load({}, {"n": 3})


def test_variables_are_saved_by_name(tmp_path: Path) -> None:
    a, b = td.param("a", init=2.0), td.Variable(3, name="b")
    td.save(tmp_path / "a.npz", [a, b])
    c = td.Variable(0, name="b")
    with pytest.raises(td.ModelFileError, match="unexpected: a"):
        td.load(tmp_path / "a.npz", c)
    td.load(tmp_path / "a.npz", c, strict=False)
    assert int(c) == 3
    td.save(tmp_path / "b.npz", {"y": a * 2})
    assert td.load(tmp_path / "b.npz")["y"] == 4.0


def test_too_large_is_told_before_anything_is_read(tmp_path: Path) -> None:
    td.save(tmp_path / "a.bin", {"w": np.zeros(1000)})
    with pytest.raises(td.ModelFileError, match="8000 bytes declared, 100 allowed"):
        td.load(tmp_path / "a.bin", max_bytes=100)


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".bin"])
def test_saving_through_a_link_replaces_what_it_leads_to(
    ending: str, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    file, link = tmp_path / "there" / f"a{ending}", tmp_path / f"link{ending}"
    td.save(file, {"x": np.zeros(2, "f4")})
    other = tmp_path / f"other{ending}"
    other.hardlink_to(file)
    link.symlink_to(file)
    td.save(link, {"x": np.ones(2, "f4")})
    assert link.is_symlink() and td.load(file)["x"].tolist() == [1.0, 1.0]
    assert td.load(link)["x"].tolist() == [1.0, 1.0]
    assert td.load(other)["x"].tolist() == [0.0, 0.0]
    assert sorted(p.name for p in (tmp_path / "there").iterdir()) == [file.name]
