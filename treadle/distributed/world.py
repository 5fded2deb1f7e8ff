"""The world: the communicator of all ranks of this program."""

from __future__ import annotations

import os
from collections.abc import Mapping

from treadle.distributed.communicator import Alone, Communicator
from treadle.distributed.mpi import MpiCommunicator, ending_after

# Where a launcher tells a process how many of its kind there are: Hydra and others that
# speak PMI, Open MPI, Slurm's srun (of a job's step, not of its allocation).
LAUNCHED = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
START = 300.0  # seconds in which all ranks come to MPI, whatever they do before

_worlds: list[Communicator] = []


def world() -> Communicator:
    """The communicator of all ranks; one rank needs no MPI and loads none.

    There are more where a launcher has started the process (`treadle launch -n 4`,
    `mpiexec -n 4`, Slurm's `srun`); then mpi4py is loaded, of the extra "mpi". Those
    that have come end with an error where one of them does not come in 300 seconds.

    >>> td.distributed.world().rank, td.distributed.world().size
    (0, 1)
    """
    if not _worlds and _is_launched(os.environ):
        with ending_after(START):
            _worlds.append(MpiCommunicator())
    elif not _worlds:
        _worlds.append(Alone())
    return _worlds[0]


def _is_launched(variables: Mapping[str, str]) -> bool:
    return any(variables.get(name, "1") not in ("", "1") for name in LAUNCHED)


def rank() -> int:
    """The number of this rank.

    >>> td.distributed.rank()
    0
    """
    return world().rank


def size() -> int:
    """The number of ranks.

    >>> td.distributed.size()
    1
    """
    return world().size
