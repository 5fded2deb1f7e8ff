"""Which cells do the same (`batch/members.py`), as the text of machine code.

What a cell does is written down as a key; cells with equal keys, word for word, are of
one kind. Hashes only tell where to look.
"""

from __future__ import annotations

__all__ = ["ALIKE"]

# Of the space of `members.py`.
ALIKE = """
; Add a word to a key; its hash then.
define internal i64 @add(ptr %key, i64 %w, i64 %x, i64 %hash) alwaysinline {
  call void @store(ptr %key, i64 %w, i64 %x)
  %h1 = xor i64 %hash, %x
  %h2 = mul i64 %h1, -7046029254386353131
  %h3 = lshr i64 %h2, 29
  %h4 = xor i64 %h2, %h3
  ret i64 %h4
}

; Write down what a cell does; how many words, how many rows, and the hash.
define internal {i64, i64, i64} @written(ptr %space, i64 %c, ptr %key, ptr %rows) {
entry:
  %starts = call ptr @array(ptr %space, i64 0)
  %operands = call ptr @array(ptr %space, i64 1)
  %owners = call ptr @array(ptr %space, i64 2)
  %shares = call ptr @array(ptr %space, i64 3)
  %codes = call ptr @array(ptr %space, i64 4)
  %types = call ptr @array(ptr %space, i64 5)
  %began = call ptr @array(ptr %space, i64 8)
  %begins = call ptr @array(ptr %space, i64 9)
  %nodes = call ptr @array(ptr %space, i64 10)
  %places = call ptr @array(ptr %space, i64 16)
  %own = call i64 @word(ptr %began, i64 %c)
  %place = call i64 @word(ptr %places, i64 %own)
  %h0 = call i64 @add(ptr %key, i64 0, i64 %place, i64 0)
  %first = call i64 @word(ptr %begins, i64 %c)
  %c1 = add i64 %c, 1
  %stop = call i64 @word(ptr %begins, i64 %c1)
  br label %loop
loop:
  %i = phi i64 [%first, %entry], [%i1, %done]
  %w = phi i64 [1, %entry], [%w1, %done]
  %n = phi i64 [0, %entry], [%n1, %done]
  %h = phi i64 [%h0, %entry], [%h1, %done]
  %in = icmp slt i64 %i, %stop
  br i1 %in, label %node, label %end
node:
  %i1 = add i64 %i, 1
  %k = call i64 @word(ptr %nodes, i64 %i)
  %code = call i64 @word(ptr %codes, i64 %k)
  %ha = call i64 @add(ptr %key, i64 %w, i64 %code, i64 %h)
  %s = call i64 @word(ptr %starts, i64 %k)
  %k1 = add i64 %k, 1
  %e = call i64 @word(ptr %starts, i64 %k1)
  %size = sub i64 %e, %s
  %wa = add i64 %w, 1
  %hb = call i64 @add(ptr %key, i64 %wa, i64 %size, i64 %ha)
  %wb = add i64 %w, 2
  br label %operand
operand:
  %j = phi i64 [%s, %node], [%j1, %told]
  %w1 = phi i64 [%wb, %node], [%w4, %told]
  %n1 = phi i64 [%n, %node], [%n2, %told]
  %h1 = phi i64 [%hb, %node], [%h4, %told]
  %more = icmp slt i64 %j, %e
  br i1 %more, label %one, label %done
one:
  %j1 = add i64 %j, 1
  %x = call i64 @word(ptr %operands, i64 %j)
  %share = call i64 @word(ptr %shares, i64 %x)
  %is = icmp sge i64 %share, 0
  br i1 %is, label %told, label %other
other:
  %xo = call i64 @word(ptr %owners, i64 %x)
  %mine = icmp eq i64 %xo, %own
  br i1 %mine, label %inside, label %read
inside:
  %xp = call i64 @word(ptr %places, i64 %x)
  br label %told
read:
  call void @store(ptr %rows, i64 %n1, i64 %x)
  %n3 = add i64 %n1, 1
  br label %told
told:
  %kind = phi i64 [$SHARES, %one], [$INSIDE, %inside], [$ROW, %read]
  %number = phi i64 [%share, %one], [%xp, %inside], [0, %read]
  %n2 = phi i64 [%n1, %one], [%n1, %inside], [%n3, %read]
  %h2 = call i64 @add(ptr %key, i64 %w1, i64 %kind, i64 %h1)
  %w2 = add i64 %w1, 1
  %h3 = call i64 @add(ptr %key, i64 %w2, i64 %number, i64 %h2)
  %w3 = add i64 %w1, 2
  %type = call i64 @word(ptr %types, i64 %x)
  %h4 = call i64 @add(ptr %key, i64 %w3, i64 %type, i64 %h3)
  %w4 = add i64 %w1, 3
  br label %operand
done:
  br label %loop
end:
  %p0 = insertvalue {i64, i64, i64} undef, i64 %w, 0
  %p1 = insertvalue {i64, i64, i64} %p0, i64 %n, 1
  %p2 = insertvalue {i64, i64, i64} %p1, i64 %h, 2
  ret {i64, i64, i64} %p2
}

define internal i1 @equal(ptr %a, ptr %b, i64 %n) {
entry:
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %next]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %one, label %yes
one:
  %x = call i64 @word(ptr %a, i64 %k)
  %y = call i64 @word(ptr %b, i64 %k)
  %k1 = add i64 %k, 1
  %same = icmp eq i64 %x, %y
  br i1 %same, label %next, label %no
next:
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; The kind of a key of so many words, %kinds so far: the same for equal keys, by all of
; their words. A new one is kept.
define internal i64 @kind(ptr %space, ptr %key, i64 %words, i64 %hash, i64 %kinds) {
entry:
  %keys = call ptr @array(ptr %space, i64 17)
  %opens = call ptr @array(ptr %space, i64 18)
  %hashes = call ptr @array(ptr %space, i64 19)
  %slots = call ptr @array(ptr %space, i64 20)
  %mask = call i64 @word(ptr %space, i64 21)
  br label %probe
probe:
  %p = phi i64 [%hash, %entry], [%p1, %next]
  %slot = and i64 %p, %mask
  %v = call i64 @word(ptr %slots, i64 %slot)
  %free = icmp eq i64 %v, 0
  br i1 %free, label %fresh, label %known
known:
  %q = sub i64 %v, 1
  %h = call i64 @word(ptr %hashes, i64 %q)
  %first = call i64 @word(ptr %opens, i64 %q)
  %stop = call i64 @word(ptr %opens, i64 %v)
  %size = sub i64 %stop, %first
  %alike = icmp eq i64 %h, %hash
  %long = icmp eq i64 %size, %words
  %may = and i1 %alike, %long
  br i1 %may, label %compare, label %next
compare:
  %own = getelementptr i64, ptr %keys, i64 %first
  %same = call i1 @equal(ptr %own, ptr %key, i64 %words)
  br i1 %same, label %end, label %next
next:
  %p1 = add i64 %p, 1
  br label %probe
fresh:
  %kinds1 = add i64 %kinds, 1
  call void @store(ptr %slots, i64 %slot, i64 %kinds1)
  call void @store(ptr %hashes, i64 %kinds, i64 %hash)
  %at = call i64 @word(ptr %opens, i64 %kinds)
  %ends = add i64 %at, %words
  call void @store(ptr %opens, i64 %kinds1, i64 %ends)
  ret i64 %kinds
end:
  ret i64 %q
}
"""
