"""The life of a worker, and runs that are queued for it, as LLVM IR for x86-64 Linux.

A caller may queue runs and go on with something else: one worker goes through them in
order, helped by the others. Who waits for their end goes through them himself if nobody
does yet, and else helps in the place of that worker, which is a caller meanwhile and
comes back to its place only when nobody stands there.

The queue in the state of a pool, in bytes from its beginning:

    320  runs that were queued     328  1 and the number of who goes through them, or 0
    332  1: somebody helps
    384  runs that are over        392  the status of the one that failed, or 0
    448  the runs: records, how many, table, status; the next is in the place of the
         one that was ROOM before
"""

from __future__ import annotations

from treadle.engines.native.execution.runner import PATIENCE, QUEUE, RUNS

__all__ = ["FAILED", "OVER", "ROOM", "SIZE", "WORKERS"]

ROOM = 8  # runs in the queue at most
_ENTRY = 32  # bytes of a run in it
_OWNER, _HELPED, OVER, FAILED, _RUNS = (QUEUE + k for k in (8, 12, 64, 72, 128))
_ALL = (1 << 63) - 1
SIZE = _RUNS + ROOM * _ENTRY  # bytes of the state
# Cycles of the clock that a worker waits before it sleeps: some tens of microseconds,
# a millisecond where it was woken as soon the last time: waking takes tens, too.
_SHORT, _LONG = 200_000, 3_000_000

# `serve`: go through the queue as %owner unless somebody does, to the run numbered
# %until, which is not done; whether any was.
# After a run that fails the others are left out.
_SERVE = f"""
define internal i1 @waiting(ptr %pool, i64 %until) {{
  %queued = getelementptr i8, ptr %pool, i64 {QUEUE}
  %over = getelementptr i8, ptr %pool, i64 {OVER}
  %d = load atomic i64, ptr %over seq_cst, align 8
  %q = load atomic i64, ptr %queued seq_cst, align 8
  %more = icmp slt i64 %q, %until
  %last = select i1 %more, i64 %q, i64 %until
  %some = icmp slt i64 %d, %last
  ret i1 %some
}}

define internal i1 @serve(ptr %pool, i32 %owner, i64 %until) {{
entry:
  %place = getelementptr i8, ptr %pool, i64 {_OWNER}
  %over = getelementptr i8, ptr %pool, i64 {OVER}
  %failed = getelementptr i8, ptr %pool, i64 {FAILED}
  %runs = getelementptr i8, ptr %pool, i64 {_RUNS}
  %pair = cmpxchg ptr %place, i32 0, i32 %owner seq_cst monotonic
  %won = extractvalue {{i32, i1}} %pair, 1
  br i1 %won, label %look, label %end
look:
  %some = call i1 @waiting(ptr %pool, i64 %until)
  br i1 %some, label %one, label %leave
one:
  %number = load atomic i64, ptr %over monotonic, align 8
  %slot = and i64 %number, {ROOM - 1}
  %bytes = mul i64 %slot, {_ENTRY}
  %own = getelementptr i8, ptr %runs, i64 %bytes
  %own1 = getelementptr i8, ptr %own, i64 8
  %own2 = getelementptr i8, ptr %own, i64 16
  %own3 = getelementptr i8, ptr %own, i64 24
  %steps = load ptr, ptr %own, align 8
  %count = load i64, ptr %own1, align 8
  %table = load ptr, ptr %own2, align 8
  %status = load ptr, ptr %own3, align 8
  %before = load atomic i64, ptr %failed monotonic, align 8
  %fine = icmp eq i64 %before, 0
  br i1 %fine, label %run, label %next
run:
  %ran = call i64 @treadle_run(ptr %pool, ptr %steps, i64 %count, ptr %table,
      ptr %status, ptr null)
  %after = load i64, ptr %status, align 8
  store atomic i64 %after, ptr %failed monotonic, align 8
  br label %next
next:
  %number1 = add i64 %number, 1
  store atomic i64 %number1, ptr %over seq_cst, align 8
  br label %look
leave:
  store atomic i32 0, ptr %place seq_cst, align 4
  br label %end
end:
  ret i1 %won
}}
"""

_SYSCALL = """
declare i64 @syscall(i64, ...)
"""

