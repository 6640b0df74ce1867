//! Elementwise functions at their singular points: which functions there are, and which derivatives are chosen where the
//! true ones do not exist.
//!
//! The table of derivatives in the documentation of `funcify::ops` says the same in words. `tests/singular.rs` searches all
//! [`FUNCTIONS`] for points where a derivative is wrong, or does not exist and is not in the [`CHOSEN`] table; the cases
//! `numerics/derivatives_*` hold each line of the tables on every backend.

mod chosen;

pub use chosen::{At, CHOSEN, Chosen, KNOWN, Known};

use funcify::ops::ScatterMode;
use funcify::{DType, Disconnected, GradOptions, HostTensor, Value, constant, jvp, stack, vjp_with};

/// An elementwise function of one or two operands.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name: that of the op, or of the composition.
    pub name: &'static str,
    /// How many operands it has.
    pub operands: usize,
    /// The function.
    pub apply: fn(&[Value]) -> Value,
    /// The operands at which it is tried: those for which its formula is meant.
    pub among: &'static [f64],
}

const fn one(name: &'static str, apply: fn(&[Value]) -> Value) -> Function {
    Function { name, operands: 1, apply, among: &REALS }
}

const fn two(name: &'static str, apply: fn(&[Value]) -> Value) -> Function {
    Function { name, operands: 2, apply, among: &PAIRS }
}

impl Function {
    const fn among(self, among: &'static [f64]) -> Function {
        Function { among, ..self }
    }
}

/// Numbers of every magnitude, next to whole numbers and to where functions have kinks and poles.
const REALS: [f64; 68] = [
    0.0, 1e-300, 1e-200, 1e-100, 1e-20, 1e-8, 1e-3, 0.25, 0.5, 0.75, 0.999, 0.999999, 1.0, 1.000001, 1.001, 1.5, 1.75,
    2.0, 2.5, 3.0, 5.0, 10.0, 20.0, 40.0, 100.0, 600.0, 800.0, 1e5, 1e10, 1e100, 1e155, 1e200, 1e300, 5e307, -0.0,
    -1e-300, -1e-200, -1e-100, -1e-20, -1e-8, -1e-3, -0.25, -0.5, -0.75, -0.999, -0.999999, -1.0, -1.000001, -1.001,
    -1.5, -1.75, -2.0, -2.5, -3.0, -5.0, -10.0, -20.0, -40.0, -100.0, -600.0, -800.0, -1e5, -1e10, -1e100, -1e155,
    -1e200, -1e300, -5e307,
];
/// Those that periodic functions tell apart.
const MODERATE: [f64; 31] = [
    0.0, 1e-300, 1e-100, 1e-8, 1e-3, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 100.0, 1e5, 1e10, -0.0, -1e-300,
    -1e-100, -1e-8, -1e-3, -0.25, -0.5, -0.75, -1.0, -1.5, -2.0, -3.0, -5.0, -100.0, -1e5,
];
/// Those where the error function is not yet rounded to 1.
const SMALL: [f64; 21] = [
    0.0, 1e-300, 1e-100, 1e-8, 1e-3, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, -1e-300, -1e-100, -1e-8, -1e-3, -0.25, -0.5, -1.0,
    -2.0, -3.0, -4.0,
];
/// The operands of functions of two.
const PAIRS: [f64; 15] = [0.0, 1e-200, 1e-8, 0.5, 1.0, 2.0, 3.0, 1e3, 1e200, -1e-200, -0.5, -1.0, -2.0, -3.5, -1e200];
/// Those whose squares and powers are finite and not zero.
const SQUARES: [f64; 11] = [0.0, 1e-8, 0.5, 1.0, 2.0, 3.0, 1e3, -0.5, -1.0, -2.0, -3.5];
/// Those whose squares are, but for those of differences.
const LENGTHS: [f64; 13] = [0.0, 1e-100, 1e-8, 0.5, 1.0, 2.0, 3.0, 1e100, -1e-100, -0.5, -1.0, -2.0, -1e100];
/// Whole numbers, those halfway between two, and others.
const JUMPS: [f64; 21] = [
    0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 1.75, 2.0, 2.5, 3.0, 5.0, -0.0, -0.25, -0.5, -0.75, -1.0, -1.5, -2.0, -2.5, -3.0,
    -5.0,
];
/// Those of which a few powers are finite.
const POWERS: [f64; 23] = [
    0.0, 1e-80, 1e-20, 1e-8, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 100.0, 1e10, 1e60, -0.0, -1e-80, -1e-8, -0.5, -1.0,
    -2.0, -3.0, -100.0, -1e60,
];
/// Those of which only equal ones divide each other.
const UNRELATED: [f64; 6] = [0.3, 1.1, 2.5, 7.3, -0.8, -1.3];

