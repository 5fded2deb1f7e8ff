"""Variables: the rim of the graph, where state lives as a succession of versions."""

from __future__ import annotations

from typing import Any, ClassVar, Self, Unpack

import numpy as np

from treadle.base.changes import changed, unheard
from treadle.base.dtypes import OWN, as_dtype, is_inexact, whole
from treadle.base.errors import DTypeError, ShapeError
from treadle.base.keywords import VariableSettings as Keys
from treadle.base.naming import named
from treadle.base.notebook import escaped
from treadle.base.options import current, modes
from treadle.base.torch.arguments import only_none
from treadle.base.types import Type, as_names, as_shape, broadcast_shapes
from treadle.core import native
from treadle.graph.assign import update_all
from treadle.graph.gradients import give_gradients
from treadle.graph.leaves import (
    CONSTANT,
    Unbound,
    Version,
    as_tensor,
    is_lent,
    to_array,
    unshared,
)
from treadle.graph.op import Array, Cotangents, Op, op
from treadle.graph.operators import Operand, functions
from treadle.graph.remarks import Remarks
from treadle.graph.tensor import Tensor, cut, new_node
from treadle.graph.thread import Frame, local, thread_state

__all__ = [
    "Parameter",
    "Placeholder",
    "Variable",
]


@op(differentiable=False)
class Update(Op):
    """The version of a Variable that an assignment makes: (old version, value).

    An explicit one is refused if its Variable has another value by then; of others the
    last one wins.
    """

    variable: Any = None
    explicit: bool = False
    family = "state"
    arity = 2

    def infer(self, *types: Type) -> Type:
        variable: Variable = self.variable
        return variable.type

    def numpy(self, *arrays: Any) -> Array:
        return arrays[1]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return None, None

    def __repr__(self) -> str:
        return f"Update({self.variable.name!r})"


