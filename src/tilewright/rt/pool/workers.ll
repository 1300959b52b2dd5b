; wake up to %most of the first %n workers
define internal void @wake(i32 %most, i32 %n) {
entry:
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %skip ], [ %next.woken, %woken ]
  %left = phi i32 [ %most, %entry ], [ %left, %skip ], [ %fewer, %woken ]
  %asleep = load atomic i32, ptr @asleep seq_cst, align 64
  %any = icmp sgt i32 %asleep, 0
  %may = icmp sgt i32 %left, 0
  %small = trunc i64 %i to i32
  %inside = icmp slt i32 %small, %n
  %a = and i1 %any, %may
  %go = and i1 %a, %inside
  br i1 %go, label %one, label %out
one:
  %state = getelementptr %worker, ptr @workers, i64 %i
  %s = load atomic i32, ptr %state seq_cst, align 64
  %sleeps = icmp eq i32 %s, 1
  br i1 %sleeps, label %try, label %skip
skip:
  %next = add i64 %i, 1
  br label %look
try:
  %pair = cmpxchg ptr %state, i32 1, i32 0 seq_cst seq_cst
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %woken, label %skip
woken:
  atomicrmw sub ptr @asleep, i32 1 seq_cst
  %t = call i64 @now()
  %time.at = getelementptr %worker, ptr @workers, i64 %i, i32 2
  store i64 %t, ptr %time.at
  %parker = getelementptr %worker, ptr @workers, i64 %i, i32 4
  call void @unpark(ptr %parker)
  %fewer = sub i32 %left, 1
  %next.woken = add i64 %i, 1
  br label %look
out:
  ret void
}

; one look at the slots in %open: whether a piece was run. %fresh: the worker was looking for work
define internal i1 @serve(i64 %open, i32 %thread, i1 %fresh) {
entry:
  br label %look
look:
  %bits = phi i64 [ %open, %entry ], [ %others, %nothing ], [ %others, %counted ], [ %others, %tell ]
  %did = phi i1 [ false, %entry ], [ %did, %nothing ], [ true, %counted ], [ true, %tell ]
  %none = icmp eq i64 %bits, 0
  br i1 %none, label %out, label %take
take:
  %k = call i64 @llvm.cttz.i64(i64 %bits, i1 true)
  %less = sub i64 %bits, 1
  %others = and i64 %bits, %less
  %slot = getelementptr %slot, ptr @slots, i64 %k
  %start = call i64 @now()
  %n = call i32 @work(ptr %slot, i32 %thread)
  %some = icmp sgt i32 %n, 0
  br i1 %some, label %done, label %nothing
nothing:
  br label %look
done:
  br i1 %fresh, label %learn, label %count
learn:
  %begun.at = getelementptr %slot, ptr %slot, i64 0, i32 7
  %begun = load i64, ptr %begun.at
  %lag = sub i64 %start, %begun
  %later = icmp sgt i64 %lag, 0
  br i1 %later, label %learn.lag, label %count
learn.lag:
  %t = sitofp i64 %lag to double
  %hand = getelementptr { double, double }, ptr @times, i64 0, i32 1
  call void @learn(ptr %hand, double %t, double 0.25, double 0.0625)
  br label %count
count:
  %left.at = getelementptr %slot, ptr %slot, i64 0, i32 10
  %before = atomicrmw sub ptr %left.at, i32 %n seq_cst
  %waiting.at = getelementptr %slot, ptr %slot, i64 0, i32 11
  %waiting = load atomic i32, ptr %waiting.at seq_cst, align 4
  %last = icmp eq i32 %before, %n
  %waits = icmp ne i32 %waiting, 0
  %must = and i1 %last, %waits
  br i1 %must, label %tell, label %counted
counted:
  br label %look
tell:
  %parker = getelementptr %slot, ptr %slot, i64 0, i32 15
  call void @unpark(ptr %parker)
  br label %look
out:
  ret i1 %did
}

; sleep unless a loop began since %seen; nanoseconds that waking took, 0 if it did not sleep. %may,
; %kept, %main: room for the cores that it may use, that it may use while it sleeps, and those of the
; process's first thread
define internal i64 @rest(i64 %number, i64 %seen, ptr %may, ptr %kept, ptr %main) {
entry:
  %narrow = call i1 @avoid_caller(ptr %may, ptr %kept, ptr %main)
  %state = getelementptr %worker, ptr @workers, i64 %number
  atomicrmw add ptr @asleep, i32 1 seq_cst
  store atomic i32 1, ptr %state seq_cst, align 64
  %s = load atomic i64, ptr @signal seq_cst, align 64
  %begun = lshr i64 %s, 16
  %same = icmp eq i64 %begun, %seen
  br i1 %same, label %sleep, label %undo
undo:
  %pair = cmpxchg ptr %state, i32 1, i32 0 seq_cst seq_cst
  %mine = extractvalue { i32, i1 } %pair, 1
  br i1 %mine, label %awake, label %sleep
awake:
  atomicrmw sub ptr @asleep, i32 1 seq_cst
  br label %up
sleep:
  %parker = getelementptr %worker, ptr @workers, i64 %number, i32 4
  %core = call i64 @park(ptr %parker)
  %time.at = getelementptr %worker, ptr @workers, i64 %number, i32 2
  %woken = load i64, ptr %time.at
  %now = call i64 @now()
  %d = sub i64 %now, %woken
  br label %up
up:
  %lag = phi i64 [ 0, %awake ], [ %d, %sleep ]
  %waker = phi i64 [ -1, %awake ], [ %core, %sleep ]
  br i1 %narrow, label %widen, label %out
widen:
  call void @may_use_all(ptr %may, ptr %kept, ptr %main, i64 %waker)
  br label %out
out:
  ret i64 %lag
}

