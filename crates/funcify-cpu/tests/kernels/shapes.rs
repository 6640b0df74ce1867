//! Compares kernels with plain loops, for various numbers of rows and lanes, strides and kinds of operands.

use funcify_cpu::kernels::{Binary, Fold, Recurrence, Ternary, Unary, packed_len};
use funcify_cpu::plan::{Op, Operand, Plan, Split, Storage};
use funcify_cpu::{Element, Executor, Machine};

use super::{numbers, run, unary};

/// Lane counts that fill part of a vector, one vector, or several, with and without a tail.
const LANES: [usize; 12] = [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100];

#[test]
fn tails_are_as_the_rest() {
    for machine in Machine::all() {
        for op in Unary::ALL {
            let x: Vec<f32> = numbers(100, 0.1, 0.9, 1);
            let bits = |x: &[f32]| unary(machine, *op, x).into_iter().map(f32::to_bits).collect::<Vec<u32>>();
            let whole = bits(&x);
            for lanes in LANES {
                assert_eq!(bits(&x[..lanes]), whole[..lanes], "{op:?}, {lanes} lanes, {}", machine.name());
            }
        }
    }
}

/// A kind of operand: its name, a function that builds it for a number of lanes, and a function that returns its value
/// at a row and a lane.
type Kind = (&'static str, fn(Operand, usize) -> Operand, fn(&[f64], usize, usize, usize) -> f64);

const KINDS: [Kind; 4] = [
    ("rows", |x, lanes| x.rows(lanes + 3), |x, lanes, row, lane| x[row * (lanes + 3) + lane]),
    ("one row", |x, _| x, |x, _, _, lane| x[lane]),
    ("elements", |x, _| x.rows(2).element(), |x, _, row, _| x[row * 2]),
    ("one element", |x, _| x.element(), |x, _, _, _| x[0]),
];

/// The reference implementation of an op, on up to three operands in f64.
type Exact = fn(f64, f64, f64) -> f64;

/// Tests binary and ternary ops with all kinds of operands, including an operand that is also the destination.
fn kinds<T: Element>(machine: Machine, lanes: usize) {
    const ROWS: usize = 3;
    let data: Vec<T> = numbers(ROWS * (lanes + 3), 0.5, 1.5, 2);
    let exact: Vec<f64> = data.iter().map(|x| x.to_f64()).collect();
    let old = |row: usize, lane: usize| 2.0 + (row * lanes + lane) as f64 / 64.0;
    let check =
        |name: String, op: Op, from: &dyn Fn(Operand, Operand) -> Vec<Operand>, value: &dyn Fn(usize, usize) -> f64| {
            let mut y: Vec<T> = (0..ROWS * lanes).map(|i| T::from_f64(old(i / lanes, i % lanes))).collect();
            run(machine, &[&data], &mut y, |inputs, to| {
                let to = to.rows(lanes);
                vec![op.clone().over([ROWS, lanes], to, &from(inputs[0], to))]
            });
            for (index, y) in y.iter().enumerate() {
                let expected = value(index / lanes, index % lanes);
                let near = (y.to_f64() - expected).abs() <= 1e-6 * (1.0 + expected.abs());
                assert!(near, "{name}, {lanes} lanes on {}: {y:?} at {index}, not {expected}", machine.name());
            }
        };
    for (a_name, a, a_value) in KINDS {
        let x = |row, lane| a_value(&exact, lanes, row, lane);
        check(format!("copy of {a_name}"), Op::Unary(Unary::Square), &|from, _| vec![a(from, lanes)], &|row, lane| {
            x(row, lane).powi(2)
        });
        // `Div` distinguishes operand kinds at run time, and `Sub` at compile time.
        for (op, apply) in [(Binary::Sub, (|x, y| x - y) as fn(f64, f64) -> f64), (Binary::Div, |x, y| x / y)] {
            let applied = |row, lane| apply(x(row, lane), old(row, lane));
            let operands = |from, to| vec![a(from, lanes), to];
            check(format!("{op:?} of {a_name}, itself"), Op::Binary(op), &operands, &applied);
            let applied = |row, lane| apply(old(row, lane), x(row, lane));
            let operands = |from, to| vec![to, a(from, lanes)];
            check(format!("{op:?} of itself, {a_name}"), Op::Binary(op), &operands, &applied);
            for (b_name, b, b_value) in KINDS {
                let from = |from: Operand, _| vec![a(from, lanes), b(from, lanes)];
                check(format!("{op:?} of {a_name}, {b_name}"), Op::Binary(op), &from, &|row, lane| {
                    apply(x(row, lane), b_value(&exact, lanes, row, lane))
                });
            }
        }
        let forms: [(Ternary, Exact); 4] = [
            (Ternary::MulAdd, |x, y, z| x * y + z),
            (Ternary::MulSub, |x, y, z| x * y - z),
            (Ternary::NegMulAdd, |x, y, z| z - x * y),
            (Ternary::Select, |_, y, _| y),
        ];
        for (op, apply) in forms {
            for place in 0..3 {
                let from = |from: Operand, to: Operand| {
                    let mut all = vec![a(from, lanes), from.offset(1), from.rows(1).element()];
                    all[place] = to;
                    all
                };
                check(format!("{op:?} of {a_name}, itself at {place}"), Op::Ternary(op), &from, &|row, lane| {
                    let mut all = [x(row, lane), exact[1 + lane], exact[row]];
                    all[place] = old(row, lane);
                    apply(all[0], all[1], all[2])
                });
            }
        }
    }
}

#[test]
fn operands_of_each_kind() {
    for machine in Machine::all() {
        for lanes in [1, 5, 16, 35] {
            kinds::<f32>(machine, lanes);
            kinds::<f64>(machine, lanes);
        }
    }
}

/// Asserts that two lists of numbers are close.
fn near<T: Element>(found: &[T], expected: &[f64], what: &str) {
    for (index, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x.to_f64() - y).abs() <= 2e-5 * y.abs().max(1.0), "{what}: {x:?} at {index}, not {y}");
    }
}

