; the calling thread runs all steps, and the site learns how long one takes
define internal i32 @run_alone(ptr %task, ptr %context, i64 %steps, ptr %site, i64 %start) {
  %code = call i32 %task(ptr %context, i64 0, i64 %steps, i32 0)
  %end = call i64 @now()
  call void @learn_step(ptr %site, i64 %start, i64 %end, i64 %steps)
  %at = getelementptr { double, i64 }, ptr @alone, i64 0, i32 1
  store atomic i64 %end, ptr %at monotonic, align 8
  ret i32 %code
}

define internal void @learn_step(ptr %site, i64 %start, i64 %end, i64 %steps) {
entry:
  %some = icmp sgt i64 %steps, 0
  br i1 %some, label %time, label %nothing
nothing:  ; none was run: the loop had failed
  ret void
time:
  %d = sub i64 %end, %start
  %t = sitofp i64 %d to double
  %n = sitofp i64 %steps to double
  %each = fdiv double %t, %n
  %old = load atomic double, ptr %site monotonic, align 8
  %new = fcmp oeq double %old, 0.0
  br i1 %new, label %set, label %average
set:
  %least = call double @llvm.maxnum.f64(double %each, double 1.0e-3)
  store atomic double %least, ptr %site monotonic, align 8
  ret void
average:
  call void @learn(ptr %site, double %each, double 0.5, double 0.25)
  ret void
}

; whether to wake threads for a loop of %total nanoseconds that comes while all sleep: if what has
; been done alone since the last pause, with this loop, takes longer than waking
define internal i1 @worth_waking(double %total, i64 %now, double %limit) {
  %at = getelementptr { double, i64 }, ptr @alone, i64 0, i32 1
  %last = load atomic i64, ptr %at monotonic, align 8
  %gap = sub i64 %now, %last
  %patience = call i64 @patience()
  %pause = icmp sgt i64 %gap, %patience
  %before = load atomic double, ptr @alone monotonic, align 64
  %kept = select i1 %pause, double 0.0, double %before
  %sum = fadd double %kept, %total
  %worth = fcmp oge double %sum, %limit
  %rest = select i1 %worth, double 0.0, double %sum
  store atomic double %rest, ptr @alone monotonic, align 64
  ret i1 %worth
}

; a slot that nobody has, or null
define internal ptr @take_slot() {
entry:
  br label %look
look:
  %k = phi i64 [ 0, %entry ], [ %next, %on ]
  %slot = getelementptr %slot, ptr @slots, i64 %k
  %taken = load atomic i32, ptr %slot monotonic, align 64
  %free = icmp eq i32 %taken, 0
  br i1 %free, label %try, label %on
try:
  %pair = cmpxchg ptr %slot, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %got, label %on
on:
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %look, label %none
got:
  ret ptr %slot
none:
  ret ptr null
}

; give each home its pieces: from here on they may be claimed
define internal void @offer(ptr %slot, i64 %pieces, i64 %homes) {
entry:
  %at = getelementptr %slot, ptr %slot, i64 0, i32 8
  %old = load i64, ptr %at
  %epoch = add i64 %old, 1
  store i64 %epoch, ptr %at
  %high = shl i64 %epoch, 24
  br label %home
home:
  %h = phi i64 [ 0, %entry ], [ %h.next, %home ]
  %first = phi i64 [ 0, %entry ], [ %end, %home ]
  %h.next = add i64 %h, 1
  %product = mul i64 %h.next, %pieces
  %end = udiv i64 %product, %homes
  %shifted = shl i64 %first, 12
  %range = or i64 %shifted, %end
  %w = or i64 %high, %range
  %word = call ptr @word_of(ptr %slot, i64 %h)
  store atomic i64 %w, ptr %word release, align 64
  %last = icmp eq i64 %h.next, %homes
  br i1 %last, label %out, label %home
out:
  ret void
}

; wait until all pieces are done: look for a while, then sleep
define internal void @await(ptr %slot) {
entry:
  %left.at = getelementptr %slot, ptr %slot, i64 0, i32 10
  %waiting.at = getelementptr %slot, ptr %slot, i64 0, i32 11
  %since = call i64 @now()
  %patience = call i64 @patience()
  br label %spin
spin:
  $pause
  %left = load atomic i32, ptr %left.at acquire, align 64
  %done = icmp eq i32 %left, 0
  br i1 %done, label %out, label %clock
clock:
  %t = call i64 @now()
  %d = sub i64 %t, %since
  %over = icmp sgt i64 %d, %patience
  br i1 %over, label %say, label %spin
say:
  store atomic i32 1, ptr %waiting.at seq_cst, align 4
  br label %look
look:
  %still = load atomic i32, ptr %left.at seq_cst, align 64
  %finished = icmp eq i32 %still, 0
  br i1 %finished, label %end, label %sleep
sleep:
  %parker = getelementptr %slot, ptr %slot, i64 0, i32 15
  call i64 @park(ptr %parker)
  br label %look
end:
  store atomic i32 0, ptr %waiting.at seq_cst, align 4
  br label %out
out:
  ret void
}

