//! Gradients of loops whose lanes run different numbers of steps: iterative solvers, trip counts that are operands,
//! loops with an early exit, and nested loops.
//!
//! Both the batched gradient and the gradient of the batched program must equal the gradients of the lanes, computed
//! one at a time. The expected values are computed by the reference evaluator, one lane at a time. Where a simple
//! formula exists, they are literals.

use funcify::prelude::*;

use super::*;
use crate::lanes::{arguments, evaluate_lanes_one_by_one};

pub(super) fn cases() -> Cases {
    let mut cases = all([
        // The three lanes compute x^16, x^8 and x^2.
        {
            let one = Graph::build("power", |g| while_loop(g.input("x", "f32[]"), |c| c.lt(100.0), |c| c * c));
            case_of(
                "gradient_on_lanes_of_powers",
                one.and_then(|one| one.grad("x", GradOptions::new())?.vmap(3, VmapOptions::new())),
            )
            .on([row([1.5f32, 3.0, 20.0])])
            .gives_dynamic([("grad_x", row([7006.3022f32, 17496.0, 40.0]))])
        },
        case_of(
            "jacobian_on_lanes_of_a_while",
            powers().and_then(|one| one.jacobian("x")?.vmap("B", VmapOptions::new())),
        )
        .on([tensor([2, 2], [2f32, 1., 20., 1.])])
        .gives_dynamic([("jac_out_x", tensor([2, 2, 2], [1024f32, 0., 0., 8., 40., 0., 0., 2.]))]),
        {
            let loss =
                Graph::build("loss", |g| while_loop(g.input("x", "f32[2]"), |c| c.sum(0).lt(100.0), |c| c * c).sum(0));
            case_of(
                "hessian_on_lanes_of_a_while",
                loss.and_then(|loss| loss.hessian("x", GradOptions::new())?.vmap("B", VmapOptions::new())),
            )
            .on([tensor([2, 2], [2f32, 1., 20., 1.])])
            .gives_dynamic([("hess_x_x", tensor([2, 2, 2], [3584f32, 0., 0., 56., 2., 0., 0., 2.]))])
        },
        // An input that only the condition uses has gradient zero.
        {
            let one = Graph::build("power", |g| {
                let (x, limit) = (g.input("x", "f32[]"), g.input("limit", "f32[]"));
                while_loop(x, |c| c.lt(limit), |c| c * c)
            });
            case_of(
                "gradient_by_an_input_of_a_condition",
                one.and_then(|one| {
                    one.grad(["x", "limit"], GradOptions::new().disconnected(Disconnected::Zeros))?
                        .vmap(2, VmapOptions::new())
                }),
            )
            .on([row([1.5f32, 20.0]), row([100f32, 30.0])])
            .gives_dynamic([("grad_x", row([7006.3022f32, 40.0])), ("grad_limit", row([0f32, 0.0]))])
        },
        // Batches the gradient of a program that contains a `vmap`. The inner lanes share a loop and its weight. Each
        // outer lane has its own weight.
        {
            let inner = |g: &Builder| {
                let (xs, w) = (g.input("xs", "f32[3]"), g.input("w", "f32[]"));
                vmap(xs, |x| while_loop(x, |y| y.lt(30.0), |y| y * y * w)).sum(0)
            };
            let name = "gradient_on_lanes_of_lanes_of_a_while";
            let failed = |error: funcify::Error| format!("case `edge/{name}`: {error}");
            let gradient =
                Graph::build("inner", |g| inner(g)).and_then(|one| one.grad(["xs", "w"], GradOptions::new()));
            let gradient = gradient.map_err(failed)?;
            let lanes = [([1.5f32, 3.0, 40.0], 1.0f32), ([31.0, 32.0, 33.0], 2.0), ([7.0, 1.25, 2.0], 1.2)];
            let lanes: Vec<Lane> = lanes.into_iter().map(|(xs, w)| vec![row(xs), scalar(w)]).collect();
            dynamic(
                name,
                gradient.vmap("B", VmapOptions::new()).map_err(failed)?,
                arguments(&lanes, &[true, true]),
                solve_each(name, &gradient, &lanes)?,
            )
        },
    ])?;
    for (name, program, wrt, lanes) in programs() {
        cases.extend(on_lanes(name, program, wrt, &lanes)?);
    }
    for (name, policy) in [
        ("save_all", CheckpointPolicy::SaveAll),
        ("segments", CheckpointPolicy::Segments(2)),
        ("levels", CheckpointPolicy::Levels(vec![4, 2])),
    ] {
        cases.extend(with_policy(name, policy)?);
    }
    Ok(cases)
}

