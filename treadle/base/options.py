"""The settings of a task: an immutable record, `with options(...)`."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields, replace
from typing import Any, Unpack

from treadle.base import dtypes
from treadle.base.caches import lazy
from treadle.base.errors import OptionError, TreadleError
from treadle.base.keywords import OptionSettings
from treadle.base.sizes import as_bytes
from treadle.base.types import as_integer

__all__ = [
    "autocast",
    "options",
    "set_options",
]


class SeedScope:
    """A seed and the count of draws taken from it: all the state randomness has."""

    def __init__(self, seed: int, count: int = 0) -> None:
        self.seed = seed
        self.count = count

    def draw(self, count: int = 1) -> tuple[int, int]:
        """The seed and the next draw number, the first of `count` that are taken."""
        number = self.count
        self.count = number + count
        return self.seed, number

    def __deepcopy__(self, memo: object) -> SeedScope:
        return SeedScope(self.seed, self.count)


@dataclass(frozen=True, eq=False)
class Compilation:
    """The options that decide what a graph is compiled to: a part of the key of every
    cache of what is. The same options are the same object, and hashed as such.
    """

    engine: str
    workspace: int
    threads: int  # only where a workspace has to do for so many
    dtype: dtypes.DType
    optimize: bool
    check: bool
    arena: str
    rules: tuple[Any, ...]
    autobatch: bool
    autocast: dtypes.DType | None

    __eq__ = object.__eq__
    __hash__ = object.__hash__


_compilations: weakref.WeakValueDictionary[Any, Compilation]
_compilations = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class Options:
    """The options that a thread's graphs are built and run with.

    engine: "auto" or the name of an engine; dtype: of Python floats and new
    parameters; seed: of the draws made under it; eager: evaluate each node when it is
    built; check: verify a graph before it runs, and hold the values after each stage of
    its rewriting, and the engine's, against the reference's. threads, workspace,
    optimize and arena are for engines that plan: the reference engine has nothing to
    choose. workspace: the bytes a run may take beside its inputs and results (0: any),
    a number or a text such as "512 MB"; where they are short, values are computed
    again, and a graph that needs more is refused. reserve: the bytes that are kept
    ready for that from now on, which is told in the log.
    arena: "fast", or to find faults of kernels "poison" (NaN before and after use) or
    "guard" (each buffer beside a protected page). rules: rewriting rules of your own,
    used beside the standard ones wherever a graph is optimized. autobatch: whether
    nodes that do the same to different operands are done together where that pays.
    check_numerics: refuse a run with NaN or an infinity in its results, and name the
    first node that made it, before any Variable has changed. autocast: the dtype, of
    16 bits, that products take float32 operands in (`td.autocast`); None for none.
    """

    engine: str = "auto"
    threads: int = 0
    workspace: int = 0
    reserve: int = 0
    dtype: dtypes.DType = dtypes.float32
    seed: int = 0
    optimize: bool = True
    eager: bool = False
    check: bool = False
    arena: str = "fast"
    rules: tuple[Any, ...] = ()
    autobatch: bool = True
    check_numerics: bool = False
    autocast: dtypes.DType | None = None
    scope: SeedScope = field(default_factory=lambda: SeedScope(0), compare=False)

    @lazy
    def compilation(self) -> Compilation:
        """The options that decide what a graph is compiled to."""
        chosen = {f.name: getattr(self, f.name) for f in fields(Compilation)}
        chosen["threads"] = self.threads if self.workspace else 0
        compilation = Compilation(**chosen)
        return _compilations.setdefault(tuple(chosen.values()), compilation)

    @lazy
    def planned(self) -> Compilation | None:
        """The same for runs that make values alone; None where they do more."""
        more = self.eager or self.check or self.check_numerics
        return None if more else self.compilation


SETTINGS = tuple(f.name for f in fields(Options) if f.name != "scope")
ARENAS = ("fast", "poison", "guard")
_engines: set[str] = {"auto"}
_numbered: set[str] = set()  # of several devices
_watchers: list[Callable[[Options, Options], None]] = []


def register_engine(name: str, numbered: bool = False) -> None:
    """Make `name` a value the option `engine` takes, if it is `numbered` also with ":"
    and the number of a device."""
    _engines.add(name)
    if numbered:
        _numbered.add(name)


def _is_engine(value: Any) -> bool:
    name, _, number = str(value).partition(":")
    return value in _engines or (name in _numbered and number.isdecimal())


def engines() -> tuple[str, ...]:
    """The names the option `engine` takes."""
    return tuple(sorted(_engines))


def on_change(watcher: Callable[[Options, Options], None]) -> None:
    """Call `watcher` with a task's options, and those that they have become."""
    _watchers.append(watcher)


