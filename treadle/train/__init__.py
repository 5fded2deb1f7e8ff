"""Training: what goes around a Model's fit, and the runs of `treadle train`."""

from treadle.base.boundary import guard as _guard
from treadle.base.names import public as _public
from treadle.train.callbacks import BackupAndRestore as BackupAndRestore
from treadle.train.callbacks import Callback as Callback
from treadle.train.callbacks import CSVLogger as CSVLogger
from treadle.train.callbacks import History as History
from treadle.train.callbacks import LambdaCallback as LambdaCallback
from treadle.train.callbacks import LearningRateScheduler as LearningRateScheduler
from treadle.train.callbacks import SwapAverages as SwapAverages
from treadle.train.callbacks import TerminateOnNaN as TerminateOnNaN
from treadle.train.callbacks import ThrowOnDivergence as ThrowOnDivergence
from treadle.train.metrics import F1 as F1
from treadle.train.metrics import Accuracy as Accuracy
from treadle.train.metrics import BinaryAccuracy as BinaryAccuracy
from treadle.train.metrics import Confusion as Confusion
from treadle.train.metrics import MeanAbsoluteError as MeanAbsoluteError
from treadle.train.metrics import MeanMetric as MeanMetric
from treadle.train.metrics import MeanSquaredError as MeanSquaredError
from treadle.train.metrics import Metric as Metric
from treadle.train.metrics import Precision as Precision
from treadle.train.metrics import Recall as Recall
from treadle.train.metrics import RootMeanSquaredError as RootMeanSquaredError
from treadle.train.metrics import TopKAccuracy as TopKAccuracy
from treadle.train.metrics import confusion_matrix as confusion_matrix
from treadle.train.model import Model as Model
from treadle.train.monitor import EarlyStopping as EarlyStopping
from treadle.train.monitor import ModelCheckpoint as ModelCheckpoint
from treadle.train.monitor import ReduceLROnPlateau as ReduceLROnPlateau
from treadle.train.progress import ProgressBar as ProgressBar
from treadle.train.report import Report as Report
from treadle.train.report import TensorBoard as TensorBoard

__all__ = _public(globals())

_guard(globals())


def __dir__() -> list[str]:
    return __all__
