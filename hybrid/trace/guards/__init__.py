"""The reads of a captured function, and guards: tests that what it has read is unchanged."""