type ProgramFn = fn(&Builder) -> Value;
type Lane = Vec<HostTensor>;

/// Returns single-lane programs. Each has a name, the names of the inputs with respect to which it is differentiated,
/// and the arguments of each lane. Integer arguments are trip counts.
fn programs() -> Vec<(&'static str, ProgramFn, &'static [&'static str], Vec<Lane>)> {
    let floats = |lanes: &[f32]| lanes.iter().map(|x| vec![scalar(*x)]).collect::<Vec<Lane>>();
    let counted = |counts: &[i64]| {
        let lane = |(index, count): (usize, &i64)| vec![scalar(*count), scalar(0.6 + 0.2 * index as f32)];
        counts.iter().enumerate().map(lane).collect::<Vec<Lane>>()
    };
    let system = |a: [f32; 4], b: [f32; 2]| vec![tensor([2, 2], a), row(b)];
    let systems = vec![
        system([4., 1., 1., 3.], [1., 2.]),
        system([2., 0., 0., 2.], [1., -3.]),
        system([1., 0., 0., 1.], [0., 0.]),
        system([5., 2., 2., 1.5], [0.5, 1.]),
    ];
    vec![
        ("newton", newton, &["a"], floats(&[2.0, 1.0, 90.0, 0.3])),
        ("conjugate_gradients", conjugate_gradients, &["a", "b"], systems.clone()),
        ("power_iteration", power_iteration, &["a"], systems[..2].iter().map(|lane| vec![lane[0].clone()]).collect()),
        ("adaptive_ode", adaptive_ode, &["rate"], floats(&[0.5, -3.0, -9.0, 1.5])),
        ("loop_in_a_while", loop_in_a_while, &["x"], floats(&[0.5, 3.0, 0.9])),
        ("while_in_a_loop", while_in_a_loop, &["x"], floats(&[0.5, 1.0, 0.2])),
        ("while_in_a_while", while_in_a_while, &["x"], floats(&[1.1, 7.0, 2.0])),
        ("bounded_while", bounded_while, &["x"], floats(&[1.5, 20.0, 200.0])),
        ("while_in_a_branch", while_in_a_branch, &["x"], floats(&[0.5, 1.5, 3.0])),
        ("counted", counted_loop, &["x"], counted(&[3, 0, 5])),
        ("counted_down", counted_down, &["x"], counted(&[2, 4, 0])),
        ("counted_in_a_loop", counted_in_a_loop, &["x"], counted(&[2, 0, 1])),
        ("rows_of_a_counted_loop", rows_of_a_counted_loop, &["x"], counted(&[2, 4, 1])),
        ("sequence_of_a_counted_loop", sequence_of_a_counted_loop, &["xs"], {
            let xs = [0.5f32, -1.0, 2.0, 0.3, 0.8];
            [3i64, 1, 5].iter().map(|count| vec![scalar(*count), row(xs.map(|x| x * (*count as f32)))]).collect()
        }),
        ("until", until, &["xs", "limit"], {
            let rows = [[0.5f32, 0.6, 0.7, 0.8], [2.0, 0.1, 0.2, 0.3], [0.1, 0.1, 0.1, 0.1]];
            rows.into_iter().map(|xs| vec![row(xs), scalar(1.0f32)]).collect()
        }),
        ("until_downward", until_downward, &["xs", "init"], {
            let rows = [[0.5f32, 0.6, 0.7, 0.8], [2.0, 0.1, 0.2, 0.3], [0.1, 0.1, 0.1, 3.0]];
            rows.into_iter().map(|xs| vec![row(xs), row([0.4f32, 0.2])]).collect()
        }),
    ]
}

fn graph(name: &str, program: ProgramFn) -> Result<Graph, String> {
    Graph::build("one", program).map_err(|error| format!("case `edge/{name}`: {error}"))
}

/// Builds two cases for a program: one batches its gradient, and the other differentiates the batched program.
fn on_lanes(name: &str, program: ProgramFn, wrt: &[&str], lanes: &[Lane]) -> Cases {
    let failed = |error: funcify::Error| format!("case `edge/{name}`: {error}");
    let one = graph(name, program)?;
    let gradient = one.grad(wrt, GradOptions::new()).map_err(failed)?;
    let all = gradient.vmap("B", VmapOptions::new()).map_err(failed)?;
    let mapped = vec![true; lanes[0].len()];
    let expected = solve_each(name, &gradient, lanes)?;
    let inputs = arguments(lanes, &mapped);
    // The maximum trip count of loops with an early exit is static. For `bounded_while`, it is static only in the
    // gradient of the batched program.
    let (ends_early, is_bounded) = (name.starts_with("until"), name == "bounded_while");
    let first = counted_at_run_time(!ends_early, &format!("gradient_on_lanes_of_{name}"), all, &inputs, &expected)?;

    let names: Vec<String> = wrt.iter().map(|name| format!("grad_{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let of_lanes = one.vmap("B", VmapOptions::new()).and_then(|all| all.vjp(wrt, GradOptions::new()));
    let of_lanes = of_lanes.and_then(|of_lanes| of_lanes.with_only_outputs(&names)).map_err(failed)?;
    let ones = HostTensor::from_fn(DType::F32, &[lanes.len()], |_| Scalar::Float(1.0));
    let inputs = [inputs, vec![ones]].concat();
    let is_dynamic = !ends_early && !is_bounded;
    let name = format!("gradient_of_lanes_of_{name}");
    Ok(vec![first, counted_at_run_time(is_dynamic, &name, of_lanes, &inputs, &expected)?])
}

/// Evaluates the graph on one lane at a time, and returns the stacked results as expected values.
fn solve_each(name: &str, graph: &Graph, lanes: &[Lane]) -> Result<Expected, String> {
    let expected =
        evaluate_lanes_one_by_one(graph, lanes).ok_or_else(|| format!("case `edge/{name}`: a lane has no results"))?;
    let near = |output| ExpectedOutput { rtol: 2e-4, atol: 2e-5, ..output };
    Ok(Expected::Outputs(expected.into_iter().map(near).collect()))
}

/// Builds a case from a graph. `is_dynamic` says whether the maximum trip count of a loop is known only at run time.
fn counted_at_run_time(
    is_dynamic: bool,
    name: &str,
    graph: Graph,
    inputs: &[HostTensor],
    expected: &Expected,
) -> OneCase {
    case_of(name, Ok(graph)).on(inputs).dynamic(is_dynamic).expects(expected.clone())
}

/// Builds a case from a graph with a loop whose maximum trip count is known only at run time.
fn dynamic(name: &str, graph: Graph, inputs: Vec<HostTensor>, expected: Expected) -> OneCase {
    case_of(name, Ok(graph)).on(inputs).dynamic(true).expects(expected)
}

/// Computes a square root by Newton's method, and returns its sine.
fn newton(g: &Builder) -> Value {
    let a = g.input("a", "f32[]");
    while_loop(a, |x| (x * x - a).abs().gt(0.01), |x| 0.5 * (x + a / x)).sin()
}

/// Solves a symmetric linear system by conjugate gradients, and reduces the solution to a scalar.
fn conjugate_gradients(g: &Builder) -> Value {
    let (a, b) = (g.input("a", "f32[2,2]"), g.input("b", "f32[2]"));
    let init = (b.zeros_like(), b, b);
    let step = |(x, r, p): (Value, Value, Value)| {
        let along = a.matmul(p);
        let norm = (r * r).sum(0);
        let alpha = norm / (p * along).sum(0);
        let next = r - alpha * along;
        (x + alpha * p, next, next + (next * next).sum(0) / norm * p)
    };
    let (x, ..) = while_loop(init, |(_, r, _)| (r * r).sum(0).gt(1e-4), step);
    (x * x).sum(0) + x.sum(0)
}

/// Computes the largest eigenvalue by power iteration.
fn power_iteration(g: &Builder) -> Value {
    let a = g.input("a", "f32[2,2]");
    let start = constant(HostTensor::from([1f32, 0.5]));
    let init = (start, start.sum(0) * 0.0, start.sum(0) * 0.0 + 1.0);
    let step = |(v, e, _): (Value, Value, Value)| {
        let u = a.matmul(v);
        let f = (v * u).sum(0) / (v * v).sum(0);
        (u / (u * u).sum(0).sqrt(), f, (f - e).abs())
    };
    while_loop(init, |(_, _, change)| change.gt(0.02), step).1
}

/// Integrates a differential equation to time 1 with Heun's method. The step size grows if the estimated error is
/// small, and shrinks otherwise.
fn adaptive_ode(g: &Builder) -> Value {
    let rate = g.input("rate", "f32[]");
    let slope = |t: Value, y: Value| rate * y + t;
    let zero = rate * 0.0;
    let step = |(t, y, h): (Value, Value, Value)| {
        let h = h.minimum(1.0 - t);
        let first = slope(t, y);
        let second = slope(t + h, y + h * first);
        let error = (h * (second - first) * 0.5).abs();
        let accepts = error.lt(0.1);
        let next = y + 0.5 * h * (first + second);
        (select(accepts, t + h, t), select(accepts, next, y), select(accepts, 1.5 * h, 0.5 * h).stop_gradient())
    };
    while_loop((zero, zero + 1.0, zero + 0.4), |(t, ..)| t.lt(0.999), step).1
}

fn loop_in_a_while(g: &Builder) -> Value {
    let x = g.input("x", "f32[]");
    let rows = constant(HostTensor::from([0.5f32, 1.25]));
    while_loop(x, |y| y.lt(4.0), |y| scan(y, rows, |y, row| (y + row * x.sin() * y + 0.3, ())).0)
}

fn while_in_a_loop(g: &Builder) -> Value {
    let x = g.input("x", "f32[]");
    let rows = constant(HostTensor::from([2.0f32, 3.0, 1.5]));
    scan(x, rows, |y, row| (while_loop(y, |z| z.lt(row), |z| z * 1.3 + x * 0.1) * 0.5, ())).0
}

fn while_in_a_while(g: &Builder) -> Value {
    let x = g.input("x", "f32[]");
    let inner = |y: Value| while_loop(y, |z| z.gt(0.5), |z| z * 0.6);
    while_loop((x, x), |(total, _)| total.lt(20.0), |(total, y)| (total + inner(y) * x + 1.0, y * 1.2)).0
}

/// Squares a number in a bounded while loop. In the cases, the bound ends the loop in the first lane, and the condition
/// ends it in the second. The third lane runs no steps.
fn bounded_while(g: &Builder) -> Value {
    let x = g.input("x", "f32[]");
    while_loop_bounded(2, x, |x| x.lt(100.0), |x| x * x)
}

fn while_in_a_branch(g: &Builder) -> Value {
    let x = g.input("x", "f32[]");
    cond(x.lt(1.0), || while_loop(x, |y| y.lt(2.0), |y| y * 1.5), || while_loop(x, |y| y.gt(0.5), |y| y * y * 0.3))
}

fn counted_loop(g: &Builder) -> Value {
    let (n, x) = (g.input("n", "i64[]"), g.input("x", "f32[]"));
    fori_loop(0, n, x, |_, y| (y * x).sin() + y)
}

/// Runs a reverse loop whose steps read the two previous rows, starting from two initial rows.
fn counted_down(g: &Builder) -> Value {
    let (n, x) = (g.input("n", "i64[]"), g.input("x", "f32[]"));
    let rows = apply_text(
        "fn @down(%n: i64[], %x: f32[], %given: f32[2]) {
           %rows: f32[$1+2] = scan @step %n {steps=$1, order=down} with %x {
             mit-sot %near: f32[], %far: f32[] = %rows[t+1], %rows[t+2] from %given
             %0: f32[] = mul %near, %x
             %1: f32[] = sin %0
             %2: f32[] = mul %far, %x
             %3: f32[] = add %1, %2
             %rows[t] = %3
           }
           %sum: f32[] = reduce %rows {kind=sum, axes=[0]}
           %4: f32[2] = slice %rows {axis=0, start=$1, limit=$1+2, step=1}
           %5: f32[] = reduce %4 {kind=prod, axes=[0]}
           %6: f32[] = mul %sum, %sum
           %7: f32[] = add %6, %5
           return out=%7
         }",
        &[n, x, x * constant(HostTensor::from([1.0f32, 0.5]))],
    );
    rows[0]
}

/// Parses a program and applies it to `inputs`. Reverse loops with initial rows are written as text, because no
/// function builds them.
fn apply_text(text: &str, inputs: &[Value]) -> Vec<Value> {
    match Graph::parse(text) {
        Ok(graph) => graph.apply(inputs),
        Err(error) => panic!("{error}"),
    }
}

fn counted_in_a_loop(g: &Builder) -> Value {
    let (n, x) = (g.input("n", "i64[]"), g.input("x", "f32[]"));
    let counts = constant(HostTensor::from([0i64, 1, 2]));
    scan(x, counts, |y, count| (fori_loop(0, n + count, y, |_, z| (z * x).cos() + z), ())).0
}

/// Reduces the ys and the trace of a loop to a number, with sums, a maximum and a dot product. One of the sums contains
/// a value that is broadcast to the shape of the ys.
fn rows_of_a_counted_loop(g: &Builder) -> Value {
    let (n, x) = (g.input("n", "i64[]"), g.input("x", "f32[]"));
    let mut loop_ = Recurrence::new();
    let state = loop_.sit_sot(x);
    let done = loop_.steps_value(n).run(|step| {
        let [old] = step.read(&state);
        step.write(&state, old * x + 0.5);
        (old + 1.0).log()
    });
    let (rows, logs) = (done.trace(&state), done.ys);
    let weights = (x * 2.0).broadcast_to(logs.shape());
    (logs * weights / (logs + 0.1)).sum(0) + rows.max(0) + (1.0 / rows).sum(0) + rows.matmul(rows.cos())
}

fn sequence_of_a_counted_loop(g: &Builder) -> Value {
    let (n, xs) = (g.input("n", "i64[]"), g.input("xs", "f32[5]"));
    let mut loop_ = Recurrence::new();
    let x = loop_.sequence(xs, [0]);
    let carry = loop_.carry(xs.sum(0) * 0.1);
    let done = loop_.steps_value(n).run(|step| {
        let ([x], c) = (step.read(&x), step.read(&carry));
        step.write(&carry, (c * x).tanh() + c);
    });
    done.last(&carry)
}

fn until(g: &Builder) -> Value {
    let (xs, limit) = (g.input("xs", "f32[4]"), g.input("limit", "f32[]"));
    let (last, ys) = scan_until(xs.index(0, 0) * 0.0, xs, |c, x| (c + x * limit, c * x, (c + x).gt(1.0)));
    last.square() + ys.sum(0) * limit
}

fn until_downward(g: &Builder) -> Value {
    let (xs, init) = (g.input("xs", "f32[4]"), g.input("init", "f32[2]"));
    let sums = apply_text(
        "fn @down(%xs: f32[4], %init: f32[2], %limit: f32[], %full: f32[5]) {
           %ys: f32[$1], %rows: f32[$1+2], %all: f32[5] = scan @step {steps=4, until=$1, order=down} with %limit {
             seq %x: f32[] = %xs[t]
             nit-sot %ys
             mit-sot %near: f32[], %far: f32[] = %rows[t+1], %rows[t+2] from %init
             mit-mot %old: f32[] = %all[t+1] from %full
             %0: f32[] = mul %near, %x
             %1: f32[] = add %0, %far
             %2: bool[] = gt %1, %limit
             %3: f32[] = mul %1, %x
             %4: f32[] = mul %old, %1
             %ys[t] = %3
             %rows[t] = %1
             %all[t] = %4
             until %2
           }
           %5: f32[$1] = square %ys
           %6: f32[] = reduce %5 {kind=sum, axes=[0]}
           %7: f32[$1+2] = sin %rows
           %8: f32[] = reduce %7 {kind=sum, axes=[0]}
           %9: f32[] = reduce %all {kind=sum, axes=[0]}
           return a=%6, b=%8, c=%9
         }",
        &[xs, init, constant(0.9f32), concat(&[xs * 2.0, init.slice(0, 0..1)], 0)],
    );
    sums[0] + sums[1] * sums[2]
}

/// Builds a program that squares the elements of a vector while their sum is below 100. In the case that uses it, one
/// lane computes `x^8` and the other `x^2`.
fn powers() -> Result<Graph, funcify::Error> {
    Graph::build("powers", |g| while_loop(g.input("x", "f32[2]"), |c| c.sum(0).lt(100.0), |c| c * c))
}

/// Builds a case that batches the gradient of [`newton`] with a checkpoint policy, which must not change the result.
fn with_policy(name: &str, policy: CheckpointPolicy) -> Cases {
    let name = format!("gradient_on_lanes_that_keep_{name}");
    let failed = |error: funcify::Error| format!("case `edge/{name}`: {error}");
    let gradient = graph(&name, newton)?.grad("a", GradOptions::new().policy(policy)).map_err(failed)?;
    let lanes: Vec<Lane> = [2.0f32, 1.0, 90.0].iter().map(|a| vec![scalar(*a)]).collect();
    let all = gradient.vmap("B", VmapOptions::new()).map_err(failed)?;
    Ok(vec![dynamic(&name, all, arguments(&lanes, &[true]), solve_each(&name, &gradient, &lanes)?)?])
}
