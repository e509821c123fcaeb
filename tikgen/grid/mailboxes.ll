; Messages between processes of one machine, through memory that they share.
;
; A mailbox is two cache lines, and behind them the elements of a message:
;   0    how many messages were put into it
;   64   how many were taken out
;   128  the elements
;
; Numbers have 64 bits. An exchange: how many messages it has, the address of the first one, and
; whether they are received. A message: the address of its mailbox, how many
; went through it, how many boxes it consists of, the address of the first one. A box: the address of
; its first element, how many runs of bytes it has along four axes, the bytes from one run to the next
; along these, and the bytes of a run.

declare i32 @sched_yield()
declare i32 @usleep(i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @DECLARED

; Put messages into their mailboxes, or take them out.
define void @exchange(ptr %context) {
  %count = load i64, ptr %context
  %messages_at = getelementptr i64, ptr %context, i64 1
  %messages = load ptr, ptr %messages_at
  %takes_out_at = getelementptr i64, ptr %context, i64 2
  %takes_out = load i64, ptr %takes_out_at
  %puts_in = xor i64 %takes_out, 1
  %awaited = mul i64 %puts_in, 64
  %told = mul i64 %takes_out, 64
  call void @each(ptr %messages, i64 %count, i64 %awaited, i64 %takes_out, i64 %told)
  ret void
}

; Copy boxes one behind the other. The context: how many they are, the address of the first one, and
; of the memory that receives them.
define void @take(ptr %context) {
entry:
  %count = load i64, ptr %context
  %boxes_at = getelementptr i64, ptr %context, i64 1
  %boxes = load ptr, ptr %boxes_at
  %target_at = getelementptr i64, ptr %context, i64 2
  %target = load ptr, ptr %target_at
  br label %copy
copy:
  %n = phi i64 [ 0, %entry ], [ %next, %copy ]
  %place = phi ptr [ %target, %entry ], [ %behind, %copy ]
  %box = getelementptr [10 x i64], ptr %boxes, i64 %n
  %behind = call ptr @move(ptr %box, ptr %place, i64 0)
  %next = add i64 %n, 1
  %is_more = icmp slt i64 %next, %count
  br i1 %is_more, label %copy, label %done
done:
  ret void
}

; Wait until the other process has done its part, copy, and say so, for each of some messages.
define internal void @each(ptr %messages, i64 %count, i64 %awaited, i64 %takes_out, i64 %told) {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %following, %copied ]
  %message = getelementptr [4 x i64], ptr %messages, i64 %i
  %mailbox = load ptr, ptr %message
  %times_at = getelementptr i64, ptr %message, i64 1
  %times = load i64, ptr %times_at
  %more = add i64 %times, 1
  store i64 %more, ptr %times_at
  %needed = add i64 %times, %takes_out
  %awaited_at = getelementptr i8, ptr %mailbox, i64 %awaited
  call void @await(ptr %awaited_at, i64 %needed)
  %boxes_count_at = getelementptr i64, ptr %message, i64 2
  %boxes_count = load i64, ptr %boxes_count_at
  %boxes_at = getelementptr i64, ptr %message, i64 3
  %boxes = load ptr, ptr %boxes_at
  %elements = getelementptr i8, ptr %mailbox, i64 128
  br label %copy
copy:
  %n = phi i64 [ 0, %loop ], [ %next, %copy ]
  %place = phi ptr [ %elements, %loop ], [ %behind, %copy ]
  %box = getelementptr [10 x i64], ptr %boxes, i64 %n
  %behind = call ptr @move(ptr %box, ptr %place, i64 %takes_out)
  %next = add i64 %n, 1
  %is_more = icmp slt i64 %next, %boxes_count
  br i1 %is_more, label %copy, label %copied
copied:
  %told_at = getelementptr i8, ptr %mailbox, i64 %told
  store atomic i64 %more, ptr %told_at release, align 8
  %following = add i64 %i, 1
  %again = icmp slt i64 %following, %count
  br i1 %again, label %loop, label %done
done:
  ret void
}

