"""Where PyTorch has the clipping of gradients; ``hybrid.optim`` has the same functions."""

from hybrid.nn.clip import clip_grad_norm_ as clip_grad_norm_
from hybrid.nn.clip import clip_grad_value_ as clip_grad_value_
from hybrid.nn.clip import clip_grads_with_norm_ as clip_grads_with_norm_
from hybrid.nn.clip import get_total_norm as get_total_norm
