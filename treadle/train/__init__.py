"""Training: what goes around a Model's fit, and the runs of `treadle train`."""

from treadle.base.boundary import guard as _guard
from treadle.train.callbacks import (
    BackupAndRestore,
    Callback,
    CSVLogger,
    History,
    LambdaCallback,
    LearningRateScheduler,
    SwapAverages,
    TerminateOnNaN,
    ThrowOnDivergence,
)
from treadle.train.metrics import (
    F1,
    Accuracy,
    BinaryAccuracy,
    Confusion,
    MeanAbsoluteError,
    MeanMetric,
    MeanSquaredError,
    Metric,
    Precision,
    Recall,
    RootMeanSquaredError,
    TopKAccuracy,
    confusion_matrix,
)
from treadle.train.model import Model
from treadle.train.monitor import EarlyStopping, ModelCheckpoint, ReduceLROnPlateau
from treadle.train.progress import ProgressBar
from treadle.train.report import Report, TensorBoard

__all__ = [
    "F1",
    "Accuracy",
    "BackupAndRestore",
    "BinaryAccuracy",
    "CSVLogger",
    "Callback",
    "Confusion",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "MeanAbsoluteError",
    "MeanMetric",
    "MeanSquaredError",
    "Metric",
    "Model",
    "ModelCheckpoint",
    "Precision",
    "ProgressBar",
    "Recall",
    "ReduceLROnPlateau",
    "Report",
    "RootMeanSquaredError",
    "SwapAverages",
    "TensorBoard",
    "TerminateOnNaN",
    "ThrowOnDivergence",
    "TopKAccuracy",
    "confusion_matrix",
]

_guard(globals())


def __dir__() -> list[str]:
    return __all__
