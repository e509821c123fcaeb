; Runs the steps of a program: walks instructions of four words of 64 bits each.
;
;   0  launch   function, context, and how often it was launched
;   1  repeat   address of a counter, its first value
;   2  again    address of the counter, where to go on while it is above 0 once it is one less
;   3  step     where to go on: the end of a step
;   4  put      target, table with an entry for each step, bytes of an entry
;   5  unless   address of a value, where to go on if it is 0
;   6  jump     where to go on
;
; Control: how many steps were done, after how many to return, and 1 once it must return after a step.
; It returns where to go on.

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i64 @run(ptr %code, i64 %start, ptr %control) {
entry:
  %stop_at = getelementptr i64, ptr %control, i64 2
  %most_at = getelementptr i64, ptr %control, i64 1
  br label %next
next:
  %at = phi i64 [ %start, %entry ], [ %following, %launch ], [ %following, %repeat ],
                [ %again_to, %again ], [ %a, %step ], [ %following, %put ],
                [ %unless_to, %unless ], [ %a, %jump ]
  %word = mul i64 %at, 4
  %op_at = getelementptr i64, ptr %code, i64 %word
  %op = load i64, ptr %op_at
  %a_at = getelementptr i64, ptr %op_at, i64 1
  %a = load i64, ptr %a_at
  %b_at = getelementptr i64, ptr %op_at, i64 2
  %b = load i64, ptr %b_at
  %c_at = getelementptr i64, ptr %op_at, i64 3
  %c = load i64, ptr %c_at
  %a_address = inttoptr i64 %a to ptr
  %b_address = inttoptr i64 %b to ptr
  %following = add i64 %at, 1
  switch i64 %op, label %jump [
    i64 0, label %launch
    i64 1, label %repeat
    i64 2, label %again
    i64 3, label %step
    i64 4, label %put
    i64 5, label %unless
  ]
launch:
  call void %a_address(ptr %b_address)
  %more = add i64 %c, 1
  store i64 %more, ptr %c_at
  br label %next
repeat:
  store i64 %b, ptr %a_address
  br label %next
again:
  %left = load i64, ptr %a_address
  %less = sub i64 %left, 1
  store i64 %less, ptr %a_address
  %is_left = icmp sgt i64 %less, 0
  %again_to = select i1 %is_left, i64 %b, i64 %following
  br label %next
step:
  %done = load i64, ptr %control
  %steps = add i64 %done, 1
  store atomic i64 %steps, ptr %control monotonic, align 8
  %most = load i64, ptr %most_at
  %is_enough = icmp sge i64 %steps, %most
  %stop = load atomic i64, ptr %stop_at monotonic, align 8
  %is_stopped = icmp ne i64 %stop, 0
  %must_return = or i1 %is_enough, %is_stopped
  br i1 %must_return, label %return, label %next
put:
  %entry_number = load i64, ptr %control
  %offset = mul i64 %entry_number, %c
  %source = getelementptr i8, ptr %b_address, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %a_address, ptr %source, i64 %c, i1 false)
  br label %next
unless:
  %value = load i64, ptr %a_address
  %is_zero = icmp eq i64 %value, 0
  %unless_to = select i1 %is_zero, i64 %b, i64 %following
  br label %next
jump:
  br label %next
return:
  ret i64 %a
}

; Runs lists of slabs in parallel: the function that runs a parallel loop, its pool, how many lists
; there are, and the addresses at which the first begins and each ends.
define void @phase(ptr %phase) {
  %for = load ptr, ptr %phase
  %pool_at = getelementptr i64, ptr %phase, i64 1
  %pool = load ptr, ptr %pool_at
  %count_at = getelementptr i64, ptr %phase, i64 2
  %count = load i32, ptr %count_at
  %ends_at = getelementptr i64, ptr %phase, i64 3
  %ends = load ptr, ptr %ends_at
  call void %for(ptr %pool, i32 %count, i32 %count, ptr %ends, ptr @slabs)
  ret void
}

; Launches the slabs of a list, of six words each: function, context, the addresses of two scalars,
; and the numbers for them.
define internal void @slabs(ptr %ends, i32 %thread, i32 %list) {
entry:
  %begin_at = getelementptr i64, ptr %ends, i32 %list
  %begin = load ptr, ptr %begin_at
  %end_at = getelementptr i64, ptr %begin_at, i64 1
  %end = load ptr, ptr %end_at
  %any = icmp ne ptr %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %slab = phi ptr [ %begin, %entry ], [ %following, %loop ]
  %function = load ptr, ptr %slab
  %context_at = getelementptr i64, ptr %slab, i64 1
  %context = load ptr, ptr %context_at
  %start_at = getelementptr i64, ptr %slab, i64 2
  %start_to = load ptr, ptr %start_at
  %stop_at = getelementptr i64, ptr %slab, i64 3
  %stop_to = load ptr, ptr %stop_at
  %first_at = getelementptr i64, ptr %slab, i64 4
  %first = load i32, ptr %first_at
  %last_at = getelementptr i64, ptr %slab, i64 5
  %last = load i32, ptr %last_at
  store i32 %first, ptr %start_to
  store i32 %last, ptr %stop_to
  call void %function(ptr %context)
  %following = getelementptr i64, ptr %slab, i64 6
  %more = icmp ne ptr %following, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
