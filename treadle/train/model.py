"""Model: a network with its loss, optimizer and metrics, to fit, evaluate and use."""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.errors import ArgumentError
from treadle.distributed.parallel import DataParallel
from treadle.graph.frame import no_grad
from treadle.graph.tensor import Tensor
from treadle.io.files import PathLike
from treadle.io.tensors import load_arrays, save_arrays
from treadle.nn.module import Module
from treadle.ops.create import constant
from treadle.optim.optimizer import Optimizer
from treadle.train.batches import Batch, Batches, by_class, held_out, parts_of
from treadle.train.callbacks import Callback, History
from treadle.train.evaluating import evaluated
from treadle.train.fitting import Fit
from treadle.train.losses import BatchLoss
from treadle.train.metrics import metric
from treadle.train.networks import optimizer as by_name
from treadle.train.progress import ProgressBar
from treadle.train.report import confusion_of, report_page
from treadle.train.summary import Summary, summary
from treadle.viz.page import Page

_PREDICTED = 256  # examples at once, where nobody says


class Model:
    """A Module with what trains it; there is nothing to compile.

    `loss` is a name, a function of prediction and target (a loss Module, too), or None
    where the module itself computes the loss of (inputs, targets). `optimizer` is an
    Optimizer or a name ("adam", with its usual rate). `metrics` are names, Metrics or
    functions of target and prediction. `penalty()` is added to the loss of each step.

    Inputs that are a list or tuple of arrays, or a dict of them, are the arguments of
    the module; anything else is its one argument.

    With a DataParallel of the module, ranks train together: `batch_size` counts the
    examples of a shard, logs are those of all ranks, rank 0 shows and saves them.

    >>> import numpy as np, treadle as td
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    >>> model = td.Model(td.nn.Linear(2, 1), "mse", td.optim.Adam(lr=0.1))
    >>> history = model.fit(x, x.sum(1, keepdims=True), epochs=200, verbose=0)
    >>> history["loss"][-1] < 1e-3, model.predict(x).shape
    (True, (4, 1))
    """

    def __init__(
        self,
        module: Module,
        loss: Any = None,
        optimizer: Optimizer | DataParallel | str = "adam",
        metrics: Sequence[Any] = (),
        penalty: Callable[[], Any] | None = None,
    ) -> None:
        if not isinstance(module, Module):
            raise ArgumentError(
                f"a Model is made of a Module, not {type(module).__name__}"
            )
        self.module = module
        self.loss = None if loss is None else BatchLoss(loss)
        self.optimizer = by_name(optimizer) if isinstance(optimizer, str) else optimizer
        self.metrics = [metric(entry) for entry in metrics]
        self.penalty = penalty
        self.stop_training = False
        names = ["loss", *(m.name for m in self.metrics)]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ArgumentError(f"metrics have names of their own; twice: {twice[0]}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    # -- training ------------------------------------------------------------------

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = 32,
        epochs: int = 1,
        verbose: int = 1,
        callbacks: Iterable[Callback] = (),
        validation_split: float = 0.0,
        validation_data: Any = None,
        validation_steps: int | None = None,
        validation_freq: int = 1,
        shuffle: bool = True,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        steps_per_epoch: int | None = None,
        split: int = 1,
        flush: bool = False,
        seed: int = 0,
    ) -> History:
        """Train, and return the logs of each epoch.

        `x` and `y` are arrays (several in a list or dict), or `x` alone is a data set,
        a Loader, or an iterable of batches (inputs, targets, weights). Their order
        follows from `seed` and the epoch. `validation_split` holds the last examples
        out; `class_weight` {class: weight} weighs them in the training's loss; `split`
        makes so many steps of each batch, and `flush` ends an epoch with an update of
        what the optimizer accumulates; `steps_per_epoch` counts those of all ranks.
        `verbose` 0 prints nothing, 1 a bar and a line for each epoch, 2 the line.

        >>> import numpy as np
        >>> x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
        >>> model = td.Model(td.nn.Linear(1, 1), "mse")
        >>> history = model.fit(x, 2 * x, validation_split=0.2, verbose=0)
        >>> list(history.history)
        ['loss', 'val_loss']
        """
        _positive(epochs=epochs, split=split)
        if validation_split:
            if validation_data is not None:
                raise ArgumentError("give validation_split or validation_data")
            training, validation_data = held_out(x, y, sample_weight, validation_split)
            x, y, sample_weight = training
        chosen = list(callbacks)
        shard = _shard_of(self.optimizer)
        if verbose:
            chosen.append(ProgressBar(bar=verbose == 1, quiet=shard[0] > 0))
        batches = Batches(x, y, sample_weight, batch_size, shuffle, seed, shard)
        validation = None
        if validation_data is not None:
            others = Batches(*parts_of(validation_data), batch_size)

            def validation() -> dict[str, float]:
                return evaluated(self, others, validation_steps)

        every = steps_per_epoch, validation, validation_freq
        return Fit(
            self, batches, epochs, *every, chosen, split, flush, class_weight
        ).run()

    def step(self, batch: Batch) -> tuple[Any, Any]:
        """One step of the optimizer on a batch: the loss, as the optimizer gives it,
        and where there are metrics the prediction it was made of."""
        prediction, loss = self.loss_of(batch)
        if self.penalty is not None:
            loss = loss + self.penalty()
        if not self.metrics:
            prediction = None  # what nobody refers to is not kept by the run
        return self.optimizer.step(loss), prediction

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
    ) -> float:
        """One step on these examples; the loss.

        >>> model = td.Model(td.nn.Linear(1, 1), "mse")
        >>> model.train_on_batch(np.ones((1, 1)), np.zeros((1, 1))) > 0
        True
        """
        self.module.train()
        return float(self.step(by_class((x, y, sample_weight), class_weight))[0])

    # -- use -----------------------------------------------------------------------

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = 32,
        sample_weight: Any = None,
        steps: int | None = None,
    ) -> dict[str, float]:
        """The loss and the metrics over all examples, without training. With a
        DataParallel all ranks call this: each computes its share of the batches.

        >>> import numpy as np, treadle as td
        >>> model = td.Model(td.nn.Linear(2, 3), "cross_entropy", metrics=["accuracy"])
        >>> found = model.evaluate(np.zeros((4, 2), np.float32), np.array([0, 1, 2, 0]))
        >>> list(found)
        ['loss', 'accuracy']
        """
        return evaluated(self, Batches(x, y, sample_weight, batch_size), steps)

    def predict(
        self, x: Any, *, batch_size: int = _PREDICTED, steps: int | None = None
    ) -> Any:
        """Predictions: the module's results for all examples, as NumPy arrays.

        Of batches (inputs, targets, weights) the inputs alone are used.
        """
        predicted: list[list[np.ndarray[Any, Any]]] = []
        structure: Any = None
        before = self.module.training
        self.module.eval()
        try:
            with no_grad():
                for batch in itertools.islice(
                    Batches(x, None, None, batch_size).epoch(), steps
                ):
                    leaves, structure = trees.flatten(self._called(batch[0]))
                    predicted.append([np.asarray(leaf) for leaf in leaves])
        finally:
            self.module.train(before)
        if not predicted:
            raise ArgumentError("there is nothing to predict: no batch came")
        joined = [np.concatenate(parts) for parts in zip(*predicted, strict=True)]
        return trees.unflatten(structure, joined)

    def __repr__(self) -> str:
        function = None if self.loss is None else self.loss.function
        name = getattr(function, "__name__", None) or type(function).__name__
        name = "no loss of its own" if function is None else f"loss {name}"
        metrics = "".join(f", {m.name}" for m in self.metrics)
        kind = type(self.optimizer).__name__
        return f"Model({type(self.module).__name__}, {name}, {kind}{metrics})"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.summary()._repr_html_()}"

    def report(
        self,
        history: History,
        x: Any = None,
        y: Any = None,
        *,
        classes: Sequence[str] | None = None,
        title: str = "Training",
    ) -> Page:
        """A page of a training: curves, epochs, the network and, of examples with
        classes `y`, what is confused, under the names `classes`.

        The same is written while fit runs by the callback `td.train.Report`.

        >>> model = td.Model(td.nn.Linear(2, 2), "cross_entropy")
        >>> x, y = np.eye(2, dtype=np.float32), np.array([0, 1])
        >>> page = model.report(model.fit(x, y, verbose=0), x, y, classes=["a", "b"])
        >>> "Learning curves" in page.html
        True
        """
        confusion = None if y is None else confusion_of(self, x, y, classes)
        return report_page(self, history, confusion, title)

    def summary(self, x: Any = None) -> Summary:
        """A table of the parts with their parameters, and their results' shapes if an
        example batch `x` is given; as text.

        >>> model = td.Model(td.nn.Sequential(td.nn.Linear(2, 3), td.nn.ReLU()))
        >>> print(model.summary(np.zeros((4, 2), np.float32)))
        part  kind    result  parameters
        0     Linear  [4, 3]           9
        1     ReLU    [4, 3]           0
        9 parameters, 9 trainable
        """
        results = None if x is None else self._called(x)
        return summary(self.module, results)

    # -- files ---------------------------------------------------------------------

    def save_weights(self, path: PathLike) -> None:
        """Write parameters and buffers to a .safetensors or .npz file."""
        save_arrays(path, self.module.state_dict())

    def load_weights(self, path: PathLike, strict: bool = True) -> None:
        """Take parameters and buffers over from a file that `save_weights` wrote."""
        self.module.load_state_dict(load_arrays(path)[0], strict)

    # -- a batch -------------------------------------------------------------------

    def _called(self, inputs: Any, *more: Any) -> Any:
        """The module's result; lists and dicts of arrays are its arguments."""
        if isinstance(inputs, (list, tuple)) and all(map(_is_array, inputs)):
            return self.module(*map(_leaf, inputs), *more)
        if isinstance(inputs, dict) and all(map(_is_array, inputs.values())):
            named = {name: _leaf(value) for name, value in inputs.items()}
            return self.module(*more, **named)
        return self.module(_leaf(inputs), *more)

    def loss_of(self, batch: Batch) -> tuple[Any, Tensor]:
        """The prediction and the loss of a batch, as expressions."""
        inputs, target, weight = batch
        if self.loss is None:
            more = () if target is None else (_leaf(target),)
            prediction = self._called(inputs, *more)
            return prediction, prediction
        if target is None:
            raise ArgumentError(
                "the batch has no targets to compare with",
                hint="batches are tuples (inputs, targets); loss=None takes the "
                "module's result for the loss",
            )
        prediction = self._called(inputs)
        if isinstance(target, (list, tuple, dict)):
            target = trees.unflatten(
                (known := trees.flatten(target))[1], [_leaf(leaf) for leaf in known[0]]
            )
        return prediction, self.loss(prediction, _leaf(target), weight)


def _shard_of(optimizer: Optimizer | DataParallel) -> tuple[int, ...]:
    """What a loader takes, for this rank to have its batches."""
    return optimizer.shard if isinstance(optimizer, DataParallel) else (0, 1)


def _positive(**numbers: Any) -> None:
    for name, value in numbers.items():
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(f"{name} is a positive number, not {value!r}")


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, Tensor))


def _leaf(x: Any) -> Any:
    """An array as a tensor; anything else as it is."""
    if isinstance(x, np.ndarray) and x.dtype.kind != "O":
        return constant(x)
    return x
