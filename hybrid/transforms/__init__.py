"""Transforms of functions that need a capture's tools: vmap and what is built on it."""

from hybrid.transforms.custom_vjp import custom_vjp as custom_vjp
from hybrid.transforms.jacobian import hessian as hessian
from hybrid.transforms.jacobian import hvp as hvp
from hybrid.transforms.jacobian import jacobian as jacobian
from hybrid.transforms.vmap import vmap as vmap
