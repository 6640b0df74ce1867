//! Sizes that are negative, do not fit in 64 bits, or need more memory than any machine has. Every backend must return
//! a typed error before it allocates memory. Valid sizes must be accepted.

use super::*;

pub(super) fn cases() -> Cases {
    all([
        // With T = 2, the tensor would have T - 3 = -1 elements.
        text(
            "negative_size",
            "fn @f(%x: f32[], %z: f32[T]) {
  %0: f32[T-3] = broadcast %x {shape=[T-3]}
  %1: f32[] = reduce %0 {kind=sum, axes=[0]}
  return y=%0, s=%1
}",
        )
        .on([scalar(1f32), row([1f32, 2.])])
        .fails("Type"),
        // The shape (-1, -2) must be rejected, although its product is 2.
        text(
            "negative_sizes_whose_product_is_positive",
            "fn @f(%x: f32[], %z: f32[T]) {
  %0: f32[T-3,T-4] = broadcast %x {shape=[T-3,T-4]}
  %1: f32[T*T-7*T+12] = reshape %0 {shape=[T*T-7*T+12]}
  return y=%1
}",
        )
        .on([scalar(1f32), row([1f32, 2.])])
        .fails("Type"),
        // With T = 3, the size (2^63 - 1) * T + 1 overflows.
        text(
            "size_beyond_64_bits",
            "fn @f(%x: f32[T]) {
  %0: i64[] = size {dim=9223372036854775807*T+1, dtype=i64}
  return y=%0
}",
        )
        .on([row([1f32, 2., 3.])])
        .fails("Type"),
        // An argument of size 3 is declared with the size T - (2^63 - 1), so T overflows.
        text(
            "argument_below_the_size_that_it_binds",
            "fn @f(%x: f32[T-9223372036854775807]) {
  %0: i64[] = size {dim=T, dtype=i64}
  return y=%0
}",
        )
        .on([row([1f32, 2., 3.])])
        .fails("Call"),
        // Broadcasts a scalar to 2^64 elements.
        text(
            "broadcast_beyond_memory",
            "fn @f(%x: f32[]) {
  %0: f32[4294967296,4294967296] = broadcast %x {shape=[4294967296,4294967296]}
  return y=%0
}",
        )
        .on([scalar(1f32)])
        .fails("OverBudget"),
        // The tensor would have 2^45 * T elements, where T = 1 is the size of an argument.
        text(
            "iota_beyond_memory",
            "fn @f(%x: f32[T]) {
  %0: i64[35184372088832*T] = iota {size=35184372088832*T, dtype=i64}
  return y=%0, x=%x
}",
        )
        .on([row([1f32])])
        .fails("OverBudget"),
        // Padding inserts 2^61 elements between the five elements.
        text(
            "padding_beyond_memory",
            "fn @f(%x: f32[5], %z: f32[]) {
  %0: f32[2305843009213693957] = pad %x, %z {axis=0, low=0, high=0, interior=576460752303423488}
  return y=%0
}",
        )
        .on([row([1f32, 2., 3., 4., 5.]), scalar(0f32)])
        .fails("OverBudget"),
        trace_beyond_memory(i64::MAX),
        trace_beyond_memory(1 << 40),
        // Each row of the trace has 2^44 * T elements, with T = 2. The unrolled program would also be too large.
        text(
            "trace_that_a_size_makes_too_long",
            "fn @f(%s: f32[], %x: f32[T], %n: i64[]) {
  %ys: f32[$1,17592186044416*T] = scan @b %n {steps=$1} with %s {
    nit-sot %ys
    %0: f32[17592186044416*T] = broadcast %s {shape=[17592186044416*T]}
    %ys[t] = %0
  }
  return y=%ys, x=%x
}",
        )
        .on([scalar(1f32), row([1f32, 2.]), scalar(3i64)])
        .dynamic(true)
        .fails("OverBudget"),
        // The size of the tensor is 2^42 times the trip count of a loop.
        text(
            "tensor_after_a_loop_beyond_memory",
            "fn @f(%s: f32[], %n: i64[]) {
  %last: f32[] = scan @b %n {steps=$1} {
    carry %c: f32[] = %last from %s
    %0: f32[] = add %c, %c
    %last = %0
  }
  %1: f32[4398046511104*$1] = broadcast %last {shape=[4398046511104*$1]}
  return y=%1
}",
        )
        .on([scalar(1f32), scalar(3i64)])
        .dynamic(true)
        .fails("OverBudget"),
        // A branch that does not run needs no memory, so the call must succeed.
        text(
            "huge_branch_that_is_not_taken",
            "fn @f(%p: bool[], %x: f32[]) {
  %y: f32[] = switch %p {
    case 0 with %x {
      give %x
    }
    case 1 with %x {
      %0: f32[1099511627776,1099511627776] = broadcast %x {shape=[1099511627776,1099511627776]}
      %1: f32[] = reduce %0 {kind=sum, axes=[0,1]}
      give %1
    }
  }
  return y=%y
}",
        )
        .on([scalar(false), scalar(2f32)])
        .gives([("y", scalar(2f32))]),
        // The loop runs T - 2 = 0 steps. A step would create a tensor of 2^50 * T - 5 elements.
        text(
            "huge_step_that_never_runs",
            "fn @f(%s: f32[], %x: f32[T]) {
  %last: f32[] = scan @b {steps=T-2} {
    carry %c: f32[] = %last from %s
    %0: f32[1125899906842624*T-5] = broadcast %c {shape=[1125899906842624*T-5]}
    %1: f32[] = reduce %0 {kind=sum, axes=[0]}
    %last = %1
  }
  return y=%last, x=%x
}",
        )
        .on([scalar(3f32), row([1f32, 2.])])
        .gives([("y", scalar(3f32)), ("x", row([1f32, 2.]))]),
        // The size `B+T` is declared before the size `T` that it depends on.
        text(
            "sum_before_its_terms",
            "fn @f(%x: f32[B+T], %y: f32[T]) {
  %0: i64[] = size {dim=10*B+T, dtype=i64}
  %1: f32[B+T] = neg %x
  return n=%0, x=%1, y=%y
}",
        )
        .on([row([1f32, 2., 3., 4., 5.]), row([6f32, 7.])])
        .gives([("n", scalar(32i64)), ("x", row([-1f32, -2., -3., -4., -5.])), ("y", row([6f32, 7.]))]),
        // Coefficients at the ends of the 64-bit range are valid. With T = 1, the two terms of the first size cancel.
        text(
            "largest_numbers",
            "fn @f(%x: f32[T]) {
  %0: i64[] = size {dim=9223372036854775807*T-9223372036854775807, dtype=i64}
  %1: i64[] = size {dim=-9223372036854775808*T, dtype=i64}
  %2: f32[2,T] = broadcast %x {shape=[2,T]}
  return a=%0, b=%1, c=%2
}",
        )
        .on([row([3f32])])
        .gives([("a", scalar(0i64)), ("b", scalar(i64::MIN)), ("c", tensor([2, 1], [3f32, 3.]))]),
    ])
}

/// Builds a case with a loop whose trace would exceed the memory of any machine. The trace has `steps` rows, and this
/// number is known only at run time.
fn trace_beyond_memory(steps: i64) -> OneCase {
    let program = "fn @f(%s: f32[], %n: i64[]) {
  %ys: f32[$1], %last: f32[] = scan @b %n {steps=$1} {
    nit-sot %ys
    carry %c: f32[] = %last from %s
    %0: f32[] = add %c, %c
    %ys[t] = %0
    %last = %0
  }
  return y=%ys
}";
    let name = format!("trace_of_{steps}_rows");
    text(name, program).on([scalar(1f32), scalar(steps)]).dynamic(true).fails("OverBudget")
}
