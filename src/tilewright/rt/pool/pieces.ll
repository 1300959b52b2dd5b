; a piece of a home, or -1; threads from %thread on only
define internal i64 @claim(ptr %slot, ptr %word, i32 %thread) {
entry:
  %first = load atomic i64, ptr %word acquire, align 64
  br label %look
look:
  %w = phi i64 [ %first, %entry ], [ %found, %swap ]
  %shifted = lshr i64 %w, 12
  %next = and i64 %shifted, 4095
  %end = and i64 %w, 4095
  %some = icmp ult i64 %next, %end
  br i1 %some, label %check, label %none
check:
  %at = getelementptr %slot, ptr %slot, i64 0, i32 1
  %threads = load atomic i32, ptr %at acquire, align 4
  %mine = icmp ult i32 %thread, %threads
  br i1 %mine, label %swap, label %none
swap:
  %new = add i64 %w, 4096
  %pair = cmpxchg ptr %word, i64 %w, i64 %new acq_rel acquire, align 64
  %found = extractvalue { i64, i1 } %pair, 0
  %done = extractvalue { i64, i1 } %pair, 1
  br i1 %done, label %got, label %look
got:
  ret i64 %next
none:
  ret i64 -1
}

define internal ptr @word_of(ptr %slot, i64 %home) {
  %word = getelementptr %slot, ptr %slot, i64 0, i32 16, i64 %home
  ret ptr %word
}

; the first step of a piece: all pieces differ by one step at most
define internal i64 @first_step(ptr %slot, i64 %piece) {
  %at = getelementptr %slot, ptr %slot, i64 0, i32 3
  %n = load i32, ptr %at, align 4
  %pieces = zext i32 %n to i64
  %steps.at = getelementptr %slot, ptr %slot, i64 0, i32 6
  %steps = load i64, ptr %steps.at
  %each = udiv i64 %steps, %pieces
  %rest = urem i64 %steps, %pieces
  %extra = call i64 @llvm.smin.i64(i64 %piece, i64 %rest)
  %whole = mul i64 %each, %piece
  %r = add i64 %whole, %extra
  ret i64 %r
}

; the piece that is done for a claimed one: where a loop goes back, the one as far from the end of the
; same home, which is number (claimed + 1) * homes - 1 over pieces
define internal i64 @turned(ptr %slot, i64 %claimed) {
entry:
  %at = getelementptr %slot, ptr %slot, i64 0, i32 13
  %back = load i32, ptr %at, align 4
  %forth = icmp eq i32 %back, 0
  br i1 %forth, label %out, label %mirror
mirror:
  %homes.at = getelementptr %slot, ptr %slot, i64 0, i32 2
  %n = load atomic i32, ptr %homes.at monotonic, align 4
  %homes = zext i32 %n to i64
  %pieces.at = getelementptr %slot, ptr %slot, i64 0, i32 3
  %m = load i32, ptr %pieces.at, align 4
  %pieces = zext i32 %m to i64
  %following = add i64 %claimed, 1
  %product = mul i64 %following, %homes
  %less = sub i64 %product, 1
  %home = udiv i64 %less, %pieces
  %low = mul i64 %home, %pieces
  %high = add i64 %low, %pieces
  %first = udiv i64 %low, %homes
  %end = udiv i64 %high, %homes
  %both = add i64 %first, %end
  %last = sub i64 %both, 1
  %mirrored = sub i64 %last, %claimed
  br label %out
out:
  %r = phi i64 [ %claimed, %entry ], [ %mirrored, %mirror ]
  ret i64 %r
}

; where part %k of %n even parts of 0..%size begins
define internal i64 @part(i64 %k, i64 %n, i64 %size) {
  %product = mul i64 %k, %size
  %r = udiv i64 %product, %n
  ret i64 %r
}

