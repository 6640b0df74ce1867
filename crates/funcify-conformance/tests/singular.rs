//! Checks the derivatives of every elementwise function at and near its singular points, up to the third order. Forward
//! and reverse mode must agree with each other, and each derivative must agree with finite differences of the
//! derivative one order lower.
//!
//! If differences from the left and from the right disagree, or grow without bound, the derivative does not exist.
//! The point must then be in the table of chosen derivatives. The test therefore fails for a kink that is not in the
//! table, and for a kink that a derivative rule creates by selecting a constant at one point.

use funcify::{DType, Graph, HostTensor, evaluate};
use funcify_conformance::singular::{CHOSEN, DEFINED, Elementwise, Mode, function, functions};

/// A program that computes a partial derivative. Each entry of `path` is one differentiation: the index of the
/// differentiated operand, and the mode.
struct Evaluated<'a> {
    function: &'a Elementwise,
    path: Vec<(usize, Mode)>,
    graph: Graph,
}

impl<'a> Evaluated<'a> {
    fn new(function: &'a Elementwise, path: &[(usize, Mode)]) -> Self {
        let graph = Graph::build(function.name, |builder| {
            let operands = (0..function.operands).map(|index| builder.input(&format!("x{index}"), "f64[n]"));
            function.derivative(&operands.collect::<Vec<_>>(), path)
        });
        let graph = graph.unwrap_or_else(|error| panic!("{}: {error}", function.name));
        Evaluated { function, path: path.to_vec(), graph }
    }

    fn at(&self, points: &[Vec<f64>]) -> Vec<f64> {
        let column = |index: usize| points.iter().map(|point| point[index]).collect::<Vec<f64>>();
        let inputs = (0..self.function.operands).map(|index| HostTensor::from_vec(column(index), [points.len()]));
        let inputs: Vec<HostTensor> = inputs.map(|input| input.expect("a column has one element per point")).collect();
        let results = evaluate(&self.graph, &inputs).unwrap_or_else(|error| panic!("{}: {error}", self.name()));
        results[0].to_f64_vec()
    }

    /// Returns a name such as `pow by [0:Reverse, 1:Forward]`.
    fn name(&self) -> String {
        let by: Vec<String> = self.path.iter().map(|(operand, mode)| format!("{operand}:{mode:?}")).collect();
        format!("{} by [{}]", self.function.name, by.join(", "))
    }
}

/// A finite-difference estimate of the derivative at a point, with the step sizes of one of the functions in [`SIZES`].
#[derive(Clone, Copy, PartialEq, Debug)]
enum Estimate {
    /// The derivative's value, and an estimate of its error.
    Is(f64, f64),
    /// The derivative does not exist: the estimates from the two sides disagree or grow without bound, or one side is
    /// outside the domain.
    None,
    /// The function is not finite near the point, or the differences overflow.
    Outside,
    /// The step sizes are too large or too small for an estimate.
    Nothing,
}

/// The number of times that each step size is halved.
const LEVELS: usize = 8;
/// Functions that compute an initial step size from the differentiated operand and the other operand. The step size is
/// proportional to the operand, to its distance from the nearest integer, or to the other operand, or it is constant.
const SIZES: [fn(f64, f64) -> f64; 7] = [
    |x, _| x.abs() * 1e-4,
    |x, _| x.abs() * 0.05,
    |x, _| (x - x.round()).abs() * 0.1,
    |_, other| other.abs() * 1e-4,
    |_, other| other.abs() * 0.05,
    |_, _| 2e-4,
    |_, _| 0.05,
];

/// Estimates the derivative with respect to operand `along` at each point, with each kind of step size.
fn differences(of: &Evaluated<'_>, along: usize, points: &[Vec<f64>]) -> Vec<[Estimate; SIZES.len()]> {
    let mut moved = Vec::new();
    for point in points {
        for size in SIZES {
            for level in 0..=LEVELS {
                for side in [1.0, -1.0] {
                    let mut other = point.clone();
                    other[along] += side * size(point[along], point[point.len() - 1 - along]) / f64::from(1 << level);
                    moved.push(other);
                }
            }
        }
    }
    let values = of.at(&moved);
    let sample = |number: usize, size: usize, level: usize, side: usize| {
        let index = ((number * SIZES.len() + size) * (LEVELS + 1) + level) * 2 + side;
        (moved[index][along] - points[number][along], values[index])
    };
    let of_size = |number: usize, size: usize| {
        let samples = (0..=LEVELS).map(|level| [0, 1].map(|side| sample(number, size, level, side)));
        estimate_derivative(&samples.collect::<Vec<_>>())
    };
    (0..points.len()).map(|number| std::array::from_fn(|size| of_size(number, size))).collect()
}