; Wait until a counter has a value: ready at first, then sleeping, as cores may be shared.
define internal void @await(ptr %counter, i64 %needed) {
entry:
  br label %look
look:
  %turn = phi i64 [ 0, %entry ], [ %turns, %again ]
  %value = load atomic i64, ptr %counter acquire, align 8
  %is_done = icmp sge i64 %value, %needed
  br i1 %is_done, label %done, label %rest
rest:
  %turns = add i64 %turn, 1
  %is_short = icmp ult i64 %turns, SPINS
  br i1 %is_short, label %relax, label %longer
relax:
  call void @RELAX
  br label %again
longer:
  %is_long = icmp ugt i64 %turns, YIELDS
  br i1 %is_long, label %sleep, label %yield
yield:
  %yielded = call i32 @sched_yield()
  br label %again
sleep:
  %slept = call i32 @usleep(i32 50)
  br label %again
again:
  br label %look
done:
  ret void
}

; Copy a box into a mailbox, or out of it; return where the next one begins.
define internal ptr @move(ptr %box, ptr %mail, i64 %takes_out) {
entry:
  %first = load ptr, ptr %box
  %n0_at = getelementptr i64, ptr %box, i64 1
  %n0 = load i64, ptr %n0_at
  %n1_at = getelementptr i64, ptr %box, i64 2
  %n1 = load i64, ptr %n1_at
  %n2_at = getelementptr i64, ptr %box, i64 3
  %n2 = load i64, ptr %n2_at
  %n3_at = getelementptr i64, ptr %box, i64 4
  %n3 = load i64, ptr %n3_at
  %s0_at = getelementptr i64, ptr %box, i64 5
  %s0 = load i64, ptr %s0_at
  %s1_at = getelementptr i64, ptr %box, i64 6
  %s1 = load i64, ptr %s1_at
  %s2_at = getelementptr i64, ptr %box, i64 7
  %s2 = load i64, ptr %s2_at
  %s3_at = getelementptr i64, ptr %box, i64 8
  %s3 = load i64, ptr %s3_at
  %run_at = getelementptr i64, ptr %box, i64 9
  %run = load i64, ptr %run_at
  %out = icmp ne i64 %takes_out, 0
  br label %axis0
axis0:
  %i0 = phi i64 [ 0, %entry ], [ %j0, %end0 ]
  %a0 = phi ptr [ %first, %entry ], [ %b0, %end0 ]
  %m0 = phi ptr [ %mail, %entry ], [ %m, %end0 ]
  br label %axis1
axis1:
  %i1 = phi i64 [ 0, %axis0 ], [ %j1, %end1 ]
  %a1 = phi ptr [ %a0, %axis0 ], [ %b1, %end1 ]
  %m1 = phi ptr [ %m0, %axis0 ], [ %m, %end1 ]
  br label %axis2
axis2:
  %i2 = phi i64 [ 0, %axis1 ], [ %j2, %end2 ]
  %a2 = phi ptr [ %a1, %axis1 ], [ %b2, %end2 ]
  %m2 = phi ptr [ %m1, %axis1 ], [ %m, %end2 ]
  br label %axis3
axis3:
  %i3 = phi i64 [ 0, %axis2 ], [ %j3, %end3 ]
  %a3 = phi ptr [ %a2, %axis2 ], [ %b3, %end3 ]
  %m3 = phi ptr [ %m2, %axis2 ], [ %m, %end3 ]
  %source = select i1 %out, ptr %m3, ptr %a3
  %target = select i1 %out, ptr %a3, ptr %m3
  switch i64 %run, label %long [
    i64 4, label %four
    i64 8, label %eight
  ]
four:
  %word = load i32, ptr %source, align 1
  store i32 %word, ptr %target, align 1
  br label %end3
eight:
  %double = load i64, ptr %source, align 1
  store i64 %double, ptr %target, align 1
  br label %end3
long:
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %run, i1 false)
  br label %end3
end3:
  %m = getelementptr i8, ptr %m3, i64 %run
  %b3 = getelementptr i8, ptr %a3, i64 %s3
  %j3 = add i64 %i3, 1
  %more3 = icmp slt i64 %j3, %n3
  br i1 %more3, label %axis3, label %end2
end2:
  %b2 = getelementptr i8, ptr %a2, i64 %s2
  %j2 = add i64 %i2, 1
  %more2 = icmp slt i64 %j2, %n2
  br i1 %more2, label %axis2, label %end1
end1:
  %b1 = getelementptr i8, ptr %a1, i64 %s1
  %j1 = add i64 %i1, 1
  %more1 = icmp slt i64 %j1, %n1
  br i1 %more1, label %axis1, label %end0
end0:
  %b0 = getelementptr i8, ptr %a0, i64 %s0
  %j0 = add i64 %i0, 1
  %more0 = icmp slt i64 %j0, %n0
  br i1 %more0, label %axis0, label %done
done:
  ret ptr %m
}
