"""What layers compute beyond single ops; ``hybrid.nn.functional`` has the public names."""
