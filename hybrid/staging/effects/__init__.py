"""What calls and stores change, announced before it happens, and what no plan can repeat."""
