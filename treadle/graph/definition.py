"""The definition of a body as text, complete to the last bit, and its reading.

One line a node. What a text holds is data: it names ops of the registry, and every node
is made by its op, which checks it as it does a user's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import ALL, DType, as_dtype
from treadle.base.errors import TreadleError
from treadle.base.types import TupleType, Type, as_names
from treadle.graph.body import Body
from treadle.graph.leaves import Argument, Constant, Leaf, Literal
from treadle.graph.op import Op, registry
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable

_TITLE = "treadle graph 1"
_INLINE = 16  # bytes of a constant that stands in the text
_MOST_NODES = 100_000
_LONGEST_LINE = 1 << 16
_DEEPEST = 16
_DTYPES = {dtype.name: dtype for dtype in ALL}
_LINE = re.compile(
    r"%(\d{1,9}) = (.*?)((?: %\d{1,9})*) : (\S+\[[\d, ]*\](?: .*)?|several)"
)
_TYPE = re.compile(r"(\w+)\[([\d, ]*)\](?: named (\(.*\)))?")
_STRING = r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
_TOKEN = re.compile(rf"\s*(?:(-?\d{{1,19}})|([A-Za-z_]\w*)|({_STRING})|([(),=@$]))")


# -- writing -----------------------------------------------------------------------


def define(
    body: Body, variables: Sequence[Variable], keep: Callable[[Array], str]
) -> str:
    """A body and those its ops refer to as text; `keep` names a large constant.

    `variables` are those whose updates the body holds. Raises TreadleError for an op
    that no text can say.
    """
    order = _inner_first(body)
    number = {id(inner): k for k, inner in enumerate(order)}
    places = {id(v): k for k, v in enumerate(variables)}

    def said(value: Any) -> str:
        if isinstance(value, Body):
            return f"@{number[id(value)]}"
        if isinstance(value, Variable) and id(value) in places:
            return f"${places[id(value)]}"
        if isinstance(value, tuple):
            return f"({''.join(said(v) + ', ' for v in value).rstrip()})"
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        if isinstance(value, np.dtype):
            return value.name
        raise TreadleError(f"a {type(value).__name__} cannot be written into a file")

    lines = [_TITLE]
    for k, inner in enumerate(order):
        lines.append(f"body {k} {inner.name!r}")
        lines += _lines(inner, said, keep)
    return "\n".join(lines) + "\n"


def _inner_first(body: Body) -> list[Body]:
    """The bodies a body refers to, each after those it refers to itself."""
    inner_bodies: dict[int, Body] = {}
    stack: list[tuple[Body, bool]] = [(body, False)]
    while stack:
        inner, ready = stack.pop()
        if ready:
            inner_bodies.setdefault(id(inner), inner)
        elif id(inner) not in inner_bodies:
            stack.append((inner, True))
            for node in inner.nodes:
                stack += [
                    (v, False) for _, v in node.op.attributes() if isinstance(v, Body)
                ]
    return list(inner_bodies.values())


def _lines(
    body: Body, said: Callable[[Any], str], keep: Callable[[Array], str]
) -> Iterator[str]:
    arguments = {x.serial for x in body.arguments}
    nodes = [*body.arguments, *[n for n in body.nodes if n.serial not in arguments]]
    number = {node.serial: k for k, node in enumerate(nodes)}
    for k, node in enumerate(nodes):
        type_ = "several" if isinstance(node.type, TupleType) else _type(node.type)
        read = "".join(f" %{number[x.serial]}" for x in node.inputs)
        try:
            head = _head(node, said, keep)
        except TreadleError as error:
            raise error.located(node.op.name, repr(node.type), node.line) from None
        yield f"%{k} = {head}{read} : {type_}"
    yield "return" + "".join(f" %{number[y.serial]}" for y in body.outputs)


def _type(type_: Type) -> str:
    text = f"{type_.dtype.name}[{', '.join(map(str, type_.shape))}]"
    return text if type_.axes is None else f"{text} named {type_.axes!r}"


def _head(
    node: Tensor, said: Callable[[Any], str], keep: Callable[[Array], str]
) -> str:
    """The text of a node before its operands."""
    op = node.op
    if isinstance(op, Argument):
        return "argument"
    if isinstance(op, Leaf):
        value = node.array
        if value is None:
            raise TreadleError("a leaf without a value cannot be written into a file")
        kind = "literal" if isinstance(op, Literal) else "constant"
        if value.nbytes <= _INLINE:
            return f"{kind} 0x{value.tobytes().hex()}"
        return f"{kind} {keep(value)!r}"
    attributes = [f"{k}={said(v)}" for k, v in op.attributes()]
    return f"{op.name}({', '.join(attributes)})"


# -- reading -----------------------------------------------------------------------


def parse(
    text: str, variables: Sequence[Variable], arrays: Mapping[str, Array]
) -> Body:
    """The body that `define` wrote; raises ValueError that names the line.

    `arrays` hold the large constants by name.
    """
    bodies: list[Body] = []
    lines = iter(enumerate(text.split("\n"), 1))
    if next(lines)[1] != _TITLE:
        raise ValueError(f"line 1 is not {_TITLE!r}")
    if text.count("\n") > _MOST_NODES:
        raise ValueError(f"more than {_MOST_NODES:,} lines are refused")
    reader: _Reader | None = None
    for number, line in lines:
        try:
            if len(line) > _LONGEST_LINE:
                raise ValueError(f"longer than {_LONGEST_LINE} characters")
            if not line:
                continue
            if line.startswith("body "):
                if reader is not None:
                    raise ValueError("a body begins before the last has returned")
                reader = _Reader(_name(line, len(bodies)), bodies, variables, arrays)
            elif reader is None:
                raise ValueError("this belongs to no body")
            elif line.startswith("return"):
                bodies.append(reader.close(line))
                reader = None
            else:
                reader.node(line)
        except Exception as problem:  # whatever a wrong attribute provokes in an op
            reason = problem.message if isinstance(problem, TreadleError) else problem
            kind = (
                ""
                if isinstance(problem, (ValueError, TreadleError))
                else (f"{type(problem).__name__}: ")
            )
            raise ValueError(f"line {number}: {kind}{str(reason)[:300]}") from problem
    if reader is not None or not bodies:
        raise ValueError("the text ends within a body")
    return bodies[-1]


def _name(line: str, number: int) -> str:
    match = re.fullmatch(rf"body {number} ({_STRING})", line)
    if match is None:
        raise ValueError(f"this does not begin body {number}")
    return str(ast.literal_eval(match[1]))


class _Reader:
    """The nodes of one body, line by line."""

    def __init__(
        self,
        name: str,
        bodies: Sequence[Body],
        variables: Sequence[Variable],
        arrays: Mapping[str, Array],
    ) -> None:
        self.name, self.bodies = name, bodies
        self.variables, self.arrays = variables, arrays
        self.arguments: list[Tensor] = []
        self.nodes: list[Tensor] = []

    def close(self, line: str) -> Body:
        match = re.fullmatch(r"return((?: %\d{1,9})+)", line)
        if match is None:
            raise ValueError("a body returns nodes")
        return Body(self.name, self.arguments, self._operands(match[1]))

    def node(self, line: str) -> None:
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError("this is no node")
        number, head, read, type_text = match.groups()
        if int(number) != len(self.nodes):
            raise ValueError(f"node %{len(self.nodes)} is missing")
        operands = self._operands(read)
        type_ = None if type_text == "several" else _read_type(type_text)
        if head == "argument" or head.startswith(("constant ", "literal ")):
            if operands or type_ is None:
                raise ValueError("a leaf has a type and no operands")
            node = self._leaf(head, type_)
        else:
            node = self._op(head)(*operands)
            inferred = None if isinstance(node.type, TupleType) else node.type
            if inferred is not type_:
                raise ValueError(f"this is {node.type}, not {type_text}")
        self.nodes.append(node)

    def _operands(self, text: str) -> list[Tensor]:
        numbers = [int(word[1:]) for word in text.split()]
        if any(n >= len(self.nodes) for n in numbers):
            raise ValueError("an operand comes later than its reader")
        return [self.nodes[n] for n in numbers]

    def _leaf(self, head: str, type_: Type) -> Tensor:
        if head == "argument":
            if len(self.arguments) < len(self.nodes):
                raise ValueError("arguments come first")
            argument = Tensor(Argument(len(self.arguments)), (), type_)
            self.arguments.append(argument)
            return argument
        kind, _, place = head.partition(" ")
        op = Literal() if kind == "literal" else Constant()
        return Tensor(op, (), type_, self._value(place, type_))

    def _value(self, place: str, type_: Type) -> Array:
        if place.startswith("0x"):
            raw = bytes.fromhex(place[2:])
            if len(raw) != type_.nbytes or len(raw) > _INLINE:
                raise ValueError(f"{type_} does not take {len(raw)} bytes")
            value = np.frombuffer(raw, type_.dtype).reshape(type_.shape)
        else:
            name = ast.literal_eval(place) if re.fullmatch(_STRING, place) else None
            known = self.arrays.get(str(name))
            if known is None:
                raise ValueError(f"no array is named {place}")
            value = known
            if value.shape != type_.shape or value.dtype != type_.dtype:
                raise ValueError(f"{place} is {value.dtype}{list(value.shape)}")
        value.flags.writeable = False
        return value

    def _op(self, head: str) -> Op:
        tokens = _Tokens(head)
        name = tokens.take(2)
        try:
            cls = registry[name]
        except KeyError:
            raise ValueError(f"no op is named {name!r}") from None
        if issubclass(cls, Leaf):
            raise ValueError(f"{name} is no op with operands")
        known = {f.name: f.type for f in fields(cls)}  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        tokens.expect("(")
        while not tokens.has(")"):
            key = tokens.take(2)
            if key not in known or key in values:
                raise ValueError(
                    f"{name} has no attribute {key!r}, or it is there twice"
                )
            tokens.expect("=")
            if tokens.has("$") or tokens.has("@"):
                values[key] = self._reference(tokens, str(known[key]))
            else:
                values[key] = self._attribute(tokens, 0)
            if not tokens.has(")"):
                tokens.expect(",")
        tokens.expect(")")
        if values.keys() != known.keys() or not tokens.ended:
            raise ValueError(f"the attributes of {name} are not all there")
        return cls(**values)

    def _reference(self, tokens: _Tokens, kind: str) -> Any:
        """A body or a variable, where an op has one: anything else computes with it."""
        sign = tokens.take(4)
        place = int(tokens.take(1))
        known, of = (self.bodies, "Body") if sign == "@" else (self.variables, "Any")
        if kind != of:
            raise ValueError(f"{sign}{place} cannot be a value of {kind}")
        if not 0 <= place < len(known):
            raise ValueError(f"there is no {sign}{place}")
        return known[place]

    def _attribute(self, tokens: _Tokens, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("an attribute is nested too deeply")
        if tokens.has("("):
            tokens.expect("(")
            items = []
            while not tokens.has(")"):
                items.append(self._attribute(tokens, depth + 1))
                if not tokens.has(")"):
                    tokens.expect(",")
            tokens.expect(")")
            return tuple(items)
        return tokens.literal()


class _Tokens:
    """The words of an op with its attributes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.match = _TOKEN.match(text)
        self.end = self.match.end() if self.match else 0

    @property
    def ended(self) -> bool:
        return self.match is None and self.end == len(self.text)

    def has(self, sign: str) -> bool:
        return self.match is not None and self.match[4] == sign

    def take(self, group: int) -> str:
        """The next word, which is of this kind."""
        word = self.match[group] if self.match else None
        if word is None:
            raise ValueError(f"unexpected {self.text[self.end :][:20]!r}")
        self.match = _TOKEN.match(self.text, self.end)
        self.end = self.match.end() if self.match else self.end
        return str(word)

    def expect(self, sign: str) -> None:
        if self.take(4) != sign:
            raise ValueError(f"{sign!r} is missing")

    def literal(self) -> Any:
        """A number, a text, a truth value, None or a dtype."""
        if self.match is not None and self.match[1] is not None:
            return int(self.take(1))
        if self.match is not None and self.match[3] is not None:
            return ast.literal_eval(self.take(3))
        word = self.take(2)
        constants: dict[str, Any] = {"None": None, "True": True, "False": False}
        if word in constants:
            return constants[word]
        if word in _DTYPES:
            return _DTYPES[word]
        raise ValueError(f"{word!r} is no value")


def _read_type(text: str) -> Type:
    match = _TYPE.fullmatch(text)
    if match is None or match[1] not in _DTYPES:
        raise ValueError(f"{text[:60]!r} is no type")
    shape = tuple(int(n) for n in match[2].split(",")) if match[2] else ()
    dtype: DType = as_dtype(match[1])
    if len(shape) > 32 or any(n >= 1 << 40 for n in shape):
        raise ValueError(f"the shape {list(shape)} is too large")
    axes = ast.literal_eval(match[3]) if match[3] else None
    return Type(shape, dtype, as_names(axes, shape))
