; the core that the thread is on
define internal i64 @core() {
  %c = call i32 @sched_getcpu()
  %r = sext i32 %c to i64
  ret i64 %r
}

; the cores that a thread (0: this one) may use, in a mask of 1024 bits; whether the system says so
define internal i1 @cores_of(i32 %thread, ptr %mask) {
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %got = call i32 @sched_getaffinity(i32 %thread, i64 128, ptr %mask)
  %fine = icmp sge i32 %got, 0
  ret i1 %fine
}

; whether there are as many cores in a mask as the pool has threads, with their caller
define internal i1 @enough_cores(ptr %mask) {
entry:
  br label %count
count:
  %k = phi i64 [ 0, %entry ], [ %next, %count ]
  %sum = phi i64 [ 0, %entry ], [ %more, %count ]
  %word.at = getelementptr i64, ptr %mask, i64 %k
  %word = load i64, ptr %word.at
  %bits = call i64 @llvm.ctpop.i64(i64 %word)
  %more = add i64 %sum, %bits
  %next = add i64 %k, 1
  %on = icmp ult i64 %next, 16
  br i1 %on, label %count, label %compare
compare:
  %workers = load atomic i32, ptr @team acquire, align 64
  %wide = zext i32 %workers to i64
  %enough = icmp ugt i64 %more, %wide
  ret i1 %enough
}

; a mask without one core; nothing is left out for numbers beyond it
define internal void @without(ptr %out, ptr %mask, i64 %core) {
entry:
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %mask, i64 128, i1 false)
  %known = icmp ult i64 %core, 1024
  br i1 %known, label %clear, label %done
clear:
  %place = lshr i64 %core, 6
  %digit = and i64 %core, 63
  %bit = shl i64 1, %digit
  %not = xor i64 %bit, -1
  %word.at = getelementptr i64, ptr %out, i64 %place
  %word = load i64, ptr %word.at
  %others = and i64 %word, %not
  store i64 %others, ptr %word.at
  br label %done
done:
  ret void
}

; go to another core, if the thread is on core %taken and there are cores for all threads. The system
; moves a thread at once that may not be where it is, and leaves it there when it may again
define internal void @leave_core(i64 %taken) {
entry:
  %may = alloca [16 x i64], align 64
  %others = alloca [16 x i64], align 64
  %mine = call i64 @core()
  %same = icmp eq i64 %mine, %taken
  %known = icmp ult i64 %taken, 1024
  %must = and i1 %same, %known
  br i1 %must, label %ask, label %out
ask:
  %fine = call i1 @cores_of(i32 0, ptr %may)
  br i1 %fine, label %count, label %out
count:
  %enough = call i1 @enough_cores(ptr %may)
  br i1 %enough, label %move, label %out
move:
  call void @without(ptr %others, ptr %may, i64 %taken)
  call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  call i32 @sched_setaffinity(i32 0, i64 128, ptr %may)
  br label %out
out:
  ret void
}

; stay away from the core of the last caller, before a worker sleeps: systems, those of virtual machines
; before all, wake a thread where it is that wakes it, though another core has nothing to do, and it
; waits there until the caller's time is over. %may: the cores that the worker could use at first,
; %avoided: the one that it keeps away from
define internal void @avoid_caller(ptr %may, ptr %avoided) {
entry:
  %now = alloca [16 x i64], align 64
  %kept = alloca [16 x i64], align 64
  %caller.at = getelementptr { i32, i32, i32, i32, i64 }, ptr @team, i64 0, i32 4
  %caller = load atomic i64, ptr %caller.at monotonic, align 8
  %before = load i64, ptr %avoided
  %enough = call i1 @enough_cores(ptr %may)
  %from = select i1 %enough, i64 %caller, i64 -1
  %changed = icmp ne i64 %from, %before
  br i1 %changed, label %ask, label %out
ask:
  %fine = call i1 @cores_of(i32 0, ptr %now)
  br i1 %fine, label %compare, label %out
compare:
  call void @without(ptr %kept, ptr %may, i64 %before)
  %differ = call i32 @memcmp(ptr %now, ptr %kept, i64 128)
  %same = icmp eq i32 %differ, 0
  br i1 %same, label %mine, label %take
mine:
  %whole = icmp eq i64 %before, -1
  br i1 %whole, label %move, label %first
first:  ; the mask that a worker set, or one that all threads of the process were given
  %pid = call i32 @getpid()
  call i1 @cores_of(i32 %pid, ptr %kept)
  %apart = call i32 @memcmp(ptr %now, ptr %kept, i64 128)
  %own = icmp ne i32 %apart, 0
  br i1 %own, label %move, label %take
take:  ; someone else has said since which cores it may use
  call void @llvm.memcpy.p0.p0.i64(ptr %may, ptr %now, i64 128, i1 false)
  store i64 -1, ptr %avoided
  br label %out
move:
  call void @without(ptr %kept, ptr %may, i64 %from)
  %status = call i32 @sched_setaffinity(i32 0, i64 128, ptr %kept)
  %moved = icmp sge i32 %status, 0
  br i1 %moved, label %keep, label %out
keep:
  store i64 %from, ptr %avoided
  br label %out
out:
  ret void
}
