"""What a capture depends on, and the tests that it is still as it was."""
