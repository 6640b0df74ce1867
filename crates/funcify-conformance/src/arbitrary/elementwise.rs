//! Adds elementwise ops to a random program. Smooth ops get operands from a range in which they are smooth. The other
//! ops have kinks or jumps.

use funcify::{DType, Value, select};

use super::program_builder::{Entry, ProgramBuilder};

/// A smooth function, with its name. It takes a value and a bound on the value's magnitude, and returns the result and
/// a bound on the result's magnitude.
type Smooth = (&'static str, fn(Value, f64) -> (Value, f64));

const SMOOTH: &[Smooth] = &[
    ("neg", |x, b| (-x, b)),
    ("tanh", |x, _| (x.tanh(), 1.0)),
    ("sin", |x, _| (x.sin(), 1.0)),
    ("cos", |x, _| (x.cos(), 1.0)),
    ("square", |x, b| (x.square(), b * b)),
    ("exp", |x, b| (small(x, b).exp(), 4.5)),
    ("expm1", |x, b| (small(x, b).expm1(), 3.5)),
    ("log", |x, b| ((x.square() + 0.5).log(), 1.0 + b)),
    ("log1p", |x, b| (x.square().log1p(), 1.0 + b)),
    ("sigmoid", |x, _| (x.sigmoid(), 1.0)),
    ("sqrt", |x, b| ((x.square() + 0.7).sqrt(), 1.0 + b)),
    ("rsqrt", |x, _| ((x.square() + 0.7).rsqrt(), 1.2)),
    ("recip", |x, _| ((x.sin() + 1.8).recip(), 1.3)),
    ("tan", |x, _| ((x.sin() * 0.7).tan(), 0.9)),
    ("asin", |x, _| ((x.sin() * 0.8).asin(), 1.0)),
    ("acos", |x, _| ((x.cos() * 0.8).acos(), 2.5)),
    ("atan", |x, _| (x.atan(), 1.6)),
    ("sinh", |x, b| (small(x, b).sinh(), 2.2)),
    ("cosh", |x, b| (small(x, b).cosh(), 2.4)),
    ("asinh", |x, b| (x.asinh(), b)),
    ("acosh", |x, b| ((x.square() + 1.5).acosh(), 1.0 + b)),
    ("atanh", |x, _| ((x.sin() * 0.7).atanh(), 0.9)),
    ("erf", |x, _| (x.erf(), 1.0)),
    ("erfc", |x, _| (x.erfc(), 2.0)),
    ("erf_inv", |x, _| ((x.sin() * 0.7).erf_inv(), 0.8)),
    ("lgamma", |x, b| ((x.square() + 1.2).lgamma(), b * b)),
    ("digamma", |x, b| ((x.square() + 1.2).digamma(), b + 1.0)),
    ("polygamma", |x, _| ((x.square() + 1.2).polygamma(1), 1.3)),
    ("cbrt", |x, b| ((x.square() + 0.6).cbrt(), 1.0 + b)),
    ("softplus", |x, b| (x.softplus(), 1.0 + b)),
    ("gelu", |x, b| (x.gelu(), b)),
    ("silu", |x, b| (x.silu(), b)),
    ("pow_2", |x, b| (x.pow(2.0), b * b)),
    ("pow_half", |x, b| ((x.square() + 0.6).pow(-0.5), 1.3 + 0.0 * b)),
    ("base_pow", |x, b| (x.full_like(1.7).pow(small(x, b)), 2.5)),
    ("stop_of_steps", |x, b| (x + x.floor().stop_gradient() * 0.25, 1.3 * b)),
    // The two sines cancel, so this function has the value and the derivative of `x`, and the derivative agrees with
    // finite differences.
    ("stop_that_cancels", |x, b| ((x.sin().stop_gradient() - x.sin()).stop_gradient() + x, b)),
    ("cube", |x, b| (x * x * x, b * b * b)),
    ("ldexp", |x, b| (x.ldexp(-1), 0.5 * b)),
    // The fraction and the exponent are discontinuous at powers of two, but their combination is continuous.
    ("fraction_and_exponent", |x, b| {
        let (fraction, exponent) = x.frexp();
        ((fraction * 1.25).ldexp(exponent), 1.25 * b)
    }),
];

/// Scales a value so that its magnitude is at most 1.5.
fn small(x: Value, bound: f64) -> Value {
    if bound > 1.5 { x * (1.5 / bound) } else { x }
}

/// Adds a smooth function of one operand.
pub(super) fn unary(builder: &mut ProgramBuilder<'_>) {
    let Entry { value, bound, .. } = builder.float();
    let (name, function) = builder.choices.pick(SMOOTH);
    builder.count(name);
    let (value, bound) = function(value, bound);
    builder.add(value, bound);
}

/// Picks two operands whose shapes broadcast together.
fn pair(builder: &mut ProgramBuilder<'_>) -> (Entry, Entry) {
    let left = builder.float();
    let shape = left.value.shape();
    let broadcasts = |other: &funcify::TensorType| {
        let rank = other.rank();
        other.dtype == DType::F64 && rank <= shape.rank() && shape.dims()[shape.rank() - rank..] == *other.shape.dims()
    };
    let right = match builder.pick(broadcasts) {
        Some(right) => right,
        None => builder.float_of_shape(&shape),
    };
    if builder.choices.one_in(3) { (right, left) } else { (left, right) }
}

/// A smooth function of two operands, with its name. It takes two values and bounds on their magnitudes, and returns
/// the result and a bound on the result's magnitude.
type Smooth2 = (&'static str, fn(Value, Value, f64, f64) -> (Value, f64));

const BINARY: &[Smooth2] = &[
    ("add", |x, y, a, b| (x + y, a + b)),
    ("mul", |x, y, a, b| (x * y, a * b)),
    ("sub", |x, y, a, b| (x - y, a + b)),
    ("div", |x, y, a, _| (x / (y.square() + 0.8), 1.3 * a)),
    ("atan2", |x, y, _, _| (x.atan2(y.square() + 0.8), 1.6)),
    ("hypot", |x, y, a, b| (x.hypot(y.square() + 0.8), a + b * b + 0.8)),
    ("pow", |x, y, _, b| ((x.sin() + 1.8).pow(small(y, b)), 4.7)),
    ("rpow", |x, y, _, b| ((x.square() + 0.4).pow(small(y, b) * 0.5 + 1.0), 8.0)),
    ("mul_of_difference", |x, y, a, b| ((x - y) * x, (a + b) * a)),
];

/// Adds a smooth function of two operands.
pub(super) fn binary(builder: &mut ProgramBuilder<'_>) {
    let (left, right) = pair(builder);
    let (name, function) = builder.choices.pick(BINARY);
    builder.count(name);
    let (value, bound) = function(left.value, right.value, left.bound, right.bound);
    builder.add(value, bound);
}

/// A function with kinks or jumps, with its name. The function takes two values and bounds on their magnitudes, and
/// returns the result and a bound on the result's magnitude.
type Kinked = (&'static str, fn(&mut ProgramBuilder<'_>, Value, Value, f64, f64) -> (Value, f64));

const KINKED: &[Kinked] = &[
    ("abs", |_, x, _, a, _| (x.abs(), a)),
    ("relu", |_, x, _, a, _| (x.relu(), a)),
    ("max", |_, x, y, a, b| (x.maximum(y), a.max(b))),
    ("min", |_, x, y, a, b| (x.minimum(y), a.max(b))),
    ("clamp", |_, x, _, _, _| (x.clamp(-0.5, 0.7), 0.7)),
    ("sign", |_, x, y, a, _| (x * y.sign(), a)),
    ("floor", |_, x, _, _, _| (x - x.floor(), 1.0)),
    ("ceil", |_, x, _, a, _| (x.ceil() * 0.3 + x, 1.5 * a)),
    ("round", |_, x, y, a, b| (x * (y * 2.0).round(), 2.0 * a.max(b) * a.max(b))),
    ("trunc", |_, x, y, a, b| (x + (y * 3.0).trunc(), 4.0 * a.max(b))),
    ("rem", |_, x, y, a, _| (x % (y.square() + 0.8), a)),
    ("predicate", |_, x, y, a, b| (select(x.is_finite() & !y.is_nan(), x, y), a.max(b))),
    ("stop_gradient", |_, x, y, a, b| (x.stop_gradient() * y, a * b)),
    ("narrow_float", |builder, x, _, a, _| {
        let narrow = builder.choices.pick(&[DType::F32, DType::F32, DType::BF16, DType::F16]);
        ((x.cast(narrow) * 1.5).cast(DType::F64), 1.5 * a)
    }),
    ("copysign", |_, x, y, a, _| (x.copysign(y), a)),
    ("signbit", |_, x, y, a, b| (select(y.signbit(), x, y * 0.5), a.max(b))),
    ("nextafter", |_, x, y, a, _| (x + x.stop_gradient().nextafter(y.stop_gradient()).round() * 0.25, 1.5 * a)),
    // `SELECT` is listed twice to double its probability.
    SELECT,
    SELECT,
];

const SELECT: Kinked = ("select", |builder, x, y, a, b| {
    let shape = if x.rank() >= y.rank() { x.shape() } else { y.shape() };
    let mask = builder.booleans(&shape);
    (select(mask, x, y), a.max(b))
});

/// The names of the functions in [`KINKED`] whose derivatives disagree with finite differences. Programs whose
/// derivatives must agree use [`SELECT`] instead.
const INEXACT: [&str; 2] = ["stop_gradient", "narrow_float"];

/// Adds a function with kinks or jumps.
pub(super) fn kinked(builder: &mut ProgramBuilder<'_>) {
    let (left, right) = pair(builder);
    let (name, function) = match builder.choices.pick(KINKED) {
        (name, _) if INEXACT.contains(&name) && !builder.is_inexact => SELECT,
        row => row,
    };
    builder.count(name);
    let (value, bound) = function(builder, left.value, right.value, left.bound, right.bound);
    builder.add(value, bound);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use funcify::error::{Place, Site};
    use funcify::ops::{Binary, OpRules, Predicate, Unary};
    use funcify::{Builder, DType, Graph, Sizes, Symbol, TensorType, Value};

    use super::super::features::{self, Features};
    use super::super::{Choices, ProgramBuilder, Rules, integers};
    use super::{BINARY, KINKED, SMOOTH};

    /// Returns the ops that one call to `draw` adds to a program.
    fn ops_of(seed: u64, draw: impl FnOnce(&mut ProgramBuilder<'_>, &Builder) -> Value) -> Features {
        let (mut choices, mut sizes, mut ops) = (Choices::seeded(seed), Sizes::new(), Features::new());
        ["T", "N"].iter().for_each(|symbol| sizes.set(&Symbol::new(symbol), 2));
        let mut builder = ProgramBuilder::new(&mut choices, &sizes, Rules::Derivatives);
        features::count(&Graph::build("drawn", |g| draw(&mut builder, g)).unwrap(), &mut ops);
        ops
    }

    /// Returns the ops that each row of the tables adds, keyed by the row's name.
    fn rows() -> BTreeMap<&'static str, Features> {
        let x = |g: &Builder| g.input("x", "f64[N]");
        let y = |g: &Builder| g.input("y", "f64[N]");
        let smooth = SMOOTH.iter().map(|(row, f)| (*row, ops_of(0, |_, g| f(x(g), 1.0).0)));
        let binary = BINARY.iter().map(|(row, f)| (*row, ops_of(0, |_, g| f(x(g), y(g), 1.0, 1.0).0)));
        let kinked = KINKED.iter().map(|(row, f)| (*row, ops_of(0, |builder, g| f(builder, x(g), y(g), 1.0, 1.0).0)));
        smooth.chain(binary).chain(kinked).collect()
    }

    /// Returns the ops that 500 calls to [`integers::part`] add.
    fn ops_of_integers() -> Features {
        let draws = (0..500).map(|seed| {
            ops_of(seed, |builder, g| {
                builder.declare(g);
                integers::part(builder);
                builder.scope.last().expect("the inputs are in scope").value
            })
        });
        draws.fold(Features::new(), |all, ops| all.into_iter().chain(ops).collect())
    }

    /// Checks that each float op has a table row of the same name that applies it, and that [`integers::part`] draws
    /// the other ops.
    fn are_drawn(ops: &[impl OpRules], operands: usize) {
        let (rows, of_integers) = (rows(), ops_of_integers());
        for op in ops {
            let name = op.name();
            let floats = vec![TensorType::scalar(DType::F64); operands];
            if op.infer(&Place::new(name, Site::Unknown), &floats).is_err() {
                assert!(of_integers.contains_key(name), "arbitrary/integers.rs never draws `{name}`");
                continue;
            }
            let row = rows.get(name);
            let row = row.unwrap_or_else(|| panic!("`{name}` has no row in a table of arbitrary/elementwise.rs"));
            assert!(row.contains_key(name), "the row `{name}` of arbitrary/elementwise.rs does not apply `{name}`");
        }
    }

    #[test]
    fn every_op_of_one_operand_is_drawn() {
        are_drawn(Unary::ALL, 1);
    }

    #[test]
    fn every_op_of_two_operands_is_drawn() {
        are_drawn(Binary::ALL, 2);
    }

    #[test]
    fn every_predicate_is_drawn() {
        let row = &rows()["predicate"];
        for op in Predicate::ALL {
            let name = op.name();
            assert!(row.contains_key(name), "the row `predicate` of arbitrary/elementwise.rs does not apply `{name}`");
        }
    }
}