class Variable(Operand):
    """A named array that assignments change; in an expression it is its newest version.

    Creation order is effect order: an expression keeps the version it read. Without
    `copy` an initial array of the right type is taken over: nobody may write it then.

    >>> v = td.Variable([1.0, 2.0], name="v")
    >>> before = v * 10
    >>> v += 1
    >>> v.numpy(), before.numpy()
    (array([2., 3.], dtype=float32), array([10., 20.], dtype=float32))
    """

    __slots__ = (
        "__weakref__", "_grad", "_trainable", "_type", "allowed", "assigned",
        "committed", "frozen", "metadata", "name", "numbers", "plans", "sparse",
        "version", "wanted",
    )  # fmt: skip
    persistent: ClassVar[bool] = True  # or at its initial value again after each run

    def __init__(
        self,
        initial: Any = 0.0,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = False,
        axes: Any = None,
        sparse: bool = False,
        copy: bool = True,
    ) -> None:
        value = initial.numpy() if isinstance(initial, Operand) else initial
        array = to_array(value, dtype, copy)
        if not copy and isinstance(value, np.ndarray):
            value.flags.writeable = False
        type_ = Type(array.shape, OWN[array.dtype], as_names(axes, array.shape))
        array.flags.writeable = False
        known = named(name, "variable")
        self._begin(type_, known, Version(self), array, trainable, sparse)
        if not copy and is_lent(array):
            # One more reference: no run takes this version's memory for the next.
            self.committed.mark = {"lent": array}

    def _begin(
        self,
        type_: Type,
        name: str,
        version: Op,
        array: Array | None,
        trainable: bool = False,
        sparse: bool = False,
    ) -> None:
        self._type, self.name = type_, name
        self.metadata: dict[str, Any] = Remarks()
        self._grad: Tensor | None = None
        self.plans: Any = None  # of runs that assign it first (runtime/evaluate.py)
        self.numbers: tuple[int, int] | None = None  # in keys of graphs (look.py)
        self.frozen: Variable | None = None
        self.sparse = sparse
        self.version: Op = version
        self.assigned: Op = Update(self)  # the op of its Updates that are not explicit
        self.allowed = True  # by the modules around it
        self.trainable = trainable
        self.committed = Tensor(version, (), type_, array)

    def begin_as(
        self, node: Tensor, type_: Type, name: str | None, trainable: bool
    ) -> None:
        """Have a graph for the first value; it runs once, with what reads it first."""
        known = named(name, "variable")
        self._begin(type_, known, Version(self), None, trainable)
        self.committed = Update(self)(_blank(type_), self.fitting(node))

    @property
    def type(self) -> Type:
        """Shape, dtype and axis names, the same for all versions."""
        return self._type

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` has accumulated."""
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        give_gradients([self], [None if value is None else as_tensor(value)])

    @property
    def trainable(self) -> bool:
        """True if optimizers without a list update it; modules around it may forbid."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        if value and not is_inexact(self._type.dtype):
            raise DTypeError(f"{self._type} has no derivatives, so it is not trainable")
        self.wanted = bool(value)
        self._trainable = self.wanted and self.allowed
        changed()
        if self.wanted and not self.allowed:
            unheard(self.name)

    requires_grad = trainable

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `trainable`, which torch calls so."""
        self.trainable = requires_grad
        return self

    def allow(self, value: bool) -> None:
        """Let it train if it is set to, or not: what the modules around it tell."""
        if value != self.allowed:
            self.allowed = value
            self._trainable = self.wanted and value
            changed()

    def node(self) -> Tensor:
        return local.state.frames[-1].read(self)

    def assign(self, value: Any) -> Tensor:
        """Make `value` (cast to the dtype, broadcast to the shape) the next version for
        all threads. Returns the Update: it runs with the next evaluation of this one or
        the first that needs it; under `td.explicit_updates()` only where it is named.
        """
        return update_all([(self, value)])[0]

    def update_from(self, base: Tensor, fitting: Tensor, explicit: bool) -> Tensor:
        """The Update that an assignment makes, which nobody sees yet."""
        read = _blank(self._type) if isinstance(base.op, Unbound) else base
        op = Update(self, True) if explicit else self.assigned
        return new_node(op, (read, fitting), self._type)

    def fitting(self, value: Any) -> Tensor:
        """A value as it is assigned: cast, and broadcast."""
        if isinstance(value, Operand):
            node = unshared(value.node())
        else:
            node = as_tensor(to_array(value, self._type.dtype))
        if node.type.dtype != self._type.dtype:
            node = functions.astype(node, self._type.dtype)
        shape = node.type.shape
        if shape != self._type.shape:
            if broadcast_shapes(shape, self._type.shape) != self._type.shape:
                raise ShapeError(
                    f"{node.type} cannot be assigned to variable {self.name!r} "
                    f"of type {self._type}"
                )
            node = functions.broadcast_to(node, self._type.shape)
        return node

    def commit(self, update: Tensor) -> None:
        """Make an evaluated Update the stored version; it becomes a leaf."""
        for around in modes.get().transactions:
            around.note(self, update)
        cut(update, self.version)
        self.committed = update

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the accumulated gradient."""
        only_none(set_to_none)
        self.grad = None

    def freeze_rows(self, ids: Any) -> None:
        """Have optimizers leave these rows as they are, and no others; None: all move.

        Their part of a gradient counts as 0, also in its norm. A function in which an
        optimizer steps is to be traced after a parameter's first rows are frozen.

        >>> table = td.lookup("table", (3, 1), init=1.0)
        >>> table.freeze_rows([0, 2])
        >>> _ = td.optim.Adam(lr=0.5).step(td.rows(table, [0, 1]).sum())
        >>> table.numpy().ravel().round(3).tolist()
        [1.0, 0.5, 1.0]
        """
        rows = self._type.shape[0] if self._type.shape else 0
        mask = np.zeros(rows, np.bool_)
        known = np.asarray([] if ids is None else whole(ids))
        if known.dtype == np.bool_ and known.shape == mask.shape:
            mask |= known
        elif known.size:
            known = known.reshape(-1)
            if known.dtype.kind not in "iu":
                raise DTypeError(f"rows are frozen by whole numbers, got {known.dtype}")
            if known.min() < -rows or known.max() >= rows:
                raise ShapeError(f"{self.name!r} has {rows} rows, not one {ids!r}")
            mask[known] = True
        if self.frozen is not None:
            self.frozen.assign(mask)
        elif ids is not None:
            self.frozen = Variable(mask, name=f"{self.name}/frozen")
            changed()

    def __getitem__(self, key: Any) -> Tensor:
        if type(key) is int:
            choose = functions.row_step if self.sparse else functions.item_step
            step = choose(self.node(), key)
            if step is not None:
                return self._item(key, *step)
        item = functions.getitem(self, key)
        return self._item(key, item.op, item.inputs, item.type)

    def _item(
        self, key: Any, op: Op, inputs: tuple[Tensor, ...], type_: Type
    ) -> Tensor:
        item: Any = new_node(op, inputs, type_, 3, None, VariableItem)
        item.variable, item.key = self, key
        return item

    def __setitem__(self, key: Any, value: Any) -> None:
        self.assign(functions.at(self)[key].set(value))

    def __iadd__(self, other: Any) -> Variable:  # type: ignore[override]
        self.assign(self + other)
        return self

    def __isub__(self, other: Any) -> Variable:  # type: ignore[override]
        self.assign(self - other)
        return self

    def __imul__(self, other: Any) -> Variable:  # type: ignore[override]
        self.assign(self * other)
        return self

    def __itruediv__(self, other: Any) -> Variable:  # type: ignore[override]
        self.assign(self / other)
        return self

    def __repr__(self) -> str:
        kind, frame = type(self).__name__, thread_state().frames[-1]
        value = self.committed.array
        if frame.tracing or id(self) in frame.versions or value is None:
            return f"{kind}({self.name!r}, {self._type})"
        text = np.array2string(value, threshold=20, separator=", ", prefix="  ")
        return f"{kind}({self.name!r}, {self._type}, {text})"

    def _repr_html_(self) -> str:
        return f"<pre>{escaped(repr(self))}</pre>"

    def __copy__(self) -> Variable:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy._type, copy.name, copy.sparse = self._type, self.name, self.sparse
        copy.metadata, copy.grad = Remarks(self.metadata), self.grad
        copy.plans = copy.numbers = None
        copy.frozen = None if self.frozen is None else self.frozen.__deepcopy__({})
        copy._trainable, copy.wanted = self._trainable, self.wanted
        copy.allowed = self.allowed
        copy.version = type(self.committed.op)(copy)  # type: ignore[call-arg]
        copy.assigned = Update(copy)
        known = not isinstance(self.committed.op, Unbound)
        value = functions.settled(self).stored if known else None
        copy.committed = Tensor(copy.version, (), self._type, value)
        return copy


class VariableItem(Tensor):
    """A part of a Variable: an ordinary tensor that can also be assigned."""

    __slots__ = ("key", "variable")

    variable: Variable
    key: Any

    def assign(self, value: Any) -> Tensor:
        """Assign this part of the Variable."""
        return self.variable.assign(functions.at(self.variable)[self.key].set(value))


class Parameter(Variable):
    """A Variable that training changes."""

    __slots__ = ()

    def __init__(
        self, initial: Any = 0.0, *, trainable: bool = True, **settings: Unpack[Keys]
    ) -> None:
        super().__init__(initial, trainable=trainable, **settings)


class Placeholder(Variable):
    """A Variable to be given a value by `td.computation`; may have an initial one."""

    __slots__ = ()

    def __init__(
        self,
        shape: Any = (),
        dtype: Any = None,
        *,
        name: str | None = None,
        axes: Any = None,
        initial_value: Any = None,
    ) -> None:
        wanted = as_dtype(dtype) if dtype is not None else current().dtype
        extents = as_shape(shape)
        known = named(name, "placeholder")
        if initial_value is None:
            type_ = Type(extents, wanted, as_names(axes, extents))
            self._begin(type_, known, Unbound(self), None)
        else:
            start = np.broadcast_to(to_array(initial_value, wanted), extents)
            super().__init__(start, name=known, axes=axes)

    def commit(self, update: Tensor) -> None:
        for around in modes.get().transactions:
            around.note(self, update)
        self.version = Version(self)
        super().commit(update)


def _blank(type_: Type) -> Tensor:
    """The stand-in for an old version that is not there; it takes no memory."""
    nothing = np.broadcast_to(np.zeros((), type_.dtype), type_.shape)
    return Tensor(CONSTANT, (), type_, nothing)


def variable_of(node: Tensor) -> Variable | None:
    """The Variable of which a node is a version: stored, pending or read in a trace."""
    variable: Variable | None = getattr(node.op, "variable", None)
    if variable is None and node.mark is not None:
        variable = node.mark.get("variable")
    return variable


if native is not None:
    native.bind_assign(Variable, Version, Update, Frame, Type)