def _count(name: str, value: Any) -> int:
    number = as_integer(value)
    if number is None:
        raise OptionError(f"option {name!r} takes a whole number, not {value!r}")
    if number < 0:
        raise OptionError(f"option {name!r} takes no negative number, got {number}")
    return number


def _bytes(name: str, value: Any) -> int:
    """A number of bytes, which may be written with a unit."""
    count = as_bytes(value) if isinstance(value, str) else value
    if count is None:
        raise OptionError(
            f"option {name!r} is a number of bytes, not {value!r}",
            hint='a number, or a text such as "512 MB" or "2 GiB"',
        )
    return _count(name, count)


def rules_of(value: Any) -> tuple[Any, ...]:
    """A tuple of rules from a list of them and of rule sets."""
    if isinstance(value, (str, type)) or not hasattr(value, "__iter__"):
        raise OptionError(f"'rules' is a list of rules, not {value!r}")
    rules: list[Any] = []
    for rule in value:
        several = hasattr(rule, "__iter__") and not isinstance(rule, type)
        rules += list(rule) if several else [rule]
    for rule in rules:
        if not (hasattr(rule, "left") and hasattr(rule, "right")):
            raise OptionError(f"{rule!r} is no rule", hint="make it with td.Rule(...)")
    return tuple(rules)


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in SETTINGS:
            raise OptionError(
                f"there is no option {name!r}", hint=f"options: {', '.join(SETTINGS)}"
            )
        if name in ("workspace", "reserve"):
            checked[name] = _bytes(name, value)
        elif name in ("threads", "seed"):
            checked[name] = _count(name, value)
        elif name == "dtype":
            checked[name] = dtypes.as_dtype(value)
            if dtypes.kind(checked[name]) != "float":
                raise OptionError(f"option 'dtype' is a float type, not {value!r}")
        elif name == "autocast":
            checked[name] = None if value is None else dtypes.as_dtype(value)
            if value is not None and checked[name] not in dtypes.HALF:
                raise OptionError(
                    f"option 'autocast' is float16, bfloat16 or None, not {value!r}"
                )
        elif name == "rules":
            checked[name] = rules_of(value)
        elif name == "arena":
            if value not in ARENAS:
                raise OptionError(f"option 'arena' is one of {', '.join(ARENAS)}")
            checked[name] = value
        elif name == "engine":
            if not _is_engine(value):
                raise OptionError(
                    f"there is no engine {value!r}",
                    hint=f"engines: {', '.join(engines())}",
                )
            checked[name] = value
        elif not isinstance(value, bool):
            raise OptionError(f"option {name!r} is True or False, not {value!r}")
        else:
            checked[name] = value
    if "seed" in checked:
        checked["scope"] = SeedScope(checked["seed"])
    return checked


def _from_environment() -> Options:
    settings: dict[str, Any] = {}
    truth = {"1": True, "true": True, "0": False, "false": False}
    for name in SETTINGS:
        text = os.environ.get(f"TREADLE_{name.upper()}")
        if text is None:
            continue
        if name == "rules":  # values that no text stands for
            continue
        if name == "engine":  # checked when it is asked for: no engine is known yet
            settings[name] = text
            continue
        value: Any = text
        if name in ("threads", "seed"):
            value = int(text) if text.isdecimal() else text
        elif isinstance(getattr(Options, name, None), bool):
            value = truth.get(text.lower(), text)
        try:
            settings.update(_checked({name: value}))
        except TreadleError as error:
            warnings.warn(f"TREADLE_{name.upper()} ignored: {error}", stacklevel=2)
    return Options(**settings)


_base = _from_environment()


class _ThreadScope(threading.local, SeedScope):
    """The seed scope outside of all others: each thread has a count of its own."""


