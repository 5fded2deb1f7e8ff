"""The body of a routine, statement by statement, as the text of machine code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from treadle.engines.native.routines.calls import Calls
from treadle.engines.native.routines.kinds import (
    BOOL,
    INT,
    VOID,
    Kind,
    Several,
    kind_of,
)
from treadle.engines.native.routines.values import Value

__all__ = ["Body"]


class Body(Calls):
    """The text of a function's body, as it is written."""

    def __init__(
        self,
        routine: Callable[..., Any],
        tree: ast.FunctionDef,
        arguments: Mapping[str, Kind],
        result: Kind,
    ) -> None:
        super().__init__(routine)
        self.tree = tree
        self.arguments = arguments
        self.result = result
        self.loops: list[tuple[str, str]] = []  # where each goes on, and ends

    def text(self) -> str:
        """The whole of it."""
        for name, kind in self.arguments.items():
            self.assign(self.tree, name, (kind, f"%{name}.given"))
        self.run(self.tree.body)
        if self.open:
            self.line("ret void" if self.result is VOID else "unreachable")
        head = ["entry:", *self.room, "  br label %start", "start:"]
        return "\n".join([*head, *self.lines])

    # -- statements --------------------------------------------------------------------

    def run(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if not self.open:
                self.fail(statement, "nothing gets here")
            self.statement(statement)

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=told, value=value):
                kind = kind_of(eval(ast.unparse(told), self.names))
                given = self.value(value) if value else (kind, "undef")
                self.assign(s, name, self.as_kind(s, kind, given))
            case ast.Assign(targets=[target], value=value):
                self.store(target, value)
            case ast.AugAssign(target=target, op=op, value=value):
                left = self.value(target)
                self.put(target, self.operate(s, op, left, self.value(value)))
            case ast.If():
                self.branch(s)
            case ast.While(test=test, body=body, orelse=[]):
                self.loop(partial(self.split_by, test), body)
            case ast.For(target=ast.Name(id=name), iter=over, body=body, orelse=[]):
                self.count_over(s, name, over, body)
            case ast.Return(value=value):
                self.leave(s, value)
            case ast.Continue():
                self.go(self.loops[-1][0])
            case ast.Break():
                self.go(self.loops[-1][1])
            case ast.Expr(value=ast.Call() as call):
                self.call(call)
            case _:
                self.fail(s, f"a routine has no {type(s).__name__}")

    def store(self, target: ast.expr, value: ast.expr) -> None:
        """Give what is on the right to what is on the left."""
        if not isinstance(target, ast.Tuple):
            self.put(target, self.value(value))
            return
        if isinstance(value, ast.Tuple):
            values = [self.value(x) for x in value.elts]
        else:
            several = self.value(value)
            if not isinstance(several[0], Several):
                self.fail(value, "one value for several names")
            values = [
                self.made(INT, f"extractvalue {several[0].ir} {several[1]}, {k}")
                for k in range(several[0].count)
            ]
        if len(values) != len(target.elts):
            self.fail(target, f"{len(values)} values for {len(target.elts)} names")
        for own, x in zip(target.elts, values, strict=True):
            self.put(own, x)

    def put(self, target: ast.expr, x: Value) -> None:
        match target:
            case ast.Name(id=name):
                self.assign(target, name, x)
            case ast.Subscript():
                array, place = self.element(target)
                kept = self.as_kind(target, array.element, x)[1]
                if array.stored != x[0].ir:
                    kept = self.made(x[0], f"zext i1 {kept} to {array.stored}")[1]
                self.line(f"store {array.stored} {kept}, ptr {place}")
            case ast.Attribute():
                field, place = self.place_of(target)
                if field.fixed or field.inline or field.kind == BOOL:
                    self.fail(target, f"{target.attr} never changes")
                kept = self.as_kind(target, field.kind, x)[1]
                self.line(f"store {field.kind.ir} {kept}, ptr {place}")
            case _:
                self.fail(target, "nothing is assigned to that")

    def assign(self, node: ast.AST, name: str, x: Value) -> None:
        """Give a variable a value; the first one says of what kind it is."""
        kind, place = x[0], f"%{name}.own"
        if name not in self.variables:
            self.variables[name] = kind
            self.room.append(f"  {place} = alloca {kind.ir}")
        if self.variables[name].ir != kind.ir:
            self.fail(node, f"{name} is {self.variables[name].ir} and {kind.ir}")
        self.line(f"store {kind.ir} {x[1]}, ptr {place}")

    def branch(self, s: ast.If) -> None:
        yes, end = self.new("yes"), self.new("end")
        no = self.new("no") if s.orelse else end
        self.split_by(s.test, yes, no)
        self.begin(yes)
        self.run(s.body)
        goes_on = self.open
        self.go(end)
        if s.orelse:
            self.begin(no)
            self.run(s.orelse)
            goes_on |= self.open
            self.go(end)
        if goes_on or not s.orelse:
            self.begin(end)

    def loop(
        self,
        split: Callable[[str, str], None],
        body: Sequence[ast.stmt],
        first: Callable[[], None] = lambda: None,
        last: Callable[[], None] = lambda: None,
    ) -> None:
        """A loop, inside or at whose end `split` goes on; of each turn there is
        something to do first, and last.
        """
        look, inside = self.new("look"), self.new("inside")
        onward, end = self.new("next"), self.new("end")
        self.go(look)
        self.begin(look)
        split(inside, end)
        self.begin(inside)
        first()
        self.loops.append((onward, end))
        self.run(body)
        self.loops.pop()
        self.go(onward)
        self.begin(onward)
        last()
        self.go(look)
        self.begin(end)

    def count_over(
        self, s: ast.For, name: str, over: ast.expr, body: Sequence[ast.stmt]
    ) -> None:
        """A loop over a range, whose step is a constant."""
        match over:
            case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]):
                bounds = [self.number(x) for x in args[:2]]
            case _:
                self.fail(over, "a routine goes over ranges alone")
        begins, ends = ("0", bounds[0]) if len(bounds) == 1 else bounds
        step = self.constant(args[2]) if len(args) > 2 else 1
        at = f"{name}.{self.new('at')}"
        less = "slt" if step > 0 else "sgt"
        self.assign(s, at, (INT, begins))

        def split(inside: str, end: str) -> None:
            test = f"icmp {less} i64 {self.load(at)[1]}, {ends}"
            self.split(self.made(BOOL, test)[1], inside, end)

        self.loop(
            split,
            body,
            lambda: self.assign(s, name, self.load(at)),
            lambda: self.assign(
                s, at, self.made(INT, f"add i64 {self.load(at)[1]}, {step}")
            ),
        )

    def leave(self, s: ast.Return, value: ast.expr | None) -> None:
        if isinstance(value, ast.Tuple):
            kind, found = self.result, "undef"
            for k, x in enumerate(value.elts):
                part = f"insertvalue {kind.ir} {found}, i64 {self.number(x)}, {k}"
                found = self.made(kind, part)[1]
        elif value is None:
            kind, found = VOID, ""
        else:
            kind, found = self.value(value)
        kind, found = self.as_kind(s, self.result, (kind, found))
        self.line(f"ret {kind.ir} {found}")
        self.open = False
