//! Gradients of unusual loops, compared with literals: repeated taps, reverse loops that are truncated or exit early,
//! inner loops whose trip count differs from step to step, and while loops that reach their bound. Two more cases check
//! that a negative trip count in one lane is rejected, and that a loop without steps does not read its sequence.

use funcify::prelude::*;

use super::*;

pub(super) fn cases() -> Cases {
    let mut cases = all([
        // Each step computes 2 x[t]^3 + 3 x[t+1], so the gradient of the sum is (6 x0^2, 6 x1^2 + 3, 3).
        repeated_taps("first", "%x[t], %x[t], %x[t+1]", [6., 27., 3.]),
        // Each step computes 2 x[t]^2 x[t+1] + 3 x[t], so the gradient of the sum is (4 x0 x1 + 3, 2 x0^2 + 4 x1 x2 +
        // 3, 2 x1^2).
        repeated_taps("apart", "%x[t], %x[t+1], %x[t]", [11., 29., 8.]),
        // Each step computes 2 x[t]^3 + 3 x[t], and no step reads the last row, so the gradient of the sum is (6 x0^2 +
        // 3, 6 x1^2 + 3, 0).
        repeated_taps("alone", "%x[t], %x[t], %x[t]", [9., 27., 0.]),
        // The first two of the four steps are not differentiated, so the rows that they write, 3 * 6 and 3 * 6 * 0.5,
        // are constants.
        truncated_given_row(&[2., 4., 0.5, 6.], &[9. * 4., 9. * (1. + 2.), 0., 0.], 1.),
        truncated_given_row(&[2., 4.], &[3. * 4., 3. * (1. + 2.)], 1. + 4. + 8.),
        // A reverse loop over a full buffer, `m[t] = m[t+1] x[t]`, exits after two of three steps. The loss is the sum
        // of the final rows m0, m3 x2 x1, m3 x2 and m3, with m3 = 2, x2 = 3 and x1 = 4.
        case_of(
            "gradient_of_a_full_buffer_that_ends_downward",
            differentiate_text(
                &"fn @full(%xs: f32[3], %rows: f32[4]) {
       %m: f32[4], %last: f32[] = scan @step {steps=3, until=$1, order=down} {
         seq %x: f32[] = %xs[t]
         mit-mot %old: f32[] = %m[t+1] from %rows
         carry %c: f32[] = %last from %start
         %0: f32[] = mul %old, %x
         %1: f32[] = constant 10.0
         %2: bool[] = gt %0, %1
         %m[t] = %0
         %last = %0
         until %2
       }
       %sum: f32[] = reduce %m {kind=sum, axes=[0]}
       return out=%sum
     }"
                .replace("%m: f32[4], %last", "%start: f32[] = constant 0.0\n%m: f32[4], %last"),
                &["xs", "rows"],
                CheckpointPolicy::default(),
            ),
        )
        .on([row([7f32, 4., 3.]), row([5f32, 6., 7., 2.])])
        .gives([("grad_xs", row([0f32, 6., 10.])), ("grad_rows", row([1f32, 0., 0., 1. + 3. + 12.]))]),
        // One lane has a negative trip count, so the call must be rejected.
        case_of(
            "negative_count_of_a_lane",
            Graph::build("counted", |g| {
                let (n, x) = (g.input("n", "i64[]"), g.input("x", "f32[]"));
                let mut loop_ = Recurrence::new();
                let carry = loop_.carry(x);
                let done = loop_.steps_value(n).run(|step| {
                    let x = step.read(&carry);
                    step.write(&carry, x * 2.0);
                });
                done.last(&carry)
            })
            .and_then(|one| one.vmap("B", VmapOptions::new().in_axes([Some(0), None]))),
        )
        .on([row([2i64, -1]), scalar(1f32)])
        .dynamic(true)
        .fails("StepCount"),
        // The loop runs no steps, so it must not read the empty sequence, although each step would read two rows.
        case("no_rows_and_no_steps", |g| {
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(g.input("xs", "f32[T]"), [0, 1]);
            let done = loop_.steps_value(g.input("n", "i64[]")).run(|step| {
                let [a, b] = step.read(&x);
                a + b
            });
            outputs! { ys: done.ys }
        })
        .on([row::<f32, 0>([]), scalar(0i64)])
        .gives_dynamic([("ys", row::<f32, 0>([]))]),
    ])?;
    for (name, policy) in [("default", CheckpointPolicy::default()), ("save_all", CheckpointPolicy::SaveAll)] {
        cases.push(size_of_a_step(name, policy)?);
    }
    for (x, slope) in [(1.5f32, 13.5f32), (20.0, 40.0), (200.0, 1.0)] {
        cases.push(bound(x, slope)?);
    }
    Ok(cases)
}