define internal ptr @live(ptr %argument) {
entry:
  %mask = alloca [32 x i64]
  %may = alloca [16 x i64], align 64
  %kept = alloca [16 x i64], align 64
  %main = alloca [16 x i64], align 64
  call i32 @sigfillset(ptr %mask)
  call i32 @pthread_sigmask(i32 $setmask, ptr %mask, ptr null)
  %number = ptrtoint ptr %argument to i64
  %small = trunc i64 %number to i32
  %thread = add i32 %small, 1
  br label %top
top:
  %fresh = phi i1 [ false, %entry ], [ false, %busy ], [ true, %spin ], [ false, %slept ],
                  [ false, %sleep ], [ false, %more ]
  %g = load atomic i64, ptr @signal acquire, align 64
  %open = and i64 %g, 65535
  %seen = lshr i64 %g, 16
  %did = call i1 @serve(i64 %open, i32 %thread, i1 %fresh)
  br i1 %did, label %busy, label %idle
busy:
  br label %top
idle:
  %since = call i64 @now()
  %patience = call i64 @patience()
  br label %spin
spin:
  %k = phi i64 [ 0, %idle ], [ %k.next, %same ], [ 0, %clock ]
  $pause
  %s = load atomic i64, ptr @signal acquire, align 64
  %begun = lshr i64 %s, 16
  %changed = icmp ne i64 %begun, %seen
  br i1 %changed, label %top, label %same
same:
  %k.next = add i64 %k, 1
  %enough = icmp eq i64 %k.next, 16
  br i1 %enough, label %clock, label %spin
clock:
  %t = call i64 @now()
  %d = sub i64 %t, %since
  %over = icmp sgt i64 %d, %patience
  br i1 %over, label %sleep, label %spin
sleep:
  %lag = call i64 @rest(i64 %number, i64 %seen, ptr %may, ptr %kept, ptr %main)
  %woken = icmp sgt i64 %lag, 0
  br i1 %woken, label %slept, label %top
slept:
  %lag.f = sitofp i64 %lag to double
  call void @learn(ptr @times, double %lag.f, double 0.5, double 0.015625)
  %after = load atomic i64, ptr @signal acquire, align 64
  %still = and i64 %after, 65535
  %over.now = icmp eq i64 %still, 0
  br i1 %over.now, label %top, label %more
more:
  %wanted.at = getelementptr { i32, i32, i32, i32 }, ptr @team, i64 0, i32 3
  %wanted = load atomic i32, ptr %wanted.at monotonic, align 4
  call void @wake(i32 2, i32 %wanted)
  br label %top
}

; have %n workers, if the system allows; how many there are
define internal i32 @grow(i32 %n) {
entry:
  %have = load atomic i32, ptr @team acquire, align 64
  %enough = icmp sge i32 %have, %n
  br i1 %enough, label %done, label %lacking
lacking:
  %failed.at = getelementptr { i32, i32, i32, i32 }, ptr @team, i64 0, i32 2
  %failed = load atomic i32, ptr %failed.at monotonic, align 4
  %hopeless = icmp ne i32 %failed, 0
  br i1 %hopeless, label %done, label %lock
lock:
  %growing.at = getelementptr { i32, i32, i32, i32 }, ptr @team, i64 0, i32 1
  %pair = cmpxchg ptr %growing.at, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %pair, 1
  br i1 %mine, label %start, label %done
done:
  ret i32 %have
start:
  %id = alloca i64
  %from = load atomic i32, ptr @team acquire, align 64
  br label %next
next:
  %i = phi i32 [ %from, %start ], [ %i.next, %made ]
  %full = icmp sge i32 %i, %n
  br i1 %full, label %out, label %one
one:
  %wide = zext i32 %i to i64
  %parker = getelementptr %worker, ptr @workers, i64 %wide, i32 4
  call void @init_parker(ptr %parker)
  %argument = inttoptr i64 %wide to ptr
  %status = call i32 @pthread_create(ptr %id, ptr null, ptr @live, ptr %argument)
  %made.one = icmp eq i32 %status, 0
  br i1 %made.one, label %made, label %refused
made:
  %thread = load ptr, ptr %id
  call i32 @pthread_detach(ptr %thread)
  %i.next = add i32 %i, 1
  store atomic i32 %i.next, ptr @team release, align 64
  br label %next
refused:
  store atomic i32 1, ptr %failed.at monotonic, align 4
  br label %out
out:
  store atomic i32 0, ptr %growing.at release, align 4
  ret i32 %i
}
