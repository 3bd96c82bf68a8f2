"""What layers of networks compute: normalization, softmax, attention, losses."""