fn differentiate_text(text: &str, wrt: &[&str], policy: CheckpointPolicy) -> Result<Graph, funcify::Error> {
    Graph::parse(text)?.grad(wrt, GradOptions::new().policy(policy))
}

/// Builds a case that differentiates the sum of `2 a^2 b + 3 c` over two steps, where `a`, `b` and `c` are the rows of
/// the sequence 1, 2, 3 at the three taps in `taps`.
fn repeated_taps(name: &str, taps: &str, expected: [f32; 3]) -> OneCase {
    let text = format!(
        "fn @taps(%x: f32[3]) {{
           %ys: f32[2] = scan @step {{steps=2}} {{
             seq %a: f32[], %b: f32[], %c: f32[] = {taps}
             nit-sot %ys
             %0: f32[] = square %a
             %1: f32[] = mul %0, %b
             %2: f32[] = constant 2.0
             %3: f32[] = mul %1, %2
             %4: f32[] = constant 3.0
             %5: f32[] = mul %c, %4
             %6: f32[] = add %3, %5
             %ys[t] = %6
           }}
           %sum: f32[] = reduce %ys {{kind=sum, axes=[0]}}
           return out=%sum
         }}"
    );
    let gradient = differentiate_text(&text, &["x"], CheckpointPolicy::default());
    case_of(format!("gradient_of_repeated_taps_{name}"), gradient)
        .on([row([1f32, 2., 3.])])
        .gives([("grad_x", row(expected))])
}

/// Builds a case that differentiates the last two steps of a reverse loop `y[t] = y[t+1] x[t]` with one initial row, 3.
/// The loss is the sum of all rows, including the initial one.
fn truncated_given_row(xs: &[f32], of_xs: &[f32], of_given: f32) -> OneCase {
    let steps = xs.len();
    let text = format!(
        "fn @truncated(%xs: f32[{steps}], %given: f32[1]) {{
           %ys: f32[{}] = scan @step {{steps={steps}, order=down, truncate=2}} {{
             seq %x: f32[] = %xs[t]
             sit-sot %y: f32[] = %ys[t+1] from %given
             %0: f32[] = mul %y, %x
             %ys[t] = %0
           }}
           %sum: f32[] = reduce %ys {{kind=sum, axes=[0]}}
           return out=%sum
         }}",
        steps + 1
    );
    let rows = |rows: &[f32]| HostTensor::from_fn(DType::F32, &[rows.len()], |at| Scalar::Float(rows[at[0]].into()));
    let gradient = differentiate_text(&text, &["xs", "given"], CheckpointPolicy::default());
    case_of(format!("gradient_of_a_given_row_{steps}_steps_down"), gradient)
        .on([rows(xs), row([3f32])])
        .gives([("grad_xs", rows(of_xs)), ("grad_given", row([of_given]))])
}

/// Builds a case that differentiates a loop in which each step runs an inner loop with its own trip count `k`, known
/// only at run time. Each step adds `x^2` times the sum of the squares of the first `k` weights to the carry.
fn size_of_a_step(name: &str, policy: CheckpointPolicy) -> OneCase {
    let loss = Graph::build("sized", |g| {
        let (xs, ks, w) = (g.input("xs", "f32[2]"), g.input("ks", "i64[2]"), g.input("w", "f32[3]"));
        scan(xs.sum(0) * 0.0, (xs, ks), |sum, (x, k)| {
            let mut loop_ = Recurrence::new();
            let weight = loop_.sequence(w, [0]);
            let rows = loop_.steps_value(k).run(|step| step.read(&weight)[0] * x).ys;
            (sum + (rows * rows).sum(0), ())
        })
        .0
    });
    let gradient = loss.and_then(|loss| loss.grad(["xs", "w"], GradOptions::new().policy(policy)));
    let inputs = vec![row([2f32, 3.]), row([1i64, 2]), row([1f32, 2., 5.])];
    case_of(format!("gradient_of_a_size_of_a_step_{name}"), gradient)
        .on(inputs)
        .dynamic(true)
        .gives([("grad_xs", row([4f32, 30.])), ("grad_w", row([26f32, 36., 0.]))])
}

/// Builds a case that differentiates a bounded while loop at `x`. The loop squares a number while it is below 100, at
/// most twice. Depending on `x`, the bound ends the loop, the condition ends it, or no step runs.
fn bound(x: f32, slope: f32) -> OneCase {
    let loss = Graph::build("bounded", |g| while_loop_bounded(2, g.input("x", "f32[]"), |x| x.lt(100.0), |x| x * x));
    let gradient = loss.and_then(|loss| loss.grad("x", GradOptions::new()));
    let name = format!("gradient_of_a_bounded_while_at_{}", x.round());
    case_of(name, gradient).on([scalar(x)]).gives([("grad_x", scalar(slope))])
}