fn fold(kind: Fold, start: Option<f64>, terms: impl Iterator<Item = f64>) -> f64 {
    let (identity, combine): (f64, fn(f64, f64) -> f64) = match kind {
        Fold::Sum => (0.0, |x, y| x + y),
        Fold::Product => (1.0, |x, y| x * y),
        Fold::Max => (f64::NEG_INFINITY, f64::max),
        Fold::Min => (f64::INFINITY, f64::min),
    };
    terms.fold(start.unwrap_or(identity), combine)
}

#[test]
fn folds_of_rows_and_of_lanes() {
    // Test a small number of rows, and a number that is large enough for several accumulators.
    [5, 67].into_iter().for_each(folds_of);
}

fn folds_of(height: usize) {
    for machine in Machine::all() {
        for lanes in LANES.into_iter().chain([150, 300]) {
            let x: Vec<f32> = numbers(height * lanes, 0.9, 1.1, 3);
            let y: Vec<f32> = numbers(height * lanes, -1.0, 1.0, 4);
            let at = |data: &[f32], row: usize, lane: usize| f64::from(data[row * lanes + lane]);
            for (kind, accumulate) in Fold::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
                let what =
                    format!("{kind:?}, {height} rows, {lanes} lanes, accumulate {accumulate} on {}", machine.name());
                let start = accumulate.then_some(1.5);
                let mut rows = vec![1.5f32; lanes];
                run(machine, &[&x], &mut rows, |from, to| {
                    vec![Op::FoldRows { fold: kind, accumulate }.over([height, lanes], to, &[from[0].rows(lanes)])]
                });
                let of_rows = |lane| fold(kind, start, (0..height).map(|row| at(&x, row, lane)));
                near(&rows, &(0..lanes).map(of_rows).collect::<Vec<_>>(), &what);
                let mut elements = vec![1.5f32; 2 * height];
                run(machine, &[&x], &mut elements, |from, to| {
                    let to = to.rows(2).element();
                    vec![Op::FoldLanes { fold: kind, accumulate }.over([height, lanes], to, &[from[0].rows(lanes)])]
                });
                let of_lanes = |row| fold(kind, start, (0..lanes).map(|lane| at(&x, row, lane)));
                let expected: Vec<f64> =
                    (0..2 * height).map(|i| if i % 2 == 0 { of_lanes(i / 2) } else { 1.5 }).collect();
                near(&elements, &expected, &what);
            }
            // Test sums of products. Each row of the second operand has one element per lane, or a single element that
            // is broadcast to all lanes.
            for element in [false, true] {
                let what =
                    format!("sum of products, {height} rows, {lanes} lanes, elements {element} on {}", machine.name());
                let second = |y: Operand| if element { y.rows(1).element() } else { y.rows(lanes) };
                let factor = |row, lane| if element { f64::from(y[row]) } else { at(&y, row, lane) };
                let mut rows = vec![0f32; lanes];
                run(machine, &[&x, &y], &mut rows, |from, to| {
                    let from = [from[0].rows(lanes), second(from[1])];
                    vec![Op::FoldRows { fold: Fold::Sum, accumulate: false }.over([height, lanes], to, &from)]
                });
                let of_rows = |lane| (0..height).map(|row| at(&x, row, lane) * factor(row, lane)).sum();
                near(&rows, &(0..lanes).map(of_rows).collect::<Vec<f64>>(), &what);
                let mut elements = vec![0f32; height];
                run(machine, &[&x, &y], &mut elements, |from, to| {
                    let (to, from) = (to.rows(1).element(), [from[0].rows(lanes), second(from[1])]);
                    vec![Op::FoldLanes { fold: Fold::Sum, accumulate: false }.over([height, lanes], to, &from)]
                });
                let of_lanes = |row| (0..lanes).map(|lane| at(&x, row, lane) * factor(row, lane)).sum();
                near(&elements, &(0..height).map(of_lanes).collect::<Vec<f64>>(), &what);
            }
        }
    }
}

