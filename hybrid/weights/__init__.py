"""Files of weights in the safetensors format: ``save`` and ``load``."""

from hybrid.weights.read import Checkpoint as Checkpoint
from hybrid.weights.read import load as load
from hybrid.weights.write import save as save
