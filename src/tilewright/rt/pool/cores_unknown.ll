; where systems do not say which core a thread is on
define internal i64 @core() {
  ret i64 -1
}

define internal i1 @avoid_caller(ptr %may, ptr %kept, ptr %main) {
  ret i1 false
}

define internal void @may_use_all(ptr %may, ptr %kept, ptr %main, i64 %waker) {
  ret void
}