# `wake`: see to it that a worker looks at the queue (futex 202, wake 129).
_WAKE = """
define internal void @wake(ptr %pool) {
entry:
  %number = getelementptr i8, ptr %pool, i64 4
  %asleep = getelementptr i8, ptr %pool, i64 64
  %was = atomicrmw add ptr %pool, i64 4294967296 seq_cst  ; none falls asleep now
  %sleepers = load atomic i32, ptr %asleep seq_cst, align 4
  %all = icmp eq i32 %sleepers, 0
  br i1 %all, label %end, label %one
one:
  %r = call i64 (i64, ...) @syscall(
      i64 202, ptr %number, i64 129, i64 1, ptr null, ptr null, i64 0)
  br label %end
end:
  ret void
}
"""

_QUEUE = f"""
; Queue a run; there is room for it, and one caller at a time.
define void @treadle_queue(
    ptr %pool, ptr %steps, i64 %count, ptr %table, ptr %status) {{
entry:
  %queued = getelementptr i8, ptr %pool, i64 {QUEUE}
  %runs = getelementptr i8, ptr %pool, i64 {_RUNS}
  %n = load atomic i64, ptr %queued monotonic, align 8
  %slot = and i64 %n, {ROOM - 1}
  %bytes = mul i64 %slot, {_ENTRY}
  %own = getelementptr i8, ptr %runs, i64 %bytes
  %own1 = getelementptr i8, ptr %own, i64 8
  %own2 = getelementptr i8, ptr %own, i64 16
  %own3 = getelementptr i8, ptr %own, i64 24
  store ptr %steps, ptr %own, align 8
  store i64 %count, ptr %own1, align 8
  store ptr %table, ptr %own2, align 8
  store ptr %status, ptr %own3, align 8
  %n1 = add i64 %n, 1
  store atomic i64 %n1, ptr %queued seq_cst, align 8
  call void @wake(ptr %pool)
  ret void
}}
"""

_WAIT = f"""
; Be there until so many of all runs ever queued are over, one caller at a time.
define void @treadle_wait(ptr %pool, i64 %until) {{
entry:
  %place = getelementptr i8, ptr %pool, i64 {_OWNER}
  %helped = getelementptr i8, ptr %pool, i64 {_HELPED}
  br label %begin
begin:
  store atomic i32 1, ptr %helped seq_cst, align 4
  br label %look
look:
  %n = phi i64 [0, %begin], [0, %own], [%n, %claim], [%n1, %pause], [%n, %offer]
  %some = call i1 @waiting(ptr %pool, i64 %until)
  br i1 %some, label %ask, label %over
ask:
  %owner = load atomic i32, ptr %place seq_cst, align 4
  %nobody = icmp eq i32 %owner, 0
  br i1 %nobody, label %serve, label %help
serve:
  store atomic i32 0, ptr %helped seq_cst, align 4
  %served = call i1 @serve(ptr %pool, i32 1, i64 %until)
  br label %begin
help:
  %state = load atomic i64, ptr %pool acquire, align 8
  %left = and i64 %state, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %wait, label %claim
claim:
  %got = call i64 @claim(ptr %pool)
  %lost = icmp eq i64 %got, 0
  br i1 %lost, label %look, label %own
own:
  %owner1 = sub i32 %owner, 1
  %as = zext i32 %owner1 to i64
  call void @part(ptr %pool, i64 %got, i64 %as)
  br label %look
wait:
  %n1 = add i64 %n, 1
  %patient = icmp slt i64 %n1, {PATIENCE}
  br i1 %patient, label %pause, label %offer
pause:
  call void @llvm.x86.sse2.pause()
  br label %look
offer:  ; sched_yield 24
  %y = call i64 (i64, ...) @syscall(i64 24)
  br label %look
over:
  store atomic i32 0, ptr %helped seq_cst, align 4
  %more = call i1 @waiting(ptr %pool, i64 {_ALL})
  br i1 %more, label %leave, label %end
leave:  ; workers may have gone to sleep while this caller went through the queue
  call void @wake(ptr %pool)
  br label %end
end:
  ret void
}}
"""