; into how many pieces a loop is cut: of ten microseconds; where that gives less than one a thread,
; for as many threads as handing over is worth
define internal i64 @pieces(i64 %steps, i64 %threads, double %total, double %hand) {
  %known = fcmp ogt double %total, 0.0
  %few = mul i64 %threads, 4
  %tens = fdiv double %total, 1.0e4
  %by.time = call i64 @llvm.fptosi.sat.i64.f64(double %tens)
  %hands = fdiv double %total, %hand
  %by.hand = call i64 @llvm.fptosi.sat.i64.f64(double %hands)
  %by.hand2 = call i64 @llvm.smax.i64(i64 %by.hand, i64 2)
  %least = call i64 @llvm.smin.i64(i64 %by.hand2, i64 %threads)
  %a = call i64 @llvm.smax.i64(i64 %by.time, i64 %least)
  %c = select i1 %known, i64 %a, i64 %few
  %d = call i64 @llvm.smin.i64(i64 %c, i64 %steps)
  %e = call i64 @llvm.smin.i64(i64 %d, i64 4095)
  %over = srem i64 %e, %threads
  %even = sub i64 %e, %over
  %several = icmp sgt i64 %e, %threads
  %r = select i1 %several, i64 %even, i64 %e
  ret i64 %r
}

; how %homes that are shares of the rows of all blocks, of %rows steps each, lie, and %pieces or more
; in them; nothing where there are no two such blocks, or a home would have no row of some
define internal %grid @grid(i64 %steps, i64 %rows, i64 %homes, i64 %pieces) {
entry:
  %many = icmp sgt i64 %rows, 1
  %enough = icmp sge i64 %rows, %homes
  %able = and i1 %many, %enough
  br i1 %able, label %divide, label %line
divide:
  %rest = urem i64 %steps, %rows
  %whole = icmp eq i64 %rest, 0
  %blocks = udiv i64 %steps, %rows
  %several = icmp ugt i64 %blocks, 1
  %fits = and i1 %whole, %several
  br i1 %fits, label %found, label %line
found:
  %up = add i64 %pieces, %homes
  %up.less = sub i64 %up, 1
  %wanted = udiv i64 %up.less, %homes
  %room = udiv i64 4095, %homes
  %k = call i64 @llvm.smin.i64(i64 %wanted, i64 %room)
  %block.parts = call i64 @llvm.smin.i64(i64 %k, i64 %blocks)
  %j = udiv i64 %k, %block.parts
  %share = udiv i64 %rows, %homes
  %row.parts = call i64 @llvm.smin.i64(i64 %j, i64 %share)
  %1 = insertvalue %grid zeroinitializer, i64 %rows, 0
  %2 = insertvalue %grid %1, i64 %blocks, 1
  %3 = insertvalue %grid %2, i64 %block.parts, 2
  %4 = insertvalue %grid %3, i64 %row.parts, 3
  ret %grid %4
line:
  ret %grid zeroinitializer
}

