"""What Python code can read and write besides its variables: how it is found, and put back."""
