//! The public functions `while_loop(init, |carry| condition, |carry| carry)` and `while_loop_bounded`.

use super::*;
use crate::ops::scan::check_carry;
use crate::tree;

/// Runs `step` on the carry while `condition`, which returns a boolean scalar, is true. Returns the last carry, or the
/// initial carry if the condition is false at the start.
///
/// The carry can be any [`Tree`]. The next carry must have the same structure and types as `init`. Each closure is
/// traced once, and may capture values of the enclosing graph. Unless the backend compiles the loop, the host reads the
/// condition before each step. All backends support the loop, but compilation with `LoopStrategy::Unroll` rejects it,
/// because its number of steps is unlimited. [`while_loop_bounded`] supports every strategy.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, while_loop};
///
/// let gcd = Graph::build("gcd", |g| {
///     let [a, b] = [g.input("a", "i64[]"), g.input("b", "i64[]")];
///     while_loop((a, b), |(_, b)| b.gt(0), |(a, b)| (b, a % b)).0
/// })?;
/// let inputs = [HostTensor::scalar(1071i64), HostTensor::scalar(462i64)];
/// assert_eq!(evaluate(&gcd, &inputs)?[0], HostTensor::scalar(21i64));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn while_loop<C: Tree>(init: C, condition: impl FnOnce(C) -> Value, step: impl FnOnce(C) -> C) -> C {
    trace(Place::new("while", Site::caller()), None, init, condition, step)
}

/// Runs a loop like [`while_loop()`], but stops after at most `bound` steps, even if the condition is still true.
/// Compilation with `LoopStrategy::Unroll` accepts the loop if the input sizes determine the bound.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, while_loop_bounded};
///
/// let doubled = Graph::build("doubled", |g| {
///     while_loop_bounded(3, g.input("x", "f32[]"), |x| x.lt(100.0), |x| x * 2.0)
/// })?;
/// assert_eq!(evaluate(&doubled, &[1f32.into()])?, [8f32.into()]);
/// assert_eq!(evaluate(&doubled, &[80f32.into()])?, [160f32.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn while_loop_bounded<C: Tree>(
    bound: impl Into<Dim>,
    init: C,
    condition: impl FnOnce(C) -> Value,
    step: impl FnOnce(C) -> C,
) -> C {
    trace(Place::new("while", Site::caller()), Some(bound.into()), init, condition, step)
}

fn trace<C: Tree>(
    at: Place,
    bound: Option<Dim>,
    init: C,
    condition: impl FnOnce(C) -> Value,
    step: impl FnOnce(C) -> C,
) -> C {
    let (init_leaves, at) = (tree::leaves(&init, "carry"), &at);
    let (trace, carries) = open_body(at, &init_leaves);
    let holds = condition(tree::rebuild(&init, &carries));
    check_condition(at, holds);
    let condition = trace.close(&[("out".to_string(), holds)]);

    let (trace, carries) = open_body(at, &init_leaves);
    let next = tree::leaves(&step(tree::rebuild(&init, &carries)), "carry");
    check_carry(at, &init_leaves, &next);
    let body = trace.close(&next);
    let initial = init_leaves.into_iter().map(|(_, value)| value);
    let last = condition.and_then(|condition| emit_loop(bound, initial, condition, body?, at.site));
    tree::rebuild_or_failed(&init, last)
}

/// Starts tracing a body whose parameters are the carries.
fn open_body(at: &Place, init: &[(String, Value)]) -> (BodyTrace, Vec<Value>) {
    let params: Vec<(String, TensorType)> = init.iter().map(|(name, value)| (name.clone(), value.ty())).collect();
    BodyTrace::open(at, "", &params)
}

/// Checks that the condition is a boolean scalar (while-c1).
fn check_condition(at: &Place, holds: Value) {
    let ty = holds.ty();
    if !holds.is_failed() && (ty.dtype != DType::Bool || ty.rank() != 0) {
        let fix = "compare, and reduce with `any(..)` or `all(..)`";
        fail_mismatch(at, &[holds], "the result of the condition", "bool[]", &ty, fix);
    }
}