/// Tests a product (with two factors, an initial value and an activation) and a sink (which computes a transposed
/// product).
fn products<T: Element>(machine: Machine, [m, k, n]: [usize; 3]) {
    let what = format!("[{m},{k}][{k},{n}] in {} on {}", std::any::type_name::<T>(), machine.name());
    let (a, b): (Vec<T>, Vec<T>) = (numbers(m * (k + 1), -1.0, 1.0, 7), numbers(k * n, -1.0, 1.0, 8));
    let init: Vec<T> = numbers(m * n, -1.0, 1.0, 9);
    let at = |data: &[T], index: usize| data[index].to_f64();
    let mut plan = Plan::default();
    let left = Operand::of(plan.region(Storage::Input(0), a.len(), 1, Split::Whole)).rows(k + 1);
    let right = Operand::of(plan.region(Storage::Input(1), b.len(), 1, Split::Whole));
    let start = Operand::of(plan.region(Storage::Input(2), init.len(), 1, Split::Whole)).rows(n);
    let output = |plan: &mut Plan, index, len| Operand::of(plan.region(Storage::Output(index), len, 1, Split::Whole));
    let y = output(&mut plan, 0, m * n).rows(n);
    let z = output(&mut plan, 1, m * n).rows(n);
    let sum = output(&mut plan, 2, k * n).rows(n);
    let packed = Operand::of(plan.shared(packed_len::<T>(k, n)));
    // Interpret the data of the right operand as a column-major matrix with k rows and n columns.
    let packed_transposed = Operand::of(plan.shared(packed_len::<T>(k, n)));
    let product = |inner: Vec<usize>, init, then| Op::Product { inner, init, then };
    plan.once(vec![
        Op::Pack { column: 1 }.over([k, n], packed, &[right.rows(n)]),
        Op::Pack { column: k }.over([k, n], packed_transposed, &[right.rows(1)]),
        product(vec![k, k], true, Some(Unary::Tanh)).over(
            [m, n],
            y,
            &[start, left, packed, left.offset(1), packed_transposed],
        ),
        Op::Unary(Unary::Copy).over([m, n], z, &[start]),
        product(vec![k], true, None).over([m, n], z, &[z, left, packed]),
        Op::Fill(2.0).over([k, n], sum, &[]),
        Op::Sink { blocks: 1, block_rows: m, block_steps: [0, 0] }.over([k, n], sum, &[left, start]),
        Op::Sink { blocks: m, block_rows: 1, block_steps: [(k + 1) as isize, n as isize] }.over(
            [k, n],
            sum,
            &[left, start],
        ),
    ]);
    let mut outputs = [vec![T::ZERO; m * n], vec![T::ZERO; m * n], vec![T::ZERO; k * n]];
    let mut executor = Executor::new(plan, machine).unwrap();
    executor.call(&[&a, &b, &init], &mut outputs.each_mut().map(|output| output.as_mut_slice())).unwrap();
    let plain =
        |row: usize, column: usize| (0..k).map(|i| at(&a, row * (k + 1) + i) * at(&b, i * n + column)).sum::<f64>();
    let other =
        |row: usize, column: usize| (0..k).map(|i| at(&a, row * (k + 1) + 1 + i) * at(&b, column * k + i)).sum::<f64>();
    let each = |value: &dyn Fn(usize, usize) -> f64, rows: usize| {
        (0..rows * n).map(|i| value(i / n, i % n)).collect::<Vec<_>>()
    };
    near(&outputs[0], &each(&|i, j| (at(&init, i * n + j) + plain(i, j) + other(i, j)).tanh(), m), &what);
    near(&outputs[1], &each(&|i, j| at(&init, i * n + j) + plain(i, j), m), &what);
    let outer = |i: usize, j: usize| (0..m).map(|row| at(&a, row * (k + 1) + i) * at(&init, row * n + j)).sum::<f64>();
    near(&outputs[2], &each(&|i, j| 2.0 + 2.0 * outer(i, j), k), &format!("sink of {what}"));
}

