"""Parameter groups: which parameters share a learning rate and a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.caches import Cache
from treadle.base.dtypes import float64
from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.optim.stamp import Stamped
from treadle.optim.transform import Transform, moving
from treadle.runtime.store import store

Rate = Any
Rule = Callable[..., Transform]
_PLAIN = {bool, int, float, str, type(None)}
_rules: Cache[Any, Transform] = Cache("rules by their settings", 64)


class Group(Stamped):
    """Parameters (None: all that no other group names) with their rate and rule."""

    def __init__(
        self,
        parameters: Sequence[Variable] | None,
        lr: Rate,
        rule: Transform,
        settings: Mapping[str, Any],
    ) -> None:
        self.parameters = parameters
        self.rule = rule
        self.settings = settings
        self._rate: Any = None
        self.lr = lr

    @property
    def lr(self) -> Rate:
        """The learning rate: what was given, or the number it was set to last."""
        return float(self._rate) if self.owns_rate else self._rate

    @lr.setter
    def lr(self, rate: Rate) -> None:
        if isinstance(rate, Operand) or callable(rate):
            self._rate, self.owns_rate = rate, False
            return
        if not isinstance(rate, (int, float, np.number)):
            raise ArgumentError(
                f"a learning rate is a number, a Variable or a schedule, not {rate!r}"
            )
        number = float(rate)
        if not number >= 0.0:
            raise ArgumentError(f"a learning rate is not negative, got {rate!r}")
        if self._rate is not None and self.owns_rate:
            store([(self._rate, number)])
        else:
            self._rate = Variable(number, name="learning_rate", dtype=float64)
            self.owns_rate = True

    @property
    def own_rate(self) -> Variable | None:
        """The Variable that holds the rate if it was given as a number."""
        return self._rate if self.owns_rate else None

    def by_rows(self, p: Variable, wanted: bool | None) -> bool:
        """Whether the rows of a sparse gradient are all that changes of a parameter: as
        is `wanted`, as the parameter is, or because the rule leaves the others anyway.
        """
        rows = p.sparse or self.rule.rests if wanted is None else wanted
        return rows and self.rule.by_rows

    def sign(self) -> tuple[Any, ...] | None:
        """The key of the group's update, the rate left out; None where
        the rule may make another graph at each step."""
        if not self.rule.fixed:
            return None
        known = self.parameters
        return self.rule, None if known is None else tuple(map(id, known))

    def rate(self, step: Tensor) -> Tensor:
        """The learning rate after `step` finished steps, as an expression."""
        schedule = self._rate
        rate = schedule(step) if not isinstance(schedule, Operand) else schedule
        return as_tensor(rate, float64).astype(float64)

    def __repr__(self) -> str:
        count = "all" if self.parameters is None else len(self.parameters)
        return f"Group(parameters={count}, lr={self.lr})"


Work = list[tuple[Group, Variable, Tensor]]  # parameters with their gradients


@dataclass(frozen=True)
class Now:
    """The count of finished steps, and the rate of each group, as expressions."""

    step: Tensor
    rates: list[Tensor]

    def roots(self) -> list[Tensor]:
        """The nodes of several expressions, each once."""
        return list({x.serial: x for x in (self.step, *self.rates)}.values())


def parameters_of(source: Any) -> list[Variable]:
    """Variables from one, an iterable of them, or what has a method parameters()."""
    if isinstance(source, Variable):
        return [source]
    method = getattr(source, "parameters", None)
    if callable(method):
        source = method()
    if isinstance(source, Mapping):
        source = source.values()
    unique: dict[int, Variable] = {}
    for item in source:
        if not isinstance(item, Variable):
            raise ArgumentError(
                f"an optimizer changes parameters, not {type(item).__name__}",
                hint="pass model.parameters(), or nothing for all the loss reaches",
            )
        unique[id(item)] = item
    return list(unique.values())


def named(groups: Sequence[Group], only: Set[int] | None = None) -> set[int] | None:
    """Ids of the parameters that groups may train, `only` some; None where one has no
    list and any may be.
    """
    ids: set[int] = set()
    for group in groups:
        if group.parameters is None:
            return None if only is None else set(only)
        ids.update(map(id, group.parameters))
    return ids if only is None else ids & only


@dataclass(frozen=True)
class GroupMaker:
    """What makes an optimizer's groups: its rate, its rule and the rule's settings."""

    lr: Rate
    rule: Rule
    settings: Mapping[str, Any]
    end: Mapping[str, Any]  # the arguments of `moving`

    def groups(self, params: Any) -> list[Group]:
        """The groups meant by an optimizer's first argument.

        It is None, parameters, or a list of dicts {"params": ..., "lr": ...,
        setting: ...}.
        """
        if params is None:
            return [self.group({"params": None})]
        if not isinstance(params, (Variable, Mapping)) and not callable(
            getattr(params, "parameters", None)
        ):
            params = list(params)
            if params and all(isinstance(entry, dict) for entry in params):
                return self.more([], params)
        return [self.group({"params": parameters_of(params)})]

    def more(self, groups: list[Group], entries: Sequence[Any]) -> list[Group]:
        """The groups and those of more dicts; no parameter is in two."""
        return _distinct([*groups, *map(self.group, entries)])

    def group(self, entry: Mapping[str, Any]) -> Group:
        """The group of a dict."""
        changed = dict(entry)
        if "params" not in changed:
            raise ArgumentError('a parameter group is a dict with "params"')
        chosen, rate = changed.pop("params"), changed.pop("lr", self.lr)
        unknown = [name for name in changed if name not in self.settings]
        if unknown:
            raise ArgumentError(
                f"a parameter group has no setting {unknown[0]!r}",
                hint=f"settings: {', '.join(['params', 'lr', *self.settings])}",
            )
        settings = {**self.settings, **changed}
        parameters = None if chosen is None else parameters_of(chosen)
        return Group(parameters, rate, self._rule_of(settings), settings)

    def _rule_of(self, settings: Mapping[str, Any]) -> Transform:
        """The rule with these settings; one for all groups where they are plain."""
        pairs = [*settings.items(), *self.end.items()]
        if not settings or not all(_is_plain(x) for _, x in pairs):
            return moving(self.rule(**settings), **self.end)
        key = self.rule, *[(name, repr(x)) for name, x in pairs]
        known = _rules.get(key)
        if known is None:
            _rules[key] = known = moving(self.rule(**settings), **self.end)
        return known


class ParameterGroup(MutableMapping[str, Any]):
    """A group of parameters as torch shows it: "params", "lr" and the rule's settings.

    Only "lr" can be set: a number, a Variable or a schedule.

    >>> x = td.param("x", init=2.0)
    >>> opt = td.optim.SGD([x], lr=0.5, momentum=0.9)
    >>> for group in opt.param_groups:
    ...     group["lr"] *= 0.5
    >>> opt.lr, opt.param_groups[0]["momentum"]
    (0.25, 0.9)
    """

    def __init__(self, group: Group) -> None:
        self._group = group

    def __getitem__(self, name: str) -> Any:
        if name == "params":
            return list(self._group.parameters or ())
        return self._group.lr if name == "lr" else self._group.settings[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name != "lr":
            raise ArgumentError(
                f"of a parameter group only 'lr' is set, not {name!r}",
                hint="make an optimizer with other settings; load_state_dict has it "
                "go on",
            )
        self._group.lr = value

    def __delitem__(self, name: str) -> None:
        raise ArgumentError(f"{name!r} of a parameter group cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(("params", "lr", *self._group.settings))

    def __len__(self) -> int:
        return 2 + len(self._group.settings)

    def __repr__(self) -> str:
        return f"ParameterGroup({dict(self)})"


def _is_plain(x: Any) -> bool:
    return all(map(_is_plain, x)) if type(x) is tuple else type(x) in _PLAIN


def _distinct(groups: list[Group]) -> list[Group]:
    seen: set[int] = set()
    for group in groups:
        for p in group.parameters or ():
            if id(p) in seen:
                raise ArgumentError(f"parameter {p.name!r} is in two groups")
            seen.add(id(p))
    if np.sum([group.parameters is None for group in groups]) > 1:
        raise ArgumentError("only one group can take the remaining parameters")
    return groups