class Modes:
    """What is around a task, or a thread without tasks: its options, and the scopes it
    is in. It is never changed, but replaced; machine code reads it where it lies, and
    compares `dtype`: what a call makes of numbers and of products. `around` is what it
    adds to the key of a run that makes values alone; None of one that does more."""

    __slots__ = ("around", "dtype", "explicit", "no_grad", "options", "transactions")

    def __init__(
        self,
        options: Options,
        no_grad: int = 0,
        explicit: int = 0,
        transactions: tuple[Any, ...] = (),  # outermost first
    ) -> None:
        self.options = options
        narrow = options.autocast
        self.dtype: Any = options.dtype
        if narrow is not None:
            self.dtype = _PAIRS[options.dtype, narrow]
        self.no_grad, self.explicit = no_grad, explicit
        self.transactions = transactions
        planned = options.planned
        self.around = None if planned is None else (planned, no_grad > 0)


# One object for what numbers become and products take their operands in.
_PAIRS = {(d, narrow): (d, narrow) for d in dtypes.FLOATS for narrow in dtypes.HALF}

_FIELDS = ("options", "no_grad", "explicit", "transactions")
_OUTSIDE = Modes(replace(_base, scope=_ThreadScope(_base.seed)))
modes: ContextVar[Modes] = ContextVar("modes of treadle", default=_OUTSIDE)


def change(**changes: Any) -> Token[Modes]:
    """Replace some of the modes of this task."""
    now = modes.get()
    return modes.set(Modes(**{x: getattr(now, x) for x in _FIELDS} | changes))


def restore(token: Token[Modes], name: str) -> None:
    """Have one of the modes be what it was before a change. In another task than that
    of the change, as where the collector closes a block, nothing is done.
    """
    now = modes.get()
    try:
        modes.reset(token)
    except ValueError:
        return
    before = getattr(was := modes.get(), name)
    if isinstance(before, int):  # a transaction may have closed more
        before = min(before, getattr(now, name))
    wanted = {x: getattr(now, x) for x in _FIELDS} | {name: before}
    if any(getattr(was, x) is not y for x, y in wanted.items()):
        modes.set(Modes(**wanted))


def current() -> Options:
    """The options of this task."""
    return modes.get().options


def _become(options: Options) -> Token[Modes]:
    before, token = current(), change(options=options)
    try:
        for watcher in _watchers:
            watcher(before, options)
    except BaseException:
        restore(token, "options")
        raise
    return token


def autocast(
    device_type: str = "cpu", dtype: Any = "bfloat16", enabled: bool = True
) -> Any:
    """A scope in which products take float32 operands in 16 bits, as torch's autocast.

    Matrix products, einsum, convolutions and attention cast float32 operands to `dtype`
    ("bfloat16" or "float16") and give results of it, summed in float32. Losses, norms
    and what else needs the width give float32 (docs/precision.md has the list).
    Parameters, and with them their gradients and optimizers' states, stay float32.
    `device_type` is there for torch's people. Micikevicius et al. 2018.

    >>> layer = td.nn.Linear(3, 2)
    >>> with td.autocast(dtype="bfloat16"):
    ...     y = layer(td.ones((4, 3)))
    >>> y.dtype.name, layer.weight.dtype.name
    ('bfloat16', 'float32')
    """
    return options(autocast=dtype if enabled else None)


@contextmanager
def options(**settings: Unpack[OptionSettings]) -> Iterator[Options]:
    """Run a block under other settings of this task, or of a thread without tasks.

    Raises OptionError for an unknown name or a value it cannot take.

    >>> with options(dtype="float64", seed=7) as chosen:
    ...     chosen.dtype.name, chosen.seed
    ('float64', 7)
    """
    checked = _checked(dict(settings))
    before, chosen = current(), replace(current(), **checked)
    token = _become(chosen)
    try:
        yield chosen
    finally:
        restore(token, "options")
        for watcher in _watchers:
            watcher(chosen, before)


def set_options(**settings: Unpack[OptionSettings]) -> None:
    """Change the settings of this task, or of a thread without tasks, until they are
    changed again. Tasks that begin later have them, new threads do not.
    """
    _become(replace(current(), **_checked(dict(settings))))
