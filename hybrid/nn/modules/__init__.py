"""What a module is: a tree of parameters, buffers and modules, its hooks, its state."""
