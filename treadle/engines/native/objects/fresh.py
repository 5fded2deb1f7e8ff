"""Texts of machine code that makes nodes."""

from __future__ import annotations

from treadle.engines.native.objects.interpreter import INTERPRETER

__all__ = ["FRESH"]

FRESH = (
    INTERPRETER
    + """
; Whether notes are plain data; 0 also where they do not tell.
define internal i1 @plain(ptr %self, ptr %notes) {
entry:
  %getattr = call ptr @api(ptr %self, i64 $GETATTR)
  %name = call ptr @api(ptr %self, i64 $CLOSED)
  %x = call ptr %getattr(ptr %notes, ptr %name)
  %none = icmp eq ptr %x, null
  br i1 %none, label %nothing, label %some
some:
  %true = call ptr @api(ptr %self, i64 $TRUE)
  %found = icmp eq ptr %x, %true
  call void @drop(ptr %self, ptr %x)
  ret i1 %found
nothing:
  %clear = call ptr @api(ptr %self, i64 $CLEAR)
  call void %clear()
  ret i1 0
}

; Hide a tuple of nodes from the collector where it sees none of these.
define internal void @hide(ptr %self, ptr %tuple) {
entry:
  %tracked = call ptr @api(ptr %self, i64 $TRACKED)
  %sp = getelementptr i8, ptr %tuple, i64 $SIZE
  %count = load i64, ptr %sp
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %body]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %out
body:
  %x = call ptr @item(ptr %tuple, i64 %k)
  %seen = call i32 %tracked(ptr %x)
  %known = icmp ne i32 %seen, 0
  %k1 = add i64 %k, 1
  br i1 %known, label %end, label %loop
out:
  %untrack = call ptr @api(ptr %self, i64 $UNTRACK)
  call void %untrack(ptr %tuple)
  br label %end
end:
  ret void
}

; How deep a node lies that reads some others.
define internal i64 @depth(ptr %inputs) {
entry:
  %sp = getelementptr i8, ptr %inputs, i64 $SIZE
  %count = load i64, ptr %sp
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %body]
  %depth = phi i64 [0, %entry], [%more, %body]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %x = call ptr @item(ptr %inputs, i64 %k)
  %held = call ptr @field(ptr %x, i64 $depth)
  %below = call i64 @number(ptr %held)
  %above = add i64 %below, 1
  %deeper = icmp sgt i64 %above, %depth
  %more = select i1 %deeper, i64 %above, i64 %depth
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret i64 %depth
}

; A node that lies `depth` deep, out of the collector's sight if it is closed; null
; where the interpreter has raised something.
define internal ptr @fresh(ptr %self, ptr %class, ptr %op, ptr %inputs, ptr %type,
    ptr %stored, i64 %depth, ptr %code, ptr %offset, ptr %notes, i1 %closed) {
entry:
  %none = call ptr @api(ptr %self, i64 $NONE)
  %alloc = call ptr @api(ptr %self, i64 $ALLOC)
  %node = call ptr %alloc(ptr %class, i64 0)
  %failed = icmp eq ptr %node, null
  br i1 %failed, label %nothing, label %made
made:
  call void @keep(ptr %self, ptr %node, i64 $op, ptr %op)
  call void @keep(ptr %self, ptr %node, i64 $inputs, ptr %inputs)
  call void @keep(ptr %self, ptr %node, i64 $type, ptr %type)
  call void @keep(ptr %self, ptr %node, i64 $stored, ptr %stored)
  call void @keep(ptr %self, ptr %node, i64 $_code, ptr %code)
  call void @keep(ptr %self, ptr %node, i64 $_offset, ptr %offset)
  call void @keep(ptr %self, ptr %node, i64 $_metadata, ptr %notes)
  call void @keep(ptr %self, ptr %node, i64 $_name, ptr %none)
  call void @keep(ptr %self, ptr %node, i64 $mark, ptr %none)
  %long = call ptr @api(ptr %self, i64 $LONG)
  %deep = call ptr %long(i64 %depth)
  %dp = getelementptr i8, ptr %node, i64 $depth
  store ptr %deep, ptr %dp
  %noargs = call ptr @api(ptr %self, i64 $NOARGS)
  %next = call ptr @api(ptr %self, i64 $NEXT)
  %serial = call ptr %noargs(ptr %next)
  %sp = getelementptr i8, ptr %node, i64 $serial
  store ptr %serial, ptr %sp
  %d = icmp eq ptr %deep, null
  %s = icmp eq ptr %serial, null
  %either = or i1 %d, %s
  br i1 %either, label %undo, label %count
count:
  call void @soon(ptr %node, i64 640)
  call void @soon(ptr %node, i64 704)
  call void @soon(ptr %inputs, i64 256)
  call void @soon(ptr %serial, i64 192)
  %n = call i64 @number(ptr %serial)
  %low = and i64 %n, $LOOK
  %due = icmp eq i64 %low, 0
  br i1 %due, label %look, label %whole
look:
  %onearg = call ptr @api(ptr %self, i64 $ONEARG)
  %warn = call ptr @api(ptr %self, i64 $WARN)
  %said = call ptr %onearg(ptr %warn, ptr %node)
  %raised = icmp eq ptr %said, null
  br i1 %raised, label %undo, label %heard
heard:
  call void @drop(ptr %self, ptr %said)
  br label %whole
whole:
  br i1 %closed, label %hide, label %end
hide:
  %untrack = call ptr @api(ptr %self, i64 $UNTRACK)
  call void %untrack(ptr %node)
  call void %untrack(ptr %inputs)
  br label %end
end:
  ret ptr %node
undo:
  call void @drop(ptr %self, ptr %node)
  br label %nothing
nothing:
  ret ptr null
}

"""
)