; run a piece of a loop over rows of blocks, block by block, until the loop fails; the first code that
; is not 0, and steps. With all rows of all blocks in line, row by row, homes are even shares of these:
; a home begins in row %low.row, in the next one in the first %low.over blocks, and ends so where the
; next home begins
define internal { i32, i64 } @run_rows(ptr %slot, i64 %piece, ptr %task, ptr %context, i32 %thread) {
entry:
  %code.at = getelementptr %slot, ptr %slot, i64 0, i32 12
  %grid.at = getelementptr %slot, ptr %slot, i64 0, i32 14
  %g = load %grid, ptr %grid.at
  %rows = extractvalue %grid %g, 0
  %blocks = extractvalue %grid %g, 1
  %block.parts = extractvalue %grid %g, 2
  %row.parts = extractvalue %grid %g, 3
  %homes.at = getelementptr %slot, ptr %slot, i64 0, i32 2
  %n = load atomic i32, ptr %homes.at monotonic, align 8
  %homes = zext i32 %n to i64
  %each = mul i64 %row.parts, %block.parts
  %h = udiv i64 %piece, %each
  %h.next = add i64 %h, 1
  %place = urem i64 %piece, %each
  %i = udiv i64 %place, %row.parts
  %j = urem i64 %place, %row.parts
  %i.next = add i64 %i, 1
  %j.next = add i64 %j, 1
  %first = call i64 @part(i64 %i, i64 %block.parts, i64 %blocks)
  %end = call i64 @part(i64 %i.next, i64 %block.parts, i64 %blocks)
  %steps = mul i64 %rows, %blocks
  %low.at = call i64 @part(i64 %h, i64 %homes, i64 %steps)
  %high.at = call i64 @part(i64 %h.next, i64 %homes, i64 %steps)
  %low.row = udiv i64 %low.at, %blocks
  %low.over = urem i64 %low.at, %blocks
  %high.row = udiv i64 %high.at, %blocks
  %high.over = urem i64 %high.at, %blocks
  br label %block
block:
  %b = phi i64 [ %first, %entry ], [ %b.next, %on ]
  %done = phi i64 [ 0, %entry ], [ %done.next, %on ]
  %more = icmp ult i64 %b, %end
  br i1 %more, label %find, label %out
find:
  %late = icmp ult i64 %b, %low.over
  %one.less = zext i1 %late to i64
  %top = add i64 %low.row, %one.less
  %longer = icmp ult i64 %b, %high.over
  %one.more = zext i1 %longer to i64
  %bottom = add i64 %high.row, %one.more
  %size = sub i64 %bottom, %top
  %skip = call i64 @part(i64 %j, i64 %row.parts, i64 %size)
  %stop = call i64 @part(i64 %j.next, i64 %row.parts, i64 %size)
  %count = sub i64 %stop, %skip
  %some = icmp ne i64 %count, 0
  %b.next = add i64 %b, 1
  %of.others = load atomic i32, ptr %code.at monotonic, align 4
  %fine.there = icmp eq i32 %of.others, 0
  %go = and i1 %some, %fine.there
  br i1 %go, label %call, label %next
next:
  br i1 %fine.there, label %on, label %out
call:
  %base = mul i64 %b, %rows
  %begin = add i64 %base, %top
  %low = add i64 %begin, %skip
  %high = add i64 %begin, %stop
  %code = call i32 %task(ptr %context, i64 %low, i64 %high, i32 %thread)
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %on, label %out
on:
  %done.next = add i64 %done, %count
  br label %block
out:
  %r = phi i32 [ 0, %block ], [ 0, %next ], [ %code, %call ]
  %1 = insertvalue { i32, i64 } poison, i32 %r, 0
  %2 = insertvalue { i32, i64 } %1, i64 %done, 1
  ret { i32, i64 } %2
}

; run a claimed piece, unless the loop has failed; its steps
define internal i64 @run(ptr %slot, i64 %claimed, i32 %thread) {
entry:
  %code.at = getelementptr %slot, ptr %slot, i64 0, i32 12
  %code = load atomic i32, ptr %code.at monotonic, align 4
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %call, label %out
call:
  %task.at = getelementptr %slot, ptr %slot, i64 0, i32 4
  %task = load ptr, ptr %task.at
  %context.at = getelementptr %slot, ptr %slot, i64 0, i32 5
  %context = load ptr, ptr %context.at
  %rows.at = getelementptr %slot, ptr %slot, i64 0, i32 14, i32 0
  %rows = load i64, ptr %rows.at
  %in.line = icmp eq i64 %rows, 0
  br i1 %in.line, label %line, label %grid
line:
  %piece = call i64 @turned(ptr %slot, i64 %claimed)
  %following = add i64 %piece, 1
  %begin = call i64 @first_step(ptr %slot, i64 %piece)
  %end = call i64 @first_step(ptr %slot, i64 %following)
  %of.line = call i32 %task(ptr %context, i64 %begin, i64 %end, i32 %thread)
  %length = sub i64 %end, %begin
  br label %called
grid:
  %both = call { i32, i64 } @run_rows(ptr %slot, i64 %claimed, ptr %task, ptr %context, i32 %thread)
  %of.grid = extractvalue { i32, i64 } %both, 0
  %area = extractvalue { i32, i64 } %both, 1
  br label %called
called:
  %result = phi i32 [ %of.line, %line ], [ %of.grid, %grid ]
  %steps = phi i64 [ %length, %line ], [ %area, %grid ]
  %failed = icmp ne i32 %result, 0
  br i1 %failed, label %keep, label %out
keep:
  cmpxchg ptr %code.at, i32 0, i32 %result monotonic monotonic
  br label %out
out:
  %r = phi i64 [ 0, %entry ], [ %steps, %called ], [ %steps, %keep ]
  ret i64 %r
}

; claim and run pieces, those of the own home first; how many
define internal i32 @work(ptr %slot, i32 %thread) {
entry:
  %at = getelementptr %slot, ptr %slot, i64 0, i32 2
  %n = load atomic i32, ptr %at monotonic, align 4
  %homes = zext i32 %n to i64
  %wide = zext i32 %thread to i64
  %empty = icmp eq i32 %n, 0
  br i1 %empty, label %out, label %start
start:
  %own = urem i64 %wide, %homes
  br label %home
home:
  %v = phi i64 [ 0, %start ], [ %v.next, %exhausted ]
  %count = phi i32 [ 0, %start ], [ %now, %exhausted ]
  %sum = add i64 %own, %v
  %over = icmp uge i64 %sum, %homes
  %less = sub i64 %sum, %homes
  %h = select i1 %over, i64 %less, i64 %sum
  %word = call ptr @word_of(ptr %slot, i64 %h)
  br label %piece
piece:
  %now = phi i32 [ %count, %home ], [ %more, %have ]
  %p = call i64 @claim(ptr %slot, ptr %word, i32 %thread)
  %got = icmp sge i64 %p, 0
  br i1 %got, label %have, label %exhausted
have:
  call i64 @run(ptr %slot, i64 %p, i32 %thread)
  %more = add i32 %now, 1
  br label %piece
exhausted:
  %v.next = add i64 %v, 1
  %last = icmp eq i64 %v.next, %homes
  br i1 %last, label %out, label %home
out:
  %r = phi i32 [ 0, %entry ], [ %now, %exhausted ]
  ret i32 %r
}
