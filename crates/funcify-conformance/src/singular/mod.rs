//! Lists elementwise functions to test at their singular points, and defines the derivatives to expect where no true
//! derivative exists.
//!
//! The documentation of `funcify::ops` describes these derivatives in words. `tests/singular.rs` searches all
//! [`functions`] for points where a derivative is wrong, or where no derivative exists and the [`CHOSEN`] table has no
//! entry. The cases `numerics/derivative_*` check each entry of [`CHOSEN`] and [`DEFINED`] on every backend.

mod chosen;

pub use chosen::{At, CHOSEN, Chosen, DEFINED, Defined};

use funcify::error::{Place, Site};
use funcify::ops::{Binary, OpRules, ScatterMode, Unary};
use funcify::{DType, Disconnected, GradOptions, HostTensor, TensorType, Value, apply, constant, jvp, stack, vjp_with};

/// An elementwise function of one or two operands.
#[derive(Clone, Copy, Debug)]
pub struct Elementwise {
    /// The name of the op or of the composition.
    pub name: &'static str,
    /// The number of operands.
    pub operands: usize,
    /// The numbers that `tests/singular.rs` tries as operands. The test skips operands for which the function is NaN.
    pub trial_operands: &'static [f64],
    formula: Formula,
}

#[derive(Clone, Copy, Debug)]
enum Formula {
    Unary(Unary),
    Binary(Binary),
    Composition(fn(&[Value]) -> Value),
}

/// Numbers of all magnitudes, including numbers near integers, and near the kinks and poles of functions.
const REALS: [f64; 68] = [
    0.0, 1e-300, 1e-200, 1e-100, 1e-20, 1e-8, 1e-3, 0.25, 0.5, 0.75, 0.999, 0.999999, 1.0, 1.000001, 1.001, 1.5, 1.75,
    2.0, 2.5, 3.0, 5.0, 10.0, 20.0, 40.0, 100.0, 600.0, 800.0, 1e5, 1e10, 1e100, 1e155, 1e200, 1e300, 5e307, -0.0,
    -1e-300, -1e-200, -1e-100, -1e-20, -1e-8, -1e-3, -0.25, -0.5, -0.75, -0.999, -0.999999, -1.0, -1.000001, -1.001,
    -1.5, -1.75, -2.0, -2.5, -3.0, -5.0, -10.0, -20.0, -40.0, -100.0, -600.0, -800.0, -1e5, -1e10, -1e100, -1e155,
    -1e200, -1e300, -5e307,
];
/// Numbers small enough for periodic functions to be accurate.
const MODERATE: [f64; 31] = [
    0.0, 1e-300, 1e-100, 1e-8, 1e-3, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 100.0, 1e5, 1e10, -0.0, -1e-300,
    -1e-100, -1e-8, -1e-3, -0.25, -0.5, -0.75, -1.0, -1.5, -2.0, -3.0, -5.0, -100.0, -1e5,
];
/// Numbers at which the error function does not round to 1 or -1.
const SMALL: [f64; 21] = [
    0.0, 1e-300, 1e-100, 1e-8, 1e-3, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, -1e-300, -1e-100, -1e-8, -1e-3, -0.25, -0.5, -1.0,
    -2.0, -3.0, -4.0,
];
/// Numbers for functions of two operands. `tests/singular.rs` tries all pairs of these numbers.
const PAIRS: [f64; 15] = [0.0, 1e-200, 1e-8, 0.5, 1.0, 2.0, 3.0, 1e3, 1e200, -1e-200, -0.5, -1.0, -2.0, -3.5, -1e200];
/// Numbers whose squares and small powers neither overflow nor underflow.
const SQUARES: [f64; 11] = [0.0, 1e-8, 0.5, 1.0, 2.0, 3.0, 1e3, -0.5, -1.0, -2.0, -3.5];
/// Numbers whose squares neither overflow nor underflow, although products of such squares may.
const LENGTHS: [f64; 13] = [0.0, 1e-100, 1e-8, 0.5, 1.0, 2.0, 3.0, 1e100, -1e-100, -0.5, -1.0, -2.0, -1e100];
/// Integers and half-integers, at which rounding functions jump, and numbers between them.
const JUMPS: [f64; 21] = [
    0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 1.75, 2.0, 2.5, 3.0, 5.0, -0.0, -0.25, -0.5, -0.75, -1.0, -1.5, -2.0, -2.5, -3.0,
    -5.0,
];
/// Numbers whose small powers do not overflow in f64.
const POWERS: [f64; 23] = [
    0.0, 1e-80, 1e-20, 1e-8, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 100.0, 1e10, 1e60, -0.0, -1e-80, -1e-8, -0.5, -1.0,
    -2.0, -3.0, -100.0, -1e60,
];
/// Numbers that are not multiples of each other.
const UNRELATED: [f64; 6] = [0.3, 1.1, 2.5, 7.3, -0.8, -1.3];

/// Returns all differentiable elementwise ops on floats, and some compositions of ops.
pub fn functions() -> Vec<Elementwise> {
    // `stop_gradient` has no derivative.
    let unary = Unary::ALL.iter().filter(|op| **op != Unary::StopGradient && takes_floats(*op, 1));
    let unary = unary.map(|op| Elementwise {
        name: op.name(),
        operands: 1,
        trial_operands: unary_trial_operands(*op),
        formula: Formula::Unary(*op),
    });
    let binary = Binary::ALL.iter().filter(|op| takes_floats(*op, 2)).map(|op| Elementwise {
        name: op.name(),
        operands: 2,
        trial_operands: binary_trial_operands(*op),
        formula: Formula::Binary(*op),
    });
    unary.chain(binary).chain(COMPOSITIONS.iter().copied()).collect()
}

