"""The runner of steps and the workers that help it, as LLVM IR for x86-64 Linux.

State of a pool, in bytes from its beginning; what different threads write stands on
different cache lines:

      0  parts of the current step nobody has claimed, 32 bits, and above them its
         number, 32 bits: one word, so that a claim is for the step it was meant for
     64  workers asleep        68  1: workers leave
    128  parts that are done
    192  the current step: function, arguments, total, items in a part, parts, its
         number among the records, where times are noted (or null)
    256  1: a run is using the workers        264  number of threads
    320  and on: the queue (`workers.py`)

Fields at 192 are written while no part is unclaimed or unfinished, and read only after
a claim, so late workers never see a mixture of two steps.

Where times are noted, in integers of 64 bits: how many are noted, how many there is
room for, then four for each part: step, worker, begin and end in ns of the clock that
Python's `time.perf_counter_ns` reads.
"""

from __future__ import annotations

import sys

from treadle.engines.native.execution.regions import CHAINS, CONTEXT

__all__ = ["PARTS", "PATIENCE", "PORTABLE", "QUEUE", "RUNS", "TEXTS", "THREADS"]

THREADS = 264  # where the number of threads stands in the state
QUEUE = 320  # where the queue begins
PATIENCE = 1000  # pauses before the caller offers its core while it waits for parts
PARTS = 64  # parts of a step for each thread at most, whatever its grain

# The clock of clock_gettime that perf_counter_ns reads; elsewhere times are 0.
_CLOCK = {"linux": 1, "darwin": 8}.get(sys.platform)
_NOW = f"""
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {{
  %place = alloca [2 x i64], align 8
  %r = call i32 @clock_gettime(i32 {_CLOCK}, ptr %place)
  %place1 = getelementptr i8, ptr %place, i64 8
  %seconds = load i64, ptr %place, align 8
  %more = load i64, ptr %place1, align 8
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %more
  ret i64 %ns
}}
"""
_NEVER = """
define internal i64 @now() {
  ret i64 0
}
"""
_TIMED = (
    (_NEVER if _CLOCK is None else _NOW)
    + """
; Call a function for some items, with the number of its scratch memory; note when and
; by which worker, where that is asked for and there is room.
define internal void @timed(ptr %times, i64 %step, ptr %function,
    ptr %arguments, i64 %begin, i64 %end, i64 %memory, i64 %worker) {
entry:
  %unasked = icmp eq ptr %times, null
  br i1 %unasked, label %plain, label %noted
plain:
  call void %function(ptr %arguments, i64 %begin, i64 %end, i64 %memory)
  ret void
noted:
  %first = call i64 @now()
  call void %function(ptr %arguments, i64 %begin, i64 %end, i64 %memory)
  %last = call i64 @now()
  %times1 = getelementptr i8, ptr %times, i64 8
  %number = atomicrmw add ptr %times, i64 1 monotonic
  %room = load i64, ptr %times1, align 8
  %fits = icmp slt i64 %number, %room
  br i1 %fits, label %note, label %out
note:
  %bytes = mul i64 %number, 32
  %base = getelementptr i8, ptr %times, i64 16
  %own = getelementptr i8, ptr %base, i64 %bytes
  %own1 = getelementptr i8, ptr %own, i64 8
  %own2 = getelementptr i8, ptr %own, i64 16
  %own3 = getelementptr i8, ptr %own, i64 24
  store i64 %step, ptr %own, align 8
  store i64 %worker, ptr %own1, align 8
  store i64 %first, ptr %own2, align 8
  store i64 %last, ptr %own3, align 8
  br label %out
out:
  ret void
}
"""
)

