"""What other libraries ask of tensors: PyTorch's methods, NumPy's functions, the array API."""