#[test]
fn products_and_sinks() {
    for machine in Machine::all() {
        for m in (1..=14).chain([25]) {
            for [k, n] in [[1, 1], [3, 5], [4, 16], [9, 33], [17, 40], [8, 64]] {
                products::<f32>(machine, [m, k, n]);
                products::<f64>(machine, [m, k, n]);
            }
        }
    }
}

#[test]
fn transposes() {
    for [rows, lanes] in [[1, 1], [3, 17], [16, 16], [40, 33]] {
        let x: Vec<f32> = numbers(rows * lanes, -1.0, 1.0, 10);
        let mut y = vec![0f32; rows * lanes];
        run(Machine::detect(), &[&x], &mut y, |from, to| {
            vec![Op::Transpose.over([rows, lanes], to.rows(lanes), &[from[0].rows(rows)])]
        });
        for (index, y) in y.iter().enumerate() {
            assert_eq!(*y, x[index % lanes * rows + index / lanes]);
        }
    }
}

#[test]
fn recurrences_up_and_down() {
    const STEPS: usize = 21;
    let kinds = Fold::ALL.map(Recurrence::Running).into_iter().chain([Recurrence::Linear]);
    for machine in Machine::all() {
        for (recurrence, lanes, down) in
            kinds.clone().flat_map(|kind| LANES.map(|lanes| [(kind, lanes, false), (kind, lanes, true)])).flatten()
        {
            let x: Vec<f32> = numbers(STEPS * lanes, 0.8, 1.2, 11);
            let a: Vec<f32> = numbers(STEPS * lanes, -1.0, 1.0, 12);
            let initial = [1.25f32];
            let mut y = vec![0f32; STEPS * lanes];
            run(machine, &[&initial, &x, &a], &mut y, |from, to| {
                let mut all = vec![from[0].element(), from[1].rows(lanes)];
                all.extend((recurrence == Recurrence::Linear).then(|| from[2].rows(lanes)));
                vec![Op::Recur { recurrence, down }.over([STEPS, lanes], to.rows(lanes), &all)]
            });
            let mut expected = vec![0.0; STEPS * lanes];
            for lane in 0..lanes {
                let mut carry = 1.25;
                for step in 0..STEPS {
                    let at = (if down { STEPS - 1 - step } else { step }) * lanes + lane;
                    carry = match recurrence {
                        Recurrence::Linear => f64::from(a[at]) * carry + f64::from(x[at]),
                        Recurrence::Running(kind) => fold(kind, Some(carry), std::iter::once(f64::from(x[at]))),
                    };
                    expected[at] = carry;
                }
            }
            near(&y, &expected, &format!("{recurrence:?}, {lanes} lanes, down {down} on {}", machine.name()));
        }
    }
}
