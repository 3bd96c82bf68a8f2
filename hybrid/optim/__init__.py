"""Optimizers: they move parameters along their gradients.

With them come ``lr_scheduler``, clipping of gradients, ``GradScaler`` for float16, and averages of
weights.  All of it can be captured: everything that changes from step to step is a cell.

Gradients of several small batches are added up by calling ``backward()`` for each before one
``step()``; the losses are divided by their number, so that the sum is the mean over all::

    optimizer.zero_grad()
    for x, y in zip(xs, ys):
        (loss_of(net(x), y) / len(xs)).backward()
    clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    average.update_parameters(net)
"""

import typing as _typing

from hybrid.core import other_names as _other_names
from hybrid.nn.clip import clip_grad_norm as clip_grad_norm
from hybrid.nn.clip import clip_grad_norm_ as clip_grad_norm_
from hybrid.nn.clip import clip_grad_value as clip_grad_value
from hybrid.nn.clip import clip_grad_value_ as clip_grad_value_
from hybrid.nn.clip import clip_grads_with_norm_ as clip_grads_with_norm_
from hybrid.nn.clip import get_total_norm as get_total_norm
from hybrid.optim import lr_scheduler as lr_scheduler
from hybrid.optim import swa_utils as swa_utils
from hybrid.optim.adam import Adam as Adam
from hybrid.optim.adam import Adamax as Adamax
from hybrid.optim.adam import AdamW as AdamW
from hybrid.optim.adam import NAdam as NAdam
from hybrid.optim.adam import RAdam as RAdam
from hybrid.optim.grad_scaler import GradScaler as GradScaler
from hybrid.optim.group import Group as Group
from hybrid.optim.lbfgs import LBFGS as LBFGS
from hybrid.optim.optimizer import Optimizer as Optimizer
from hybrid.optim.rmsprop import Adadelta as Adadelta
from hybrid.optim.rmsprop import Adagrad as Adagrad
from hybrid.optim.rmsprop import Lion as Lion
from hybrid.optim.rmsprop import RMSprop as RMSprop
from hybrid.optim.sgd import SGD as SGD
from hybrid.optim.swa_utils import ExponentialMovingAverage as ExponentialMovingAverage


def __getattr__(name: str) -> _typing.Any:
    raise _other_names.missing_member(__name__, name, _other_names.OPTIM)