_COMMON = (
    _TIMED
    + """
declare void @llvm.x86.sse2.pause()
declare i64 @syscall(i64, ...)
declare i64 @llvm.readcyclecounter()

; Claim a part: how many were unclaimed before, 0 if there was none.
define internal i64 @claim(ptr %pool) {
entry:
  %first = load atomic i64, ptr %pool acquire, align 8
  br label %again
again:
  %state = phi i64 [%first, %entry], [%seen, %try]
  %left = and i64 %state, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %end, label %try
try:
  %less = sub i64 %state, 1
  %pair = cmpxchg ptr %pool, i64 %state, i64 %less acq_rel acquire
  %seen = extractvalue {i64, i1} %pair, 0
  %won = extractvalue {i64, i1} %pair, 1
  br i1 %won, label %end, label %again
end:
  ret i64 %left
}

; Do the part claimed when %left were unclaimed.
define internal void @part(ptr %pool, i64 %left, i64 %worker) {
  %done = getelementptr i8, ptr %pool, i64 128
  %step = getelementptr i8, ptr %pool, i64 192
  %step1 = getelementptr i8, ptr %pool, i64 200
  %step2 = getelementptr i8, ptr %pool, i64 208
  %step3 = getelementptr i8, ptr %pool, i64 216
  %step4 = getelementptr i8, ptr %pool, i64 224
  %step5 = getelementptr i8, ptr %pool, i64 232
  %step6 = getelementptr i8, ptr %pool, i64 240
  %index = load i64, ptr %step5, align 8
  %times = load ptr, ptr %step6, align 8
  %function = load ptr, ptr %step, align 8
  %arguments = load ptr, ptr %step1, align 8
  %total = load i64, ptr %step2, align 8
  %items = load i64, ptr %step3, align 8
  %parts = load i64, ptr %step4, align 8
  %number = sub i64 %parts, %left
  %begin = mul i64 %number, %items
  %rest = sub i64 %total, %begin
  %last = icmp slt i64 %rest, %items
  %count = select i1 %last, i64 %rest, i64 %items
  %end = add i64 %begin, %count
  call void @timed(ptr %times, i64 %index, ptr %function,
      ptr %arguments, i64 %begin, i64 %end, i64 %worker, i64 %worker)
  %before = atomicrmw add ptr %done, i64 1 release
  ret void
}
"""
)

_SHARE = f"""
define internal void @share(ptr %pool, ptr %function, ptr %arguments,
    i64 %total, i64 %grain, i64 %threads, i64 %index, ptr %times) {{
entry:
  %number = getelementptr i8, ptr %pool, i64 4
  %asleep = getelementptr i8, ptr %pool, i64 64
  %done = getelementptr i8, ptr %pool, i64 128
  %step = getelementptr i8, ptr %pool, i64 192
  %step1 = getelementptr i8, ptr %pool, i64 200
  %step2 = getelementptr i8, ptr %pool, i64 208
  %step3 = getelementptr i8, ptr %pool, i64 216
  %step4 = getelementptr i8, ptr %pool, i64 224
  %step5 = getelementptr i8, ptr %pool, i64 232
  %step6 = getelementptr i8, ptr %pool, i64 240
  %total1 = sub i64 %total, 1
  %grains1 = udiv i64 %total1, %grain  ; one less than there are
  %most = mul i64 %threads, {PARTS}
  %fold1 = udiv i64 %grains1, %most
  %fold = add i64 %fold1, 1
  %items = mul i64 %grain, %fold
  %parts1 = udiv i64 %total1, %items
  %parts = add i64 %parts1, 1
  store ptr %function, ptr %step, align 8
  store ptr %arguments, ptr %step1, align 8
  store i64 %total, ptr %step2, align 8
  store i64 %items, ptr %step3, align 8
  store i64 %parts, ptr %step4, align 8
  store i64 %index, ptr %step5, align 8
  store ptr %times, ptr %step6, align 8
  store atomic i64 0, ptr %done monotonic, align 8
  ; No part is unclaimed: the number goes up by one, and the parts are there.
  %more = add i64 %parts, 4294967296
  %was = atomicrmw add ptr %pool, i64 %more seq_cst
  %sleepers = load atomic i32, ptr %asleep seq_cst, align 4
  %all = icmp eq i32 %sleepers, 0
  br i1 %all, label %claim, label %wake
wake:  ; futex 202, wake 129
  %r = call i64 (i64, ...) @syscall(
      i64 202, ptr %number, i64 129, i64 %parts1, ptr null, ptr null, i64 0)
  br label %claim
claim:
  %got = call i64 @claim(ptr %pool)
  %lost = icmp eq i64 %got, 0
  br i1 %lost, label %join, label %own
own:
  call void @part(ptr %pool, i64 %got, i64 0)
  br label %claim
join:
  %n = phi i64 [0, %claim], [%n1, %pause], [%n, %offer]
  %ready = load atomic i64, ptr %done acquire, align 8
  %over = icmp eq i64 %ready, %parts
  br i1 %over, label %end, label %wait
wait:
  %n1 = add i64 %n, 1
  %patient = icmp slt i64 %n1, {PATIENCE}
  br i1 %patient, label %pause, label %offer
pause:
  call void @llvm.x86.sse2.pause()
  br label %join
offer:  ; sched_yield 24
  %y = call i64 (i64, ...) @syscall(i64 24)
  br label %join
end:
  ret void
}}

"""

