"""Runs: same seed, same bits; a resumed run is the uninterrupted one."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from treadle.base.errors import ModelFileError, OptionError, RunError
from treadle.base.options import current
from treadle.data.dataset import ArrayDataset, Images
from treadle.data.images import load_images
from treadle.train.networks import NETWORKS, OPTIMIZERS, network
from treadle.train.run import Settings, TrainingRun, saved_run, training
from treadle.train.snapshot import folder_to_resume, new_folder


def few(count: int = 70) -> Images:
    """The first digits, so that an epoch takes a moment."""
    whole = load_images("digits")
    return Images(
        "digits",
        whole.train.take(np.arange(count)),
        whole.held_out.take(np.arange(40)),
        whole.shape,
        whole.classes,
    )


def finish(run: TrainingRun) -> dict[str, bytes]:
    for _ in run.steps():
        pass
    return bits(run)


def bits(run: TrainingRun) -> dict[str, bytes]:
    state = run.model.state_dict() | run.optimizer.state_dict()
    return {name: np.asarray(a).tobytes() for name, a in state.items()}


def whole(settings: Settings, folder: Path) -> tuple[dict[str, bytes], list[float]]:
    with training(settings, few(), folder) as run:
        return finish(run), run.losses


@pytest.mark.parametrize("network_name", NETWORKS)
def test_same_seed_same_bits(tmp_path: Path, network_name: str) -> None:
    settings = Settings(network=network_name, epochs=2)
    first, losses = whole(settings, tmp_path / "a")
    second, again = whole(settings, tmp_path / "b")
    other, _ = whole(settings.changed(seed=1), tmp_path / "c")
    assert first == second and losses == again and len(losses) == 6
    assert first != other and first.keys() == other.keys()
    files = [(tmp_path / f / "model.safetensors").read_bytes() for f in "ab"]
    assert files[0] == files[1]


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_resuming_anywhere_equals_going_on(tmp_path: Path, optimizer_name: str) -> None:
    settings = Settings(network="mlp", optimizer=optimizer_name, epochs=3, seed=5)
    expected, losses = whole(settings, tmp_path / "whole")
    images = few()
    for stop in (1, 3, 5):  # within an epoch, at its end, within the next
        folder = tmp_path / f"stop-{stop}"
        with training(settings, images, folder) as run:
            for _ in itertools.islice(run.steps(), stop):
                pass
            run.save()
            assert run.saved_step == stop
        point, saved = saved_run(folder)
        assert saved == settings
        with training(saved, images, folder, point) as run:
            assert len(run.losses) == stop and run.left == 9 - stop
            assert finish(run) == expected and run.losses == losses
            assert len(run.accuracies) == 3


def test_lenet_resumes_with_its_dropout(tmp_path: Path) -> None:
    settings = Settings(epochs=2)
    expected, _ = whole(settings, tmp_path / "whole")
    images = few()
    with training(settings, images, tmp_path / "a") as run:
        for _ in itertools.islice(run.steps(), 4):
            pass
        run.save()
        draws = current().scope.count
    point, saved = saved_run(tmp_path / "a")
    with training(saved, images, tmp_path / "a", point) as run:
        assert current().scope.count == draws
        assert finish(run) == expected


def test_a_run_can_be_prolonged(tmp_path: Path) -> None:
    settings = Settings(network="mlp", epochs=3)
    expected, _ = whole(settings, tmp_path / "whole")
    whole(settings.changed(epochs=1), tmp_path / "a")
    point, saved = saved_run(tmp_path / "a")
    with training(saved.resumed(epochs=3), few(), tmp_path / "a", point) as run:
        assert finish(run) == expected


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    images = few()
    arrays = images.train.arrays
    bad = ArrayDataset(np.full(arrays[0].shape, np.nan, np.float32), arrays[1])
    broken = Images("digits", bad, images.held_out, images.shape, images.classes)
    with (
        training(Settings(network="mlp"), broken, tmp_path) as run,
        pytest.raises(RunError, match=r"(?s)the loss is nan at step 1.*smaller --lr"),
    ):
        finish(run)
    assert list(tmp_path.iterdir()) == []


def test_snapshots_that_do_not_fit(tmp_path: Path) -> None:
    settings = Settings(network="mlp", epochs=1)
    whole(settings, tmp_path)
    point, _ = saved_run(tmp_path)
    with (
        pytest.raises(ModelFileError, match="step-3: "),
        training(settings.changed(network="lenet"), few(), tmp_path, point),
    ):
        pass
    with (
        pytest.raises(ModelFileError, match="examples=70"),
        training(settings, few(60), tmp_path, point),
    ):
        pass
    for part in ("model", "optimizer", "history"):
        rest = {k: v for k, v in point.parts.items() if k != part}
        point_without = type(point)(point.step, rest, point.facts)
        with (
            pytest.raises(ModelFileError, match=f"there is no '{part}'"),
            training(settings, few(), tmp_path, point_without),
        ):
            pass
    manifest = tmp_path / "checkpoints" / "step-3" / "manifest.json"
    content = json.loads(manifest.read_text())
    for name, value in {"epochs": "3", "lr": [], "network": None}.items():
        facts = content["facts"]
        wrong = facts | {"settings": facts["settings"] | {name: value}}
        manifest.write_text(json.dumps(content | {"facts": wrong}))
        with pytest.raises(ModelFileError, match=f"{name} cannot be"):
            saved_run(tmp_path)
    with pytest.raises(ModelFileError, match="no run to resume"):
        saved_run(tmp_path / "none")


def test_settings() -> None:
    for wrong in ({"epochs": 0}, {"batch": 0}, {"seed": -1}, {"lr": 0.0}):
        with pytest.raises(OptionError, match=f"--{next(iter(wrong))}"):
            Settings(**wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="cannot become mlp"):
        Settings().resumed(network="mlp")
    assert Settings().resumed(network="lenet", epochs=99).epochs == 99
    with pytest.raises(OptionError, match="4 by 4"):
        network("lenet", (1, 3, 9), 2)


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="no run to resume in runs"):
        folder_to_resume()
    folder = new_folder("a")
    assert folder == Path("runs/a")
    whole(Settings(network="mlp", epochs=1), folder)
    assert new_folder("a") == Path("runs/a-2")
    with pytest.raises(OptionError, match="holds a run already"):
        new_folder("a", folder)
    assert folder_to_resume() == folder_to_resume(folder) == folder
    with pytest.raises(OptionError, match="no run to resume in runs/b"):
        folder_to_resume("runs/b")
