; one sleeping thread: a mutex and a condition (more room than any system takes), a wake-up, and the
; core that it came from
%parker = type { [8 x i64], [8 x i64], i64, [7 x i64] }
; asleep (0 or 1), when it was woken, and its parker
%worker = type { i32, i32, i64, [6 x i64], %parker }
; taken, threads, homes, pieces, task, context, steps, when it began, epoch; left, waiting, code,
; whether homes begin with their last pieces; how homes and pieces lie in blocks of steps; words
%slot = type { i32, i32, i32, i32, ptr, ptr, i64, i64, i64, [1 x i64],
               i32, i32, i32, i32, %grid, %parker, [128 x [8 x i64]] }
; steps of a block (0: steps are in line), blocks, and how a home is cut into pieces: into so many
; parts of the blocks, and of the rows of each
%grid = type { i64, i64, i64, i64, [2 x i64] }

; number of loops begun (48 bits) and the slots whose pieces may be claimed (16 bits)
@signal = internal global { i64, [7 x i64] } zeroinitializer, align 64
; workers, growing, failed, wanted; the core of the last caller
@team = internal global { i32, i32, i32, i32, i64, [5 x i64] }
    { i32 0, i32 0, i32 0, i32 0, i64 -1, [5 x i64] zeroinitializer }, align 64
@asleep = internal global { i32, [15 x i32] } zeroinitializer, align 64
; threads that are in a loop now, shared or alone
@callers = internal global { i32, [15 x i32] } zeroinitializer, align 64
; nanoseconds: of waking a thread, at best; of handing work to one that is awake
@times = internal global { double, double, [6 x i64] }
    { double 2.0e4, double 5.0e2, [6 x i64] zeroinitializer }, align 64
; work done alone since the last pause, and when it ended
@alone = internal global { double, i64, [6 x i64] } zeroinitializer, align 64
@workers = internal global [1024 x %worker] zeroinitializer, align 64
@slots = internal global [16 x %slot] zeroinitializer, align 64

declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
$affinity
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare double @llvm.minnum.f64(double, double)
declare double @llvm.maxnum.f64(double, double)
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.fptosi.sat.i64.f64(double)
$declare
