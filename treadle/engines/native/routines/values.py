"""The values in a routine, expression by expression, as the text of machine code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from treadle.engines.native.routines.kinds import (
    BOOL,
    CINT,
    INT,
    NOTHING,
    Field,
    Kind,
    Record,
    Row,
)

__all__ = ["Value", "Values", "symbol"]

Value = tuple[Kind, str]  # and what stands for it in the text

_PLAIN: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
}
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
}
_SAME: dict[type[ast.cmpop], str] = {ast.Is: "eq", ast.IsNot: "ne"}
_CHOSEN = {"min": "slt", "max": "sgt"}


def symbol(routine: Callable[..., Any]) -> str:
    """The name that a routine has in a text."""
    return f"{routine.__module__}.{routine.__qualname__}"


class Values:
    """The text of a routine's body, as it is written."""

    def __init__(self, routine: Callable[..., Any]) -> None:
        self.routine = routine
        self.names = routine.__globals__
        self.room: list[str] = []  # memory of the stack, made on entry
        self.lines: list[str] = []
        self.declared: set[str] = set()  # functions of LLVM
        self.variables: dict[str, Kind] = {}
        self.count = 0
        self.block = "start"
        self.open = True  # whether the text goes on where it is

    # -- lines and blocks --------------------------------------------------------------

    def fail(self, node: ast.AST, why: str) -> NoReturn:
        """Raise what a routine cannot have, with its place."""
        code = self.routine.__code__
        place = code.co_filename, getattr(node, "lineno", 0), 0, ast.unparse(node)
        raise SyntaxError(f"{code.co_qualname}: {why}", place)

    def new(self, what: str) -> str:
        """A name that nothing has."""
        self.count += 1
        return f"{what}.{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def made(self, kind: Kind, text: str) -> Value:
        """The value that an instruction makes."""
        name = f"%{self.new('x')}"
        self.line(f"{name} = {text}")
        return kind, name

    def go(self, label: str) -> None:
        """Go on elsewhere."""
        if self.open:
            self.line(f"br label %{label}")
        self.open = False

    def split(self, test: str, yes: str, no: str) -> None:
        self.line(f"br i1 {test}, label %{yes}, label %{no}")
        self.open = False

    def split_by(self, x: ast.expr, yes: str, no: str) -> None:
        """Go on where an expression says, as soon as that is known."""
        match x:
            case ast.BoolOp(op=op, values=[*first, last]):
                for own in first:
                    onward = self.new("other")
                    ways = (yes, onward) if isinstance(op, ast.Or) else (onward, no)
                    self.split_by(own, *ways)
                    self.begin(onward)
                self.split_by(last, yes, no)
            case ast.UnaryOp(op=ast.Not(), operand=own):
                self.split_by(own, no, yes)
            case _:
                self.split(self.test(x), yes, no)

    def begin(self, label: str) -> None:
        """Begin a block, to which something goes."""
        self.lines.append(f"{label}:")
        self.block, self.open = label, True

    # -- expressions -------------------------------------------------------------------

    def value(self, x: ast.expr) -> Value:
        match x:
            case ast.Constant(value=bool(flag)):
                return BOOL, str(flag).lower()
            case ast.Constant(value=int(number)):
                return INT, str(number)
            case ast.Constant(value=None):
                return NOTHING, "null"
            case ast.Name(id=name):
                return self.named(x, name)
            case ast.Attribute():
                return self.field(x)
            case ast.Subscript():
                return self.read(x)
            case ast.BinOp(left=left, op=op, right=right):
                return self.operate(x, op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=own):
                return self.made(BOOL, f"xor i1 {self.test(own)}, true")
            case ast.UnaryOp(op=ast.USub(), operand=own):
                return self.made(INT, f"sub i64 0, {self.number(own)}")
            case ast.UnaryOp(op=ast.Invert(), operand=own):
                return self.made(INT, f"xor i64 {self.number(own)}, -1")
            case ast.BoolOp(op=op, values=values):
                tests = [partial(self.test, y) for y in values]
                return self.either(isinstance(op, ast.Or), tests)
            case ast.Compare(left, [ast.In()], [ast.Tuple(elts=elements)]):
                return self.among(left, elements)
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self.compare(x, left, ops, others)
            case ast.IfExp(test=test, body=yes, orelse=no):
                return self.choose(x, test, yes, no)
            case ast.Call():
                return self.call(x)
            case _:
                self.fail(x, f"a routine has no {type(x).__name__}")

    def number(self, x: ast.expr) -> str:
        """An expression that is an int."""
        kind, found = self.value(x)
        if kind != INT:
            self.fail(x, f"{kind.ir} is no int")
        return found

    def test(self, x: ast.expr) -> str:
        """Whether an expression is true."""
        kind, found = self.value(x)
        if kind in (INT, CINT):
            return self.made(BOOL, f"icmp ne {kind.ir} {found}, 0")[1]
        if kind != BOOL:
            self.fail(x, f"{kind.ir} is neither true nor false")
        return found

    def constant(self, x: ast.expr) -> int:
        """An expression of constants alone."""
        names = {k: v for k, v in self.names.items() if type(v) is int}
        try:
            found = eval(ast.unparse(x), {"__builtins__": {}}, names)
        except NameError:
            self.fail(x, "that is no constant")
        return int(found)

    def named(self, x: ast.expr, name: str) -> Value:
        if name in self.variables:
            return self.load(name)
        known = self.names.get(name)
        if type(known) is bool:
            return BOOL, str(known).lower()
        if type(known) is int:
            return INT, str(known)
        self.fail(x, f"{name} is no variable, and no int or bool of the module")

    def load(self, name: str) -> Value:
        """The value of a variable."""
        kind = self.variables[name]
        return self.made(kind, f"load {kind.ir}, ptr %{name}.own")

    def place_of(self, x: ast.Attribute) -> tuple[Field, str]:
        """A field, and where it lies."""
        kind, owner = self.value(x.value)
        if not isinstance(kind, Record):
            self.fail(x, f"{kind.ir} has no fields")
        try:
            field = kind.field(x.attr)
        except KeyError:
            self.fail(x, f"there is no field {x.attr}")
        at = f"getelementptr i8, ptr {owner}, i64 {field.byte}"
        return field, self.made(field.kind, at)[1]

    def field(self, x: ast.Attribute) -> Value:
        field, place = self.place_of(x)
        if field.inline:
            return field.kind, place
        fixed = ", !invariant.load !0" if field.fixed else ""
        if field.kind != BOOL:
            return self.made(field.kind, f"load {field.kind.ir}, ptr {place}{fixed}")
        word = self.made(INT, f"load i64, ptr {place}{fixed}")[1]
        return self.made(BOOL, f"trunc i64 {word} to i1")

    def element(self, x: ast.Subscript) -> tuple[Row, str]:
        """Where an element of an array lies."""
        kind, array = self.value(x.value)
        if not isinstance(kind, Row):
            self.fail(x, f"{kind.ir} has no elements")
        at = f"getelementptr {kind.stored}, ptr {array}, i64 {self.number(x.slice)}"
        return kind, self.made(kind, at)[1]

    def read(self, x: ast.Subscript) -> Value:
        kind, place = self.element(x)
        found = self.made(kind.element, f"load {kind.stored}, ptr {place}")
        if kind.stored == kind.element.ir:
            return found
        return self.made(kind.element, f"icmp ne {kind.stored} {found[1]}, 0")

    def operate(self, x: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        """Two values, ints or bools, by an operator."""
        kind, a, b = left[0], left[1], right[1]
        logical = isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor)
        if kind != right[0] or not (kind == INT or (kind == BOOL and logical)):
            self.fail(x, f"{kind.ir} and {right[0].ir}")
        if type(op) in _PLAIN:
            return self.made(kind, f"{_PLAIN[type(op)]} {kind.ir} {a}, {b}")
        if not isinstance(op, ast.FloorDiv | ast.Mod):
            self.fail(x, f"a routine has no {type(op).__name__}")
        q, r = (self.made(INT, f"{how} i64 {a}, {b}")[1] for how in ("sdiv", "srem"))
        some = self.made(BOOL, f"icmp ne i64 {r}, 0")[1]
        signs = self.made(INT, f"xor i64 {r}, {b}")[1]
        apart = self.made(BOOL, f"icmp slt i64 {signs}, 0")[1]
        down = self.made(BOOL, f"and i1 {some}, {apart}")[1]  # C rounds to zero
        if isinstance(op, ast.FloorDiv):
            less = self.made(INT, f"sext i1 {down} to i64")[1]
            return self.made(INT, f"add i64 {q}, {less}")
        more = self.made(INT, f"select i1 {down}, i64 {b}, i64 0")[1]
        return self.made(INT, f"add i64 {r}, {more}")

    def either(self, stop: bool, tests: Sequence[Callable[[], str]]) -> Value:
        """Tests one after the other, up to the first that is as `stop` says."""
        end = self.new("end")
        found = []
        for test in tests[:-1]:
            x, onward = test(), self.new("other")
            found.append((str(stop).lower(), self.block))
            self.split(x, *((end, onward) if stop else (onward, end)))
            self.begin(onward)
        last = tests[-1]()
        found.append((last, self.block))
        self.go(end)
        self.begin(end)
        return self.made(BOOL, f"phi i1 {_ways(found)}")

    def compare(
        self,
        x: ast.expr,
        left: ast.expr,
        ops: Sequence[ast.cmpop],
        others: Sequence[ast.expr],
    ) -> Value:
        """A comparison, or several in a row, each value of which is looked at once."""
        before = [self.value(left)]

        def test(op: ast.cmpop, other: ast.expr) -> str:
            (kind, a), (own, b) = before[0], self.value(other)
            same = type(op) in _SAME
            fits = kind.ir == own.ir == "ptr" if same else kind == own in (INT, BOOL)
            if not fits:
                self.fail(x, f"{kind.ir} and {own.ir} are not compared like this")
            before[0] = own, b
            how = (_SAME if same else _COMPARED)[type(op)]
            return self.made(BOOL, f"icmp {how} {kind.ir} {a}, {b}")[1]

        pairs = list(zip(ops, others, strict=True))
        if len(pairs) == 1:
            return BOOL, test(*pairs[0])
        return self.either(False, [partial(test, *own) for own in pairs])

    def among(self, left: ast.expr, elements: Sequence[ast.expr]) -> Value:
        """Whether an int is one of some."""
        own = self.number(left)

        def test(other: ast.expr) -> str:
            return self.made(BOOL, f"icmp eq i64 {own}, {self.number(other)}")[1]

        return self.either(True, [partial(test, y) for y in elements])

    def choose(self, x: ast.expr, test: ast.expr, yes: ast.expr, no: ast.expr) -> Value:
        labels = self.new("yes"), self.new("no")
        end = self.new("end")
        self.split_by(test, *labels)
        found: list[tuple[str, str]] = []
        kinds = []
        for label, own in zip(labels, (yes, no), strict=True):
            self.begin(label)
            kind, value = self.value(own)
            kinds.append(kind)
            found.append((value, self.block))
            self.go(end)
        if kinds[0] != kinds[1]:
            self.fail(x, f"{kinds[0].ir} or {kinds[1].ir}")
        self.begin(end)
        return self.made(kinds[0], f"phi {kinds[0].ir} {_ways(found)}")

    def call(self, x: ast.Call) -> Value:
        """What a call returns."""
        raise NotImplementedError

    def as_kind(self, x: ast.AST, kind: Kind, value: Value) -> Value:
        """A value as one of a kind: all pointers are alike to machine code."""
        if kind.ir != value[0].ir:
            self.fail(x, f"{value[0].ir} for {kind.ir}")
        return kind, value[1]


def _ways(found: Sequence[tuple[str, str]]) -> str:
    """What a phi says: the values, each with the block that it comes from."""
    return ", ".join(f"[ {value}, %{block} ]" for value, block in found)
