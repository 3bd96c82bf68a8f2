"""Capture of functions as graphs; with it come the derivatives of control flow."""

from hybrid.trace import differentiate_cond as differentiate_cond
from hybrid.trace import differentiate_for as differentiate_for
from hybrid.trace import differentiate_forward as differentiate_forward
from hybrid.trace import differentiate_while as differentiate_while
from hybrid.trace import origins as origins
