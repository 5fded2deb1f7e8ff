"""Chains of records side by side, as LLVM IR: the parts of one step of the runner.

A region is a record of its own, with no function: its arguments are where its chains
begin and the last one ends, counted in the records that follow, `total` is how many
chains there are, and its fifth number how many records. A chain is run by one thread,
each step whole, with the first part of scratch memory that is the step's alone.
"""

from __future__ import annotations

__all__ = ["CHAINS", "CONTEXT"]

CONTEXT = 48  # bytes of what chains are given, on the stack of who runs the program

CHAINS = """
; Run some chains of a region: records, table, status, times, number of its first
; record, and where its chains begin.
define internal void @chains(ptr %context, i64 %begin, i64 %end, i64 %worker) {
entry:
  %context1 = getelementptr i8, ptr %context, i64 8
  %context2 = getelementptr i8, ptr %context, i64 16
  %context3 = getelementptr i8, ptr %context, i64 24
  %context4 = getelementptr i8, ptr %context, i64 32
  %context5 = getelementptr i8, ptr %context, i64 40
  %records = load ptr, ptr %context, align 8
  %table = load ptr, ptr %context1, align 8
  %status = load ptr, ptr %context2, align 8
  %times = load ptr, ptr %context3, align 8
  %number = load i64, ptr %context4, align 8
  %starts = load ptr, ptr %context5, align 8
  br label %chain
chain:
  %c = phi i64 [%begin, %entry], [%c1, %next]
  %more = icmp slt i64 %c, %end
  br i1 %more, label %first, label %out
first:
  %c1 = add i64 %c, 1
  %place = getelementptr i64, ptr %starts, i64 %c
  %place1 = getelementptr i64, ptr %starts, i64 %c1
  %from = load i64, ptr %place, align 8
  %stop = load i64, ptr %place1, align 8
  br label %look
look:
  %k = phi i64 [%from, %first], [%k1, %after]
  %rest = icmp slt i64 %k, %stop
  br i1 %rest, label %watch, label %next
watch:  ; another chain may have found its data wrong
  %found = load atomic i64, ptr %status monotonic, align 8
  %fine = icmp eq i64 %found, 0
  br i1 %fine, label %step, label %out
step:
  %bytes = mul i64 %k, 64
  %record = getelementptr i8, ptr %records, i64 %bytes
  %record1 = getelementptr i8, ptr %record, i64 8
  %record2 = getelementptr i8, ptr %record, i64 16
  %function = load ptr, ptr %record, align 8
  %index = load i64, ptr %record1, align 8
  %total = load i64, ptr %record2, align 8
  %some = icmp sgt i64 %total, 0
  br i1 %some, label %call, label %after
call:
  %arguments = getelementptr i64, ptr %table, i64 %index
  %own = add i64 %number, %k
  call void @timed(ptr %times, i64 %own, ptr %function,
      ptr %arguments, i64 0, i64 %total, i64 0, i64 %worker)
  br label %after
after:
  %k1 = add i64 %k, 1
  br label %look
next:
  br label %chain
out:
  ret void
}

; Run a region from its record on, the first of all with a number.
define internal void @region(ptr %context, ptr %record, ptr %table, ptr %status,
    ptr %times, i64 %k, i1 %shared, ptr %pool, i64 %threads) {
entry:
  %record1 = getelementptr i8, ptr %record, i64 8
  %record2 = getelementptr i8, ptr %record, i64 16
  %records = getelementptr i8, ptr %record, i64 64
  %index = load i64, ptr %record1, align 8
  %total = load i64, ptr %record2, align 8
  %starts = getelementptr i64, ptr %table, i64 %index
  %number = add i64 %k, 1
  %context1 = getelementptr i8, ptr %context, i64 8
  %context2 = getelementptr i8, ptr %context, i64 16
  %context3 = getelementptr i8, ptr %context, i64 24
  %context4 = getelementptr i8, ptr %context, i64 32
  %context5 = getelementptr i8, ptr %context, i64 40
  store ptr %records, ptr %context, align 8
  store ptr %table, ptr %context1, align 8
  store ptr %status, ptr %context2, align 8
  store ptr %times, ptr %context3, align 8
  store i64 %number, ptr %context4, align 8
  store ptr %starts, ptr %context5, align 8
  br i1 %shared, label %share, label %alone
share:
  call void @share(ptr %pool, ptr @chains, ptr %context,
      i64 %total, i64 1, i64 %threads, i64 %k, ptr null)
  ret void
alone:
  call void @chains(ptr %context, i64 0, i64 %total, i64 0)
  ret void
}
"""
