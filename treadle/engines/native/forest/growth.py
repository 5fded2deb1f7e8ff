"""How nodes join cells (`batch/grow.py`), as the text of machine code."""

from __future__ import annotations

from treadle.batch.grow import WAITS

__all__ = ["FIELDS", "GROWTH", "WAITED"]

# Of a cell: the node it goes by, if it is open, its products, its nodes, its level, for
# how many it waits, the only cell that reads it, the one that it becomes part of, if it
# computes; then the cells that it waits for, sorted.
WAITED = 9
FIELDS = WAITED + WAITS
GROWTH = """
define internal ptr @of(ptr %cells, i64 %c, i64 %f) alwaysinline {
  %p = getelementptr [$FIELDS x i64], ptr %cells, i64 %c, i64 %f
  ret ptr %p
}

define internal i64 @get(ptr %cells, i64 %c, i64 %f) alwaysinline {
  %p = call ptr @of(ptr %cells, i64 %c, i64 %f)
  %x = load i64, ptr %p
  ret i64 %x
}

define internal void @put(ptr %cells, i64 %c, i64 %f, i64 %x) alwaysinline {
  %p = call ptr @of(ptr %cells, i64 %c, i64 %f)
  store i64 %x, ptr %p
  ret void
}

define internal void @more(ptr %cells, i64 %c, i64 %f, i64 %by) alwaysinline {
  %p = call ptr @of(ptr %cells, i64 %c, i64 %f)
  %x = load i64, ptr %p
  %y = add i64 %x, %by
  store i64 %y, ptr %p
  ret void
}

; Put a number into a sorted list of different ones, of which there is room for one more
; than there may be; how many there are then.
define internal i64 @insert(ptr %list, i64 %n, i64 %x) {
entry:
  br label %look
look:
  %k = phi i64 [0, %entry], [%k1, %next]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %there, label %free
there:
  %y = call i64 @word(ptr %list, i64 %k)
  %same = icmp eq i64 %y, %x
  br i1 %same, label %known, label %other
known:
  ret i64 %n
other:
  %less = icmp slt i64 %y, %x
  %k1 = add i64 %k, 1
  br i1 %less, label %next, label %free
next:
  br label %look
free:
  br label %move
move:
  %m = phi i64 [%n, %free], [%m1, %shift]
  %right = icmp sgt i64 %m, %k
  br i1 %right, label %shift, label %put
shift:
  %m1 = sub i64 %m, 1
  %z = call i64 @word(ptr %list, i64 %m1)
  call void @store(ptr %list, i64 %m, i64 %z)
  br label %move
put:
  call void @store(ptr %list, i64 %k, i64 %x)
  %n1 = add i64 %n, 1
  ret i64 %n1
}

; Whether a cell waits for another one, or for one that does.
define internal i1 @awaits(ptr %cells, i64 %c, i64 %other) {
entry:
  %own = call i1 @waits(ptr %cells, i64 %c, i64 %other)
  br i1 %own, label %yes, label %all
all:
  %n = call i64 @get(ptr %cells, i64 %c, i64 5)
  br label %look
look:
  %k = phi i64 [0, %all], [%k1, %there]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %there, label %no
there:
  %f = add i64 %k, $WAITED
  %x = call i64 @get(ptr %cells, i64 %c, i64 %f)
  %does = call i1 @waits(ptr %cells, i64 %x, i64 %other)
  %k1 = add i64 %k, 1
  br i1 %does, label %yes, label %look
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @waits(ptr %cells, i64 %c, i64 %other) {
entry:
  %n = call i64 @get(ptr %cells, i64 %c, i64 5)
  br label %look
look:
  %k = phi i64 [0, %entry], [%k1, %next]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %there, label %no
there:
  %f = add i64 %k, $WAITED
  %x = call i64 @get(ptr %cells, i64 %c, i64 %f)
  %same = icmp eq i64 %x, %other
  br i1 %same, label %yes, label %next
next:
  %k1 = add i64 %k, 1
  br label %look
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether a node can be part of the last of the cells that it waits for.
define internal i1 @joins(ptr %cells, i64 %best, i64 %role, ptr %waits, i64 %n,
                          ptr %operands, i64 %s, i64 %e, ptr %own) {
entry:
  %able = icmp sge i64 %role, $MOVES
  %some = icmp sge i64 %best, 0
  %could = and i1 %able, %some
  br i1 %could, label %state, label %no
state:
  %open = call i64 @get(ptr %cells, i64 %best, i64 1)
  %is = icmp ne i64 %open, 0
  %products = call i64 @get(ptr %cells, i64 %best, i64 2)
  %computes = call i64 @get(ptr %cells, i64 %best, i64 8)
  %busy = or i64 %products, %computes
  %has = icmp sgt i64 %busy, 0
  %product = icmp eq i64 %role, $PRODUCT
  %two = and i1 %has, %product
  %count = call i64 @get(ptr %cells, i64 %best, i64 3)
  %full = icmp sge i64 %count, $NODES
  %few = icmp sle i64 %n, $MOST
  %not = or i1 %two, %full
  %yet = xor i1 %not, true
  %so = and i1 %is, %few
  %go = and i1 %so, %yet
  br i1 %go, label %look, label %no
look:
  %k = phi i64 [0, %state], [%k1, %next]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %there, label %ages
there:
  %x = call i64 @word(ptr %waits, i64 %k)
  %itself = icmp eq i64 %x, %best
  br i1 %itself, label %next, label %ask
ask:
  %known = call i1 @awaits(ptr %cells, i64 %best, i64 %x)
  br i1 %known, label %next, label %no
next:
  %k1 = add i64 %k, 1
  br label %look
ages:
  %began = call i64 @get(ptr %cells, i64 %best, i64 0)
  br label %operand
operand:
  %j = phi i64 [%s, %ages], [%j1, %fine]
  %more = icmp slt i64 %j, %e
  br i1 %more, label %one, label %yes
one:
  %t = call i64 @word(ptr %operands, i64 %j)
  %c = call i64 @word(ptr %own, i64 %t)
  %leaf = icmp slt i64 %c, 0
  %mine = icmp eq i64 %c, %best
  %older = icmp slt i64 %t, %began
  %either = or i1 %leaf, %mine
  %good = or i1 %either, %older
  br i1 %good, label %fine, label %no
fine:
  %j1 = add i64 %j, 1
  br label %operand
yes:
  ret i1 true
no:
  ret i1 false
}

; Let each node join a cell or begin one; how many cells there are. %own gets the cell
; of each node, -1 if it needs none.
define internal i64 @grow(ptr %starts, ptr %operands, ptr %roles, i64 %nodes, ptr %own,
                          ptr %cells) {
entry:
  %waits = alloca i64, i64 $ROOM
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %done]
  %made = phi i64 [0, %entry], [%made1, %done]
  %in = icmp slt i64 %k, %nodes
  br i1 %in, label %node, label %end
node:
  %role = call i64 @word(ptr %roles, i64 %k)
  %ends = icmp sle i64 %role, $LEAF
  br i1 %ends, label %leaf, label %read
leaf:
  call void @store(ptr %own, i64 %k, i64 -1)
  br label %done
read:
  %s = call i64 @word(ptr %starts, i64 %k)
  %k2 = add i64 %k, 1
  %e = call i64 @word(ptr %starts, i64 %k2)
  %is_result = icmp eq i64 %role, $RESULT
  br i1 %is_result, label %result, label %gather
result:
  %of = call i64 @word(ptr %operands, i64 %s)
  %maker = call i64 @word(ptr %own, i64 %of)
  %has = icmp sge i64 %maker, 0
  br i1 %has, label %join_maker, label %gather
join_maker:
  call void @more(ptr %cells, i64 %maker, i64 3, i64 1)
  call void @store(ptr %own, i64 %k, i64 %maker)
  br label %done
gather:
  br label %operand
operand:
  %j = phi i64 [%s, %gather], [%j1, %next]
  %n = phi i64 [0, %gather], [%n1, %next]
  %best = phi i64 [-1, %gather], [%best1, %next]
  %level = phi i64 [0, %gather], [%level1, %next]
  %more = icmp slt i64 %j, %e
  br i1 %more, label %one, label %judge
one:
  %t = call i64 @word(ptr %operands, i64 %j)
  %c = call i64 @word(ptr %own, i64 %t)
  %waited = icmp sge i64 %c, 0
  br i1 %waited, label %wait, label %next
wait:
  %cl = call i64 @get(ptr %cells, i64 %c, i64 4)
  %deeper = icmp sgt i64 %cl, %level
  %level2 = select i1 %deeper, i64 %cl, i64 %level
  %later = icmp sgt i64 %c, %best
  %best2 = select i1 %later, i64 %c, i64 %best
  %room = icmp sle i64 %n, $MOST
  br i1 %room, label %insert, label %next
insert:
  %n2 = call i64 @insert(ptr %waits, i64 %n, i64 %c)
  br label %next
next:
  %n1 = phi i64 [%n, %one], [%n, %wait], [%n2, %insert]
  %best1 = phi i64 [%best, %one], [%best2, %wait], [%best2, %insert]
  %level1 = phi i64 [%level, %one], [%level2, %wait], [%level2, %insert]
  %j1 = add i64 %j, 1
  br label %operand
judge:
  %product = icmp eq i64 %role, $PRODUCT
  %products = zext i1 %product to i64
  %part = icmp eq i64 %role, $PART
  %computes = zext i1 %part to i64
  %fits = call i1 @joins(ptr %cells, i64 %best, i64 %role, ptr %waits, i64 %n,
                         ptr %operands, i64 %s, i64 %e, ptr %own)
  br i1 %fits, label %join, label %begin
join:
  call void @more(ptr %cells, i64 %best, i64 3, i64 1)
  call void @more(ptr %cells, i64 %best, i64 2, i64 %products)
  call void @more(ptr %cells, i64 %best, i64 4, i64 %products)
  %did = call i64 @get(ptr %cells, i64 %best, i64 8)
  %does = or i64 %did, %computes
  call void @put(ptr %cells, i64 %best, i64 8, i64 %does)
  call void @store(ptr %own, i64 %k, i64 %best)
  br label %done
begin:
  call void @put(ptr %cells, i64 %made, i64 0, i64 %k)
  call void @put(ptr %cells, i64 %made, i64 2, i64 %products)
  call void @put(ptr %cells, i64 %made, i64 8, i64 %computes)
  call void @put(ptr %cells, i64 %made, i64 3, i64 1)
  %above = add i64 %level, %products
  call void @put(ptr %cells, i64 %made, i64 4, i64 %above)
  call void @put(ptr %cells, i64 %made, i64 6, i64 -2)
  call void @put(ptr %cells, i64 %made, i64 7, i64 -1)
  call void @store(ptr %own, i64 %k, i64 %made)
  %made2 = add i64 %made, 1
  %few = icmp sle i64 %n, $WAITS
  %able = icmp sge i64 %role, $MOVES
  br i1 %few, label %copy, label %closed
closed:
  call void @put(ptr %cells, i64 %made, i64 1, i64 0)
  call void @put(ptr %cells, i64 %made, i64 5, i64 0)
  br label %done
copy:
  %q = phi i64 [0, %begin], [%q1, %put]
  %left = icmp slt i64 %q, %n
  br i1 %left, label %put, label %opens
put:
  %w = call i64 @word(ptr %waits, i64 %q)
  %f = add i64 %q, $WAITED
  call void @put(ptr %cells, i64 %made, i64 %f, i64 %w)
  %q1 = add i64 %q, 1
  br label %copy
opens:
  call void @put(ptr %cells, i64 %made, i64 5, i64 %n)
  %several = icmp sgt i64 %n, 1
  %sure = or i1 %product, %several
  %reads = icmp eq i64 %n, 1
  br i1 %sure, label %opened, label %maybe
maybe:
  br i1 %reads, label %ask, label %opened
ask:
  %bopen = call i64 @get(ptr %cells, i64 %best, i64 1)
  %isopen = icmp ne i64 %bopen, 0
  %bnode = call i64 @get(ptr %cells, i64 %best, i64 0)
  %brole = call i64 @word(ptr %roles, i64 %bnode)
  %lone = icmp eq i64 %brole, $LONE
  %onward = or i1 %isopen, %lone
  br label %opened
opened:
  %yes = phi i1 [true, %opens], [false, %maybe], [%onward, %ask]
  %ready = and i1 %yes, %able
  %open = zext i1 %ready to i64
  call void @put(ptr %cells, i64 %made, i64 1, i64 %open)
  br label %done
done:
  %made1 = phi i64 [%made, %leaf], [%made, %join_maker], [%made, %join],
                   [%made2, %closed], [%made2, %opened]
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret i64 %made
}
"""
