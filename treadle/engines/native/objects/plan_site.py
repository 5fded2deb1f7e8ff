"""The text of the function that follows plans (`call.py`): may it, and where is it."""

from __future__ import annotations

__all__ = ["HOLDS", "SITE"]

HOLDS = """
; Whether a list is empty.
define internal i1 @empty(ptr %self, i64 %list) alwaysinline {
  %x = call ptr @item(ptr %self, i64 %list)
  %sp = getelementptr i8, ptr %x, i64 $SIZE
  %size = load i64, ptr %sp
  %none = icmp eq i64 %size, 0
  ret i1 %none
}

; Whether this thread is in no trace, and has assigned nothing that waits.
define internal i1 @outside(ptr %api, ptr %state) {
  %frames = call ptr @field(ptr %state, i64 $frames)
  %sp = getelementptr i8, ptr %frames, i64 $SIZE
  %size = load i64, ptr %sp
  %last = sub i64 %size, 1
  %items = call ptr @field(ptr %frames, i64 $LIST_ITEMS)
  %fp = getelementptr ptr, ptr %items, i64 %last
  %frame = load ptr, ptr %fp
  %flag = call ptr @field(ptr %frame, i64 $tracing)
  %own = call ptr @field(ptr %frame, i64 $versions)
  %false = call ptr @api(ptr %api, i64 $FALSE)
  %plain = icmp eq ptr %flag, %false
  %np = getelementptr i8, ptr %own, i64 $SIZE
  %n = load i64, ptr %np
  %bare = icmp eq i64 %n, 0
  %found = and i1 %plain, %bare
  ret i1 %found
}

; Whether something that is called without arguments says True; 2 where it has raised.
define internal i8 @says(ptr %api, ptr %what) {
entry:
  %noargs = call ptr @api(ptr %api, i64 $NOARGS)
  %said = call ptr %noargs(ptr %what)
  %raised = icmp eq ptr %said, null
  br i1 %raised, label %failed, label %know
know:
  %true = call ptr @api(ptr %api, i64 $TRUE)
  %same = icmp eq ptr %said, %true
  call void @drop(ptr %api, ptr %said)
  %found = zext i1 %same to i8
  ret i8 %found
failed:
  ret i8 2
}

; Whether all that a plan has seen around it is there; 2 where something was raised.
define internal i8 @still(ptr %self, ptr %plan) {
entry:
  %api = call ptr @item(ptr %self, i64 $own_api)
  %terms = call ptr @item(ptr %plan, i64 $plan_seen)
  %getattr = call ptr @api(ptr %api, i64 $GETATTR)
  %sp = getelementptr i8, ptr %terms, i64 $SIZE
  %count = load i64, ptr %sp
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %next]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %yes
body:
  %term = call ptr @item(ptr %terms, i64 %k)
  %way = call ptr @item(ptr %term, i64 0)
  %owner = call ptr @item(ptr %term, i64 1)
  %place = call ptr @item(ptr %term, i64 2)
  %value = call ptr @item(ptr %term, i64 3)
  %kind = call i64 @number(ptr %way)
  switch i64 %kind, label %no [i64 $FIELD, label %word i64 $ATTRIBUTE, label %attribute
    i64 $NESTED, label %nested i64 $ENTRY, label %entry_of i64 $STAMP, label %stamp
    i64 $STATED, label %stated]
word:
  %offset = call i64 @number(ptr %place)
  %w = call ptr @field(ptr %owner, i64 %offset)
  br label %compare
stated:
  %state = call ptr @thread(ptr %api)
  %unknown = icmp eq ptr %state, null
  br i1 %unknown, label %failed, label %known
known:
  %slot = call i64 @number(ptr %place)
  %t = call ptr @field(ptr %state, i64 %slot)
  br label %compare
attribute:
  %a = call ptr %getattr(ptr %owner, ptr %place)
  br label %asked
nested:
  %first = call ptr @item(ptr %place, i64 0)
  %second = call ptr @item(ptr %place, i64 1)
  %middle = call ptr %getattr(ptr %owner, ptr %first)
  %lost = icmp eq ptr %middle, null
  br i1 %lost, label %gone, label %within
within:
  %b = call ptr %getattr(ptr %middle, ptr %second)
  call void @drop(ptr %api, ptr %middle)
  br label %asked
asked:
  %x = phi ptr [%a, %attribute], [%b, %within]
  %none = icmp eq ptr %x, null
  br i1 %none, label %gone, label %held
held:  ; what is compared with it is alive, so it is not another at the same address
  call void @drop(ptr %api, ptr %x)
  br label %compare
entry_of:
  %getitem = call ptr @api(ptr %api, i64 $GETITEM)
  %e = call ptr %getitem(ptr %owner, ptr %place)
  %absent = icmp eq ptr %e, null
  br i1 %absent, label %gone, label %compare
compare:
  %found = phi ptr [%w, %word], [%t, %known], [%x, %held], [%e, %entry_of]
  %same = icmp eq ptr %found, %value
  br i1 %same, label %next, label %no
stamp:
  %changes = call ptr @item(ptr %self, i64 $own_changes)
  %now = call ptr @field(ptr %changes, i64 $now)
  %seen = call ptr @field(ptr %owner, i64 $seen)
  %quiet = icmp eq ptr %now, %seen
  br i1 %quiet, label %next, label %look
look:
  %said = call i8 @says(ptr %api, ptr %owner)
  switch i8 %said, label %failed [i8 0, label %no i8 1, label %next]
next:
  %k1 = add i64 %k, 1
  br label %loop
gone:
  %clear = call ptr @api(ptr %api, i64 $CLEAR)
  call void %clear()
  br label %no
yes:
  ret i8 1
no:
  ret i8 0
failed:
  ret i8 2
}

; Whether a call may follow its plan here and now; 2 where something was raised.
define internal i8 @allowed(ptr %self, ptr %plan, ptr %numbers) {
entry:
  %api = call ptr @item(ptr %self, i64 $own_api)
  %alone = call i1 @empty(ptr %self, i64 $own_watchers)
  %free = call i1 @empty(ptr %self, i64 $own_holding)
  %both = and i1 %alone, %free
  br i1 %both, label %begin, label %no
begin:
  %rp = getelementptr i64, ptr %numbers, i64 5
  %reads = load i64, ptr %rp
  %looks = icmp ne i64 %reads, 0
  br i1 %looks, label %trace, label %guard
trace:
  %state = call ptr @thread(ptr %api)
  %lost = icmp eq ptr %state, null
  br i1 %lost, label %failed, label %within
within:
  %outside = call i1 @outside(ptr %api, ptr %state)
  br i1 %outside, label %guard, label %no
guard:
  %still = call i8 @still(ptr %self, ptr %plan)
  switch i8 %still, label %failed [i8 0, label %no i8 1, label %rest]
rest:
  %holds = call ptr @item(ptr %plan, i64 $plan_holds)
  %none = call ptr @api(ptr %api, i64 $NONE)
  %always = icmp eq ptr %holds, %none
  br i1 %always, label %yes, label %call
call:
  %said = call i8 @says(ptr %api, ptr %holds)
  ret i8 %said
yes:
  ret i8 1
no:
  ret i8 0
failed:
  ret i8 2
}
"""
SITE = """
; Code and offset of the user's call, each a reference that is the caller's; 0 where the
; interpreter has raised something.
define internal i1 @located(ptr %self, ptr %code_at, ptr %offset_at) {
entry:
  %api = call ptr @item(ptr %self, i64 $own_api)
  %files = call ptr @item(ptr %self, i64 $own_library)
  %incref = call ptr @api(ptr %api, i64 $INCREF)
  %getframe = call ptr @api(ptr %api, i64 $FRAME)
  %getcode = call ptr @api(ptr %api, i64 $CODE)
  %getback = call ptr @api(ptr %api, i64 $BACK)
  %get = call ptr @api(ptr %api, i64 $GETITEM)
  %false = call ptr @api(ptr %api, i64 $FALSE)
  %true = call ptr @api(ptr %api, i64 $TRUE)
  %inner = call ptr %getframe()
  %outside = icmp eq ptr %inner, null
  br i1 %outside, label %search, label %own
own:
  call void %incref(ptr %inner)
  br label %loop
loop:
  %frame = phi ptr [%inner, %own], [%back, %behind]
  %code = call ptr %getcode(ptr %frame)
  %file = call ptr @field(ptr %code, i64 $FILENAME)
  %ours = call ptr %get(ptr %files, ptr %file)
  %users = icmp eq ptr %ours, %false
  br i1 %users, label %found, label %skip
skip:
  call void @drop(ptr %api, ptr %code)
  %library = icmp eq ptr %ours, %true
  br i1 %library, label %up, label %strange
up:
  %back = call ptr %getback(ptr %frame)
  call void @drop(ptr %api, ptr %frame)
  %top = icmp eq ptr %back, null
  br i1 %top, label %search, label %behind
behind:
  br label %loop
found:
  %lasti = call ptr @api(ptr %api, i64 $LASTI)
  %place = call i32 %lasti(ptr %frame)
  call void @drop(ptr %api, ptr %frame)
  %wide = sext i32 %place to i64
  %long = call ptr @api(ptr %api, i64 $LONG)
  %offset = call ptr %long(i64 %wide)
  store ptr %code, ptr %code_at
  store ptr %offset, ptr %offset_at
  %made = icmp ne ptr %offset, null
  br i1 %made, label %end, label %lost
lost:
  call void @drop(ptr %api, ptr %code)
  ret i1 0
strange:
  call void @drop(ptr %api, ptr %frame)
  br label %search
search:
  %capture = call ptr @item(ptr %self, i64 $own_capture)
  %above = call ptr @item(ptr %self, i64 $own_above)
  %onearg = call ptr @api(ptr %api, i64 $ONEARG)
  %pair = call ptr %onearg(ptr %capture, ptr %above)
  %raised = icmp eq ptr %pair, null
  br i1 %raised, label %failed, label %apart
apart:
  %first = call ptr @item(ptr %pair, i64 0)
  %second = call ptr @item(ptr %pair, i64 1)
  call void %incref(ptr %first)
  call void %incref(ptr %second)
  store ptr %first, ptr %code_at
  store ptr %second, ptr %offset_at
  call void @drop(ptr %api, ptr %pair)
  br label %end
end:
  ret i1 1
failed:
  ret i1 0
}

; Put the newest versions of Variables and what was captured behind the arguments, each
; a reference that is the caller's; how many were put down.
define internal i64 @shared(ptr %self, ptr %plan, ptr %values) {
entry:
  %api = call ptr @item(ptr %self, i64 $own_api)
  %variables = call ptr @item(ptr %plan, i64 $plan_variables)
  %captured = call ptr @item(ptr %plan, i64 $plan_captured)
  %incref = call ptr @api(ptr %api, i64 $INCREF)
  %ints = call ptr @api(ptr %api, i64 $INTTYPE)
  %latest = call ptr @item(ptr %self, i64 $own_latest)
  %pair = call ptr @field(ptr %latest, i64 $LIST_ITEMS)
  %bytes = load ptr, ptr %pair
  %key = getelementptr i8, ptr %bytes, i64 $BYTES
  %vp = getelementptr i8, ptr %variables, i64 $SIZE
  %vs = load i64, ptr %vp
  %cp = getelementptr i8, ptr %captured, i64 $SIZE
  %cs = load i64, ptr %cp
  br label %versions
versions:
  %k = phi i64 [0, %entry], [%k1, %ask]
  %left = icmp slt i64 %k, %vs
  br i1 %left, label %read, label %rest
read:
  %told = call ptr @item(ptr %variables, i64 %k)
  %kind = call ptr @field(ptr %told, i64 $KIND)
  %argument = icmp eq ptr %kind, %ints
  br i1 %argument, label %find, label %ask
find:  ; in the signature of this call, which is the latest
  %word = call i64 @number(ptr %told)
  %wp = getelementptr i64, ptr %key, i64 %word
  %given = load ptr, ptr %wp
  br label %ask
ask:
  %v = phi ptr [%told, %read], [%given, %find]
  %x = call ptr @held(ptr %api, ptr %v, i64 $committed)
  %xp = getelementptr ptr, ptr %values, i64 %k
  store ptr %x, ptr %xp
  %k1 = add i64 %k, 1
  br label %versions
rest:
  %j = phi i64 [0, %versions], [%j1, %hold]
  %more = icmp slt i64 %j, %cs
  br i1 %more, label %hold, label %end
hold:
  %c = call ptr @item(ptr %captured, i64 %j)
  call void %incref(ptr %c)
  %place = add i64 %vs, %j
  %yp = getelementptr ptr, ptr %values, i64 %place
  store ptr %c, ptr %yp
  %j1 = add i64 %j, 1
  br label %rest
end:
  %all = add i64 %vs, %cs
  ret i64 %all
}
"""
