"""How a run goes: a bar on a terminal, a line per epoch anywhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from treadle.train.run import Run, Step

__all__ = ["show_progress"]

_RECENT = 50  # steps the shown loss and speed are taken over


def show_progress(run: Run, console: Console) -> Iterable[Step]:
    """Make the run's steps and pass them on, showing loss and images a second."""
    total = len(run.losses) + run.left
    recent: deque[Step] = deque(maxlen=_RECENT)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TextColumn("{task.fields[speed]:,.0f} images/s"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
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


def _line(run: Run, speed: float) -> str:
    """One epoch in one line: its mean loss, the accuracy after it, its speed."""
    epoch = len(run.accuracies)
    size = len(run.loader)
    losses = run.losses[(epoch - 1) * size : epoch * size]
    return (
        f"epoch {epoch}/{run.settings.epochs}: "
        f"loss {sum(losses) / len(losses):.4f}, "
        f"held-out accuracy {run.accuracies[-1]:.1%}, {speed:,.0f} images/s"
    )