/// Returns the function with this name, or `None` if no function has it.
pub fn function(name: &str) -> Option<Elementwise> {
    functions().into_iter().find(|function| function.name == name)
}

fn takes_floats(op: &impl OpRules, operands: usize) -> bool {
    op.infer(&Place::new(op.name(), Site::Unknown), &vec![TensorType::scalar(DType::F64); operands]).is_ok()
}

/// Returns the operands to try for an op with one operand.
fn unary_trial_operands(op: Unary) -> &'static [f64] {
    match op {
        Unary::Sin | Unary::Cos | Unary::Tan => &MODERATE,
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => &JUMPS,
        _ => &REALS,
    }
}

/// Returns the numbers to try for an op with two operands. `tests/singular.rs` tries all pairs of these numbers.
fn binary_trial_operands(op: Binary) -> &'static [f64] {
    match op {
        Binary::Rem => &UNRELATED,
        Binary::Pow => &SQUARES,
        Binary::Copysign => &[0.0, 0.5, 1.0, -2.0],
        _ => &PAIRS,
    }
}

const fn unary(name: &'static str, formula: fn(&[Value]) -> Value) -> Elementwise {
    Elementwise { name, operands: 1, trial_operands: &REALS, formula: Formula::Composition(formula) }
}

const fn binary(name: &'static str, formula: fn(&[Value]) -> Value) -> Elementwise {
    Elementwise { name, operands: 2, trial_operands: &PAIRS, formula: Formula::Composition(formula) }
}

/// Ops with attributes, compositions of elementwise ops, and functions of two-element rows.
const COMPOSITIONS: &[Elementwise] = &[
    unary("polygamma", |x| x[0].polygamma(1)),
    unary("clamp", |x| x[0].clamp(-1.0, 2.0)),
    unary("relu", |x| x[0].relu()),
    unary("gelu", |x| x[0].gelu()).with_trial_operands(&SMALL),
    unary("silu", |x| x[0].silu()),
    unary("softplus", |x| x[0].softplus()),
    unary("log_sigmoid", |x| x[0].log_sigmoid()),
    unary("pow_0", |x| x[0].pow(0.0)).with_trial_operands(&POWERS),
    unary("pow_1", |x| x[0].pow(1.0)).with_trial_operands(&POWERS),
    unary("pow_2", |x| x[0].pow(2.0)).with_trial_operands(&POWERS),
    unary("pow_3", |x| x[0].pow(3.0)).with_trial_operands(&POWERS),
    unary("pow_half", |x| x[0].pow(0.5)).with_trial_operands(&POWERS),
    unary("pow_minus_1", |x| x[0].pow(-1.0)).with_trial_operands(&POWERS),
    unary("of_base_0", |x| x[0].zeros_like().pow(x[0])),
    unary("of_base_2", |x| (x[0].zeros_like() + 2.0).pow(x[0])),
    binary("hypot", |x| x[0].hypot(x[1])).with_trial_operands(&LENGTHS),
    binary("logaddexp", |x| x[0].logaddexp(x[1])).with_trial_operands(&SQUARES),
    binary("logsumexp", |x| stack(x, 0).logsumexp(0)).with_trial_operands(&SQUARES),
    binary("softmax", |x| stack(x, 0).softmax(0).index(0, 0)).with_trial_operands(&SQUARES),
    binary("log_softmax", |x| stack(x, 0).log_softmax(0).index(0, 0)).with_trial_operands(&SQUARES),
    binary("norm", |x| stack(x, 0).norm(0)).with_trial_operands(&SQUARES),
    binary("var", |x| stack(x, 0).var(0)).with_trial_operands(&SQUARES),
    binary("std", |x| stack(x, 0).std(0)).with_trial_operands(&SQUARES),
    binary("reduce_max", |x| stack(x, 0).max(0)),
    binary("reduce_min", |x| stack(x, 0).min(0)),
    binary("reduce_prod", |x| stack(x, 0).prod(0)),
    binary("cumulative_max", |x| stack(x, 0).cummax(0, false).index(0, 1)),
    binary("cumulative_min", |x| stack(x, 0).cummin(0, false).index(0, 1)),
    binary("cumulative_prod", |x| stack(x, 0).cumprod(0, false).index(0, 1)),
    binary("scatter_max", |x| scatter_second(x, ScatterMode::Max)),
    binary("scatter_min", |x| scatter_second(x, ScatterMode::Min)),
    binary("scatter_mul", |x| scatter_second(x, ScatterMode::Mul)),
];

/// Scatters the second operand into the first, combining each pair of elements according to `mode`.
fn scatter_second(x: &[Value], mode: ScatterMode) -> Value {
    let rows = x[0].unsqueeze(0);
    let indices = constant(HostTensor::from([0i64])).unsqueeze(1).broadcast_to(rows.shape());
    rows.scatter(0, indices, x[1].unsqueeze(0), mode).index(0, 0)
}

/// A mode of differentiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Pushes tangents forward.
    Forward,
    /// Pulls cotangents back.
    Reverse,
}

impl Elementwise {
    const fn with_trial_operands(self, trial_operands: &'static [f64]) -> Elementwise {
        Elementwise { trial_operands, ..self }
    }

    fn apply(&self, operands: &[Value]) -> Value {
        match self.formula {
            Formula::Unary(op) => apply(op, operands)[0],
            Formula::Binary(op) => apply(op, operands)[0],
            Formula::Composition(formula) => formula(operands),
        }
    }

    /// Computes a partial derivative elementwise. Each entry of `path` is one differentiation: the index of the
    /// differentiated operand, and the mode.
    pub fn derivative(&self, operands: &[Value], path: &[(usize, Mode)]) -> Value {
        let Some(((operand, mode), before)) = path.split_last() else { return self.apply(operands) };
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
