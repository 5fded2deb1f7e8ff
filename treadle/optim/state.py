"""The state of an optimizer between steps: saved, loaded and compared."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from treadle.base.dtypes import accumulator, as_dtype, float64, whole
from treadle.base.errors import ModelFileError
from treadle.base.types import Type
from treadle.graph.frame import top
from treadle.graph.look import Owned
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.nn.state import Keys, Rename, choose, compare
from treadle.optim.controls import Controls
from treadle.optim.groups import Group, GroupMaker, Now, ParameterGroup, Work
from treadle.optim.stamp import Decisions, Stamped, move_stamp
from treadle.optim.transform import Transform
from treadle.optim.update import MASTER
from treadle.runtime.evaluate import evaluate
from treadle.runtime.store import store

State = dict[str, np.ndarray[Any, Any]]
Common = dict[tuple[Transform, str, bytes], Variable]
_AUTOMATIC = re.compile(r"variable_\d+")


class OptimizerState(Stamped):
    """The count of steps, the rates, and the states of each parameter by name.

    As long as every step updates the same parameters, these have one Variable for each
    of a rule's `counts`.
    """

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]  # of which it was made
    sparse_updates: bool | None

    def __init__(
        self, maker: GroupMaker, params: Any, controls: Controls, masters: bool = True
    ) -> None:
        lasting = _lasting(params)
        args, settings = self._arguments
        self._arguments = (
            tuple(lasting if x is params else x for x in args),
            {k: lasting if x is params else x for k, x in settings.items()},
        )
        groups = maker.groups(lasting)
        self._maker, self._added = maker, list[dict[str, Any]]()
        self.groups, self.controls, self.masters = groups, controls, masters
        self.count = Variable(np.zeros((), np.int64), name="step")
        self._states: dict[int, tuple[str, Variable, dict[str, Variable]]] = {}
        self._rules: dict[int, Transform] = {}
        self._waiting: State = {}
        self._keys: dict[int, str] = {}  # of parameters, by id, that are reserved
        self._decided = Decisions(-1, True, None, None, {})
        self._numbers: Owned = {}  # as `_owned` says
        self._numbered: tuple[int, ...] = ()  # of which
        self._rates = [None if g.owns_rate else g.lr for g in groups]  # at first
        self._parted = 0  # how often what was common was parted

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        optimizer = super().__new__(cls)
        optimizer._arguments = args, settings
        return optimizer

    def __reduce__(self) -> Any:
        # Rules are functions: it is made again as it was, and goes on from its state.
        pairs = zip(self.groups, self._rates, strict=True)
        rates = [None if g.owns_rate or g.lr is rate else g.lr for g, rate in pairs]
        recipe = type(self), self._arguments, self._added, rates
        return _unpickled, (*recipe, self.state_dict())

    def _step(self) -> Tensor:
        return self.count.node().astype(float64)

    def _now(self) -> Now:
        step = self._step()
        return Now(step, [group.rate(step) for group in self.groups])

    @property
    def param_groups(self) -> list[ParameterGroup]:
        """The groups as torch shows them, with "params", "lr" and settings."""
        return [ParameterGroup(group) for group in self.groups]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Update more parameters: {"params": ..., "lr": ..., setting: ...}.

        >>> x, y = td.param("x", init=2.0), td.param("y", init=2.0)
        >>> opt = td.optim.SGD([x], lr=0.25)
        >>> opt.add_param_group({"params": [y], "lr": 0.5})
        >>> _ = opt.step(x * x + y * y)
        >>> float(x), float(y)
        (1.0, 0.0)
        """
        self.groups = self._maker.more(self.groups, [param_group])
        added = self.groups[-1]
        self._added.append({**param_group, "params": added.parameters})
        self._rates.append(None if added.owns_rate else added.lr)

    def restart(self, lr: float | None = None) -> None:
        """Begin anew: first states, no step counted, and another rate if one is given.

        >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.1, momentum=0.9)
        >>> _ = opt.step(x * x); opt.restart(0.5)
        >>> {name: float(array) for name, array in opt.state_dict().items()}
        {'step': 0.0, 'lr.0': 0.5, 'x/momentum': 0.0}
        """
        pairs: list[tuple[Variable, Any]] = [(self.count, np.zeros((), np.int64))]
        for known, (_, p, states) in self._states.items():
            first = self._first(p, self._rules[known])
            pairs += [(states[name], array) for name, array in first.items()]
        store(pairs)
        self._waiting = {}
        for group in self.groups if lr is not None else ():
            group.lr = lr

    def _first(self, p: Variable, rule: Transform) -> State:
        """The first states of a parameter."""
        wide = p.type.with_dtype(accumulator(p.type.dtype))
        states = rule.states(wide)
        if self.masters and wide.dtype != p.type.dtype and rule.move.copies:
            # Zeros are no rounding of the parameter: the first step reads that.
            states[MASTER] = np.zeros(wide.shape, wide.dtype)
        if self.controls.gathers:
            states["accumulated"] = np.zeros(wide.shape, wide.dtype)
        return states

    def _states_in(self, work: Work) -> list[dict[str, Variable]]:
        """The state Variables of the parameters that a step updates."""
        chosen = {id(p) for _, p, _ in work}
        common: Common | None = None if top().tracing else {}
        if common is None or self._outside(chosen):
            self._part()
        return [self._states_of(p, group.rule, common) for group, p, _ in work]

    def _counts(self) -> Iterator[tuple[int, str, str, Variable]]:
        """What parameters may have in common: whose it is, as what, by which name."""
        for known, (key, _, states) in self._states.items():
            for name in self._rules[known].counts:
                yield known, key, name, states[name]

    def _outside(self, chosen: set[int]) -> bool:
        """Whether these parameters have anything in common with others."""
        inside = {id(v) for known, _, _, v in self._counts() if known in chosen}
        return any(id(v) in inside for k, _, _, v in self._counts() if k not in chosen)

    def _part(self) -> None:
        """Give each parameter counts of its own."""
        seen: set[int] = set()
        for known, key, name, v in list(self._counts()):
            if id(v) in seen:
                count = Variable(
                    v.committed.array, name=f"{key}/{name}", dtype=v.type.dtype
                )
                self._states[known][2][name] = count
                self._parted += 1
                self._numbered = ()
            seen.add(id(v))

    def _states_of(
        self, p: Variable, rule: Transform, common: Common | None
    ) -> dict[str, Variable]:
        """The state Variables of a parameter, made when it is first updated: its counts
        may be those in `common` that begin alike."""
        if id(p) in self._states:
            return dict(self._states[id(p)][2])
        key = self._key(p)
        states: dict[str, Variable] = {}
        for name, initial in self._first(p, rule).items():
            loaded = self._waiting.get(f"{key}/{name}")
            if loaded is not None and loaded.shape != initial.shape:
                raise ModelFileError(
                    f"state {key}/{name} has shape {loaded.shape}, "
                    f"the optimizer needs {initial.shape}"
                )
            value = initial if loaded is None else loaded
            variable = Variable(
                value,
                name=f"{key}/{name}",
                dtype=initial.dtype,
                copy=loaded is not None,
            )
            if common is not None and name in rule.counts:
                start = np.asarray(value, initial.dtype).tobytes()
                variable = common.setdefault((rule, name, start), variable)
            states[name] = variable
        self._rules[id(p)] = rule
        self._states[id(p)] = key, p, states
        move_stamp()
        for name in states:
            self._waiting.pop(f"{key}/{name}", None)
        return dict(states)

    def _key(self, p: Variable) -> str:
        """The parameter's name; its position where it has none of its own."""
        if id(p) in self._keys:
            return self._keys[id(p)]
        taken = {key for key, _, _ in self._states.values()} | {*self._keys.values()}
        name = p.name
        if _AUTOMATIC.fullmatch(name):
            name = f"parameter_{max(len(self._states), len(self._keys))}"
        key, k = name, 1
        while key in taken:
            key, k = f"{name}.{k}", k + 1
        return key

    def reserve(self, parameters: Iterable[Variable]) -> None:
        """Name the states of parameters, in this order, before they have any: some of
        them are updated by other ranks."""
        for p in parameters:
            if id(p) not in self._keys:
                self._keys[id(p)] = self._key(p)

    def reserved(self) -> Mapping[int, str]:
        """What states of parameters, by id, are named by, where that is reserved."""
        return self._keys

    def _own_rates(self) -> list[Variable]:
        """The rates that are Variables of the groups'."""
        return [g.own_rate for g in self.groups if g.own_rate is not None]

    def candidates(self, group: Group, read: Sequence[Variable]) -> Sequence[Variable]:
        """The parameters of a group; one without a list takes those nobody names."""
        if group.parameters is not None:
            return group.parameters
        named = {id(p) for other in self.groups for p in other.parameters or ()}
        return [p for p in read if id(p) not in named]

    def _own_states(self) -> list[Variable]:
        """The states of all parameters, each once."""
        every = [v for _, _, states in self._states.values() for v in states.values()]
        return [*{id(v): v for v in every}.values()]

    def _own(self) -> dict[str, Variable]:
        """The state Variables that are kept once for all parameters."""
        return {"step": self.count, **self.controls.states()}

    def state_dict(self) -> State:
        """Everything a later run needs to go on alike: name -> array.

        >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.1, momentum=0.9)
        >>> _ = opt.step(x * x)
        >>> {name: float(array) for name, array in opt.state_dict().items()}
        {'step': 1.0, 'lr.0': 0.1, 'x/momentum': 4.0}
        """
        named = self._state_variables()
        state = dict(zip(named, evaluate(list(named.values())), strict=True))
        return {**state, **self._waiting}

    def _state_variables(self) -> dict[str, Variable]:
        """The Variables of the state by name, rates included."""
        variables = self._own()
        for k, group in enumerate(self.groups):
            if group.own_rate is not None:
                variables[f"lr.{k}"] = group.own_rate
        for key, _, states in self._states.values():
            for name, variable in states.items():
                variables[f"{key}/{name}"] = variable
        return variables

    def _targets(self, names: Container[str]) -> dict[str, Variable]:
        """The Variables that a state with these names is loaded into."""
        rates = {f"lr.{k}" for k in range(len(self.groups))}
        known = self._state_variables().items()
        return {k: v for k, v in known if k in names or k not in rates}

    def check_state(
        self,
        types: Mapping[str, Type | None],
        strict: bool = True,
        wrong: Iterable[tuple[str, list[str]]] = (),
    ) -> Keys:
        """The names without a partner; raises ModelFileError where a state of these
        types, or what else is `wrong` with it, does not let it be loaded."""
        needed = {name: v.type for name, v in self._targets(types).items()}
        known = {k: t for k, t in types.items() if k in needed or not _may_wait(k)}
        return compare(needed, known, strict, type(self).__name__, wrong)

    def load_state_dict(
        self,
        state: Mapping[str, Any],
        strict: bool = True,
        *,
        rename: Rename | None = None,
        prefix: str = "",
    ) -> Keys:
        """Go on from what `state_dict` gave, for parameters of the same names.

        States of parameters that were not updated yet wait for their first step. All is
        taken over or nothing; `strict`, `rename` and `prefix` are as for a Module.

        >>> x, opt = td.param("x", init=2.0), td.optim.Adam()
        >>> _ = opt.step(x * x)
        >>> other = td.optim.Adam()
        >>> _ = other.load_state_dict(opt.state_dict())
        >>> sorted(other.state_dict()) == sorted(opt.state_dict())
        True
        """
        taken = choose(state, rename, prefix)
        pairs = taken.names.items()
        rest = {name: np.array(whole(state[key])) for name, key in pairs}
        types = {k: Type(v.shape, as_dtype(v.dtype)) for k, v in rest.items()}
        keys = self.check_state(types, strict, taken.wrong)
        self._part()
        targets = self._targets(rest)
        store([(v, rest.pop(name)) for name, v in targets.items() if name in rest])
        self._waiting = {k: v for k, v in rest.items() if "/" in k}
        return keys


def _may_wait(name: str) -> bool:
    """Whether a state may belong to a parameter or a group that is not known yet."""
    return "/" in name or name.startswith("lr.")


def _lasting(params: Any) -> Any:
    """What can be gone through again, for copies: of `model.parameters()` its list."""
    if isinstance(params, Iterator):
        params = [*params]
    if not isinstance(params, (list, tuple)):
        return params
    groups = [x for x in params if type(x) is dict and "params" in x]
    if len(groups) < len(params):
        return list(params)
    return [{**x, "params": _lasting(x["params"])} for x in groups]


def _unpickled(
    kind: type[OptimizerState],
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
    added: list[dict[str, Any]],
    rates: list[Any],
    state: State,
) -> OptimizerState:
    """An optimizer of what a pickle says."""
    args, settings = arguments
    optimizer = kind(*args, **settings)
    for entry in added:
        optimizer.add_param_group(entry)
    for group, rate in zip(optimizer.groups, rates, strict=True):
        if rate is not None:
            group.lr = rate
    optimizer.load_state_dict(state)
    return optimizer


def in_order(change: tuple[Variable, Any]) -> int:
    """By what changes are sorted: new versions have the order of those before, by which
    graphs are known again."""
    return change[0].committed.serial