_WORK = f"""
define void @treadle_work(ptr %pool, i64 %worker) {{
entry:
  %number = getelementptr i8, ptr %pool, i64 4
  %asleep = getelementptr i8, ptr %pool, i64 64
  %leave = getelementptr i8, ptr %pool, i64 68
  %helped = getelementptr i8, ptr %pool, i64 {_HELPED}
  %worker1 = add i64 %worker, 1
  %owner = trunc i64 %worker1 to i32
  br label %look
look:
  %n = phi i64 [0, %entry], [0, %own], [%n, %claim], [%n1, %pause], [%n1, %offer],
      [0, %sleep], [0, %free]
  %since = phi i64 [0, %entry], [0, %own], [%since, %claim], [%from, %pause],
      [%from, %offer], [0, %sleep], [0, %free]
  %limit = phi i64 [{_SHORT}, %entry], [%limit, %own], [%limit, %claim],
      [%limit, %pause], [%limit, %offer], [%next, %sleep], [%limit, %free]
  %state = load atomic i64, ptr %pool acquire, align 8
  %left = and i64 %state, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %idle, label %claim
claim:
  %got = call i64 @claim(ptr %pool)
  %lost = icmp eq i64 %got, 0
  br i1 %lost, label %look, label %own
own:
  call void @part(ptr %pool, i64 %got, i64 %worker)
  br label %look
idle:
  %queued = call i1 @waiting(ptr %pool, i64 {_ALL})
  br i1 %queued, label %serve, label %rest
serve:
  %served = call i1 @serve(ptr %pool, i32 %owner, i64 {_ALL})
  br i1 %served, label %free, label %rest
free:  ; whoever stands in this worker's place may be about to claim a part
  call void @llvm.x86.sse2.pause()
  %there = load atomic i32, ptr %helped seq_cst, align 4
  %gone = icmp eq i32 %there, 0
  br i1 %gone, label %look, label %free
rest:
  %leaving = load atomic i32, ptr %leave acquire, align 4
  %stay = icmp eq i32 %leaving, 0
  br i1 %stay, label %wait, label %end
wait:
  %n1 = add i64 %n, 1
  %now = call i64 @llvm.readcyclecounter()
  %first = icmp eq i64 %n, 0
  %from = select i1 %first, i64 %now, i64 %since
  %spent = sub i64 %now, %from
  %awake = icmp ult i64 %spent, %limit
  br i1 %awake, label %pause, label %sleep
pause:
  call void @llvm.x86.sse2.pause()
  %long = icmp ugt i64 %spent, {_SHORT}
  br i1 %long, label %offer, label %look
offer:  ; whoever else is there may have the core (sched_yield 24)
  %y = call i64 (i64, ...) @syscall(i64 24)
  br label %look
sleep:  ; until the step's number is no longer the one seen (futex 202, wait 128)
  %seen = lshr i64 %state, 32
  %a = atomicrmw add ptr %asleep, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(
      i64 202, ptr %number, i64 128, i64 %seen, ptr null, ptr null, i64 0)
  %b = atomicrmw sub ptr %asleep, i32 1 seq_cst
  %woken = call i64 @llvm.readcyclecounter()
  %away = sub i64 %woken, %from
  %soon = icmp ult i64 %away, {_LONG}
  %next = select i1 %soon, i64 {_LONG}, i64 {_SHORT}
  br label %look
end:
  ret void
}}
"""

_HALT = """
define void @treadle_halt(ptr %pool) {
  %number = getelementptr i8, ptr %pool, i64 4
  %leave = getelementptr i8, ptr %pool, i64 68
  store atomic i32 1, ptr %leave seq_cst, align 4
  %was = atomicrmw add ptr %pool, i64 4294967296 seq_cst
  %r = call i64 (i64, ...) @syscall(
      i64 202, ptr %number, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  ret void
}
"""

# Functions by name: (pool, worker), which returns when told to leave; (pool), which
# tells all workers; (pool, steps, count, table, status); (pool, until).
WORKERS = {
    "treadle_work": RUNS + _SERVE + _WORK,
    "treadle_halt": _SYSCALL + _HALT,
    "treadle_queue": _SYSCALL + _WAKE + _QUEUE,
    "treadle_wait": RUNS + _SERVE + _WAKE + _WAIT,
}