/// Every elementwise op of floats that has a derivative, every elementwise composition, and functions of rows of two.
pub const FUNCTIONS: &[Function] = &[
    one("neg", |x| -x[0]),
    one("abs", |x| x[0].abs()),
    one("sign", |x| x[0].sign()),
    one("square", |x| x[0].square()),
    one("exp", |x| x[0].exp()),
    one("expm1", |x| x[0].expm1()),
    one("log", |x| x[0].log()),
    one("log1p", |x| x[0].log1p()),
    one("tanh", |x| x[0].tanh()),
    one("sigmoid", |x| x[0].sigmoid()),
    one("sin", |x| x[0].sin()).among(&MODERATE),
    one("cos", |x| x[0].cos()).among(&MODERATE),
    one("sqrt", |x| x[0].sqrt()),
    one("rsqrt", |x| x[0].rsqrt()),
    one("recip", |x| x[0].recip()),
    one("tan", |x| x[0].tan()).among(&MODERATE),
    one("asin", |x| x[0].asin()),
    one("acos", |x| x[0].acos()),
    one("atan", |x| x[0].atan()),
    one("sinh", |x| x[0].sinh()),
    one("cosh", |x| x[0].cosh()),
    one("asinh", |x| x[0].asinh()),
    one("acosh", |x| x[0].acosh()),
    one("atanh", |x| x[0].atanh()),
    one("erf", |x| x[0].erf()),
    one("erfc", |x| x[0].erfc()),
    one("erf_inv", |x| x[0].erf_inv()),
    one("lgamma", |x| x[0].lgamma()),
    one("digamma", |x| x[0].digamma()),
    one("polygamma", |x| x[0].polygamma(1)),
    one("cbrt", |x| x[0].cbrt()),
    one("floor", |x| x[0].floor()).among(&JUMPS),
    one("ceil", |x| x[0].ceil()).among(&JUMPS),
    one("round", |x| x[0].round()).among(&JUMPS),
    one("trunc", |x| x[0].trunc()).among(&JUMPS),
    one("clamp", |x| x[0].clamp(-1.0, 2.0)),
    one("relu", |x| x[0].relu()),
    one("gelu", |x| x[0].gelu()).among(&SMALL),
    one("silu", |x| x[0].silu()),
    one("softplus", |x| x[0].softplus()),
    one("log_sigmoid", |x| x[0].log_sigmoid()),
    one("pow_0", |x| x[0].pow(0.0)).among(&POWERS),
    one("pow_1", |x| x[0].pow(1.0)).among(&POWERS),
    one("pow_2", |x| x[0].pow(2.0)).among(&POWERS),
    one("pow_3", |x| x[0].pow(3.0)).among(&POWERS),
    one("pow_half", |x| x[0].pow(0.5)).among(&POWERS),
    one("pow_minus_1", |x| x[0].pow(-1.0)).among(&POWERS),
    one("of_base_0", |x| x[0].zeros_like().pow(x[0])),
    one("of_base_2", |x| (x[0].zeros_like() + 2.0).pow(x[0])),
    two("add", |x| x[0] + x[1]),
    two("sub", |x| x[0] - x[1]),
    two("mul", |x| x[0] * x[1]),
    two("div", |x| x[0] / x[1]),
    two("rem", |x| x[0] % x[1]).among(&UNRELATED),
    two("max", |x| x[0].maximum(x[1])),
    two("min", |x| x[0].minimum(x[1])),
    two("pow", |x| x[0].pow(x[1])).among(&SQUARES),
    two("atan2", |x| x[0].atan2(x[1])),
    two("copysign", |x| x[0].copysign(x[1])).among(&[0.0, 0.5, 1.0, -2.0]),
    two("hypot", |x| x[0].hypot(x[1])).among(&LENGTHS),
    two("logaddexp", |x| x[0].logaddexp(x[1])).among(&SQUARES),
    two("logsumexp", |x| stack(x, 0).logsumexp(0)).among(&SQUARES),
    two("softmax", |x| stack(x, 0).softmax(0).index(0, 0)).among(&SQUARES),
    two("log_softmax", |x| stack(x, 0).log_softmax(0).index(0, 0)).among(&SQUARES),
    two("norm", |x| stack(x, 0).norm(0)).among(&SQUARES),
    two("var", |x| stack(x, 0).var(0)).among(&SQUARES),
    two("std", |x| stack(x, 0).std(0)).among(&SQUARES),
    two("reduce_max", |x| stack(x, 0).max(0)),
    two("reduce_min", |x| stack(x, 0).min(0)),
    two("reduce_prod", |x| stack(x, 0).prod(0)),
    two("cumulative_max", |x| stack(x, 0).cummax(0, false).index(0, 1)),
    two("cumulative_min", |x| stack(x, 0).cummin(0, false).index(0, 1)),
    two("cumulative_prod", |x| stack(x, 0).cumprod(0, false).index(0, 1)),
    two("scatter_max", |x| scattered(x, ScatterMode::Max)),
    two("scatter_min", |x| scattered(x, ScatterMode::Min)),
    two("scatter_mul", |x| scattered(x, ScatterMode::Mul)),
];

/// The second operand as an update of each element of the first.
fn scattered(x: &[Value], mode: ScatterMode) -> Value {
    let rows = x[0].unsqueeze(0);
    let indices = constant(HostTensor::from([0i64])).unsqueeze(1).broadcast_to(rows.shape());
    rows.scatter(0, indices, x[1].unsqueeze(0), mode).index(0, 0)
}

/// How a derivative is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// By tangents.
    Forward,
    /// By cotangents.
    Reverse,
}

/// The function of that name.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

impl Function {
    /// The partial derivative by these operands, one after the other, each in its mode; elementwise as the function is.
    pub fn derivative(&self, operands: &[Value], path: &[(usize, Mode)]) -> Value {
        let Some(((operand, mode), before)) = path.split_last() else { return (self.apply)(operands) };
        let of = |x: Value| {
            let mut operands = operands.to_vec();
            operands[*operand] = x;
            self.derivative(&operands, before)
        };
        let x = operands[*operand];
        match mode {
            Mode::Forward => jvp(x, x.ones_like(), of).1,
            Mode::Reverse => {
                let zeros = GradOptions::new().disconnected(Disconnected::Zeros);
                vjp_with(zeros, x, of, |y: &Value| y.ones_like()).1
            }
        }
    }
}

/// The float types.
pub const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
