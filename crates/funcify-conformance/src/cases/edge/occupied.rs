//! Loops in which reusing memory too early would change the results: states with aliases and copies, and sums that are
//! read in the step that updates them.

use super::*;

pub(super) fn cases() -> Cases {
    all([
        // Linear attention without decay: each step adds an outer product to the state, and then reads the new state.
        text("sum_of_outer_products_that_its_step_reads", include_str!("programs/linear_attention.fir"))
            .on([tensor([2, 2], [1f32, 2., 3., 4.]), tensor([2, 2], [1f32; 4]), tensor([2, 2], [0f32; 4])])
            .gives([("ys", tensor([2, 2], [3f32, 3., 10., 10.])), ("last", tensor([2, 2], [4f32, 4., 6., 6.]))]),
        // Truncated backpropagation: a `stop_gradient` of the state is read after the new state has been computed.
        text("state_under_another_name", include_str!("programs/state_by_another_name.fir"))
            .on([row([1f32, 2., 3.]), scalar(10f32)])
            .gives([("ys", row([10f32, 22., 39.])), ("last", scalar(16f32))]),
        // Hebbian weights: each step adds an outer product to each of two matrices. The product for the first matrix is
        // computed from the old state, and the product for the second matrix from the new state.
        {
            let zeros = || tensor([2, 2], [0f32; 4]);
            text("sums_of_products_before_and_after_a_step", include_str!("programs/strip_copies.fir"))
                .on([tensor([2, 2], [1f32, 2., 3., 4.]), row([1f32, 1.]), zeros(), zeros()])
                .gives([("p", tensor([2, 2], [-5f32, -6., -8., -10.])), ("q", tensor([2, 2], [-5f32, -8., -6., -10.]))])
        },
        // In each step, the y is a padded copy of the old value of one state. The next value of the other state is an
        // element of that copy. This element is read after the first state has changed.
        {
            let sines = [5f32, 1f32.sin(), 2f32.sin(), 3f32.sin()];
            text("copy_of_a_state_that_changes", include_str!("programs/register_copies.fir"))
                .on([row([1f32, 2., 3., 4.]), row([5f32]), tensor([1, 1], [0f32])])
                .gives([
                    ("copy", tensor([1, 1], [sines[3]])),
                    ("ys", tensor([4, 2], [sines[0], 0., sines[1], 0., sines[2], 0., sines[3], 0.])),
                    ("last", row([4f32.sin()])),
                ])
        },
        // `not` of an integer is bitwise, even if the integer was cast from a boolean.
        text("bits_that_a_mask_lacks", include_str!("programs/integer_not.fir"))
            .on([row([1f32, -2., 3.]), scalar(0f32)])
            .gives([("ys", row([-2f32, -1., -2.])), ("last", scalar(2f32)), ("j", scalar(-2i64))]),
        // The sum over an axis whose elements are divided among threads is cast to a boolean. The cast must apply to
        // the complete sum, not to the partial sums.
        {
            let filled = |shape: &[usize], number| HostTensor::from_fn(DType::F32, shape, |_| Scalar::Float(number));
            text("cast_of_a_sum_over_a_divided_axis", include_str!("programs/share_cast.fir"))
                .on([filled(&[200, 4096], 1.0), filled(&[4096], 0.0)])
                .gives([("ys", filled(&[200], 1.0))])
        },
        // Each step sums the trace of an inner loop with an early exit. The number of rows in the trace changes from
        // step to step.
        text("trace_of_a_loop_that_ends_early", include_str!("programs/trace_of_an_early_end.fir"))
            .on([tensor([3, 4], [1f32, 1., 1., 1., 3., 9., 9., 9., 0.5, 2., 9., 9.])])
            .gives([("sums", row([6f32, 3., 3.]))]),
        // The expression for the next value of each state uses the old state twice.
        case("state_as_several_operands", |g| {
            let [xs, c, d] = [g.input("xs", "f32[T]"), g.input("c", "f32[]"), g.input("d", "f32[]")];
            let ((c, d), ys) = scan((c, d), xs, |(c, d), x| ((c - c * x, select(x.gt(1.0), d, d)), c + d));
            outputs! { c, d, ys }
        })
        .on([row([2f32, 0.5, 3.]), scalar(4f32), scalar(1f32)])
        .gives([("c", scalar(4f32)), ("d", scalar(1f32)), ("ys", row([5f32, -3., -1.]))]),
    ])
}
