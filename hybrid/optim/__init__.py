"""Optimizers: they move parameters along their gradients."""

from hybrid.optim.adam import Adam as Adam
from hybrid.optim.adam import AdamW as AdamW
from hybrid.optim.group import Group as Group
from hybrid.optim.optimizer import Optimizer as Optimizer
from hybrid.optim.sgd import SGD as SGD
