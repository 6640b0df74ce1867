//! Runs a single op, so that a backend's kernels can be compared with the reference evaluator op by op.

use funcify_core::HostTensor;
use funcify_core::error::{Place, Result, Site};
use funcify_core::ops::{Op, OpRules};
use funcify_core::types::{Sizes, TensorType};

use crate::backend::registry::{check_rules, kernel_of};
use crate::backend::{Backend, KernelCall, execution_error, wrong_number_of_results};

/// Runs the kernel of a single op on host tensors: uploads the operands, runs the kernel, and downloads the results.
///
/// ```
/// use funcify::HostTensor;
/// use funcify::dispatch::{Reference, run_op};
/// use funcify::ops::{Op, Unary};
///
/// let squared = run_op(&Reference, &Op::from(Unary::Square), &[HostTensor::from([2f32, 3.0])])?;
/// assert_eq!(squared, [HostTensor::from([4f32, 9.0])]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn run_op<B: Backend>(backend: &B, op: &Op, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let at = Place::new(op.name(), Site::caller());
    let types: Vec<TensorType> = inputs.iter().map(HostTensor::ty).collect();
    let outputs = op.infer(&at, &types)?;
    let failed = |error| execution_error(&at, backend.name(), error);
    check_rules(backend, &at)?;
    let kernel = kernel_of(backend, op.name(), &at)?.ok_or_else(|| failed("a loop has no kernel".into()))?;
    let sizes = Sizes::new();
    let call = KernelCall { op, backend, inputs: &types, outputs: &outputs, sizes: &sizes, at: &at };
    let operands = inputs.iter().map(|tensor| backend.upload(tensor)).collect::<Result<_, _>>().map_err(failed)?;
    let results = backend.run_kernel(kernel, &call, operands).map_err(failed)?;
    if results.len() != outputs.len() {
        return Err(failed(wrong_number_of_results(results.len(), outputs.len())));
    }
    let pairs = results.iter().zip(&outputs);
    pairs.map(|(tensor, ty)| backend.download(tensor, ty.dtype).map_err(failed)).collect()
}
