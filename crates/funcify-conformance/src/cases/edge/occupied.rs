//! Values that occupy the same memory, and who reads it when: a state under two names, a sum that its own step reads, a copy of
//! a state that changes. A compiled loop may reuse memory only where nobody notices.

use funcify::{Builder, DType, Graph, HostTensor, Scalar, scan, select};

use super::{Cases, case, gives, outputs_of, row, scalar, tensor};
use crate::cases::outputs;
use crate::suite::Case;

pub(super) fn cases() -> Cases {
    Ok(vec![
        sum_of_outer_products_that_its_step_reads()?,
        state_under_another_name()?,
        sums_of_products_before_and_after_a_step()?,
        copy_of_a_state_that_changes()?,
        bits_that_a_mask_lacks()?,
        cast_of_a_sum_over_a_divided_axis()?,
        trace_of_a_loop_that_ends_early()?,
        state_as_several_operands()?,
    ])
}

/// A program from its text.
fn given<const N: usize, const M: usize>(
    name: &str,
    text: &str,
    inputs: [HostTensor; N],
    outputs: [(&str, HostTensor); M],
) -> Result<Case, String> {
    case(name, Graph::parse(text), inputs.to_vec(), outputs_of(outputs))
}

/// Linear attention without decay: each step adds an outer product to the state and reads the sum.
fn sum_of_outer_products_that_its_step_reads() -> Result<Case, String> {
    let inputs = [tensor([2, 2], [1f32, 2., 3., 4.]), tensor([2, 2], [1f32; 4]), tensor([2, 2], [0f32; 4])];
    let ys = tensor([2, 2], [3f32, 3., 10., 10.]);
    let expected = [("ys", ys), ("last", tensor([2, 2], [4f32, 4., 6., 6.]))];
    given("sum_of_outer_products_that_its_step_reads", include_str!("programs/linear_attention.fir"), inputs, expected)
}

/// Truncated backpropagation: the stopped state is read after the next one is there.
fn state_under_another_name() -> Result<Case, String> {
    let expected = [("ys", row([10f32, 22., 39.])), ("last", scalar(16f32))];
    let inputs = [row([1f32, 2., 3.]), scalar(10f32)];
    given("state_under_another_name", include_str!("programs/state_by_another_name.fir"), inputs, expected)
}

/// Hebbian weights: outer products of a state before and after the step that changes it.
fn sums_of_products_before_and_after_a_step() -> Result<Case, String> {
    let zeros = || tensor([2, 2], [0f32; 4]);
    let inputs = [tensor([2, 2], [1f32, 2., 3., 4.]), row([1f32, 1.]), zeros(), zeros()];
    let expected = [("p", tensor([2, 2], [-5f32, -6., -8., -10.])), ("q", tensor([2, 2], [-5f32, -8., -6., -10.]))];
    given("sums_of_products_before_and_after_a_step", include_str!("programs/strip_copies.fir"), inputs, expected)
}

/// A trace's row is a copy of a state, and another state takes a part of that row after the first one changed.
fn copy_of_a_state_that_changes() -> Result<Case, String> {
    let inputs = [row([1f32, 2., 3., 4.]), row([5f32]), tensor([1, 1], [0f32])];
    let sines = [5f32, 1f32.sin(), 2f32.sin(), 3f32.sin()];
    let ys = tensor([4, 2], [sines[0], 0., sines[1], 0., sines[2], 0., sines[3], 0.]);
    let expected = [("copy", tensor([1, 1], [sines[3]])), ("ys", ys), ("last", row([4f32.sin()]))];
    given("copy_of_a_state_that_changes", include_str!("programs/register_copies.fir"), inputs, expected)
}

/// `not` of an integer that is 0 or 1 is bitwise.
fn bits_that_a_mask_lacks() -> Result<Case, String> {
    let expected = [("ys", row([-2f32, -1., -2.])), ("last", scalar(2f32)), ("j", scalar(-2i64))];
    let inputs = [row([1f32, -2., 3.]), scalar(0f32)];
    given("bits_that_a_mask_lacks", include_str!("programs/integer_not.fir"), inputs, expected)
}

/// Whether a sum over an axis is not 0, where parts of the axis have shares of the sum.
fn cast_of_a_sum_over_a_divided_axis() -> Result<Case, String> {
    let filled = |shape: &[usize], number| HostTensor::from_fn(DType::F32, shape, |_| Scalar::Float(number));
    let inputs = [filled(&[200, 4096], 1.0), filled(&[4096], 0.0)];
    let expected = [("ys", filled(&[200], 1.0))];
    given("cast_of_a_sum_over_a_divided_axis", include_str!("programs/share_cast.fir"), inputs, expected)
}

/// Each step sums the trace of a loop that ends early, after more or fewer steps than in the step before.
fn trace_of_a_loop_that_ends_early() -> Result<Case, String> {
    let inputs = [tensor([3, 4], [1f32, 1., 1., 1., 3., 9., 9., 9., 0.5, 2., 9., 9.])];
    let expected = [("sums", row([6f32, 3., 3.]))];
    given("trace_of_a_loop_that_ends_early", include_str!("programs/trace_of_an_early_end.fir"), inputs, expected)
}

/// One state is two operands of the op that gives the next one.
fn state_as_several_operands() -> Result<Case, String> {
    let program = |g: &Builder| {
        let [xs, c, d] = [g.input("xs", "f32[T]"), g.input("c", "f32[]"), g.input("d", "f32[]")];
        let ((c, d), ys) = scan((c, d), xs, |(c, d), x| ((c - c * x, select(x.gt(1.0), d, d)), c + d));
        outputs! { c, d, ys }
    };
    let inputs = [row([2f32, 0.5, 3.]), scalar(4f32), scalar(1f32)];
    let expected = [("c", scalar(4f32)), ("d", scalar(1f32)), ("ys", row([5f32, -3., -1.]))];
    gives("state_as_several_operands", program, inputs, expected)
}
