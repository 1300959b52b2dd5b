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

; whether there are as many cores in a mask as threads were wanted last, with their caller
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
  %wanted.at = getelementptr { i32, i32, i32, i32 }, ptr @team, i64 0, i32 3
  %workers = load atomic i32, ptr %wanted.at monotonic, align 4
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

; stay away from the core of the last caller while a worker sleeps: systems, those of virtual machines
; before all, wake a thread where it is that wakes it, though another core has nothing to do, and it
; waits there until the caller's time is over. %may: the cores that the worker may use; %kept: what is
; left of them; %main: what the process's first thread may use. Whether anything was left out
define internal i1 @avoid_caller(ptr %may, ptr %kept, ptr %main) {
entry:
  %now = alloca [16 x i64], align 64
  %caller.at = getelementptr { i32, i32, i32, i32, i64 }, ptr @team, i64 0, i32 4
  %caller = load atomic i64, ptr %caller.at monotonic, align 8
  %known = icmp ult i64 %caller, 1024
  br i1 %known, label %ask, label %no
ask:
  %fine = call i1 @cores_of(i32 0, ptr %now)
  br i1 %fine, label %take, label %no
take:  ; while it is awake a worker's mask is as others set it
  call void @llvm.memcpy.p0.p0.i64(ptr %may, ptr %now, i64 128, i1 false)
  %enough = call i1 @enough_cores(ptr %may)
  br i1 %enough, label %leave, label %no
leave:
  %pid = call i32 @getpid()
  call i1 @cores_of(i32 %pid, ptr %main)
  call void @without(ptr %kept, ptr %may, i64 %caller)
  %status = call i32 @sched_setaffinity(i32 0, i64 128, ptr %kept)
  %kept.it = icmp sge i32 %status, 0
  ret i1 %kept.it
no:
  ret i1 false
}

; let a worker that is awake use all its cores again, those that it did not avoid first where its waker
; is on the same core, and goes on there: the system moves a thread at once that may not be where it
; is, and leaves it there when it may again. Not where someone else has said since which cores it may
; use: others than %kept, or these, to the first thread too
define internal void @may_use_all(ptr %may, ptr %kept, ptr %main, i64 %waker) {
entry:
  %now = alloca [16 x i64], align 64
  %others = alloca [16 x i64], align 64
  %fine = call i1 @cores_of(i32 0, ptr %now)
  br i1 %fine, label %compare, label %out
compare:
  %differ = call i32 @memcmp(ptr %now, ptr %kept, i64 128)
  %same = icmp eq i32 %differ, 0
  br i1 %same, label %others.too, label %out
others.too:
  %pid = call i32 @getpid()
  call i1 @cores_of(i32 %pid, ptr %others)
  %apart = call i32 @memcmp(ptr %others, ptr %kept, i64 128)
  %before = call i32 @memcmp(ptr %main, ptr %kept, i64 128)
  %now.alike = icmp eq i32 %apart, 0
  %then.apart = icmp ne i32 %before, 0
  %given = and i1 %now.alike, %then.apart
  br i1 %given, label %out, label %look
look:
  %mine = call i64 @core()
  %met = icmp eq i64 %mine, %waker
  %known = icmp ult i64 %waker, 1024
  %must = and i1 %met, %known
  br i1 %must, label %move, label %whole
move:
  call void @without(ptr %others, ptr %may, i64 %waker)
  call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  br label %whole
whole:
  call i32 @sched_setaffinity(i32 0, i64 128, ptr %may)
  br label %out
out:
  ret void
}
