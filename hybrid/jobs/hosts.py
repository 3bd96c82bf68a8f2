"""Other hosts that ``mpiexec`` would start ranks on: those of a host file, or of an allocation."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path

from hybrid.errors import ArgumentError

# Variables that name a file with a host in each line: of MPICH, Open MPI, PBS, Grid Engine, LSF.
_FILES = (
    "HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
    "PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE",
)  # fmt: skip
_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "LSB_HOSTS")  # with the hosts themselves
_LOCAL = ("localhost", "127.0.0.1", "::1", "ip6-localhost")


def require_one_host(environment: Mapping[str, str]) -> None:
    """Raise ArgumentError where ranks would be started on other hosts than this one."""
    for variable, hosts in _named(environment):
        others = [host for host in hosts if not _is_here(host)]
        if others:
            raise ArgumentError(
                f"hybrid launch would start ranks on other hosts: {variable} names "
                f"{', '.join(dict.fromkeys(others))}",
                why="It watches the ranks of a job by a socket that this machine alone has, so it "
                "would wait for those of others without end.",
                fix="start the ranks with mpiexec, srun or what the batch system has (mpiexec -n 8 "
                f"python train.py), or run it without {variable} for ranks on this machine",
            )


def _named(environment: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """The variables that name hosts, each with these."""
    found = []
    for variable in _FILES:
        try:
            lines = Path(environment.get(variable) or "/nowhere").read_text().splitlines()
        except (OSError, UnicodeDecodeError):  # mpiexec says what is wrong with it
            continue
        words = [line.split("#")[0].split() for line in lines]
        found.append((variable, [first[0].split(":")[0] for first in words if first]))
    for variable in _LISTS:
        found.append((variable, _split(environment.get(variable, ""))))
    return found


def _split(text: str) -> list[str]:
    """Hosts with commas or blanks between them; those of Slurm, ``n[1-3,7]``, as they stand."""
    return re.findall(r"(?:[^\s,\[]|\[[^\]]*\])+", text)


def _is_here(host: str) -> bool:
    own = socket.gethostname()
    return host in _LOCAL or host.partition(".")[0] == own.partition(".")[0]
