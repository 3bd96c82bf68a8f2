"""Hosts of a file or an allocation: ranks on others than this one are refused at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hybrid.errors import ArgumentError
from hybrid.jobs.launcher import launch, require_one_host

HERE = socket.gethostname()
LISTS = {
    "SLURM_JOB_NODELIST": ("node[1-3,7]", "node[1-3,7]"),
    "SLURM_NODELIST": (f"{HERE},other", "other"),
    "LSB_HOSTS": (f"{HERE} {HERE} far far", "far"),
}
FILES = {
    "HYDRA_HOST_FILE": "# hosts\n\nlocalhost:2\nnode7:4 binding=x\n",
    "OMPI_MCA_orte_default_hostfile": "node7 slots=4\n",
    "PRTE_MCA_prte_default_hostfile": f"{HERE} slots=2\nnode7\n",
    "PBS_NODEFILE": f"{HERE}.cluster\nnode7\nnode7\n",
    "PE_HOSTFILE": "node7 4 all.q@node7 UNDEFINED\n",
    "LSB_DJOB_HOSTFILE": "node7\n",
}


def _said(variable: str, named: str) -> str:
    return (
        f"hybrid launch would start ranks on other hosts: {variable} names {named}\n"
        "It watches the ranks of a job by a socket that this machine alone has, so it would wait "
        "for those of others without end.\n"
        "Fix: start the ranks with mpiexec, srun or what the batch system has (mpiexec -n 8 python "
        f"train.py), or run it without {variable} for ranks on this machine."
    )


@pytest.mark.parametrize("variable", LISTS)
def test_an_allocation_of_other_hosts_is_refused(variable: str) -> None:
    value, named = LISTS[variable]
    with pytest.raises(ArgumentError) as caught:
        require_one_host({variable: value})
    assert str(caught.value) == _said(variable, named)


@pytest.mark.parametrize("variable", FILES)
def test_a_file_of_other_hosts_is_refused(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hosts"
    file.write_text(FILES[variable])
    monkeypatch.setenv(variable, str(file))
    with pytest.raises(ArgumentError) as caught:
        launch(2, ["never"])
    assert str(caught.value) == _said(variable, "node7")


def test_this_host_is_none_of_the_others(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(f"localhost:4\n{HERE}\n{HERE}.example.org:2\n")
    require_one_host({"HYDRA_HOST_FILE": str(file), "SLURM_JOB_NODELIST": HERE})
    require_one_host({"PBS_NODEFILE": str(tmp_path / "none"), "LSB_HOSTS": ""})