/// Estimates the derivative at a point from samples that approach it from both sides.
fn estimate_derivative(samples: &[[(f64, f64); 2]]) -> Estimate {
    let on = |side: usize| samples.iter().map(move |sample| sample[side]);
    if samples.iter().flatten().any(|(step, _)| *step == 0.0) {
        return Estimate::Nothing;
    }
    let is_out = [0, 1].map(|side| on(side).all(|(_, value)| !value.is_finite()));
    let is_in = [0, 1].map(|side| on(side).all(|(_, value)| value.is_finite()));
    match (is_out, is_in) {
        ([true, true], _) => return Estimate::Outside,
        ([true, false], [_, true]) | ([false, true], [true, _]) => return Estimate::None,
        (_, [true, true]) => {}
        _ => return Estimate::Nothing,
    }
    let largest = |level: usize| samples[level][0].1.abs().max(samples[level][1].1.abs());
    let noise = |level: usize| 4.0 * f64::EPSILON * largest(level) / samples[level][0].0.abs();
    let middle = |level: usize| {
        let [up, down] = samples[level];
        (up.1 - down.1) / (up.0 - down.0)
    };
    let beside = |side: usize| {
        move |level: usize| {
            let (far, near) = (samples[level][side], samples[level + 1][side]);
            (far.1 - near.1) / (far.0 - near.0)
        }
    };
    let count = samples.len();
    let whole = (0..count).map(largest).fold(0.0, f64::max) / samples[0][0].0.abs();
    if !whole.is_finite() || (0..count).any(|level| !middle(level).is_finite()) {
        return Estimate::Outside;
    }
    let certain = |(value, error): (f64, f64)| error <= 1e-3 * value.abs() || error <= 1e-6 * whole;
    let central = extrapolate(4.0, count, noise, middle);
    let sides = [0, 1].map(|side| extrapolate(2.0, count - 1, noise, beside(side)));
    let close = |a: (f64, f64), b: (f64, f64)| {
        (a.0 - b.0).abs() <= 1e-2 * a.0.abs().max(b.0.abs()) + 1e-5 * whole + 10.0 * (a.1 + b.1)
    };
    let grows = |difference: &dyn Fn(usize) -> f64, count: usize| {
        (count - 5..count)
            .all(|level| difference(level).abs() > 1.1 * difference(level - 1).abs() + 100.0 * noise(level))
    };
    if grows(&middle, count) || [0, 1].into_iter().any(|side| grows(&beside(side), count - 1)) {
        return Estimate::None;
    }
    match (certain(central), sides.map(certain)) {
        (_, [true, true]) if !close(sides[0], sides[1]) => Estimate::None,
        (true, _) => Estimate::Is(central.0, central.1),
        _ => Estimate::Nothing,
    }
}

/// Extrapolates differences to step size zero by Neville's method. Halving the step must divide the error terms by
/// `factor` and its powers. Returns the most accurate extrapolated value, with an estimate of its error.
fn extrapolate(
    factor: f64,
    count: usize,
    noise: impl Fn(usize) -> f64,
    difference: impl Fn(usize) -> f64,
) -> (f64, f64) {
    let mut best = (f64::NAN, f64::INFINITY);
    let mut before: Vec<f64> = Vec::new();
    for level in 0..count {
        let mut row = vec![difference(level)];
        let mut power = factor;
        for (column, above) in before.iter().enumerate() {
            let here: f64 = row[column];
            let next = here + (here - above) / (power - 1.0);
            let error = (next - here).abs().max((next - above).abs()) + noise(level);
            if error < best.1 {
                best = (next, error);
            }
            row.push(next);
            power *= factor;
        }
        before = row;
    }
    best
}

/// Returns whether two numbers are equal except for rounding.
fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// Compares a derivative with finite differences, for points without a chosen derivative.
fn judge(found: f64, estimates: &[Estimate]) -> Verdict {
    let agrees = |estimate: &Estimate| {
        // The term 1e-300 allows for subnormal floats, which have fewer significant digits.
        let close = |value: f64, error: f64| (value - found).abs() <= 1e-4 * value.abs() + 20.0 * error + 1e-300;
        matches!(estimate, Estimate::Is(value, error) if close(*value, *error))
    };
    if estimates.iter().any(agrees) {
        return Verdict::Right;
    }
    if estimates.contains(&Estimate::Outside) {
        return Verdict::Open;
    }
    if let Some(other) = estimates.iter().find(|estimate| matches!(estimate, Estimate::Is(..))) {
        return Verdict::Wrong(format!("differences indicate {other:?}"));
    }
    match estimates.contains(&Estimate::None) {
        true => Verdict::Wrong("the derivative does not exist, and none is chosen".to_string()),
        false => Verdict::Open,
    }
}

