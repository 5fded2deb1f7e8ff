"""The boundary to users: what a public call raises is a TreadleError or their own.

Rules check what they know of; what they do not is refused here, once for all calls: a
Python or NumPy error of the library's inner code names neither the call nor a remedy.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from functools import wraps
from types import FunctionType, TracebackType
from typing import Any

from treadle.base.caches import cached
from treadle.base.errors import CallError, RunError, TreadleError
from treadle.base.locks import imported
from treadle.base.torch.arguments import ABSENT, RENAMED, asks_nothing
from treadle.base.types import Type

__tracebackhide__ = True  # of frames here, by pytest

RAW = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
# Layers that see no arguments of users: what fails in them is a fault of theirs.
INSIDE = frozenset(("batch", "rewrite", "loops", "program", "engines"))
# Functions that give something else in torch when they are called so.
_PAIR = (
    "torch gives values and their places: here td.{0}(x, axis) and td.arg{0}(x, axis)"
)
OTHERWISE = {
    "cumulative_max": "torch gives values and places, this values alone: axis=...",
    "max": _PAIR.format("max"),
    "median": "torch gives values and their places, this the mean of two middle ones "
    "alone: td.median(x, axis)",
    "min": _PAIR.format("min"),
    "sort": _PAIR.format("sort"),
    "std": "torch divides by n - 1: td.std(x, axis, correction=1)",
    "var": "torch divides by n - 1: td.var(x, axis, correction=1)",
}
SHOWN = 60  # characters of an argument in a message
_FULL = os.environ.get("TREADLE_TRACEBACK") == "full"
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def refusal(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], error: Exception
) -> Exception:
    """The error of a call for one that inner code raised."""
    if _layer(error.__traceback__) in INSIDE:
        fault = RunError(
            f"failed inside Treadle, by a {type(error).__name__}",
            hint="please report it with the error above; until it is mended, "
            "td.options(optimize=False) may go around it",
        )
        return fault.located(f.__name__)
    unfit = _unfit([*args, *kwargs.values()], error)
    name, args, parameters = _called(f, args)
    shown = [*map(_shown, args), *[f"{k}={_shown(x)}" for k, x in kwargs.items()]]
    form = ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)
    refused = CallError(
        f"calls a function that does not fit: {unfit}"
        if unfit
        else f"does not take ({', '.join(shown)})",
        hint=f"it is called as {name}({form})",
    )
    return refused.located(name)


def _unfit(given: Sequence[Any], error: Exception) -> str:
    """What Python says of a caller's function that does not take what it is called
    with; nothing of other errors."""
    functions = [getattr(x, "__wrapped__", x) for x in given]
    names = [x.__qualname__ for x in functions if isinstance(x, FunctionType)]
    text = str(error) if isinstance(error, TypeError) else ""
    return text if any(text.startswith(f"{name}() ") for name in names) else ""


def _called(
    f: Callable[..., Any], args: Sequence[Any]
) -> tuple[str, Sequence[Any], list[inspect.Parameter]]:
    """The name of a called function, its arguments and parameters, without self."""
    name, parameters = f.__name__, list(inspect.signature(f).parameters.values())
    if parameters and parameters[0].name in ("self", "cls") and args:
        owner = args[0] if isinstance(args[0], type) else type(args[0])
        name = owner.__name__ if name == "__init__" else f"{owner.__name__}.{name}"
        return name, args[1:], parameters[1:]
    return name, args, parameters


def _answered(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Exception | None:
    """The error of a call in torch's form, with what is done here in its place."""
    name, args, parameters = _called(f, args)
    names = [p.name for p in parameters]
    for word in kwargs:
        if word not in names and word in ABSENT:
            hint = f"in its place here: {ABSENT[word]}"
            return CallError(f"takes no {word!r}", hint=hint).located(name)
    if names[:1] == ["shape"] and all(isinstance(n, int) for n in args):
        extents = ", ".join(map(str, args))
        hint = f"extents are one tuple: td.{name}(({extents}))"
        return CallError(f"does not take ({extents})", hint=hint).located(name)
    return None


