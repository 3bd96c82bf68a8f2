"""Smaller and faster models: quantized, pruned, distilled; each an ordinary module of tensors."""

from hybrid.compress import calibration as calibration
from hybrid.compress import functional as functional
from hybrid.compress import losses as losses
from hybrid.compress.channels.pruning import Pruning as Pruning
from hybrid.compress.channels.pruning import prune as prune
from hybrid.compress.channels.removal import remove as remove
from hybrid.compress.distillation import distill as distill
from hybrid.compress.files import load as load
from hybrid.compress.files import save as save
from hybrid.compress.losses import distillation_loss as distillation_loss
from hybrid.compress.quantization import quantize as quantize
from hybrid.compress.reports.layer_sensitivity import sensitivity as sensitivity
from hybrid.compress.reports.model_report import report as report
from hybrid.compress.smoothing import smooth as smooth
from hybrid.compress.training_aware import convert as convert
from hybrid.compress.training_aware import prepare_qat as prepare_qat

__all__ = [
    "Pruning",
    "calibration",
    "convert",
    "distill",
    "distillation_loss",
    "functional",
    "load",
    "losses",
    "prepare_qat",
    "prune",
    "quantize",
    "remove",
    "report",
    "save",
    "sensitivity",
    "smooth",
]
