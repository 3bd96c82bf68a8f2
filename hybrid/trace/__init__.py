"""Capture of functions as graphs; with it come the derivatives of control flow."""

from hybrid.trace import differentiate_cond as differentiate_cond