def _is_of_call(f: Callable[..., Any], error: Exception) -> bool:
    """Whether an error is of the call itself, or of one that a wrapper hands on."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None and hasattr(f, "__wrapped__"):
        frame, f = frame.tb_next, f.__wrapped__
    return frame is None or frame.tb_next is None


def _layer(frame: TracebackType | None) -> str:
    """The folder of the package that the innermost frame of it stands in."""
    layer = ""
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if name.startswith(_HOME):
            layer = name.removeprefix(_HOME).partition(os.sep)[0]
        frame = frame.tb_next
    return layer


def _is_raw(error: Exception) -> bool:
    """Whether inner code raised it: not on purpose, nor Python for the call, nor any
    code but the library's and what that is built on.
    """
    frame = error.__traceback__ and error.__traceback__.tb_next
    if frame is None or hasattr(error, "located"):
        return False
    while frame is not None:
        if not _ours(frame):
            return False
        frame = frame.tb_next
    return True


def _ours(frame: TracebackType) -> bool:
    """Return True for code of the library or of what that is built on."""
    name = frame.tb_frame.f_code.co_filename
    built_on = ("<frozen", "<__array", *of_python())
    return _is_of_library(frame) or name.startswith(built_on)


def _is_of_library(frame: TracebackType) -> bool:
    """Return True for the library's own code; a dataclass's written stands in a string,
    as a program of `python -c` does."""
    code, names = frame.tb_frame.f_code, frame.tb_frame.f_globals
    if code.co_filename == "<string>":
        return str(names.get("__name__")).startswith("treadle.")
    return code.co_filename.startswith(_HOME)


@cached(1)
def of_python() -> tuple[str, ...]:
    """The folders of Python and of what is installed for it."""
    get_path = imported("sysconfig").get_path
    return tuple(get_path(k) for k in ("stdlib", "purelib", "platlib"))


def _shown(x: Any) -> str:
    """An argument in few characters: of arrays and the like the kind."""
    kind, shape = getattr(x, "type", None), getattr(x, "shape", None)
    if isinstance(kind, Type):
        return repr(kind)
    if isinstance(shape, tuple):
        return f"{type(x).__name__} {getattr(x, 'dtype', '')}{list(shape)}"
    try:
        text = repr(x)
    except Exception:
        return type(x).__name__
    return text if len(text) <= SHOWN else f"{type(x).__name__} {text[:SHOWN]}..."


def shorten(error: TreadleError) -> None:
    """Drop the library's frames from the traceback of an error that it raised, and all
    where no other code is among them, unless TREADLE_TRACEBACK is "full".
    """
    frames, frame = [], error.__traceback__
    while frame is not None:
        frames.append(frame)
        frame = frame.tb_next
    if _FULL or not frames:
        return
    shown = None
    if not all(map(_ours, frames[1:])):
        for frame in reversed(frames):
            if not _is_of_library(frame):
                at = frame.tb_lasti, frame.tb_lineno
                shown = TracebackType(shown, frame.tb_frame, *at)
    error.__traceback__ = shown


def guarded(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function; what its inner code raises is refused as the call is made."""

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except TreadleError as error:
            shorten(error)
            raise
        except RAW as error:
            renamed = _renamed(f, kwargs) if kwargs else None
            if renamed is None:
                if _is_of_call(f, error):
                    answer = _answered(f, args, kwargs)
                    if answer is not None:
                        raise answer from None
                if not _is_raw(error):
                    raise
                # By no name here: an error that its own frame names is a cycle.
                raise refusal(f, args, kwargs, error) from error
        return call(*args, **renamed)

    return call


def _renamed(f: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments under the names that `f` has for them, without those that ask for
    nothing, where a call that Python refused had torch's; None of any other call.
    """
    names = inspect.signature(f).parameters
    if any(p.kind is p.VAR_KEYWORD for p in names.values()):
        return None
    renamed = {
        word: name
        for word in kwargs.keys() - names.keys()
        for name in RENAMED.get(word, ())
        if name in names and name not in kwargs
    }
    if renamed and f.__name__ in OTHERWISE and "correction" not in kwargs:
        message = f"means something else in torch where {min(renamed)} is given"
        raise CallError(message, hint=OTHERWISE[f.__name__]).located(
            f.__name__
        ) from None
    idle = {k for k, x in kwargs.items() if k not in names and asks_nothing(k, x)}
    if not renamed and not idle:
        return None
    return {renamed.get(k, k): x for k, x in kwargs.items() if k not in idle}


HANDS_ON = guarded(_shown).__code__  # of all such functions


def guard(
    names: dict[str, Any], hot: type | tuple[()] = (), ops: type | tuple[()] = ()
) -> None:
    """Guard the functions of a namespace, and how objects of its classes are made and
    asked; of `hot` classes, which are asked for each node, only how they are made and
    what takes an axis, and of `ops` nothing.
    """
    whole = BaseException, *((ops,) if ops else ())
    for name in names.get("__all__", list(names)):
        value = names[name]
        if name[:1] != "_" and _is_public(value):
            function: Any = vars(value).get("guarded")  # of another namespace, too
            if function is None:
                vars(value)["guarded"] = function = guarded(value)
                function.__module__, function.__qualname__ = (
                    names["__name__"],
                    name,
                )  # to pickle
            names[name] = function
        elif isinstance(value, type) and not issubclass(value, whole):
            for cls in value.__mro__:
                if cls.__module__.startswith("treadle."):
                    _guard_class(cls, issubclass(cls, hot))


def _guard_class(cls: type, hot: bool) -> None:
    for name, value in list(vars(cls).items()):
        if name != "__init__" and (name[:1] == "_" or _is_light(name, value, hot)):
            continue
        bound = isinstance(value, (classmethod, staticmethod))
        if _is_public(value.__func__ if bound else value):
            function: Any = guarded(value.__func__ if bound else value)
            if "." not in function.__qualname__:  # examples need names of its module
                function.__doc__ = (function.__doc__ or "").split(">>>")[0].rstrip()
            function.__module__ = cls.__module__  # to pickle, under a second name too
            function.__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, type(value)(function) if bound else function)


def _is_light(name: str, value: Any, hot: bool) -> bool:
    """Whether it is what a layer of one operand computes, or an operand of each node
    that takes no axes: nodes, and little more."""
    code = getattr(value, "__code__", None)
    parameters = code.co_varnames[: code.co_argcount] if code else ()
    return (name == "forward" and parameters == ("self", "x")) or (
        hot and "axis" not in parameters
    )


def _is_public(f: Any) -> bool:
    """Whether a function is the library's, and not guarded yet."""
    ours = isinstance(f, FunctionType) and f.__module__.startswith("treadle.")
    return ours and f.__code__ is not HANDS_ON