/// The result of checking a derivative.
enum Verdict {
    Right,
    Wrong(String),
    /// Finite differences cannot decide whether the derivative is right.
    Open,
}

/// Returns the chosen derivative at a point, or `None` if the table has none.
fn chosen(function: &Elementwise, point: &[f64], by: &[usize]) -> Option<f64> {
    let line = CHOSEN.iter().find(|line| line.functions.contains(&function.name) && line.at.contains(point))?;
    let second = by.iter().filter(|operand| **operand == 1).count();
    line.derivatives.get(by.len() - 1)?.get(second).copied()
}

/// Returns whether `found` matches the chosen derivative. If the first derivative is infinite, higher derivatives may
/// be infinite or NaN, depending on the mode. Mixed derivatives may also be 0, depending on the order of the operands.
fn is_chosen(found: f64, value: f64, by: &[usize]) -> bool {
    let is_mixed = by.contains(&0) && by.contains(&1);
    let is_undefined = by.len() > 1 && !value.is_finite();
    same(found, value) || (is_undefined && (!found.is_finite() || (is_mixed && found == 0.0)))
}

/// Returns the combinations of modes to test for a derivative of this order.
fn modes(order: usize) -> &'static [fn(usize) -> Mode] {
    let all: &[fn(usize) -> Mode] = &[
        |_| Mode::Reverse,
        |_| Mode::Forward,
        |index| if index == 0 { Mode::Reverse } else { Mode::Forward },
        |index| if index == 0 { Mode::Forward } else { Mode::Reverse },
    ];
    if order == 1 { &all[..2] } else { all }
}

fn in_mode(by: &[usize], mode: fn(usize) -> Mode) -> Vec<(usize, Mode)> {
    by.iter().enumerate().map(|(index, operand)| (*operand, mode(index))).collect()
}

/// Checks the derivatives of a function at these points, up to order `orders`. Returns the faults, and the numbers of
/// correct and undecided derivatives.
fn faults(function: &Elementwise, points: &[Vec<f64>], orders: usize) -> (Vec<String>, [usize; 2]) {
    let (mut faults, mut counts) = (Vec::new(), [0, 0]);
    let values = Evaluated::new(function, &[]).at(points);
    let mut paths: Vec<Vec<usize>> = vec![Vec::new()];
    for order in 1..=orders {
        let longer = |path: Vec<usize>| (0..function.operands).map(move |next| [path.as_slice(), &[next]].concat());
        paths = paths.into_iter().flat_map(longer).collect();
        for by in &paths {
            let before = Evaluated::new(function, &in_mode(&by[..order - 1], |_| Mode::Reverse));
            let estimates = differences(&before, by[order - 1], points);
            let found: Vec<(String, Vec<f64>)> = modes(order)
                .iter()
                .map(|mode| Evaluated::new(function, &in_mode(by, *mode)))
                .map(|derivative| (derivative.name(), derivative.at(points)))
                .collect();
            for (number, point) in points.iter().enumerate().filter(|(number, _)| !values[*number].is_nan()) {
                let reverse = found[0].1[number];
                for (name, found) in &found {
                    let found = found[number];
                    let at = || format!("{name} at {point:?} is {found:e}");
                    if let Some(value) = chosen(function, point, by) {
                        if !is_chosen(found, value, by) {
                            faults.push(format!("{}, but {value} is chosen", at()));
                        }
                        continue;
                    }
                    match judge(found, &estimates[number]) {
                        Verdict::Right => counts[0] += 1,
                        Verdict::Open if same(found, reverse) || !(found.is_finite() || reverse.is_finite()) => {
                            counts[1] += 1
                        }
                        Verdict::Open => faults.push(format!("{}, but {reverse:e} in reverse mode", at())),
                        Verdict::Wrong(reason) => faults.push(format!("{}: {reason}", at())),
                    }
                }
            }
        }
    }
    (faults, counts)
}

/// Asserts that all derivatives are correct, and that finite differences confirm more than two thirds of each
/// function's derivatives.
fn check(functions: &[Elementwise], orders: usize) {
    let mut all = Vec::new();
    for function in functions {
        let points: Vec<Vec<f64>> = match function.operands {
            1 => function.trial_operands.iter().map(|x| vec![*x]).collect(),
            _ => function
                .trial_operands
                .iter()
                .flat_map(|x| function.trial_operands.iter().map(|y| vec![*x, *y]))
                .collect(),
        };
        let (faults, [decided, open]) = faults(function, &points, orders);
        println!("{}: {decided} decided, {open} open, {} faults", function.name, faults.len());
        if faults.is_empty() {
            let name = function.name;
            assert!(decided > 2 * open, "{name}: {decided} derivatives are decided, {open} are open");
        }
        all.extend(faults);
    }
    assert!(all.is_empty(), "{} faults\n{}", all.len(), all.join("\n"));
}

