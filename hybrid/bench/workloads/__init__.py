"""One file per family of workloads; see ``hybrid.bench.registry``."""
