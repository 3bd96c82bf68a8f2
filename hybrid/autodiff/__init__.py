"""Derivatives: reverse and forward mode, of eager and traced code alike."""

from hybrid.autodiff.check import check_grads as check_grads
from hybrid.autodiff.function_gradients import enable_grad as enable_grad
from hybrid.autodiff.function_gradients import grad as grad
from hybrid.autodiff.function_gradients import jvp as jvp
from hybrid.autodiff.function_gradients import no_grad as no_grad
from hybrid.autodiff.function_gradients import stop_gradient as stop_gradient
from hybrid.autodiff.function_gradients import value_and_grad as value_and_grad
from hybrid.autodiff.function_gradients import vjp as vjp
