"""Optimizers: they move parameters along their gradients."""

from hybrid.optim.adam import Adam as Adam
from hybrid.optim.adam import Adamax as Adamax
from hybrid.optim.adam import AdamW as AdamW
from hybrid.optim.adam import NAdam as NAdam
from hybrid.optim.adam import RAdam as RAdam
from hybrid.optim.adaptive import Adadelta as Adadelta
from hybrid.optim.adaptive import Adagrad as Adagrad
from hybrid.optim.adaptive import Lion as Lion
from hybrid.optim.adaptive import RMSprop as RMSprop
from hybrid.optim.group import Group as Group
from hybrid.optim.optimizer import Optimizer as Optimizer
from hybrid.optim.sgd import SGD as SGD