fn functions_with_operands(operands: usize) -> Vec<Elementwise> {
    functions().into_iter().filter(|function| function.operands == operands).collect()
}

#[test]
fn functions_of_one_operand() {
    check(&functions_with_operands(1), 3);
}

#[test]
fn functions_of_two_operands() {
    check(&functions_with_operands(2), 2);
}

/// These derivatives are compared with exact values, because finite differences are not accurate enough.
#[test]
fn defined_derivatives() {
    for line in DEFINED.iter().filter(|line| line.dtypes.contains(&DType::F64)) {
        let function = function(line.function).expect("the function is in the table");
        for mode in modes(line.by.len()) {
            let derivative = Evaluated::new(&function, &in_mode(line.by, *mode));
            for (point, value) in line.at {
                let found = derivative.at(&[point.to_vec()])[0];
                let is_same = same(found, *value) || (found - value).abs() < 1e-15;
                assert!(is_same, "{} at {point:?} is {found:e}, not {value:e}", derivative.name());
            }
        }
    }
}

/// Derivatives in all modes must match the chosen ones, even at points where the function is NaN, which [`faults`]
/// skips.
#[test]
fn chosen_derivatives() {
    for line in CHOSEN {
        for name in line.functions {
            let function = function(name).expect("the function is in the table");
            for (order, derivatives) in (1..).zip(line.derivatives) {
                for (second, value) in derivatives.iter().enumerate() {
                    let by = [vec![0; order - second], vec![1; second]].concat();
                    for mode in modes(order) {
                        let derivative = Evaluated::new(&function, &in_mode(&by, *mode));
                        for point in line.at.examples() {
                            let found = derivative.at(&[point.to_vec()])[0];
                            let name = derivative.name();
                            assert!(is_chosen(found, *value, &by), "{name} at {point:?} is {found:e}, not {value:e}");
                        }
                    }
                }
            }
        }
    }
}

/// At infinity, a first derivative must be equal to its limit, or NaN.
#[test]
fn derivatives_at_infinity() {
    for function in functions_with_operands(1) {
        for mode in modes(1) {
            let derivative = Evaluated::new(&function, &in_mode(&[0], *mode));
            for sign in [1.0, -1.0] {
                let [found, near] = [f64::INFINITY, 1e100].map(|x| derivative.at(&[vec![sign * x]])[0]);
                let both_small = found.abs() < 1e-30 && near.abs() < 1e-30;
                let both_large = found * near.signum() > 1e30 && near.abs() > 1e30;
                let is_limit = same(found, near) || both_small || both_large;
                let (name, holds) = (derivative.name(), found.is_nan() || near.is_nan() || is_limit);
                assert!(holds, "{name} at {sign} * inf is {found:e}, not {near:e}");
            }
        }
    }
}

/// At NaN, a derivative must be NaN. Exceptions are functions whose derivative is constant, and points in the table of
/// chosen derivatives.
#[test]
fn derivatives_at_nan() {
    let constant = ["neg", "sign", "pow_0", "pow_1"];
    for function in functions_with_operands(1).iter().filter(|function| !constant.contains(&function.name)) {
        for mode in modes(1) {
            let derivative = Evaluated::new(function, &in_mode(&[0], *mode));
            let (found, value) = (derivative.at(&[vec![f64::NAN]])[0], chosen(function, &[f64::NAN], &[0]));
            assert!(same(found, value.unwrap_or(f64::NAN)), "{} at NaN is {found:e}", derivative.name());
        }
    }
}

/// Each line of the table in `numerics.md` must name existing cases.
#[test]
fn the_documented_answers_have_cases() {
    let cases = funcify_conformance::all_cases().expect("every case can be built");
    let table = include_str!("../../funcify-core/src/ops/numerics.md");
    let mut named = 0;
    for line in table.lines().filter(|line| line.starts_with('|')) {
        let columns: Vec<&str> = line.split('|').collect();
        assert_eq!(columns.len(), 6, "{line}");
        for name in columns[4].split('`').skip(1).step_by(2) {
            let prefix = format!("numerics/{name}_");
            assert!(cases.iter().any(|case| case.name.starts_with(&prefix)), "no case is named `{name}`: {line}");
            named += 1;
        }
    }
    assert!(named > 60, "{named} cases are named");
}
