"""What a routine calls: other routines, functions by their address, and what machine
code has of its own.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from typing import Any, cast

from treadle.base.routine import is_routine, room
from treadle.engines.native.routines.kinds import (
    BOOL,
    INT,
    NOTHING,
    VOID,
    Function,
    Kind,
    Pointer,
    Row,
    kind_of,
    signature,
)
from treadle.engines.native.routines.memory import address, behind, pointers, prefetch
from treadle.engines.native.routines.values import Value, Values, symbol

__all__ = ["Calls"]


class Calls(Values):
    """The text of a routine's body, with what it calls."""

    def call(self, x: ast.Call) -> Value:
        if x.keywords:
            self.fail(x, "a routine calls by position")
        if not isinstance(x.func, ast.Name) or x.func.id in self.variables:
            kind, own = self.value(x.func)
            if not isinstance(kind, Function):
                self.fail(x, f"{kind.ir} is no function")
            return self.called(x, own, kind.arguments, kind.result)
        name = x.func.id
        known = self.names.get(name, getattr(builtins, name, None))
        if known in _OWN:
            return _OWN[known](self, x)
        if known is None or not is_routine(known):
            self.fail(x, f"{name} is no routine")
        arguments, result = signature(known)
        return self.called(x, f"@{symbol(known)}", list(arguments.values()), result)

    def called(
        self, x: ast.Call, name: str, arguments: Sequence[Kind], result: Kind
    ) -> Value:
        if len(arguments) != len(x.args):
            self.fail(x, f"{len(x.args)} arguments for {len(arguments)}")
        given = [self.value(y) for y in x.args]
        pairs = zip(arguments, given, strict=True)
        told = [f"{k.ir} {self.as_kind(x, k, own)[1]}" for k, own in pairs]
        text = f"call {result.ir} {name}({', '.join(told)})"
        if result != VOID:
            return self.made(result, text)
        self.line(text)
        return result, ""

    def pointer(self, x: ast.expr) -> str:
        """An expression that is a pointer."""
        kind, found = self.value(x)
        if not isinstance(kind, Pointer):
            self.fail(x, f"{kind.ir} is no pointer")
        return found

    def to_int(self, x: ast.Call) -> Value:
        kind, found = self.value(x.args[0])
        if kind == INT:
            return kind, found
        how = "zext" if kind == BOOL else "sext"
        return self.made(INT, f"{how} {kind.ir} {found} to i64")

    def to_bool(self, x: ast.Call) -> Value:
        return BOOL, self.test(x.args[0])

    def least(self, x: ast.Call) -> Value:
        return self.chosen("slt", x)

    def most(self, x: ast.Call) -> Value:
        return self.chosen("sgt", x)

    def chosen(self, how: str, x: ast.Call) -> Value:
        """One of two ints."""
        if len(x.args) != 2:
            self.fail(x, "of two ints alone")
        a, b = (self.number(y) for y in x.args)
        test = self.made(BOOL, f"icmp {how} i64 {a}, {b}")[1]
        return self.made(INT, f"select i1 {test}, i64 {a}, i64 {b}")

    def cast_to(self, x: ast.Call) -> Value:
        kind = kind_of(eval(ast.unparse(x.args[0]), self.names))
        return self.as_kind(x, kind, self.value(x.args[1]))

    def room_for(self, x: ast.Call) -> Value:
        return self.memory(x, Row())

    def room_for_pointers(self, x: ast.Call) -> Value:
        return self.memory(x, Row(element=NOTHING, stored="ptr"))

    def memory(self, x: ast.Call, kind: Row) -> Value:
        """So many elements on the stack."""
        place = f"%{self.new('room')}"
        size = self.constant(x.args[0])
        self.room.append(f"  {place} = alloca [{size} x {kind.stored}]")
        return kind, place

    def prefetched(self, x: ast.Call) -> Value:
        own, byte = self.pointer(x.args[0]), self.number(x.args[1])
        at = self.made(NOTHING, f"getelementptr i8, ptr {own}, i64 {byte}")[1]
        write = self.constant(x.args[2])
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 {write}, i32 3, i32 1)")
        return VOID, ""

    def address_of(self, x: ast.Call) -> Value:
        return self.made(INT, f"ptrtoint ptr {self.pointer(x.args[0])} to i64")

    def elements_behind(self, x: ast.Call) -> Value:
        kind, own = self.value(x.args[0])
        if not isinstance(kind, Row):
            self.fail(x, f"{kind.ir} has no elements")
        at = self.number(x.args[1])
        return self.made(kind, f"getelementptr {kind.stored}, ptr {own}, i64 {at}")


_OWN: dict[Any, Callable[[Calls, ast.Call], Value]] = {
    int: Calls.to_int,
    bool: Calls.to_bool,
    min: Calls.least,
    max: Calls.most,
    cast: Calls.cast_to,
    room: Calls.room_for,
    pointers: Calls.room_for_pointers,
    prefetch: Calls.prefetched,
    address: Calls.address_of,
    behind: Calls.elements_behind,
}
