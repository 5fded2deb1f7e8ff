"""The text of the function that follows plans (`call.py`): the nodes that it makes."""

from __future__ import annotations

__all__ = ["CALL", "NODES"]

NODES = """
; A tuple of the values at some places.
define internal ptr @inputs(ptr %api, ptr %values, ptr %places, i64 %count) {
entry:
  %tuple = call ptr @api(ptr %api, i64 $TUPLE)
  %incref = call ptr @api(ptr %api, i64 $INCREF)
  %made = call ptr %tuple(i64 %count)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %end, label %fill
fill:
  %items = getelementptr i8, ptr %made, i64 $ITEMS
  br label %loop
loop:
  %k = phi i64 [0, %fill], [%k1, %body]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %pp = getelementptr i64, ptr %places, i64 %k
  %p = load i64, ptr %pp
  %vp = getelementptr ptr, ptr %values, i64 %p
  %x = load ptr, ptr %vp
  call void %incref(ptr %x)
  %to = getelementptr ptr, ptr %items, i64 %k
  store ptr %x, ptr %to
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret ptr %made
}

; Leaves in the place of the ints among the arguments, each a reference that is the
; caller's; how many could be made.
define internal i64 @leaves(ptr %self, ptr %numbers, ptr %values, ptr %code,
    ptr %offset, ptr %notes) {
entry:
  %api = call ptr @item(ptr %self, i64 $own_api)
  %class = call ptr @item(ptr %self, i64 $own_class)
  %op = call ptr @item(ptr %self, i64 $own_constant)
  %type = call ptr @item(ptr %self, i64 $own_whole)
  %empty = call ptr @item(ptr %self, i64 $own_empty)
  %known = call ptr @item(ptr %self, i64 $own_integers)
  %make = call ptr @item(ptr %self, i64 $own_integer)
  %get = call ptr @api(ptr %api, i64 $GETITEM)
  %onearg = call ptr @api(ptr %api, i64 $ONEARG)
  %incref = call ptr @api(ptr %api, i64 $INCREF)
  %none = call ptr @api(ptr %api, i64 $NONE)
  %rp = getelementptr i64, ptr %numbers, i64 4
  %results = load i64, ptr %rp
  %dp = getelementptr i64, ptr %numbers, i64 6
  %count = load i64, ptr %dp
  %from = add i64 %results, $HEAD
  %places = getelementptr i64, ptr %numbers, i64 %from
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %ask, label %skip
ask:
  %bare = icmp eq ptr %notes, %none
  br i1 %bare, label %loop, label %look
look:
  %plain = call i1 @plain(ptr %api, ptr %notes)
  br label %loop
loop:
  %closed = phi i1 [true, %ask], [%plain, %look], [%closed, %next]
  %k = phi i64 [0, %ask], [0, %look], [%k1, %next]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %pp = getelementptr i64, ptr %places, i64 %k
  %p = load i64, ptr %pp
  %vp = getelementptr ptr, ptr %values, i64 %p
  %x = load ptr, ptr %vp
  %kept = call ptr %get(ptr %known, ptr %x)
  %new = icmp eq ptr %kept, null
  br i1 %new, label %fresh, label %hold
hold:
  call void %incref(ptr %kept)
  br label %store
fresh:
  %made = call ptr %onearg(ptr %make, ptr %x)
  %lost = icmp eq ptr %made, null
  br i1 %lost, label %end, label %store
store:
  %array = phi ptr [%kept, %hold], [%made, %fresh]
  %leaf = call ptr @fresh(ptr %api, ptr %class, ptr %op, ptr %empty, ptr %type,
    ptr %array, i64 0, ptr %code, ptr %offset, ptr %notes, i1 %closed)
  call void @drop(ptr %api, ptr %array)
  %failed = icmp eq ptr %leaf, null
  br i1 %failed, label %end, label %next
next:
  store ptr %leaf, ptr %vp
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret i64 %k
skip:
  ret i64 0
}

; Drop the leaves that were made.
define internal void @drop_leaves(ptr %api, ptr %numbers, ptr %values, i64 %count) {
entry:
  %rp = getelementptr i64, ptr %numbers, i64 4
  %results = load i64, ptr %rp
  %from = add i64 %results, $HEAD
  %places = getelementptr i64, ptr %numbers, i64 %from
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %body]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %pp = getelementptr i64, ptr %places, i64 %k
  %p = load i64, ptr %pp
  %vp = getelementptr ptr, ptr %values, i64 %p
  %x = load ptr, ptr %vp
  call void @drop(ptr %api, ptr %x)
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret void
}

; The nodes of a plan behind `leaves` other values; how many could be made.
define internal i64 @steps(ptr %self, ptr %plan, ptr %numbers, ptr %values,
    i64 %leaves, ptr %code, ptr %offset, ptr %notes) {
entry:
  %api = call ptr @item(ptr %self, i64 $own_api)
  %class = call ptr @item(ptr %self, i64 $own_class)
  %ops = call ptr @item(ptr %plan, i64 $plan_ops)
  %types = call ptr @item(ptr %plan, i64 $plan_types)
  %none = call ptr @api(ptr %api, i64 $NONE)
  %cp = getelementptr i64, ptr %numbers, i64 2
  %count = load i64, ptr %cp
  %rp = getelementptr i64, ptr %numbers, i64 4
  %results = load i64, ptr %rp
  %dp = getelementptr i64, ptr %numbers, i64 6
  %data = load i64, ptr %dp
  %told = add i64 %results, %data
  %headed = add i64 %told, $HEAD
  %first = getelementptr i64, ptr %numbers, i64 %headed
  %bare = icmp eq ptr %notes, %none
  br i1 %bare, label %loop, label %ask
ask:
  %plain = call i1 @plain(ptr %api, ptr %notes)
  br label %loop
loop:
  %open = phi i1 [true, %entry], [%plain, %ask], [%open, %next]
  %k = phi i64 [0, %entry], [0, %ask], [%k1, %next]
  %p = phi ptr [%first, %entry], [%first, %ask], [%p1, %next]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %flag = load i64, ptr %p
  %own = icmp ne i64 %flag, 0
  %closed = and i1 %own, %open
  %sp = getelementptr i64, ptr %p, i64 1
  %size = load i64, ptr %sp
  %places = getelementptr i64, ptr %p, i64 2
  %inputs = call ptr @inputs(ptr %api, ptr %values, ptr %places, i64 %size)
  %failed = icmp eq ptr %inputs, null
  br i1 %failed, label %end, label %make
make:
  %op = call ptr @item(ptr %ops, i64 %k)
  %type = call ptr @item(ptr %types, i64 %k)
  %depth = call i64 @depth(ptr %inputs)
  %made = call ptr @fresh(ptr %api, ptr %class, ptr %op, ptr %inputs, ptr %type,
    ptr %none, i64 %depth, ptr %code, ptr %offset, ptr %notes, i1 %closed)
  call void @drop(ptr %api, ptr %inputs)
  %lost = icmp eq ptr %made, null
  br i1 %lost, label %end, label %next
next:
  %at = add i64 %leaves, %k
  %vp = getelementptr ptr, ptr %values, i64 %at
  store ptr %made, ptr %vp
  %k1 = add i64 %k, 1
  %p1 = getelementptr i64, ptr %places, i64 %size
  br label %loop
end:
  ret i64 %k
}

; The results of a plan, in the form that it says.
define internal ptr @results(ptr %api, ptr %numbers, ptr %values) {
entry:
  %fp = getelementptr i64, ptr %numbers, i64 3
  %form = load i64, ptr %fp
  %cp = getelementptr i64, ptr %numbers, i64 4
  %count = load i64, ptr %cp
  %places = getelementptr i64, ptr %numbers, i64 $HEAD
  %incref = call ptr @api(ptr %api, i64 $INCREF)
  switch i64 %form, label %one [i64 $TUPLE_ARG, label %tuple i64 $LIST_ARG, label %list]
one:
  %p = load i64, ptr %places
  %vp = getelementptr ptr, ptr %values, i64 %p
  %x = load ptr, ptr %vp
  call void %incref(ptr %x)
  ret ptr %x
tuple:
  %found = call ptr @inputs(ptr %api, ptr %values, ptr %places, i64 %count)
  %lost = icmp eq ptr %found, null
  br i1 %lost, label %end, label %hide
hide:
  call void @hide(ptr %api, ptr %found)
  br label %end
list:
  %makelist = call ptr @api(ptr %api, i64 $LIST)
  %set = call ptr @api(ptr %api, i64 $SETITEM)
  %made = call ptr %makelist(i64 %count)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %end, label %loop
loop:
  %k = phi i64 [0, %list], [%k1, %body]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %pp = getelementptr i64, ptr %places, i64 %k
  %place = load i64, ptr %pp
  %yp = getelementptr ptr, ptr %values, i64 %place
  %y = load ptr, ptr %yp
  call void %incref(ptr %y)
  %done = call i32 %set(ptr %made, i64 %k, ptr %y)
  %k1 = add i64 %k, 1
  br label %loop
end:
  %y_all = phi ptr [%found, %tuple], [%found, %hide], [%made, %list], [%made, %loop]
  ret ptr %y_all
}

; Drop some references.
define internal void @drop_all(ptr %api, ptr %values, i64 %count) {
entry:
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %body]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %p = getelementptr ptr, ptr %values, i64 %k
  %x = load ptr, ptr %p
  call void @drop(ptr %api, ptr %x)
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret void
}
"""
CALL = """
; What a plan comes to; null where the interpreter has raised something.
define internal ptr @followed(ptr %self, ptr %plan, ptr %numbers, ptr %values) {
entry:
  %code_at = alloca ptr
  %offset_at = alloca ptr
  %api = call ptr @item(ptr %self, i64 $own_api)
  %given = load i64, ptr %numbers
  %np = getelementptr i64, ptr %numbers, i64 1
  %more = load i64, ptr %np
  %cp = getelementptr i64, ptr %numbers, i64 2
  %count = load i64, ptr %cp
  %leaves = add i64 %given, %more
  %behind = getelementptr ptr, ptr %values, i64 %given
  %nodes = getelementptr ptr, ptr %values, i64 %leaves
  %state = call ptr @thread(ptr %api)
  %n = icmp eq ptr %state, null
  br i1 %n, label %nothing, label %read
read:
  %notes = call ptr @held(ptr %api, ptr %state, i64 $notes)
  %there = call i64 @shared(ptr %self, ptr %plan, ptr %behind)
  %found = call i1 @located(ptr %self, ptr %code_at, ptr %offset_at)
  br i1 %found, label %make, label %undo
make:
  %code = load ptr, ptr %code_at
  %offset = load ptr, ptr %offset_at
  %dp = getelementptr i64, ptr %numbers, i64 6
  %data = load i64, ptr %dp
  %put = call i64 @leaves(ptr %self, ptr %numbers, ptr %values, ptr %code,
    ptr %offset, ptr %notes)
  %every = icmp eq i64 %put, %data
  br i1 %every, label %build, label %built
build:
  %some = call i64 @steps(ptr %self, ptr %plan, ptr %numbers, ptr %values,
    i64 %leaves, ptr %code, ptr %offset, ptr %notes)
  br label %built
built:
  %made = phi i64 [0, %make], [%some, %build]
  call void @drop(ptr %api, ptr %code)
  call void @drop(ptr %api, ptr %offset)
  %enough = icmp eq i64 %made, %count
  %whole = and i1 %enough, %every
  br i1 %whole, label %hand, label %clean
hand:
  %results = call ptr @results(ptr %api, ptr %numbers, ptr %values)
  br label %clean
clean:
  %y = phi ptr [%results, %hand], [null, %built]
  call void @drop_all(ptr %api, ptr %nodes, i64 %made)
  call void @drop_leaves(ptr %api, ptr %numbers, ptr %values, i64 %put)
  br label %undo
undo:
  %z = phi ptr [%y, %clean], [null, %read]
  call void @drop_all(ptr %api, ptr %behind, i64 %there)
  call void @drop(ptr %api, ptr %notes)
  ret ptr %z
nothing:
  ret ptr null
}

; call(*args, **kwargs) of a function that has plans.
define ptr @treadle_call(ptr %self, ptr %args, i64 %given, ptr %names) {
entry:
  %values = alloca [$ROOM x ptr]
  %api = call ptr @item(ptr %self, i64 $own_api)
  %bare = icmp eq ptr %names, null
  br i1 %bare, label %find, label %other
find:
  %plan = call ptr @planned(ptr %self, ptr %args, i64 %given, ptr %values)
  %none = icmp eq ptr %plan, null
  br i1 %none, label %missing, label %ask
missing:
  %occurred = call ptr @api(ptr %api, i64 $OCCURRED)
  %what = call ptr %occurred()
  %raised = icmp ne ptr %what, null
  br i1 %raised, label %nothing, label %other
ask:
  %bytes = call ptr @item(ptr %plan, i64 $plan_numbers)
  %numbers = getelementptr i8, ptr %bytes, i64 $BYTES
  %may = call i8 @allowed(ptr %self, ptr %plan, ptr %numbers)
  switch i8 %may, label %stop [i8 0, label %leave i8 1, label %follow]
follow:
  %y = call ptr @followed(ptr %self, ptr %plan, ptr %numbers, ptr %values)
  call void @drop(ptr %api, ptr %plan)
  ret ptr %y
stop:
  call void @drop(ptr %api, ptr %plan)
  ret ptr null
leave:
  call void @drop(ptr %api, ptr %plan)
  br label %other
other:
  %long = call ptr @item(ptr %self, i64 $own_long)
  %vector = call ptr @api(ptr %api, i64 $VECTOR)
  %z = call ptr %vector(ptr %long, ptr %args, i64 %given, ptr %names)
  ret ptr %z
nothing:
  ret ptr null
}
"""
