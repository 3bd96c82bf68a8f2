"""Training: ``Model``, whose epochs are single calls, callbacks and metrics."""

from hybrid.train.actions import Checkpoint as Checkpoint
from hybrid.train.actions import EarlyStopping as EarlyStopping
from hybrid.train.actions import Schedule as Schedule
from hybrid.train.callback import Callback as Callback
from hybrid.train.history import History as History
from hybrid.train.loggers import CSVLogger as CSVLogger
from hybrid.train.loggers import TensorBoard as TensorBoard
from hybrid.train.metrics import F1 as F1
from hybrid.train.metrics import Accuracy as Accuracy
from hybrid.train.metrics import Mean as Mean
from hybrid.train.metrics import Metric as Metric
from hybrid.train.metrics import Precision as Precision
from hybrid.train.metrics import Recall as Recall
from hybrid.train.metrics import TopKAccuracy as TopKAccuracy
from hybrid.train.model import Model as Model
from hybrid.train.monitors import LossMonitor as LossMonitor
from hybrid.train.monitors import Progress as Progress
from hybrid.train.monitors import TimeMonitor as TimeMonitor
from hybrid.train.run import Run as Run
