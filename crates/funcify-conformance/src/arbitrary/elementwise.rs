//! Elementwise parts: smooth ones, with their operands kept where they are smooth, and ones with kinks and jumps.

use funcify::{DType, Value, select};

use super::maker::{Entry, Maker};

/// A function of an element that is at most the bound, and what its results are at most.
type Smooth = (&'static str, fn(Value, f64) -> (Value, f64));

const SMOOTH: [Smooth; 40] = [
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
    // The value of what is stopped cancels, so that differences see nothing of it.
    ("stop_that_cancels", |x, b| ((x.sin().stop_gradient() - x.sin()).stop_gradient() + x, b)),
    ("cube", |x, b| (x * x * x, b * b * b)),
    ("ldexp", |x, b| (x.ldexp(-1), 0.5 * b)),
    // The exponent jumps, the product of fraction and power does not.
    ("fraction_and_exponent", |x, b| {
        let (fraction, exponent) = x.frexp();
        ((fraction * 1.25).ldexp(exponent), 1.25 * b)
    }),
];

/// At most 1.5.
fn small(x: Value, bound: f64) -> Value {
    if bound > 1.5 { x * (1.5 / bound) } else { x }
}

/// A function of one operand.
pub(super) fn unary(maker: &mut Maker<'_>) {
    let Entry { value, bound, .. } = maker.float();
    let (name, function) = maker.choices.of(&SMOOTH);
    maker.count(name);
    let (value, bound) = function(value, bound);
    maker.add(value, bound);
}

/// Two operands whose shapes broadcast.
fn pair(maker: &mut Maker<'_>) -> (Entry, Entry) {
    let left = maker.float();
    let shape = left.value.shape();
    let broadcasts = |other: &funcify::TensorType| {
        let rank = other.rank();
        other.dtype == DType::F64 && rank <= shape.rank() && shape.dims()[shape.rank() - rank..] == *other.shape.dims()
    };
    let right = match maker.pick(broadcasts) {
        Some(right) => right,
        None => maker.shaped(&shape),
    };
    if maker.choices.one_in(3) { (right, left) } else { (left, right) }
}

/// A function of two elements, and what its results are at most.
type Smooth2 = (&'static str, fn(Value, Value, f64, f64) -> (Value, f64));

const BINARY: [Smooth2; 9] = [
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

/// A smooth function of two operands.
pub(super) fn binary(maker: &mut Maker<'_>) {
    let (left, right) = pair(maker);
    let (name, function) = maker.choices.of(&BINARY);
    maker.count(name);
    let (value, bound) = function(left.value, right.value, left.bound, right.bound);
    maker.add(value, bound);
}

/// A function with kinks or jumps.
pub(super) fn kinked(maker: &mut Maker<'_>) {
    let (left, right) = pair(maker);
    let (x, y) = (left.value, right.value);
    let bound = left.bound.max(right.bound);
    let (name, value, bound) = match maker.choices.below(19) {
        0 => ("abs", x.abs(), left.bound),
        1 => ("relu", x.relu(), left.bound),
        2 => ("max", x.maximum(y), bound),
        3 => ("min", x.minimum(y), bound),
        4 => ("clamp", x.clamp(-0.5, 0.7), 0.7),
        5 => ("sign", x * y.sign(), left.bound),
        6 => ("floor", x - x.floor(), 1.0),
        7 => ("ceil", x.ceil() * 0.3 + x, 1.5 * left.bound),
        8 => ("round", x * (y * 2.0).round(), 2.0 * bound * bound),
        9 => ("trunc", x + (y * 3.0).trunc(), 4.0 * bound),
        10 => ("rem", x % (y.square() + 0.8), left.bound),
        11 => ("predicate", select(x.is_finite() & !y.is_nan(), x, y), bound),
        12 if maker.is_inexact => ("stop_gradient", x.stop_gradient() * y, left.bound * right.bound),
        13 if maker.is_inexact => {
            let narrow = maker.choices.of(&[DType::F32, DType::F32, DType::BF16, DType::F16]);
            ("narrow_float", (x.cast(narrow) * 1.5).cast(DType::F64), 1.5 * left.bound)
        }
        14 => ("copysign", x.copysign(y), left.bound),
        15 => ("signbit", select(y.signbit(), x, y * 0.5), bound),
        16 => ("nextafter", x + x.stop_gradient().nextafter(y.stop_gradient()).round() * 0.25, 1.5 * left.bound),
        _ => {
            let shape = if x.rank() >= y.rank() { x.shape() } else { y.shape() };
            let mask = maker.truths(&shape);
            ("select", select(mask, x, y), bound)
        }
    };
    maker.count(name);
    maker.add(value, bound);
}

#[cfg(test)]
mod tests {
    use funcify::ops::{OpRules, Unary};

    #[test]
    fn every_op_of_one_operand_is_drawn() {
        let source = include_str!("elementwise.rs");
        for op in Unary::ALL.iter().filter(|op| !matches!(op, Unary::Neg | Unary::Not)) {
            let call = format!(".{}(", op.name());
            assert!(source.contains(&call), "neither `SMOOTH` nor `kinked` has a function with `x{call})`");
        }
    }
}
