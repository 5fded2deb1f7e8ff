"""LLVM IR text to object code, on all cores.

llvmlite holds one lock around every call of LLVM, so its own functions use one core.
LLVM itself asks only that threads share no context: here each text has a context and
each thread a target machine of its own, through a second handle on the same library.

No IR passes run. On the emitter's kernels LLVM's standard pipeline at level 2 makes
compilation take 2.3 times as long, at level 1 2.1 times, its function simplification
1.4 times, a few chosen passes (instruction combining, value numbering) 1.1 to 1.2
times, and none of them makes a kernel faster by more than the noise of 3 %: the text is
SSA with explicit vectors, and code generation itself folds constants, hoists invariants
and reduces strength. Its level 2 takes 3 to 6 ms a kernel; level 1 saves 7 % of that
and loses 12 % on integer index code, level 3 gains nothing.

What a text has as functions of its own is called, unless it is `alwaysinline`: then it
is put in where it is used. The engine's own functions, which read the interpreter's
objects by dozens of little ones, are a quarter faster for it, and compiled sooner.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from treadle.base.caches import cached
from treadle.base.locks import lock
from treadle.engines.native.system.host import Host, cores, has_threads

_LEVEL = 2
# "small": constants lie at offsets from the program counter, not at full addresses.
_RELOCATION, _CODE_MODEL = "pic", "small"
# What code depends on besides text, host and versions: to change with what is done.
FLAGS = (
    f"level {_LEVEL} {_RELOCATION} {_CODE_MODEL} no passes but inlining and registers"
)
VERSIONS = (".".join(map(str, llvm.llvm_version_info)), llvmlite.__version__)

_DEFINITION = re.compile(r"^(define\b[^{]*\)[^{()]*?)\s*\{", re.MULTILINE)
_GROUP = 700  # of function attributes; texts have none or few of their own
_INLINE = "alwaysinline"  # the attribute of what is put in where it is used
# In a text that keeps its variables on the stack: they are put into registers.
VARIABLES = "!treadle.variables = !{}"

# Of every call that llvmlite makes, also in destructors.
llvm_lock: Any = getattr(getattr(ffi.lib, "_lock", None), "_lock", None) or lock()

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def compile_texts(texts: Mapping[bytes, str], host: Host) -> dict[bytes, bytes]:
    """The object code of each text, compiled on as many threads as there are cores."""
    if not texts:
        return {}
    waiting = sorted(texts.items(), key=lambda item: len(item[1]))  # longest first
    objects: dict[bytes, bytes] = {}
    errors: list[BaseException] = []

    def work() -> None:
        machine = _take(host)
        try:
            while waiting and not errors:
                try:
                    name, text = waiting.pop()
                except IndexError:  # another thread took the last
                    break
                try:
                    objects[name] = _emit(prepare(text, host), machine)
                except RuntimeError as error:
                    raise RuntimeError(f"{_heading(text)}: {error}") from error
        except BaseException as error:
            errors.append(error)
        finally:
            _machines.setdefault(host, []).append(machine)

    free = _unlocked() and has_threads()
    helpers = min(cores(), len(waiting)) - 1 if free else 0
    threads = [threading.Thread(target=work, daemon=True) for _ in range(helpers)]
    started = []
    try:
        with contextlib.suppress(RuntimeError):  # no more threads to be had: do without
            for thread in threads:
                thread.start()
                started.append(thread)
        work()
        for thread in started:
            thread.join()
    finally:
        waiting.clear()  # interrupted: the others stop too
    if errors:
        raise errors[0]
    return objects


def _heading(text: str) -> str:
    """The first line of the function a text defines."""
    match = _DEFINITION.search(text)
    return match[1] if match else "a text without a function"


def prepare(text: str, host: Host) -> str:
    """The text as it is compiled: for a host, its functions with attributes.

    No attribute and no flag allows the code generator to change a float's bits: there
    is no contraction of products and sums and no reordering.
    """
    attributes = ["nounwind"]  # no tables for unwinding, which cost space and time
    if host.vector_bytes == 64:  # some CPUs are tuned for 32-byte registers
        attributes.append('"prefer-vector-width"="512"')
    defined = _DEFINITION.sub(rf"\1 #{_GROUP} {{", text)
    head = f'target datalayout = "{_layout(host)}"\ntarget triple = "{host.triple}"\n'
    return f"{head}{defined}\nattributes #{_GROUP} = {{ {' '.join(attributes)} }}\n"


def assembly(text: str, host: Host) -> str:
    """The machine instructions of a text, to look at."""
    machine = make_machine(host)
    return str(machine.emit_assembly(_parse(prepare(text, host), machine)))


def optimized(text: str, host: Host) -> str:
    """The IR that code generation begins with, to look at."""
    return str(_parse(prepare(text, host), make_machine(host)))


# -- target machines -------------------------------------------------------------------

_machines: dict[Host, list[llvm.TargetMachine]] = {}  # not in use; made in 0.5 ms each


def _take(host: Host) -> llvm.TargetMachine:
    free = _machines.setdefault(host, [])
    try:
        return free.pop()
    except IndexError:
        return make_machine(host)


def make_machine(host: Host) -> llvm.TargetMachine:
    """A code generator for a host; one thread at a time may use it."""
    target = llvm.Target.from_triple(host.triple)
    return target.create_target_machine(
        cpu=host.cpu,
        features=host.features,
        opt=_LEVEL,
        reloc=_RELOCATION,
        codemodel=_CODE_MODEL,
        jit=True,
    )


@cached(16)
def _layout(host: Host) -> str:
    return str(make_machine(host).target_data)


# -- one module ------------------------------------------------------------------------


def _parse(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    if _has_passes(text):
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        if VARIABLES in text:
            passes.add_sroa_pass()
        settings = llvm.create_pipeline_tuning_options()
        passes.run(module, llvm.create_pass_builder(machine, settings))
    return module


def _has_passes(text: str) -> bool:
    return _INLINE in text or VARIABLES in text


def _emit(text: str, machine: llvm.TargetMachine) -> bytes:
    """The object code of one prepared text."""
    library = _unlocked()
    if library is None or _has_passes(text):
        return bytes(machine.emit_object(_parse(text, machine)))
    context = library.ContextCreate()
    module = buffer = None
    errors = [ctypes.c_char_p() for _ in range(3)]
    places = [ctypes.byref(e) for e in errors]
    try:
        module = library.ParseAssembly(context, text.encode(), places[0])
        if not module or library.VerifyModule(module, places[1]):
            raise RuntimeError(_said(errors))
        buffer = library.TargetMachineEmitToMemory(machine._ptr, module, 1, places[2])
        if not buffer:
            raise RuntimeError(_said(errors))
        size = library.GetBufferSize(buffer)
        return ctypes.string_at(library.GetBufferStart(buffer), size)
    finally:
        if buffer:
            library.DisposeMemoryBuffer(buffer)
        if module:
            library.DisposeModule(module)
        library.ContextDispose(context)
        for error in errors:
            if error:
                library.DisposeString(error)


def _said(errors: Sequence[ctypes.c_char_p]) -> str:
    said = b" ".join(e.value for e in errors if e.value)
    return said.decode(errors="replace") or "no reason given"


class _Unlocked:
    """Functions of llvmlite's library, called without its lock."""

    ContextCreate: Any
    ContextDispose: Any
    ParseAssembly: Any
    VerifyModule: Any
    DisposeModule: Any
    TargetMachineEmitToMemory: Any
    GetBufferStart: Any
    GetBufferSize: Any
    DisposeMemoryBuffer: Any
    DisposeString: Any


# How many arguments each took when this was written: a change means "do not touch".
_ARGUMENTS = {
    "ContextCreate": 0,
    "ContextDispose": 1,
    "ParseAssembly": 3,
    "VerifyModule": 2,
    "DisposeModule": 1,
    "TargetMachineEmitToMemory": 4,
    "GetBufferStart": 1,
    "GetBufferSize": 1,
    "DisposeMemoryBuffer": 1,
    "DisposeString": 0,
}


@cache
def _unlocked() -> _Unlocked | None:
    """The functions, or None where llvmlite is not as expected."""
    try:
        handle = ctypes.CDLL(ffi.lib._name)
        functions = _Unlocked()
        for name, count in _ARGUMENTS.items():
            locked = getattr(ffi.lib, f"LLVMPY_{name}")
            if len(locked.argtypes or ()) != count:
                return None
            function = getattr(handle, f"LLVMPY_{name}")
            function.argtypes, function.restype = locked.argtypes, locked.restype
            setattr(functions, name, function)
        return functions
    except (AttributeError, OSError, TypeError):
        return None
