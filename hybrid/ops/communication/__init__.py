"""Ops that communicate with the other processes of a job: collectives, send and recv."""