_ALONE = (
    _TIMED
    + """
define internal void @share(ptr %pool, ptr %function, ptr %arguments,
    i64 %total, i64 %grain, i64 %threads, i64 %index, ptr %times) {
  call void @timed(ptr %times, i64 %index, ptr %function,
      ptr %arguments, i64 0, i64 %total, i64 0, i64 0)
  ret void
}
"""
)

_RUN = f"""
{CHAINS}
; Run %count records of 64 bytes; how many were run, the one that set the status too.
define i64 @treadle_run(
    ptr %pool, ptr %steps, i64 %count, ptr %table, ptr %status, ptr %times) {{
entry:
  %context = alloca [{CONTEXT} x i8], align 8
  %busy = getelementptr i8, ptr %pool, i64 256
  %place = getelementptr i8, ptr %pool, i64 {THREADS}
  %threads = load i64, ptr %place, align 8
  %single = icmp slt i64 %threads, 2
  br i1 %single, label %loop, label %lease
lease:
  %pair = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{i32, i1}} %pair, 1
  br label %loop
loop:
  %shared = phi i1 [false, %entry], [%free, %lease], [%shared, %after]
  %k = phi i64 [0, %entry], [0, %lease], [%next, %after]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %step, label %end
step:
  %bytes = mul i64 %k, 64
  %record = getelementptr i8, ptr %steps, i64 %bytes
  %record1 = getelementptr i8, ptr %record, i64 8
  %record2 = getelementptr i8, ptr %record, i64 16
  %record3 = getelementptr i8, ptr %record, i64 24
  %record4 = getelementptr i8, ptr %record, i64 32
  %inner = load i64, ptr %record4, align 8
  %k1 = add i64 %k, 1
  %next = add i64 %k1, %inner
  %plain = icmp eq i64 %inner, 0
  br i1 %plain, label %one, label %region
region:
  call void @region(ptr %context, ptr %record, ptr %table, ptr %status,
      ptr %times, i64 %k, i1 %shared, ptr %pool, i64 %threads)
  br label %after
one:
  %function = load ptr, ptr %record, align 8
  %index = load i64, ptr %record1, align 8
  %total = load i64, ptr %record2, align 8
  %grain = load i64, ptr %record3, align 8
  %arguments = getelementptr i64, ptr %table, i64 %index
  %whole = icmp sge i64 %grain, %total
  %uncut = icmp slt i64 %grain, 1
  %small = or i1 %whole, %uncut
  %helped = xor i1 %small, true
  %parallel = and i1 %helped, %shared
  br i1 %parallel, label %share, label %alone
share:
  call void @share(ptr %pool, ptr %function, ptr %arguments,
      i64 %total, i64 %grain, i64 %threads, i64 %k, ptr %times)
  br label %after
alone:
  %some = icmp sgt i64 %total, 0
  br i1 %some, label %call, label %after
call:
  call void @timed(ptr %times, i64 %k, ptr %function,
      ptr %arguments, i64 0, i64 %total, i64 0, i64 0)
  br label %after
after:
  %found = load i64, ptr %status, align 8
  %fine = icmp eq i64 %found, 0
  br i1 %fine, label %loop, label %end
end:
  %ran = phi i64 [%k, %loop], [%next, %after]
  br i1 %shared, label %release, label %out
release:
  store atomic i32 0, ptr %busy release, align 4
  br label %out
out:
  ret i64 %ran
}}
"""

# Functions by name: (pool, steps, count, table, status, times) -> how many were run.
# As parts of other texts RUNS defines `treadle_run` inside them.
PORTABLE = {"treadle_run": _ALONE + _RUN}  # for one thread, on any system
TEXTS = {"treadle_run": _COMMON + _SHARE + _RUN}
RUNS = _COMMON + _SHARE + _RUN.replace("define i64", "define internal i64")
