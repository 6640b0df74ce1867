//! Helpers shared by the model tests: weights, comparisons, finite differences and training.

use std::collections::{BTreeMap, HashMap};

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, VarBuilder, VarMap};
use funcify_conformance::note_difference;

/// Runs the programs on the serving page as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/serving.md")]
struct Serving;

/// Returns reproducible pseudorandom numbers between -1 and 1.
fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count + 8).map(|_| next()).skip(8).collect()
}

/// Returns a tensor of pseudorandom numbers between -1 and 1.
pub fn tensor(seed: u64, shape: &[usize], dtype: DType) -> Tensor {
    let values = numbers(seed, shape.iter().product());
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

/// Returns a fixed pattern of token ids below `vocabulary`, with shape `[batch, steps]`.
pub fn tokens(batch: usize, steps: usize, vocabulary: u32) -> Tensor {
    let token = |index: usize| (index as u32 * 7 + index as u32 / 3) % vocabulary;
    Tensor::from_vec((0..batch * steps).map(token).collect::<Vec<_>>(), (batch, steps), &Device::Cpu).unwrap()
}

/// The weights of a model, keyed by name.
pub struct Weights {
    map: VarMap,
    dtype: DType,
}

impl Weights {
    /// Creates the weights that `model` requests from a `VarBuilder`, with the requested initial values.
    pub fn new<M>(dtype: DType, model: impl Fn(VarBuilder<'_>) -> Result<M>) -> Self {
        let weights = Weights { map: VarMap::new(), dtype };
        model(weights.builder()).unwrap();
        weights
    }

    /// Creates the weights that `model` requests from a `VarBuilder`, with reproducible pseudorandom values.
    pub fn of<M>(dtype: DType, model: impl Fn(VarBuilder<'_>) -> Result<M>) -> Self {
        let weights = Weights::new(dtype, model);
        for (seed, (_, var)) in (1..).zip(weights.vars()) {
            var.set(&(tensor(seed, var.dims(), dtype) * 0.5).unwrap()).unwrap();
        }
        weights
    }

    /// Returns a `VarBuilder` for models that train these weights.
    pub fn builder(&self) -> VarBuilder<'static> {
        VarBuilder::from_varmap(&self.map, self.dtype, &Device::Cpu)
    }

    /// Returns a `VarBuilder` that holds these weights as constants, like a `VarBuilder` that loads a file. A missing
    /// weight is an error.
    pub fn file(&self) -> VarBuilder<'static> {
        let tensors: HashMap<String, Tensor> =
            self.vars().into_iter().map(|(name, var)| (name, var.as_detached_tensor())).collect();
        VarBuilder::from_tensors(tensors, self.dtype, &Device::Cpu)
    }

    /// Returns the weights, keyed by name.
    pub fn vars(&self) -> BTreeMap<String, Var> {
        self.map.data().lock().unwrap().iter().map(|(name, var)| (name.clone(), var.clone())).collect()
    }

    /// Asserts that another model requests weights with exactly the same names and shapes.
    #[track_caller]
    pub fn assert_same<M>(&self, model: impl Fn(VarBuilder<'_>) -> Result<M>) {
        let other = Weights::of(self.dtype, model);
        let shapes = |weights: &Weights| {
            let of = |(name, var): (String, Var)| (name, var.dims().to_vec());
            weights.vars().into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(shapes(self), shapes(&other));
    }

    /// Asserts, in f64, that `backward()` agrees with finite differences of the loss along one direction for each
    /// weight.
    #[track_caller]
    pub fn assert_slopes(&self, loss: impl Fn() -> Result<Tensor>) {
        let gradients = loss().unwrap().backward().unwrap();
        let scalar = |tensor: Tensor| tensor.to_scalar::<f64>().unwrap();
        for (name, var) in self.vars() {
            let gradient = gradients.get(&var).unwrap_or_else(|| panic!("no gradient of {name}"));
            let (at, direction) = (var.as_tensor().copy().unwrap(), tensor(99, var.dims(), DType::F64));
            let found = scalar((gradient * &direction).unwrap().sum_all().unwrap());
            let along = |step: f64| {
                var.set(&(&at + (&direction * step).unwrap()).unwrap()).unwrap();
                scalar(loss().unwrap())
            };
            let expected = (along(1e-5) - along(-1e-5)) / 2e-5;
            var.set(&at).unwrap();
            assert!(expected.abs() > 1e-9, "the loss does not depend on {name}");
            let off = (found - expected).abs() / expected.abs().max(1e-3);
            assert!(off < 1e-5, "{name}: the slope is {expected}, not {found}");
        }
    }

    /// Asserts that a few steps of AdamW reduce the loss to less than half.
    #[track_caller]
    pub fn assert_learns(&self, rate: f64, loss: impl Fn() -> Result<Tensor>) {
        let mut optimiser = AdamW::new_lr(self.map.all_vars(), rate).unwrap();
        let mut losses = Vec::new();
        for _ in 0..25 {
            let loss = loss().unwrap();
            optimiser.backward_step(&loss).unwrap();
            losses.push(loss.to_dtype(DType::F64).unwrap().to_scalar::<f64>().unwrap());
        }
        assert!(losses[24] < 0.5 * losses[0], "{losses:?}");
    }
}

/// Computes the mean cross-entropy of `logits`, `[batch, steps, vocabulary]`, which predict the next token of `ids` at
/// each step.
pub fn next_token_loss(logits: &Tensor, ids: &Tensor) -> Result<Tensor> {
    let (_, steps) = ids.dims2()?;
    let targets = ids.narrow(1, 1, steps - 1)?.flatten_all()?;
    candle_nn::loss::cross_entropy(&logits.narrow(1, 0, steps - 1)?.flatten(0, 1)?, &targets)
}

/// Returns the largest difference between two tensors, relative to the largest element of `expected`.
pub fn distance(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!((found.dims(), found.dtype()), (expected.dims(), expected.dtype()));
    let values = |tensor: &Tensor| {
        tensor.detach().to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap()
    };
    let (found, expected) = (values(found), values(expected));
    let scale = expected.iter().fold(0f64, |scale, x| scale.max(x.abs()));
    let off = found.iter().zip(&expected).fold(0f64, |off, (a, b)| off.max((a - b).abs()));
    assert!(off.is_finite() && scale > 0.0, "{found:?} against {expected:?}");
    off / scale
}

/// Asserts that an output or a state in f32 differs from the expected one by at most 1e-5 of the largest expected
/// element.
#[track_caller]
pub fn assert_close(found: &Tensor, expected: &Tensor, what: &str) {
    assert_same("outputs", found, expected, what);
}

/// Works like [`assert_close`], but for the gradient of a weight.
#[track_caller]
pub fn assert_gradient(found: &Tensor, expected: &Tensor, weight: &str) {
    assert_same("gradients", found, expected, weight);
}

/// Asserts that the difference between two tensors is small, and records it under the name of the test binary without
/// its hash suffix.
#[track_caller]
fn assert_same(kind: &str, found: &Tensor, expected: &Tensor, what: &str) {
    let off = distance(found, expected);
    let program = std::env::current_exe().unwrap();
    let name = program.file_stem().unwrap().to_string_lossy();
    note_difference(name.split('-').next().unwrap_or(&name), kind, off);
    assert!(off <= 1e-5, "{what}: off by {off:e}\n{found}\n{expected}");
}
