"""Schedulers: they set the learning rate, step by step, without a new plan."""

from hybrid.optim.lr_scheduler.base import LRScheduler as LRScheduler
from hybrid.optim.lr_scheduler.composition import ChainedScheduler as ChainedScheduler
from hybrid.optim.lr_scheduler.composition import SequentialLR as SequentialLR
from hybrid.optim.lr_scheduler.cycles import CyclicLR as CyclicLR
from hybrid.optim.lr_scheduler.cycles import OneCycleLR as OneCycleLR
from hybrid.optim.lr_scheduler.decays import ConstantLR as ConstantLR
from hybrid.optim.lr_scheduler.decays import CosineAnnealingLR as CosineAnnealingLR
from hybrid.optim.lr_scheduler.decays import (
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
)
from hybrid.optim.lr_scheduler.decays import ExponentialLR as ExponentialLR
from hybrid.optim.lr_scheduler.decays import LambdaLR as LambdaLR
from hybrid.optim.lr_scheduler.decays import LinearLR as LinearLR
from hybrid.optim.lr_scheduler.decays import MultiplicativeLR as MultiplicativeLR
from hybrid.optim.lr_scheduler.decays import MultiStepLR as MultiStepLR
from hybrid.optim.lr_scheduler.decays import PolynomialLR as PolynomialLR
from hybrid.optim.lr_scheduler.decays import StepLR as StepLR
from hybrid.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