define internal i32 @share(ptr %slot, ptr %task, ptr %context, i64 %steps, i32 %threads, i32 %homes,
                           ptr %site, i64 %start, double %total, double %hand, i1 %wakes) {
entry:
  %t = zext i32 %threads to i64
  %asked = call i64 @pieces(i64 %steps, i64 %t, double %total, double %hand)
  %small = call i64 @llvm.smin.i64(i64 %asked, i64 %t)
  %many = call i64 @llvm.smin.i64(i64 %small, i64 128)
  %homes.wide = sext i32 %homes to i64
  %rows = sub i64 0, %homes.wide
  %grid = call %grid @grid(i64 %steps, i64 %rows, i64 %many, i64 %asked)
  %grid.at = getelementptr %slot, ptr %slot, i64 0, i32 14
  store %grid %grid, ptr %grid.at
  %grid.rows = extractvalue %grid %grid, 0
  %in.line = icmp eq i64 %grid.rows, 0
  %block.parts = extractvalue %grid %grid, 2
  %row.parts = extractvalue %grid %grid, 3
  %parts = mul i64 %row.parts, %block.parts
  %even.pieces = mul i64 %many, %parts
  %pieces = select i1 %in.line, i64 %asked, i64 %even.pieces
  %in.turn = icmp eq i32 %homes, 1
  %back = icmp eq i32 %homes, 2
  %back.small = zext i1 %back to i32
  %n = select i1 %in.turn, i64 1, i64 %many
  %n.small = trunc i64 %n to i32
  %pieces.small = trunc i64 %pieces to i32
  %threads.at = getelementptr %slot, ptr %slot, i64 0, i32 1
  store atomic i32 %threads, ptr %threads.at release, align 4
  %homes.at = getelementptr %slot, ptr %slot, i64 0, i32 2
  store atomic i32 %n.small, ptr %homes.at monotonic, align 8
  %pieces.at = getelementptr %slot, ptr %slot, i64 0, i32 3
  store i32 %pieces.small, ptr %pieces.at
  %task.at = getelementptr %slot, ptr %slot, i64 0, i32 4
  store ptr %task, ptr %task.at
  %context.at = getelementptr %slot, ptr %slot, i64 0, i32 5
  store ptr %context, ptr %context.at
  %steps.at = getelementptr %slot, ptr %slot, i64 0, i32 6
  store i64 %steps, ptr %steps.at
  %begun.at = getelementptr %slot, ptr %slot, i64 0, i32 7
  store i64 %start, ptr %begun.at
  %left.at = getelementptr %slot, ptr %slot, i64 0, i32 10
  store atomic i32 %pieces.small, ptr %left.at monotonic, align 64
  %code.at = getelementptr %slot, ptr %slot, i64 0, i32 12
  store atomic i32 0, ptr %code.at monotonic, align 4
  %back.at = getelementptr %slot, ptr %slot, i64 0, i32 13
  store i32 %back.small, ptr %back.at
  call void @offer(ptr %slot, i64 %pieces, i64 %n)
  %core = call i64 @core()
  %core.at = getelementptr { i32, i32, i32, i32, i64 }, ptr @team, i64 0, i32 4
  store atomic i64 %core, ptr %core.at monotonic, align 8
  %slot.int = ptrtoint ptr %slot to i64
  %base = ptrtoint ptr @slots to i64
  %offset = sub i64 %slot.int, %base
  %size = ptrtoint ptr getelementptr (%slot, ptr null, i64 1) to i64
  %k = udiv exact i64 %offset, %size
  %bit = shl i64 1, %k
  %add = add i64 %bit, 65536
  atomicrmw add ptr @signal, i64 %add seq_cst
  br i1 %wakes, label %wake, label %own
wake:
  %others = sub i32 %threads, 1
  %spare = sub i32 %pieces.small, 1
  %fewer = icmp slt i32 %spare, %others
  %need = select i1 %fewer, i32 %spare, i32 %others
  %few = icmp slt i32 %need, 4
  %some = select i1 %few, i32 %need, i32 4
  %wanted.at = getelementptr { i32, i32, i32, i32 }, ptr @team, i64 0, i32 3
  store atomic i32 %others, ptr %wanted.at monotonic, align 4
  call void @wake(i32 %some, i32 %others)
  br label %own
own:
  %word = call ptr @word_of(ptr %slot, i64 0)
  %p = call i64 @claim(ptr %slot, ptr %word, i32 0)
  %got = icmp sge i64 %p, 0
  br i1 %got, label %first, label %rest
first:
  %before = call i64 @now()
  %length = call i64 @run(ptr %slot, i64 %p, i32 0)
  %after = call i64 @now()
  call void @learn_step(ptr %site, i64 %before, i64 %after, i64 %length)
  br label %rest
rest:
  %one = phi i32 [ 0, %own ], [ 1, %first ]
  %more = call i32 @work(ptr %slot, i32 0)
  atomicrmw sub ptr @signal, i64 %bit monotonic
  %mine = add i32 %one, %more
  %left = atomicrmw sub ptr %left.at, i32 %mine acq_rel
  %all = icmp eq i32 %left, %mine
  br i1 %all, label %out, label %wait
wait:
  call void @await(ptr %slot)
  br label %out
out:
  %code = load atomic i32, ptr %code.at monotonic, align 4
  store atomic i32 0, ptr %slot release, align 64
  ret i32 %code
}

