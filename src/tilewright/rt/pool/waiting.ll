define internal i64 @now() {
  %t = alloca [2 x i64]
  call i32 @clock_gettime(i32 $clock, ptr %t)
  %s = load i64, ptr %t
  %p = getelementptr i64, ptr %t, i64 1
  %n = load i64, ptr %p
  %ns = mul i64 %s, 1000000000
  %r = add i64 %ns, %n
  ret i64 %r
}

define internal void @init_parker(ptr %parker) {
  call i32 @pthread_mutex_init(ptr %parker, ptr null)
  %cond = getelementptr %parker, ptr %parker, i64 0, i32 1
  call i32 @pthread_cond_init(ptr %cond, ptr null)
  %flag = getelementptr %parker, ptr %parker, i64 0, i32 2
  store i64 0, ptr %flag
  ret void
}

; sleep until another thread says so; the core that this was on
define internal i64 @park(ptr %parker) {
entry:
  %cond = getelementptr %parker, ptr %parker, i64 0, i32 1
  %flag = getelementptr %parker, ptr %parker, i64 0, i32 2
  call i32 @pthread_mutex_lock(ptr %parker)
  br label %look
look:
  %woken = load i64, ptr %flag
  %is = icmp ne i64 %woken, 0
  br i1 %is, label %out, label %sleep
sleep:
  call i32 @pthread_cond_wait(ptr %cond, ptr %parker)
  br label %look
out:
  store i64 0, ptr %flag
  %waker.at = getelementptr %parker, ptr %parker, i64 0, i32 3, i64 0
  %waker = load i64, ptr %waker.at
  call i32 @pthread_mutex_unlock(ptr %parker)
  ret i64 %waker
}

define internal void @unpark(ptr %parker) {
  %cond = getelementptr %parker, ptr %parker, i64 0, i32 1
  %flag = getelementptr %parker, ptr %parker, i64 0, i32 2
  %waker.at = getelementptr %parker, ptr %parker, i64 0, i32 3, i64 0
  %core = call i64 @core()
  call i32 @pthread_mutex_lock(ptr %parker)
  store i64 1, ptr %flag
  store i64 %core, ptr %waker.at
  call i32 @pthread_cond_signal(ptr %cond)
  call i32 @pthread_mutex_unlock(ptr %parker)
  ret void
}

; nanoseconds to look before sleeping: what waking a thread takes at best, but at least two pieces
define internal i64 @patience() {
  %t = load atomic double, ptr @times monotonic, align 64
  %low = call double @llvm.maxnum.f64(double %t, double 2.0e4)
  %high = call double @llvm.minnum.f64(double %low, double 5.0e4)
  %r = fptosi double %high to i64
  ret i64 %r
}

; an average of times that a spike moves by little: a shorter time counts for `fall`, a longer one
; for `rise`, and for twice the average at most
define internal void @learn(ptr %average, double %time, double %fall, double %rise) {
  %a = load atomic double, ptr %average monotonic, align 8
  %twice = fmul double %a, 2.0
  %t = call double @llvm.minnum.f64(double %time, double %twice)
  %shorter = fcmp olt double %t, %a
  %share = select i1 %shorter, double %fall, double %rise
  %d = fsub double %t, %a
  %m = fmul double %d, %share
  %n = fadd double %a, %m
  %r = call double @llvm.maxnum.f64(double %n, double 1.0e-3)
  store atomic double %r, ptr %average monotonic, align 8
  ret void
}
