"""The text of the function that follows plans (`call.py`): which plan it is."""

from __future__ import annotations

__all__ = ["SIGNATURE"]

SIGNATURE = """
; Tell some arguments in a key, from number n on, and put down the tensors among them,
; from `seen` on; how many numbers there are then, or -1 if they are too many.
define internal i64 @tell(ptr %self, ptr %items, i64 %count, ptr %key, i64 %n,
    ptr %values, ptr %seen) {
entry:
  %class = call ptr @item(ptr %self, i64 $own_class)
  %items_of = call ptr @item(ptr %self, i64 $own_item)
  %api = call ptr @item(ptr %self, i64 $own_api)
  %ints = call ptr @api(ptr %api, i64 $INTTYPE)
  %true = call ptr @api(ptr %api, i64 $TRUE)
  %flag = call ptr @item(ptr %self, i64 $own_data)
  %takes = icmp eq ptr %flag, %true
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %next]
  %at = phi i64 [%n, %entry], [%at2, %next]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %room = icmp slt i64 %at, $LONGEST
  br i1 %room, label %look, label %other
look:
  %xp = getelementptr ptr, ptr %items, i64 %k
  %x = load ptr, ptr %xp
  %kind = call ptr @field(ptr %x, i64 $KIND)
  %tp = getelementptr i64, ptr %key, i64 %at
  %at1 = add i64 %at, 1
  %vp = getelementptr ptr, ptr %key, i64 %at1
  %plain = icmp eq ptr %kind, %class
  %part = icmp eq ptr %kind, %items_of
  %tensor = or i1 %plain, %part
  br i1 %tensor, label %typed, label %untyped
typed:
  %type = call ptr @field(ptr %x, i64 $type)
  %given = load i64, ptr %seen
  br label %search
search:
  %j = phi i64 [0, %typed], [%j1, %unlike]
  %left = icmp slt i64 %j, %given
  br i1 %left, label %compare, label %value
compare:
  %yp = getelementptr ptr, ptr %values, i64 %j
  %y = load ptr, ptr %yp
  %j1 = add i64 %j, 1
  %same = icmp eq ptr %x, %y
  br i1 %same, label %again, label %unlike
unlike:
  br label %search
again:
  %which = inttoptr i64 %j to ptr
  br label %value
untyped:
  %int = icmp eq ptr %kind, %ints
  %number = and i1 %int, %takes
  br i1 %number, label %value, label %thing
value:
  %mark = phi i64 [$TENSOR, %search], [$SAME, %again], [$NUMBER, %untyped]
  %what = phi ptr [%type, %search], [%which, %again], [null, %untyped]
  store i64 %mark, ptr %tp
  store ptr %what, ptr %vp
  %s = load i64, ptr %seen
  %to = getelementptr ptr, ptr %values, i64 %s
  store ptr %x, ptr %to
  %s1 = add i64 %s, 1
  store i64 %s1, ptr %seen
  br label %next
thing:
  store i64 $OTHER, ptr %tp
  store ptr %x, ptr %vp
  br label %next
next:
  %at2 = add i64 %at, 2
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret i64 %at
other:
  ret i64 -1
}

; The key of a call, the items of tuples and lists among its arguments included.
define internal i64 @sign(ptr %self, ptr %args, i64 %count, ptr %key, ptr %values,
    ptr %seen) {
entry:
  %api = call ptr @item(ptr %self, i64 $own_api)
  %tuples = call ptr @api(ptr %api, i64 $TUPLETYPE)
  %lists = call ptr @api(ptr %api, i64 $LISTTYPE)
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %next]
  %n = phi i64 [0, %entry], [%n1, %next]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %ap = getelementptr ptr, ptr %args, i64 %k
  %x = load ptr, ptr %ap
  %kind = call ptr @field(ptr %x, i64 $KIND)
  %tuple = icmp eq ptr %kind, %tuples
  br i1 %tuple, label %open_tuple, label %not_tuple
open_tuple:
  %within = getelementptr i8, ptr %x, i64 $ITEMS
  br label %open
not_tuple:
  %list = icmp eq ptr %kind, %lists
  br i1 %list, label %open_list, label %tell
open_list:
  %held = call ptr @field(ptr %x, i64 $LIST_ITEMS)
  br label %open
open:
  %parts = phi ptr [%within, %open_tuple], [%held, %open_list]
  %mark = phi i64 [$TUPLE_ARG, %open_tuple], [$LIST_ARG, %open_list]
  %room = icmp slt i64 %n, $LONGEST
  br i1 %room, label %sized, label %other
sized:
  %sp = getelementptr i8, ptr %x, i64 $SIZE
  %size = load i64, ptr %sp
  %mp = getelementptr i64, ptr %key, i64 %n
  store i64 %mark, ptr %mp
  %n2 = add i64 %n, 1
  %np = getelementptr i64, ptr %key, i64 %n2
  store i64 %size, ptr %np
  %n3 = add i64 %n, 2
  br label %tell
tell:
  %items = phi ptr [%ap, %not_tuple], [%parts, %sized]
  %many = phi i64 [1, %not_tuple], [%size, %sized]
  %from = phi i64 [%n, %not_tuple], [%n3, %sized]
  %n1 = call i64 @tell(ptr %self, ptr %items, i64 %many, ptr %key, i64 %from,
    ptr %values, ptr %seen)
  %long = icmp slt i64 %n1, 0
  br i1 %long, label %other, label %next
next:
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret i64 %n
other:
  ret i64 -1
}

; Whether a bytes object holds so many bytes, a multiple of eight, and these.
define internal i1 @equal(ptr %held, ptr %key, i64 %length) {
entry:
  %sp = getelementptr i8, ptr %held, i64 $SIZE
  %size = load i64, ptr %sp
  %content = getelementptr i8, ptr %held, i64 $BYTES
  %fits = icmp eq i64 %size, %length
  br i1 %fits, label %loop, label %other
loop:
  %k = phi i64 [0, %entry], [%k1, %next]
  %inside = icmp slt i64 %k, %length
  br i1 %inside, label %body, label %same
body:
  %xp = getelementptr i8, ptr %content, i64 %k
  %yp = getelementptr i8, ptr %key, i64 %k
  %x = load i64, ptr %xp
  %y = load i64, ptr %yp
  %equal = icmp eq i64 %x, %y
  br i1 %equal, label %next, label %other
next:
  %k1 = add i64 %k, 8
  br label %loop
same:
  ret i1 1
other:
  ret i1 0
}

; The plan of a call, a reference that is the caller's, with the tensors among its
; arguments put down; null where there is none, or where something was raised.
define internal ptr @planned(ptr %self, ptr %args, i64 %count, ptr %values) {
entry:
  %key = alloca [$ROOM x i64]
  %seen = alloca i64
  store i64 0, ptr %seen
  %api = call ptr @item(ptr %self, i64 $own_api)
  %n = call i64 @sign(ptr %self, ptr %args, i64 %count, ptr %key, ptr %values,
    ptr %seen)
  %long = icmp slt i64 %n, 0
  br i1 %long, label %nothing, label %find
find:
  %incref = call ptr @api(ptr %api, i64 $INCREF)
  %length = mul i64 %n, 8
  %latest = call ptr @item(ptr %self, i64 $own_latest)
  %pair = call ptr @field(ptr %latest, i64 $LIST_ITEMS)
  %pp = getelementptr ptr, ptr %pair, i64 1
  %last = load ptr, ptr %pair
  %same = call i1 @equal(ptr %last, ptr %key, i64 %length)
  br i1 %same, label %again, label %make
again:
  %known = load ptr, ptr %pp
  call void %incref(ptr %known)
  ret ptr %known
make:
  %bytes = call ptr @api(ptr %api, i64 $MAKEBYTES)
  %made = call ptr %bytes(ptr %key, i64 %length)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %nothing, label %get
get:
  %plans = call ptr @item(ptr %self, i64 $own_plans)
  %getitem = call ptr @api(ptr %api, i64 $GETITEM)
  %plan = call ptr %getitem(ptr %plans, ptr %made)
  %none = icmp eq ptr %plan, null
  br i1 %none, label %end, label %hold
hold:
  call void %incref(ptr %plan)
  %before = load ptr, ptr %pp
  store ptr %made, ptr %pair
  store ptr %plan, ptr %pp
  call void %incref(ptr %plan)
  call void @drop(ptr %api, ptr %last)
  call void @drop(ptr %api, ptr %before)
  ret ptr %plan
end:
  call void @drop(ptr %api, ptr %made)
  ret ptr null
nothing:
  ret ptr null
}
"""
