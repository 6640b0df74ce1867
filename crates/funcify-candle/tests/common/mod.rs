//! Provides the helpers that the tests of this crate share: pseudorandom numbers, cells, handwritten loops, and
//! comparisons of gradients.
#![allow(dead_code, reason = "each test program uses only some helpers")]

pub(crate) mod cells;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Result, Tensor, Var};

/// Returns pseudorandom numbers between -1 and 1 that are the same in every run.
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Returns a tensor of pseudorandom numbers between -1 and 1.
pub(crate) fn tensor(seed: u64, shape: &[usize], dtype: DType) -> Tensor {
    let values = numbers(seed, shape.iter().product());
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

/// Returns a variable of pseudorandom numbers between -1 and 1.
pub(crate) fn var(seed: u64, shape: &[usize], dtype: DType) -> Var {
    Var::from_tensor(&tensor(seed, shape, dtype)).unwrap()
}

/// Returns the maximum [`distance`] at which two tensors of this dtype count as equal.
pub(crate) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-10,
        DType::F32 => 1e-5,
        _ => 2e-2,
    }
}

/// Returns the maximum difference between two tensors, relative to the largest magnitude in the second tensor.
pub(crate) fn distance(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.dims(), expected.dims());
    assert_eq!(found.dtype(), expected.dtype());
    let values = |tensor: &Tensor| {
        tensor.detach().to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap()
    };
    let (found, expected) = (values(found), values(expected));
    let scale = expected.iter().fold(0f64, |scale, x| scale.max(x.abs()));
    let off = found.iter().zip(&expected).fold(0f64, |off, (a, b)| off.max((a - b).abs()));
    assert!(off.is_finite(), "{found:?} is not {expected:?}");
    if scale == 0.0 { off } else { off / scale }
}

/// Asserts that two tensors are equal up to the tolerance of their dtype.
#[track_caller]
pub(crate) fn assert_close(found: &Tensor, expected: &Tensor, what: &str) {
    let off = distance(found, expected);
    assert!(off <= tolerance(found.dtype()), "{what}: off by {off:e}\n{found}\n{expected}");
}

/// Returns a loss in which every element of the tensors has a different weight.
pub(crate) fn loss(tensors: &[&Tensor]) -> Result<Tensor> {
    let mut total = Tensor::zeros((), DType::F64, &Device::Cpu)?;
    for (index, x) in tensors.iter().enumerate() {
        let weights = tensor(1000 + index as u64, x.dims(), x.dtype());
        total = (total + (*x * weights)?.sin()?.sum_all()?.to_dtype(DType::F64)?)?;
    }
    Ok(total)
}

/// Computes the [`loss`] of these tensors, runs its backward pass, and returns the gradients.
pub(crate) fn backward(tensors: &[&Tensor]) -> GradStore {
    loss(tensors).unwrap().backward().unwrap()
}

/// Asserts that two backward passes computed the same nonzero gradients for all these variables.
#[track_caller]
pub(crate) fn assert_gradients(found: &GradStore, expected: &GradStore, vars: &[&Var], what: &str) {
    for (index, var) in vars.iter().enumerate() {
        let expected = expected.get(var).unwrap_or_else(|| panic!("{what}: no expected gradient for variable {index}"));
        let found = found.get(var).unwrap_or_else(|| panic!("{what}: no gradient for variable {index}"));
        assert_close(found, expected, &format!("{what}, variable {index}"));
        assert!(distance(expected, &expected.zeros_like().unwrap()) > 0.0, "{what}: variable {index} is not used");
    }
}

/// Returns row `t` of a tensor along axis 0.
pub(crate) fn row(xs: &Tensor, t: usize) -> Result<Tensor> {
    xs.narrow(0, t, 1)?.squeeze(0)
}

/// Runs `step` in a plain Rust loop, in which Candle records every step. Returns the last carry and the stacked
/// outputs.
pub(crate) fn by_hand<C>(
    init: C,
    steps: usize,
    reverse: bool,
    mut step: impl FnMut(C, usize) -> Result<(C, Tensor)>,
) -> Result<(C, Tensor)> {
    let mut ys = Vec::new();
    let mut carry = init;
    for t in 0..steps {
        let t = if reverse { steps - 1 - t } else { t };
        let (next, y) = step(carry, t)?;
        carry = next;
        ys.push(y);
    }
    if reverse {
        ys.reverse();
    }
    Ok((carry, Tensor::stack(&ys, 0)?))
}
