"""Meshes: the ranks of a job as the places of a grid, whose axes have names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.distributed.mpi_channel import MpiChannel
from hybrid.distributed.world import MPI, World, world
from hybrid.errors import ArgumentError, ArgumentTypeError, author_location
from hybrid.jobs.simulated_rank import CountingChannel
from hybrid.memory.channels import WORLD, Channel, CollectiveCall, open_channel, reach


@dataclass(frozen=True, slots=True)
class Mesh:
    """Ranks in row-major order: the last axis is that of neighbours."""

    shape: tuple[int, ...]
    names: tuple[str, ...]

    def size(self, axis: str) -> int:
        """How many ranks lie along ``axis``."""
        return self.shape[self._place(axis)]

    def coordinate(self, axis: str) -> int:
        """Where this rank lies along ``axis``."""
        at = self._place(axis)
        return world().rank // math.prod(self.shape[at + 1 :]) % self.shape[at]

    def channel(self, axis: str) -> Channel:
        """The ranks that differ from this one along ``axis`` alone."""
        return reach(self._called(axis), self.size(axis))

    def _called(self, axis: str) -> str:
        sizes = ",".join([f"{name}={n}" for name, n in zip(self.names, self.shape, strict=True)])
        return f"{axis} of {sizes}"

    def _place(self, axis: str) -> int:
        if not isinstance(axis, str):
            raise ArgumentTypeError(f"axis is {axis!r}", fix="give the name of an axis of the mesh")
        if axis not in self.names:
            raise ArgumentError(
                f"the mesh has no axis {axis!r}", fix=f"use one of {', '.join(self.names)}"
            )
        return self.names.index(axis)

    def opened(self, job: World) -> None:
        """Let graphs find a channel for each axis."""
        for at, name in enumerate(self.names):
            if job.size == 1:
                open_channel(Channel(self._called(name)))
                continue
            behind = math.prod(self.shape[at + 1 :])
            if job.is_simulated:
                own, first = self.coordinate(name), job.rank - self.coordinate(name) * behind
                members = range(first, first + behind * self.shape[at], behind)
                open_channel(CountingChannel(self._called(name), own, members))
                continue
            where = job.rank // (behind * self.shape[at]) * behind + job.rank % behind
            group = MPI.COMM_WORLD.Split(where, job.rank)
            if self.shape[at] > 1:
                open_channel(MpiChannel(self._called(name), group, job))
            else:
                alone = Channel(self._called(name))
                alone.members = (job.rank,)
                open_channel(alone)


_meshes: dict[Mesh, None] = {}
_last: list[Mesh] = []


def mesh(shape: Sequence[int], names: Sequence[str]) -> Mesh:
    """The ranks of the job as a grid of ``shape``, whose axes are called ``names``.

    All ranks call it alike.  The one that was made last is the one whose axes collectives name.
    """
    found = _mesh_of(shape, names)
    job = world()
    if math.prod(found.shape) != job.size:
        raise ArgumentError(
            f"a mesh of {'x'.join(map(str, found.shape))} ranks in a job of {job.size}",
            why="Each rank is to have one place in it.",
            fix=f"give it sizes whose product is {job.size}",
        )
    everyone = world_channel()
    if isinstance(everyone, MpiChannel):
        job.require_whole()
        text = f"{found.shape} {found.names}"
        entry = CollectiveCall("mesh", attributes=text, location=author_location())
        everyone.compare([entry])
    if found not in _meshes:
        found.opened(job)
        _meshes[found] = None
    _last[:] = [found]
    return found


def _mesh_of(shape: Sequence[int], names: Sequence[str]) -> Mesh:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ArgumentTypeError(f"names is {names!r}", fix='give a tuple of str: ("dp", "tp")')
    if any(isinstance(n, bool) or not isinstance(n, int) for n in shape):
        raise ArgumentTypeError(f"shape is {shape!r}", fix="give a tuple of int: (2, 2)")
    found = Mesh(tuple(shape), tuple(names))
    if len(found.shape) != len(found.names) or len(set(found.names)) != len(found.names):
        raise ArgumentError(
            f"a mesh of shape {found.shape} with names {found.names}",
            fix="give each axis one name of its own",
        )
    if not found.shape or min(found.shape) < 1 or not all(found.names):
        raise ArgumentError(
            f"a mesh of shape {found.shape} with names {found.names}",
            fix="give it one axis at least, each of 1 rank or more and with a name",
        )
    return found


def world_channel() -> Channel:
    """The channel of all ranks."""
    job = world()
    found = reach(WORLD, 1) if job.size == 1 else None
    if found is None:
        if not _everyone:
            _everyone.append(
                open_channel(
                    CountingChannel(WORLD, job.rank, range(job.size))
                    if job.is_simulated
                    else MpiChannel(WORLD, MPI.COMM_WORLD.Dup(), job)
                )
            )
        found = _everyone[0]
    return found


_everyone: list[Channel] = []


def channel_for(axis: str | None, mesh: Mesh | None) -> Channel:
    """The channel that a collective along ``axis`` goes through; None: that of all ranks."""
    if mesh is not None and not isinstance(mesh, Mesh):
        raise ArgumentTypeError(f"mesh is {mesh!r}", fix="give what hybrid.distributed.mesh made")
    if axis is None:
        return world_channel()
    found: Any = mesh or (_last[0] if _last else None)
    if found is None:
        raise ArgumentError(
            f"axis {axis!r} without a mesh", fix="make one first with hybrid.distributed.mesh"
        )
    if not isinstance(axis, str):
        raise ArgumentTypeError(f"axis is {axis!r}", fix="give the name of an axis of the mesh")
    return found.channel(axis)
