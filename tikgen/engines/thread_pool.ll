; The thread pool of the engine direct-cpu: what Taichi's tasks call to run a parallel loop.
;
; A pool is ten cache lines of 64 bytes, one for each word that threads share:
;   0    1 while a loop runs
;   64   how many loops have begun; workers sleep on it
;   128  1 while workers may join the loop
;   192  how many workers have joined
;   256  the next split of the loop, or bits for those that are taken
;   320  the splits of the loop, its context, its task, and how its thread rounds
;   384  how many workers sleep
;   448  1 once the workers must end
;   512  how many workers there are
;   576  1 more than the processor that workers keep away from, the address of the thread numbers of
;        workers, and the address of a set of processors for each processor: all but that one
;
; Workers join a loop while it is open, so that a worker that sleeps delays nobody. A loop that
; begins while another one runs, in another thread or within a task, runs in its own thread alone.
;
; Workers round, and flush subnormal numbers to zero or not, as the thread that begins the loop does:
; else results would depend on who computed them.

declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i32 @sched_getcpu()
declare i64 @llvm.readcyclecounter()
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @DECLARED

; Run all splits in this thread.
define void @serial_for(ptr %pool, i32 %splits, i32 %threads, ptr %context, ptr %task) {
entry:
  %any = icmp sgt i32 %splits, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i32 [ 0, %entry ], [ %following, %loop ]
  call void %task(ptr %context, i32 0, i32 %i)
  %following = add nsw i32 %i, 1
  %more = icmp slt i32 %following, %splits
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Run all splits in this thread, the last one first.
define void @backward_for(ptr %pool, i32 %splits, i32 %threads, ptr %context, ptr %task) {
entry:
  %any = icmp sgt i32 %splits, 0
  br i1 %any, label %loop, label %done
loop:
  %left = phi i32 [ %splits, %entry ], [ %i, %loop ]
  %i = add nsw i32 %left, -1
  call void %task(ptr %context, i32 0, i32 %i)
  %more = icmp sgt i32 %i, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Take splits until none is left. Each thread begins with the split of its own number, where it is
; still there: then what it wrote in one loop is in its own cache in the next. Bits say which splits
; are taken; of more than 64, threads take the next one.
define internal void @take(ptr %pool, i32 %thread) {
entry:
  %next = getelementptr i8, ptr %pool, i64 256
  %at = getelementptr i8, ptr %pool, i64 320
  %splits = load i32, ptr %at
  %context_at = getelementptr i8, ptr %at, i64 8
  %context = load ptr, ptr %context_at
  %task_at = getelementptr i8, ptr %at, i64 16
  %task = load ptr, ptr %task_at
  %are_many = icmp sgt i32 %splits, 64
  br i1 %are_many, label %loop, label %few
loop:
  %i = atomicrmw add ptr %next, i32 1 acq_rel
  %more = icmp slt i32 %i, %splits
  br i1 %more, label %run, label %done
run:
  call void %task(ptr %context, i32 %thread, i32 %i)
  br label %loop
few:
  %count = zext i32 %splits to i64
  %beyond = sub i64 64, %count
  %all = lshr i64 -1, %beyond
  %is_extra = icmp sge i32 %thread, %splits
  %place = zext i32 %thread to i64
  %bit = shl i64 1, %place
  %own = select i1 %is_extra, i64 0, i64 %bit
  br label %choose
choose:
  %taken = load atomic i64, ptr %next acquire, align 8
  %not_taken = xor i64 %taken, -1
  %free = and i64 %not_taken, %all
  %is_any = icmp ne i64 %free, 0
  br i1 %is_any, label %claim, label %done
claim:
  %own_free = and i64 %free, %own
  %is_own = icmp ne i64 %own_free, 0
  %above = call i64 @llvm.ctlz.i64(i64 %free, i1 true)
  %highest = lshr i64 -9223372036854775808, %above
  %wanted = select i1 %is_own, i64 %own, i64 %highest
  %before = atomicrmw or ptr %next, i64 %wanted acq_rel
  %had = and i64 %before, %wanted
  %is_mine = icmp eq i64 %had, 0
  br i1 %is_mine, label %run_one, label %choose
run_one:
  %number = call i64 @llvm.cttz.i64(i64 %wanted, i1 true)
  %split = trunc i64 %number to i32
  call void %task(ptr %context, i32 %thread, i32 %split)
  br label %choose
done:
  ret void
}

; Keep the workers away from the processor of this thread: the system may wake a worker there, where
; it would wait until this thread has run all splits itself.
define internal void @keep_away(ptr %pool) {
entry:
  %at = getelementptr i8, ptr %pool, i64 576
  %cpu = call i32 @sched_getcpu()
  %mark = add i32 %cpu, 1
  %old = load i32, ptr %at
  %is_same = icmp eq i32 %mark, %old
  %is_unknown = icmp slt i32 %cpu, 0
  %is_beyond = icmp sgt i32 %cpu, 1023
  %is_known = or i1 %is_same, %is_unknown
  %is_done = or i1 %is_known, %is_beyond
  br i1 %is_done, label %done, label %begin
begin:
  store i32 %mark, ptr %at
  %numbers_at = getelementptr i8, ptr %pool, i64 584
  %numbers = load ptr, ptr %numbers_at
  %sets_at = getelementptr i8, ptr %pool, i64 592
  %sets = load ptr, ptr %sets_at
  %offset = mul i32 %cpu, 128
  %set = getelementptr i8, ptr %sets, i32 %offset
  %workers_at = getelementptr i8, ptr %pool, i64 512
  %workers = load i32, ptr %workers_at
  br label %loop
loop:
  %i = phi i32 [ 0, %begin ], [ %following, %loop ]
  %number_at = getelementptr i32, ptr %numbers, i32 %i
  %number = load atomic i32, ptr %number_at seq_cst, align 4
  %set_there = call i64 (i64, ...) @syscall(i64 AFFINITY, i32 %number, i64 128, ptr %set)
  %following = add i32 %i, 1
  %more = icmp slt i32 %following, %workers
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @parallel_for(ptr %pool, i32 %splits, i32 %threads, ptr %context, ptr %task) {
entry:
  %workers_at = getelementptr i8, ptr %pool, i64 512
  %workers = load i32, ptr %workers_at
  %several = icmp sgt i32 %splits, 1
  %helped = icmp sgt i32 %workers, 0
  %is_parallel = and i1 %several, %helped
  br i1 %is_parallel, label %lock, label %alone
lock:
  %locked = cmpxchg ptr %pool, i32 0, i32 1 acquire monotonic
  %is_mine = extractvalue { i32, i1 } %locked, 1
  br i1 %is_mine, label %open, label %alone
alone:
  call void @serial_for(ptr %pool, i32 %splits, i32 %threads, ptr %context, ptr %task)
  ret void
open:
  %at = getelementptr i8, ptr %pool, i64 320
  store i32 %splits, ptr %at
  %context_at = getelementptr i8, ptr %at, i64 8
  store ptr %context, ptr %context_at
  %task_at = getelementptr i8, ptr %at, i64 16
  store ptr %task, ptr %task_at
  %mode_at = getelementptr i8, ptr %at, i64 24
  KEEP_MODE
  %next = getelementptr i8, ptr %pool, i64 256
  store i64 0, ptr %next
  %open_at = getelementptr i8, ptr %pool, i64 128
  store atomic i32 1, ptr %open_at seq_cst, align 4
  %generation = getelementptr i8, ptr %pool, i64 64
  %old = atomicrmw add ptr %generation, i32 1 seq_cst
  %sleepers_at = getelementptr i8, ptr %pool, i64 384
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %any_sleeps = icmp sgt i32 %sleepers, 0
  br i1 %any_sleeps, label %wake, label %work
wake:
  call void @keep_away(ptr %pool)
  %most = sub i32 %splits, 1
  %woken = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %generation, i32 129, i32 %most, i64 0)
  br label %work
work:
  call void @take(ptr %pool, i32 0)
  store atomic i32 0, ptr %open_at seq_cst, align 4
  %active_at = getelementptr i8, ptr %pool, i64 192
  br label %wait
wait:
  %turn = phi i32 [ 0, %work ], [ %turns, %again ]
  %active = load atomic i32, ptr %active_at seq_cst, align 4
  %is_done = icmp eq i32 %active, 0
  br i1 %is_done, label %unlock, label %pause
pause:
  %turns = add i32 %turn, 1
  %is_long = icmp ugt i32 %turns, 2000
  br i1 %is_long, label %yield, label %relax
yield:
  %yielded = call i32 @sched_yield()
  br label %again
relax:
  call void @RELAX
  br label %again
again:
  br label %wait
unlock:
  store atomic i32 0, ptr %pool release, align 4
  ret void
}

; The life of a worker: spin for a while, then sleep, until a loop begins.
define void @worker(ptr %pool, i32 %thread) {
entry:
  %generation = getelementptr i8, ptr %pool, i64 64
  %open_at = getelementptr i8, ptr %pool, i64 128
  %active_at = getelementptr i8, ptr %pool, i64 192
  %sleepers_at = getelementptr i8, ptr %pool, i64 384
  %stop_at = getelementptr i8, ptr %pool, i64 448
  br label %rest
rest:
  %seen = phi i32 [ 0, %entry ], [ %latest, %worked ]
  %begun = call i64 @llvm.readcyclecounter()
  br label %spin
spin:
  %latest = load atomic i32, ptr %generation seq_cst, align 4
  %is_new = icmp ne i32 %latest, %seen
  br i1 %is_new, label %join, label %spin_on
spin_on:
  call void @RELAX
  %now = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %now, %begun
  %is_tired = icmp ugt i64 %spent, SPIN
  br i1 %is_tired, label %sleep, label %spin
sleep:
  %more = atomicrmw add ptr %sleepers_at, i32 1 seq_cst
  %slept = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %generation, i32 128, i32 %seen, ptr null)
  %fewer = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst
  %stop_now = load atomic i32, ptr %stop_at seq_cst, align 4
  %must_stop = icmp ne i32 %stop_now, 0
  br i1 %must_stop, label %done, label %spin
join:
  %stop_then = load atomic i32, ptr %stop_at seq_cst, align 4
  %must_end = icmp ne i32 %stop_then, 0
  br i1 %must_end, label %done, label %enter
enter:
  %joined = atomicrmw add ptr %active_at, i32 1 seq_cst
  %is_open = load atomic i32, ptr %open_at seq_cst, align 4
  %may_work = icmp eq i32 %is_open, 1
  br i1 %may_work, label %work, label %worked
work:
  %mode_at = getelementptr i8, ptr %pool, i64 344
  TAKE_MODE
  call void @take(ptr %pool, i32 %thread)
  br label %worked
worked:
  %left = atomicrmw sub ptr %active_at, i32 1 seq_cst
  br label %rest
done:
  ret void
}

; End the workers.
define void @stop(ptr %pool) {
  %stop_at = getelementptr i8, ptr %pool, i64 448
  store atomic i32 1, ptr %stop_at seq_cst, align 4
  %generation = getelementptr i8, ptr %pool, i64 64
  %old = atomicrmw add ptr %generation, i32 1 seq_cst
  %woken = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %generation, i32 129, i32 2147483647, i64 0)
  ret void
}
