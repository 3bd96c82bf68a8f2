"""Derivatives of control flow: nodes that go back through branches and loops, or forward."""
