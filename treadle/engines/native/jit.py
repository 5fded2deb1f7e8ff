"""Machine code from LLVM IR."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm

llvm.initialize_native_target(); llvm.initialize_native_asmprinter()
_tm=llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(),features=llvm.get_host_cpu_features().flatten(),opt=2)
_known: dict[str,Any]={}
def compile_functions(texts: Mapping[str, str]) -> dict[str, int]:
    for n,t in texts.items():
        if n not in _known:
            m=llvm.parse_assembly(t); o=_tm.emit_object(m)
            e=llvm.create_mcjit_compiler(llvm.parse_assembly(""),_tm); e.add_object_file(llvm.ObjectFileRef.from_data(o)); e.finalize_object()
            _known[n]=(e.get_function_address(n),e)
    return {n:_known[n][0] for n in texts}
