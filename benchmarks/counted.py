"""What one training step is made of, counted in each library's own terms.

`launched` are kernels or operations a run starts one after another; `bytes` is what
they read and write if nothing stays in cache, each operand once a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["of_jax", "of_torch", "of_treadle"]

Counts = Mapping[str, float]

# What takes no time of its own: in a compiled module of jax, among torch's operations.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}
_IDLE = {"aten._local_scalar_dense.default", "aten.empty_like.default"}
_INSTRUCTION = r"^ +(?:ROOT )?%?[\w.\-]+ = .*?\s([a-z][\w\-]*)\("


def _sized(name: str, nodes: Iterable[Any]) -> dict[str, float]:
    found = list(nodes)
    edges = sum(len(node.inputs) for node in found)
    return {f"{name}: nodes": len(found), f"{name}: edges": edges}


# -- treadle ---------------------------------------------------------------------------


def of_treadle(
    loss_of: Callable[..., Any], optimizer: Any, given: Sequence[Any]
) -> Counts:
    """The graph of a step as naive recording makes it, and on its way to a program."""
    import treadle as td
    from benchmarks.programs import latest, moved
    from benchmarks.spelled import spelled
    from treadle.graph.body import trace
    from treadle.rewrite.record import recorded

    found = {**_sized("loss, as written", td.nodes(loss_of(*given)))}
    arrays = [td.asarray(x) for x in given]

    def step(*xs: Any) -> list[Any]:
        loss = loss_of(*xs)
        optimizer.step(loss)
        return [loss]

    optimizer.step(loss_of(*given))  # the states of the optimizer are there
    traced = trace(step, [x.type for x in arrays], "step")
    found |= _sized("step, nothing shared", spelled(traced.body))
    td.clear_cache()
    with recorded() as record:
        optimizer.step(loss_of(*given))
    for size in record.sizes:
        name = "step, as built" if size.stage == "graph" else f"after {size.stage!r}"
        found |= {f"{name}: nodes": size.nodes, f"{name}: edges": size.edges}
    program = latest().program
    return {
        **found,
        "rules applied": len(record.fired),
        "launched": len(program.steps),
        "bytes": moved(program),
    }


# -- torch -----------------------------------------------------------------------------


def of_torch(
    loss_of: Callable[..., Any], optimizer: Any, given: Sequence[Any], compiled: bool
) -> Counts:
    """The tape of a loss; operations run, or calls in what the compiler wrote."""
    found: dict[str, float] = {}
    if compiled:
        found = _of_inductor(lambda: loss_of(*given).backward())
        with _watch() as watched:
            optimizer.step()
    else:
        loss = loss_of(*given)
        tape = _tape(loss.grad_fn)
        edges = sum(len(node.next_functions) for node in tape)
        found |= {"tape: nodes": len(tape), "tape: edges": edges}
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with _watch() as watched:
            loss_of(*given).backward()
            optimizer.step()
    found["launched"] = found.get("launched", 0) + watched.launched
    found["bytes"] = found.get("bytes", 0) + watched.bytes
    return found


def _tape(root: Any) -> list[Any]:
    """The nodes that a backward pass visits."""
    seen, stack = {root}, [root]
    while stack:
        for below, _ in stack.pop().next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                stack.append(below)
    return list(seen)


def _watch() -> Any:
    """A mode that counts the operations which are no views, and their bytes."""
    torch: Any = import_module("torch")
    pytree: Any = import_module("torch.utils._pytree")
    base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode

    class Watch(base):  # type: ignore[misc]
        launched = bytes = 0

        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = op(*args, **(kwargs or {}))
            name = str(op)
            if name.startswith("aten") and not op.is_view and name not in _IDLE:
                self.launched += 1
                touched = pytree.tree_leaves((args, kwargs, out))
                sizes = {
                    x.data_ptr(): x.numel() * x.element_size()
                    for x in touched
                    if isinstance(x, torch.Tensor)
                }
                self.bytes += sum(sizes.values())
            return out

    return Watch()


def _of_inductor(run: Callable[[], Any]) -> dict[str, float]:
    """What dynamo captures, what inductor sees, and the calls in the code it writes."""
    logs: Any = import_module("torch._logging")
    metrics: Any = import_module("torch._inductor.metrics")
    utils: Any = import_module("torch._inductor.utils")
    counters: Any = import_module("torch._dynamo.utils").counters
    import_module("torch._inductor.config").force_disable_caches = True  # type: ignore[attr-defined]
    logs.set_logs(inductor_metrics=True)  # else bytes are not counted
    metrics.reset()
    captured = counters["stats"]["calls_captured"]
    _, codes = utils.run_and_get_code(run)
    call = re.compile(
        r"^ +(?:\w+ = )?(?:cpp_fused\w*|extern_kernels\.|aten\.|torch\.ops)"
    )
    bodies = [
        code[code.index("def call(") :].split("\n        return ") for code in codes
    ]
    return {
        "operations captured": counters["stats"]["calls_captured"] - captured,
        "loops before fusion": metrics.ir_nodes_pre_fusion,
        "launched": sum(
            bool(call.match(line)) for body in bodies for line in body[0].split("\n")
        ),
        "bytes": metrics.num_bytes_accessed,
    }


# -- jax -------------------------------------------------------------------------------


def of_jax(step: Any, *given: Any) -> Counts:
    """Equations of the traced step, instructions before and after its compiler."""
    jax: Any = import_module("jax")
    equations, operands = _equations(jax.make_jaxpr(step)(*given).jaxpr)
    lowered = step.lower(*given)
    compiled = lowered.compile()
    text = compiled.as_text()
    ops = re.findall(_INSTRUCTION, text, re.M)
    entry = text[text.index("\nENTRY") :]
    first = re.findall(_INSTRUCTION, entry, re.M)
    return {
        "jaxpr: equations": equations,
        "jaxpr: operands": operands,
        "instructions, as lowered": len(
            re.findall(r"^ +%.* = ", lowered.as_text(), re.M)
        ),
        "instructions, compiled": len(ops),
        "launched": sum(op not in _FREE for op in first),
        "bytes": compiled.cost_analysis()["bytes accessed"],
    }


def _equations(jaxpr: Any) -> tuple[int, int]:
    """Equations and their operands, calls looked into."""
    equations = operands = 0
    for own in jaxpr.eqns:
        inner = [
            getattr(x, "jaxpr", x)
            for value in own.params.values()
            for x in (value if isinstance(value, (list, tuple)) else [value])
            if hasattr(x, "jaxpr") or hasattr(x, "eqns")
        ]
        for sub in inner:
            more = _equations(sub)
            equations, operands = equations + more[0], operands + more[1]
        if not inner:
            equations, operands = equations + 1, operands + len(own.invars)
    return equations, operands
