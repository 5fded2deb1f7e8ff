"""LLVM IR to PTX, by LLVM's back end for NVIDIA's devices.

PTX is written for the newest architecture known here that is no newer than the device:
the driver translates it for the device itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as llvm

from treadle.base.caches import cached
from treadle.base.errors import RunError

TRIPLE = "nvptx64-nvidia-cuda"
_LEVEL = 2


@dataclass(frozen=True)
class Architecture:
    """The target of PTX: a compute capability, a version of the language."""

    capability: tuple[int, int]
    language: int

    @property
    def processor(self) -> str:
        """The name that LLVM and ptxas have for it."""
        return f"sm_{self.capability[0]}{self.capability[1]}"


_KNOWN = [
    Architecture((7, 5), 63),
    Architecture((8, 0), 70),
    Architecture((8, 6), 71),
    Architecture((8, 9), 78),
    Architecture((9, 0), 78),
    Architecture((10, 0), 86),
    Architecture((12, 0), 87),
]
OLDEST = _KNOWN[0].capability


def architecture(capability: tuple[int, int]) -> Architecture:
    """The architecture of devices of a compute capability.

    >>> architecture((9, 2)).processor
    'sm_90'
    """
    known = [a for a in _KNOWN if a.capability <= capability]
    if not known:
        wanted, has = (".".join(map(str, c)) for c in (OLDEST, capability))
        raise RunError(
            f"kernels need compute capability {wanted}, the device has {has}"
        )
    return known[-1]


@cached(8)
def _machine(target: Architecture) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.processor, features=f"+ptx{target.language}", opt=_LEVEL
    )


def ptx_of(text: str, target: Architecture) -> str:
    """The PTX of a module of LLVM IR."""
    machine = _machine(target)
    head = f'target datalayout = "{machine.target_data}"\ntarget triple = "{TRIPLE}"\n'
    module = llvm.parse_assembly(head + text, llvm.create_context())
    module.verify()
    return str(machine.emit_assembly(module))
