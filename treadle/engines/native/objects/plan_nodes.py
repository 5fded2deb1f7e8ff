"""What a call comes to by its plan: nodes (`call.py`)."""

from __future__ import annotations

from typing import cast

from treadle.base.routine import Numbers, routine
from treadle.engines.native.objects.interpreter import (
    Interpreter,
    drop_all,
    keep,
    own_state,
)
from treadle.engines.native.objects.make import closed, depth_of, fresh, hide
from treadle.engines.native.objects.plan_site import CODE, OFFSET, located
from treadle.engines.native.objects.plan_things import (
    DATA,
    FORM,
    GIVEN,
    HEAD,
    MORE,
    RESULTS,
    STEPS,
    Own,
    Variable,
    Written,
)
from treadle.engines.native.objects.things import (
    Bytes,
    Int,
    List,
    Node,
    Nodes,
    Object,
    State,
    Tuple,
    number,
)
from treadle.engines.native.routines.memory import Array, behind, pointers
from treadle.graph.calls import LIST, TUPLE

__all__ = ["followed"]


@routine
def followed(own: Own, plan: Written, values: Array[Object]) -> Object | None:
    """What a plan comes to, whose first values are there; null where the interpreter
    has raised something.
    """
    api, numbers = own.api, plan.numbers.words
    state = cast(State, own_state(api))
    if state is None:
        return None
    notes = keep(api, state.notes)
    others = behind(values, numbers[GIVEN])
    shared = _shared(own, plan, others)
    site = pointers(2)
    result: Object | None = None
    if located(own, site):
        result = _results(own, plan, values, site[CODE], site[OFFSET], notes)
    drop_all(api, others, shared)
    api.decref(notes)
    return result


@routine
def _shared(own: Own, plan: Written, values: Array[Object]) -> int:
    """Put down the newest versions of Variables and what was captured, a reference to
    each; how many these are.
    """
    variables, captured = plan.variables, plan.captured
    key = cast(Bytes, own.latest.items[0]).words  # of this call
    for k in range(variables.size):
        told = variables.items[k]
        if told.kind is own.api.inttype:
            told = cast(Array[Object], key)[number(cast(Int, told))]
        values[k] = keep(own.api, cast(Variable, told).committed)
    for k in range(captured.size):
        values[variables.size + k] = keep(own.api, captured.items[k])
    return variables.size + captured.size


@routine
def _results(
    own: Own,
    plan: Written,
    values: Array[Object],
    code: Object,
    offset: Object,
    notes: Object,
) -> Object | None:
    """The results of a plan, whose nodes are made at a place; the references to that
    are taken.
    """
    api, numbers = own.api, plan.numbers.words
    nodes, made = behind(values, numbers[GIVEN] + numbers[MORE]), 0
    leaves = _leaves(own, numbers, values, code, offset, notes)
    if leaves == numbers[DATA]:
        made = _nodes(own, plan, values, nodes, code, offset, notes)
    api.decref(code)
    api.decref(offset)
    result: Object | None = None
    if leaves == numbers[DATA] and made == numbers[STEPS]:
        result = _formed(api, numbers, values)
    drop_all(api, nodes, made)
    _drop_leaves(api, numbers, values, leaves)
    return result


@routine
def _leaves(
    own: Own,
    numbers: Numbers,
    values: Array[Object],
    code: Object,
    offset: Object,
    notes: Object,
) -> int:
    """Put leaves in the place of the ints among the arguments, a reference to each; how
    many could be made.
    """
    if numbers[DATA] == 0:
        return 0
    hidden = _plain(own.api, notes)
    places = behind(numbers, HEAD + numbers[RESULTS])
    for k in range(numbers[DATA]):
        leaf = _leaf(own, values[places[k]], code, offset, notes, hidden)
        if leaf is None:
            return k
        values[places[k]] = leaf
    return numbers[DATA]


@routine
def _leaf(
    own: Own, x: Object, code: Object, offset: Object, notes: Object, hidden: bool
) -> Node | None:
    """A leaf of an int."""
    api = own.api
    array = api.getitem(own.integers, x)
    if array is not None:
        api.incref(array)
    else:
        array = api.onearg(own.integer, x)
    if array is None:
        return None
    leaf = fresh(
        api,
        own.tensor,
        own.constant,
        own.empty,
        own.whole,
        array,
        0,
        code,
        offset,
        notes,
        hidden,
    )
    api.decref(array)
    return leaf


@routine
def _nodes(
    own: Own,
    plan: Written,
    values: Array[Object],
    nodes: Array[Object],
    code: Object,
    offset: Object,
    notes: Object,
) -> int:
    """Put down the nodes of a plan, a reference to each; how many could be made."""
    api, numbers = own.api, plan.numbers.words
    plain = _plain(api, notes)
    step = behind(numbers, HEAD + numbers[RESULTS] + numbers[DATA])
    for k in range(numbers[STEPS]):
        inputs = cast(Nodes, _taken(api, values, behind(step, 2), step[1]))
        if inputs is None:
            return k
        node = fresh(
            api,
            own.tensor,
            plan.ops.items[k],
            inputs,
            plan.types.items[k],
            api.none,
            depth_of(inputs),
            code,
            offset,
            notes,
            plain and step[0] != 0,
        )
        api.decref(inputs)
        if node is None:
            return k
        nodes[k] = node
        step = behind(step, 2 + step[1])
    return numbers[STEPS]


@routine
def _plain(api: Interpreter, notes: Object) -> bool:
    """Whether there are no notes, or they are plain data."""
    return notes is api.none or closed(api, notes)


@routine
def _taken(
    api: Interpreter, values: Array[Object], places: Array[int], count: int
) -> Tuple | None:
    """A tuple of the values at some places."""
    made = api.tuple(count)
    if made is None:
        return None
    for k in range(count):
        made.items[k] = keep(api, values[places[k]])
    return made


@routine
def _formed(api: Interpreter, numbers: Numbers, values: Array[Object]) -> Object | None:
    """The results of a plan, in the form that it says."""
    places, count = behind(numbers, HEAD), numbers[RESULTS]
    if numbers[FORM] == TUPLE:
        found = _taken(api, values, places, count)
        if found is not None:
            hide(api, found)
        return found
    if numbers[FORM] == LIST:
        return _listed(api, values, places, count)
    return keep(api, values[places[0]])


@routine
def _listed(
    api: Interpreter, values: Array[Object], places: Array[int], count: int
) -> List | None:
    """A list of the values at some places."""
    made = api.list(count)
    if made is None:
        return None
    for k in range(count):
        api.setitem(made, k, keep(api, values[places[k]]))
    return made


@routine
def _drop_leaves(
    api: Interpreter, numbers: Numbers, values: Array[Object], count: int
) -> None:
    """Let go of the leaves that were made."""
    places = behind(numbers, HEAD + numbers[RESULTS])
    for k in range(count):
        api.decref(values[places[k]])
