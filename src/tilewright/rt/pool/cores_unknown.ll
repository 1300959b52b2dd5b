; where systems do not say which core a thread is on
define internal i64 @core() {
  ret i64 -1
}

define internal i1 @cores_of(i32 %thread, ptr %mask) {
  ret i1 false
}

define internal void @leave_core(i64 %taken) {
  ret void
}

define internal void @avoid_caller(ptr %may, ptr %avoided) {
  ret void
}
