"""Derivatives: reverse and forward mode, of eager and traced code alike."""

from hybrid.autodiff.check import check_grads as check_grads
from hybrid.autodiff.functional import enable_grad as enable_grad
from hybrid.autodiff.functional import grad as grad
from hybrid.autodiff.functional import jvp as jvp
from hybrid.autodiff.functional import no_grad as no_grad
from hybrid.autodiff.functional import stop_gradient as stop_gradient
from hybrid.autodiff.functional import value_and_grad as value_and_grad
from hybrid.autodiff.functional import vjp as vjp
