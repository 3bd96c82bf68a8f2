"""No test runs for ever."""

from tests.staging.limits import limited as limited
