"""Jobs beyond this machine: steps of one rank, without the others, and a model of these."""
