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

; run a claimed piece, unless the loop has failed
define internal void @run(ptr %slot, i64 %claimed, i32 %thread) {
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
  %piece = call i64 @turned(ptr %slot, i64 %claimed)
  %following = add i64 %piece, 1
  %begin = call i64 @first_step(ptr %slot, i64 %piece)
  %end = call i64 @first_step(ptr %slot, i64 %following)
  %result = call i32 %task(ptr %context, i64 %begin, i64 %end, i32 %thread)
  %failed = icmp ne i32 %result, 0
  br i1 %failed, label %keep, label %out
keep:
  cmpxchg ptr %code.at, i32 0, i32 %result monotonic monotonic
  br label %out
out:
  ret void
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
  call void @run(ptr %slot, i64 %p, i32 %thread)
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
