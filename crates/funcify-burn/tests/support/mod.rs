//! How a kernel is compared with the reference evaluation: one `check` over a list of cases.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use funcify::dispatch::{Backend, run_op};
use funcify::ops::{Op, OpRules};
use funcify::{DType, Graph, HostTensor, Scalar, apply, evaluate};
use funcify_burn::Burn;

/// An op and its operands.
pub(crate) struct Case {
    pub(crate) op: Op,
    pub(crate) inputs: Vec<HostTensor>,
    /// Sums cancel: their error is allowed to be the tolerance times this, whatever their own magnitude.
    pub(crate) scale: f64,
}

impl Case {
    pub(crate) fn new(op: impl Into<Op>, inputs: &[&HostTensor]) -> Self {
        Case { op: op.into(), inputs: inputs.iter().map(|input| (*input).clone()).collect(), scale: 0.0 }
    }

    pub(crate) fn scaled(self, scale: f64) -> Self {
        Case { scale, ..self }
    }
}

pub(crate) fn devices() -> Vec<Burn> {
    vec![
        #[cfg(feature = "flex")]
        Burn::flex(),
        #[cfg(feature = "ndarray")]
        Burn::ndarray(),
    ]
}

/// Every case gives on every device what the reference evaluation gives; all that do not are listed.
pub(crate) fn check(cases: Vec<Case>) {
    let mut failures = Vec::new();
    for case in &cases {
        let expected = reference(case);
        for device in devices() {
            let tensors = case.inputs.iter().chain(&expected);
            if tensors.into_iter().any(|tensor| device.lacks(tensor.dtype(), tensor.shape().len()).is_some()) {
                continue;
            }
            let found = catch_unwind(AssertUnwindSafe(|| run_op(&device, &case.op, &case.inputs)));
            let problem = match found {
                Err(_) => Some("panicked".to_string()),
                Ok(Err(error)) => Some(format!("failed: {error}")),
                Ok(Ok(found)) => difference(&found, &expected, case.scale),
            };
            if let Some(problem) = problem {
                let inputs: Vec<String> = case.inputs.iter().map(short).collect();
                let (name, op) = (device.name(), &case.op);
                failures.push(format!("{name} {op:?} of {}: {problem}", inputs.join(" and ")));
            }
        }
    }
    assert!(!cases.is_empty() && failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

fn reference(case: &Case) -> Vec<HostTensor> {
    let graph = Graph::build(case.op.name(), |builder| {
        let inputs = case.inputs.iter().enumerate();
        let inputs: Vec<_> = inputs.map(|(index, tensor)| builder.input(&format!("x{index}"), tensor.ty())).collect();
        apply(case.op.clone(), &inputs)
    });
    evaluate(&graph.expect("the case has a type"), &case.inputs).expect("the case has a value")
}

fn difference(found: &[HostTensor], expected: &[HostTensor], scale: f64) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} results, not {}", found.len(), expected.len()));
    }
    for (found, expected) in found.iter().zip(expected) {
        if found.ty() != expected.ty() {
            return Some(format!("{} instead of {}", found.ty(), expected.ty()));
        }
        let tolerance = tolerance(expected.dtype());
        for (index, (a, b)) in found.scalars().zip(expected.scalars()).enumerate() {
            if !close(a, b, tolerance, scale) {
                return Some(format!("element {index} is {a:?} instead of {b:?}"));
            }
        }
    }
    None
}

fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (2e-3, f64::from(half::f16::MIN_POSITIVE)),
        DType::BF16 => (2e-2, f64::from(half::bf16::MIN_POSITIVE)),
        DType::F32 => (1e-5, f64::from(f32::MIN_POSITIVE)),
        _ => (1e-12, f64::MIN_POSITIVE),
    }
}

fn close(a: Scalar, b: Scalar, (relative, smallest): (f64, f64), scale: f64) -> bool {
    let (Scalar::Float(x), Scalar::Float(y)) = (a, b) else { return a == b };
    let allowed = relative * y.abs().max(scale) + smallest;
    x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= allowed && y.is_finite()
}

fn short(tensor: &HostTensor) -> String {
    if tensor.len() <= 8 { format!("{tensor:?}") } else { tensor.ty().to_string() }
}

/// The elements that try an elementwise op of that dtype.
pub(crate) fn elements(dtype: DType) -> Vec<Scalar> {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1e-4,
        -3e-3,
        2.5,
        -2.5,
        3.75,
        -7.25,
        10.0,
        80.0,
        -80.0,
        1e4,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let integers = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        7,
        -7,
        100,
        -100,
        255,
        256,
        300,
        i64::from(i32::MAX),
        i64::from(i32::MIN),
        i64::MAX,
        i64::MIN,
        1 << 31,
        1 << 24,
    ];
    match dtype {
        DType::Bool => vec![Scalar::Bool(false), Scalar::Bool(true)],
        _ if dtype.is_float() => floats.into_iter().map(Scalar::Float).collect(),
        _ => integers.into_iter().map(Scalar::Int).collect(),
    }
}

/// A tensor of those elements, over and over.
pub(crate) fn extreme(dtype: DType, shape: &[usize]) -> HostTensor {
    let elements = elements(dtype);
    let mut next = elements.iter().cycle();
    HostTensor::from_fn(dtype, shape, |_| *next.next().expect("there are elements"))
}

/// Every pair of those elements, as two vectors.
pub(crate) fn pairs(dtype: DType) -> [HostTensor; 2] {
    let elements = elements(dtype);
    let count = elements.len();
    let left = HostTensor::from_fn(dtype, &[count * count], |index| elements[index[0] / count]);
    let right = HostTensor::from_fn(dtype, &[count * count], |index| elements[index[0] % count]);
    [left, right]
}

/// A tensor of small numbers, exact in every dtype.
pub(crate) fn small(dtype: DType, shape: &[usize]) -> HostTensor {
    let mut state = 7u32;
    HostTensor::from_fn(dtype, shape, |_| {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        let number = i64::from(state >> 24) % 11 - 4;
        match dtype {
            DType::Bool => Scalar::Bool(number > 0),
            _ if dtype.is_float() => Scalar::Float(number as f64 / 4.0),
            _ => Scalar::Int(number),
        }
    })
}

/// An index tensor of these numbers.
pub(crate) fn indices(dtype: DType, shape: &[usize], numbers: &[i64]) -> HostTensor {
    let mut next = numbers.iter().cycle();
    HostTensor::from_fn(dtype, shape, |_| Scalar::Int(next.next().copied().unwrap_or_default()))
}

pub(crate) const SHAPES: [&[usize]; 7] = [&[], &[5], &[0], &[3, 4], &[2, 0, 3], &[2, 3, 4], &[2, 1, 3, 2]];
pub(crate) const INTEGERS: [DType; 4] = [DType::U8, DType::U32, DType::I32, DType::I64];
pub(crate) const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// All dtypes that an op takes.
pub(crate) fn dtypes(bools: bool, integers: bool, floats: bool) -> Vec<DType> {
    let takes = |dtype: &DType| match dtype {
        DType::Bool => bools,
        dtype if dtype.is_int() => integers,
        _ => floats,
    };
    DType::ALL.into_iter().filter(takes).collect()
}
