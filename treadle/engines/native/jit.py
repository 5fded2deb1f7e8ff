"""Machine code from LLVM IR."""
from __future__ import annotations
from collections.abc import Mapping
import llvmlite.binding as llvm
llvm.initialize_native_target(); llvm.initialize_native_asmprinter()
_tm=llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(),features=llvm.get_host_cpu_features().flatten(),opt=2)
_eng=llvm.create_mcjit_compiler(llvm.parse_assembly(""),_tm)
_known: dict[str,int]={}
def compile_functions(texts: Mapping[str, str]) -> dict[str, int]:
    for n,t in texts.items():
        if n not in _known:
            m=llvm.parse_assembly(t); m.verify(); _eng.add_module(m); _eng.finalize_object()
            _known[n]=_eng.get_function_address(n)
    return {n:_known[n] for n in texts}
