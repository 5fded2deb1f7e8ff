"""Progress of a run: a bar on a terminal, a line per epoch anywhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any

from treadle.base.errors import MissingExtraError
from treadle.base.extras import extra
from treadle.base.notebook import in_notebook
from treadle.train.callbacks import Callback, Logs
from treadle.train.run import TrainingRun, TrainingStep

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_RECENT = 50  # steps the shown loss and speed are taken over


def show_progress(run: TrainingRun, console: Console) -> Iterable[TrainingStep]:
    """Make the run's steps and pass them on, showing loss and images a second."""
    total = len(run.losses) + run.left
    recent: deque[TrainingStep] = deque(maxlen=_RECENT)
    progress = _bar(console, console.is_terminal, "{task.fields[speed]:,.0f} images/s")
    with progress:
        task = progress.add_task(
            "epoch", total=total, completed=len(run.losses), loss=0.0, speed=0.0
        )
        epochs, images, seconds = len(run.accuracies), 0, 0.0
        for step in run.steps():
            # The accuracy of an epoch is known when the next one's first step is.
            if len(run.accuracies) > epochs:
                console.print(_line(run, images / seconds), highlight=False)
                epochs, images, seconds = len(run.accuracies), 0, 0.0
            images, seconds = images + step.images, seconds + step.seconds
            recent.append(step)
            progress.update(
                task,
                completed=len(run.losses),
                description=f"epoch {step.epoch}/{run.settings.epochs}",
                loss=sum(s.loss for s in recent) / len(recent),
                speed=sum(s.images for s in recent) / sum(s.seconds for s in recent),
            )
            yield step
        if len(run.accuracies) > epochs and seconds:
            console.print(_line(run, images / seconds), highlight=False)


def _bar(console: Any, shown: bool, *more: str) -> Progress:
    rich = extra("rich.progress", "cli")
    return rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("loss {task.fields[loss]:.4f}"),
        *map(rich.TextColumn, more),
        rich.TimeRemainingColumn(),
        console=None if isinstance(console, _Cell) else console,
        # A cell's bar catches what any thread prints while it is drawn, so there it is
        # drawn by the thread that prints the lines.
        auto_refresh=not isinstance(console, _Cell),
        transient=True,
        disable=not shown,
    )


class _Plain:
    """A console without rich: lines alone, or nothing where it is quiet."""

    is_terminal = False

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def print(self, line: str, **style: Any) -> None:
        if not self.quiet:
            print(line)


class _Cell(_Plain):
    """A notebook's cell: plain lines, and a bar of rich's by widgets."""

    is_terminal = True


def _console(quiet: bool) -> Any:
    try:
        if in_notebook():
            for module in ("ipywidgets", "rich"):
                extra(module, "notebook")
            return _Cell(quiet)
        return extra("rich.console", "cli").Console(quiet=quiet)
    except MissingExtraError:
        return _Plain(quiet)


class ProgressBar(Callback):
    """A bar for each epoch on a terminal, and a line with its logs anywhere.

    The bar is rich's, in a notebook by ipywidgets; where these are not installed there
    are the lines. With `quiet` there is neither.
    """

    def __init__(
        self, console: Console | None = None, bar: bool = True, quiet: bool = False
    ) -> None:
        self.console: Any = _console(quiet) if console is None else console
        self.bar = bar and not quiet and self.console.is_terminal
        self._shown: Progress | None = None
        self._task: Any = None
        self._drawn = 0.0

    def on_epoch_begin(self, epoch: int) -> None:
        name = f"epoch {epoch + 1}/{self.fit.epochs}"
        if self._shown is not None:
            self._shown.reset(self._task, description=name)
        elif self.bar:
            self._shown = _bar(self.console, True)
            total = self.fit.steps_in_epoch
            self._task = self._shown.add_task(name, total=total, loss=0.0)
            self._shown.start()

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        if self._shown is not None:
            self._shown.update(self._task, completed=batch + 1, loss=logs["loss"])
            if not self._shown.live.auto_refresh and monotonic() > self._drawn + 0.1:
                self._shown.refresh()
                self._drawn = monotonic()

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if not isinstance(self.console, _Cell):  # there a stopped bar would stay
            self.close()
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in logs.items())
        line = f"epoch {epoch + 1}/{self.fit.epochs}: {numbers}"
        self.console.print(line, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._shown is not None:
            self._shown.stop()
            self._shown = None


def _line(run: TrainingRun, speed: float) -> str:
    """One epoch in one line: its mean loss, the accuracy after it, its speed."""
    epoch = len(run.accuracies)
    size = run.steps_in_epoch
    losses = run.losses[(epoch - 1) * size : epoch * size]
    return (
        f"epoch {epoch}/{run.settings.epochs}: "
        f"loss {sum(losses) / len(losses):.4f}, "
        f"held-out accuracy {run.accuracies[-1]:.1%}, {speed:,.0f} images/s"
    )