; steps on up to %threads threads. Where as many callers are in loops already, each runs its own: they
; fill the cores, and workers would only take these from them
define $linkage i32 @${prefix}_parallel(ptr %task, ptr %context, i64 %steps, i32 %threads, i32 %homes,
                                 ptr %site) {
entry:
  %one = icmp slt i32 %threads, 2
  %few = icmp slt i64 %steps, 2
  %trivial = or i1 %one, %few
  br i1 %trivial, label %direct, label %several
direct:
  %nothing = icmp slt i64 %steps, 1
  br i1 %nothing, label %none, label %plain
none:
  ret i32 0
plain:
  %code = call i32 %task(ptr %context, i64 0, i64 %steps, i32 0)
  ret i32 %code
several:
  %start = call i64 @now()
  %each = load atomic double, ptr %site monotonic, align 8
  %n = sitofp i64 %steps to double
  %total = fmul double %each, %n
  %known = fcmp ogt double %each, 0.0
  %hand.at = getelementptr { double, double }, ptr @times, i64 0, i32 1
  %hand = load atomic double, ptr %hand.at monotonic, align 8
  %twice = fmul double %hand, 4.0
  %short = fcmp olt double %total, %twice
  %small = and i1 %known, %short
  %before = atomicrmw add ptr @callers, i32 1 monotonic
  %here = add i32 %before, 1
  %enough = icmp sge i32 %here, %threads
  %by.itself = or i1 %small, %enough
  br i1 %by.itself, label %alone, label %crew
crew:
  %others = sub i32 %threads, 1
  %workers = call i32 @grow(i32 %others)
  %nobody = icmp slt i32 %workers, 1
  br i1 %nobody, label %alone, label %waking
waking:
  %patience = call i64 @patience()
  %wake = sitofp i64 %patience to double
  %limit = fmul double %wake, 2.0
  %long = fcmp oge double %total, %limit
  %unknown = xor i1 %known, true
  %surely = or i1 %long, %unknown
  %asleep = load atomic i32, ptr @asleep monotonic, align 64
  %nobody.up = icmp sge i32 %asleep, %workers
  %doubtful = xor i1 %surely, true
  %ask = and i1 %doubtful, %nobody.up
  br i1 %ask, label %debt, label %enter
debt:
  %worth = call i1 @worth_waking(double %total, i64 %start, double %limit)
  br i1 %worth, label %enter, label %alone
enter:
  %wakes = phi i1 [ %surely, %waking ], [ true, %debt ]
  %slot = call ptr @take_slot()
  %full = icmp eq ptr %slot, null
  br i1 %full, label %alone, label %go
go:
  %result = call i32 @share(ptr %slot, ptr %task, ptr %context, i64 %steps, i32 %threads, i32 %homes,
                            ptr %site, i64 %start, double %total, double %hand, i1 %wakes)
  br label %out
alone:
  %own = call i32 @run_alone(ptr %task, ptr %context, i64 %steps, ptr %site, i64 %start)
  br label %out
out:
  %got = phi i32 [ %result, %go ], [ %own, %alone ]
  atomicrmw sub ptr @callers, i32 1 monotonic
  ret i32 %got
}

; forget all threads and loops: to be called once at first, and in a forked child
define $linkage void @${prefix}_reset() {
entry:
  store i64 0, ptr @signal
  store [3 x i64] [ i64 0, i64 0, i64 -1 ], ptr @team
  store i32 0, ptr @asleep
  store i32 0, ptr @callers
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %slot = getelementptr %slot, ptr @slots, i64 %k
  store i32 0, ptr %slot
  %waiting = getelementptr %slot, ptr %slot, i64 0, i32 11
  store i32 0, ptr %waiting
  %parker = getelementptr %slot, ptr %slot, i64 0, i32 15
  call void @init_parker(ptr %parker)
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, 16
  br i1 %more, label %next, label %workers
workers:
  %i = phi i64 [ 0, %next ], [ %i.next, %workers ]
  %state = getelementptr %worker, ptr @workers, i64 %i
  store i32 0, ptr %state
  %i.next = add i64 %i, 1
  %others = icmp ult i64 %i.next, 1024
  br i1 %others, label %workers, label %out
out:
  ret void
}

; what the pool has measured and has: nanoseconds of waking, of handing over; workers, and how many
; of them sleep
define $linkage void @${prefix}_pool_state(ptr %out) {
  %times = load [2 x double], ptr @times
  store [2 x double] %times, ptr %out
  %n = load atomic i32, ptr @team acquire, align 64
  %asleep = load atomic i32, ptr @asleep acquire, align 64
  %a = sitofp i32 %n to double
  %b = sitofp i32 %asleep to double
  %a.at = getelementptr double, ptr %out, i64 2
  store double %a, ptr %a.at
  %b.at = getelementptr double, ptr %out, i64 3
  store double %b, ptr %b.at
  ret void
}
