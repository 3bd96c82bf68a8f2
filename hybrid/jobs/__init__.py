"""Jobs of several processes: started by ``mpiexec``, watched, stopped, and started again."""
