//! Checkpoint policies. A policy determines the residuals that a loop saves. The policy must not change gradients, even
//! if the number of steps is not a multiple of the segment length.

use funcify::prelude::*;

use super::*;

/// Returns policies of every kind, each with a name that becomes part of the case names.
pub(super) fn policies() -> [(&'static str, CheckpointPolicy); 8] {
    [
        ("recompute", CheckpointPolicy::Recompute),
        ("save_dots", CheckpointPolicy::SaveDots),
        ("save_costly", CheckpointPolicy::SaveCostly),
        ("save_all", CheckpointPolicy::SaveAll),
        ("segments_of_2", CheckpointPolicy::Segments(2)),
        ("segments_of_3", CheckpointPolicy::Segments(3)),
        ("segments_of_4_of_2", CheckpointPolicy::Levels(vec![4, 2])),
        ("budget_of_32_bytes", CheckpointPolicy::Budget(32)),
    ]
}

pub(super) fn cases() -> Cases {
    let mut cases = Vec::new();
    for (name, policy) in policies() {
        for reverse in [false, true] {
            cases.push(weighted(name, &policy, reverse, "f32[7]")?);
            cases.push(weighted(name, &policy, reverse, "f32[T]")?);
        }
        cases.push(running_products(name, &policy)?);
        cases.push(products_of_neighbours(name, &policy)?);
        cases.push(second_state(name, &policy)?);
        cases.push(run_time_count(name, &policy)?);
    }
    Ok(cases)
}

/// Builds a case that differentiates seven steps of c = c * w + x. The gradient of x[t] is a power of w. The gradient
/// of w is computed by Horner's rule.
fn weighted(name: &str, policy: &CheckpointPolicy, reverse: bool, ty: &'static str) -> OneCase {
    let policy = policy.clone();
    let (init, xs, w) = (3f32, [1f32, -2., 4., 0.5, 8., 2., -1.], 0.5f32);
    let mut of_xs = [0f32; 7];
    let (mut of_w, mut c) = (0f32, init);
    for step in 0..7 {
        let at = if reverse { 6 - step } else { step };
        (of_w, c) = (of_w * w + c, c * w + xs[at]);
        of_xs[at] = w.powi(6 - step as i32);
    }
    let sizes = if ty == "f32[T]" { "symbolic" } else { "constant" };
    let direction = if reverse { "down" } else { "up" };
    case(format!("residuals_{name}_{direction}_{sizes}"), move |g| {
        let (init, xs, w) = (g.input("init", "f32[]"), g.input("xs", ty), g.input("w", "f32[]"));
        let options = ScanOptions::new().policy(policy);
        let options = if reverse { options.reverse() } else { options };
        grad((init, xs, w), |(init, xs, w)| scan_with(options, init, xs, |c, x| (c * w + x, ())).0)
    })
    .on([scalar(init), row(xs), scalar(w)])
    .gives([("out_0", scalar(w.powi(7))), ("out_1", row(of_xs)), ("out_2", scalar(of_w))])
}

/// Builds a case that differentiates the sum of a full buffer after the steps b[t+1] = b[t] * b[t+1]. The gradient of
/// b[i] is the sum of all products that contain b[i], each without the factor b[i].
fn running_products(name: &str, policy: &CheckpointPolicy) -> OneCase {
    let policy = policy.clone();
    let program = move |g: &Builder| {
        grad(g.input("buffer", "f32[N]"), |buffer| {
            sweep(Recurrence::new().policy(policy), buffer, [0, 1], [1], [], |[], [a, b]| [a * b]).sum(0)
        })
    };
    let rows = [2f32, 3., -1., 0.5, 4., -2.];
    let mut expected = [0f32; 6];
    for (index, expected) in expected.iter_mut().enumerate() {
        let mut product = 1f32;
        for (other, factor) in rows.iter().enumerate() {
            product *= if other == index { 1.0 } else { *factor };
            *expected += if other >= index { product } else { 0.0 };
        }
    }
    case(format!("residuals_{name}_full_buffer"), program).on([row(rows)]).gives([("out", row(expected))])
}

/// Builds a case that differentiates the sum of x[t-1] * x[t+3]. The taps reach across checkpoint segments.
fn products_of_neighbours(name: &str, policy: &CheckpointPolicy) -> OneCase {
    let policy = policy.clone();
    let xs: [f32; 11] = std::array::from_fn(|index| index as f32 + 1.0);
    let at = |index: usize| xs.get(index).copied().unwrap_or(0.0);
    case_on(format!("residuals_{name}_taps"), [("xs: f32[T]", row(xs))])
        .runs(move |[xs]| {
            grad_with(GradOptions::new().policy(policy), xs, |xs| {
                let mut loop_ = Recurrence::new();
                let taps = loop_.sequence(xs, [-1, 3]);
                let sum = loop_.carry(xs.index(0, 0) * 0.0);
                let done = loop_.run(|step| {
                    let ([a, b], before) = (step.read(&taps), step.read(&sum));
                    step.write(&sum, before + a * b);
                });
                done.last(&sum)
            })
        })
        .gives([(
            "out",
            row::<f32, 11>(std::array::from_fn(|index| at(index + 4) + if index < 4 { 0.0 } else { at(index - 4) })),
        )])
}

/// Builds a case that computes the second derivative of w^5, where w^5 is the last row of a state's trace.
fn second_state(name: &str, policy: &CheckpointPolicy) -> OneCase {
    let policy = policy.clone();
    let power = move |w: Value| {
        repeated(Recurrence::new().steps(5).policy(policy.clone()), w.ones_like(), |before| before * w).index(0, -1)
    };
    case(format!("residuals_{name}_second_derivative"), move |g| grad(g.input("w", "f32[]"), |w| grad(w, power)))
        .on([scalar(2f32)])
        .gives([("out", scalar(160f32))])
}

/// Builds a case that computes the gradient of w^n, where the trip count n is an operand.
fn run_time_count(name: &str, policy: &CheckpointPolicy) -> OneCase {
    let policy = policy.clone();
    case_on(format!("residuals_{name}_run_time_count"), [("n: i64[]", scalar(7i64)), ("w: f32[]", scalar(2f32))])
        .runs(move |[n, w]| {
            let options = GradOptions::new().policy(policy);
            grad_with(options, w, |w| fori_loop(0, n, w.ones_like(), |_, c| c * w))
        })
        .gives_dynamic([("out", scalar(448f32))])
}
