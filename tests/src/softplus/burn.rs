//! Lowers `softplus` to a combination of Burn's kernels, on all of Burn's devices.

use burn::backend::ops::{ActivationOps, FloatTensorOps};
use burn::backend::{Dispatch, DispatchTensor};
use burn::tensor::Scalar;
use funcify::error::BackendError;
use funcify::funcify;
use funcify_burn::Burn;

use super::Softplus;

funcify!(Burn, Softplus, |call, [x]| Ok::<_, BackendError>(softplus(x, call.op.beta as f64)));

fn softplus(x: DispatchTensor, beta: f64) -> DispatchTensor {
    let scaled = Dispatch::float_mul_scalar(Dispatch::float_abs(x.clone()), Scalar::from(-beta));
    let smooth = Dispatch::float_log1p(Dispatch::float_exp(scaled));
    Dispatch::float_add(Dispatch::relu(x), Dispatch::float_div_scalar(smooth, Scalar::from(beta)))
}
