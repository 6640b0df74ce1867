//! Defines `checkpoint`, which reruns a closure in the backward pass, and `cond`, which runs one of two closures.

use std::sync::{Arc, OnceLock};

use super::record::Keep;
use super::steps::{Operand, Steps};
use super::*;

/// Runs `body` on `operands` without saving intermediate results. The backward pass reruns `body` to recompute them.
/// Gradients are computed for the operands and for the variables that `body` captures.
///
/// The closure must depend only on its operands and must not have side effects. For example, `candle_nn`'s
/// `BatchNorm` in training mode would update its running statistics twice.
///
/// ```
/// use candle_core::{Device, Result, Tensor, Var};
///
/// # fn main() -> Result<()> {
/// let x = Var::new(0.5f64, &Device::Cpu)?;
/// let y = funcify_candle::checkpoint(x.as_tensor(), |x| x.exp()?.sin()?.sqr())?;
/// let slope = y.backward()?.get(&x).unwrap().to_scalar::<f64>()?;
/// assert!((slope - 0.5f64.exp() * (2.0 * 0.5f64.exp()).sin()).abs() < 1e-12);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn checkpoint<K: TensorTree, Y: TensorTree>(
    operands: &K,
    body: impl Fn(K) -> Result<Y> + Send + Sync + 'static,
) -> Result<Y> {
    let given: Arc<OnceLock<Y>> = Arc::default();
    let (like, seen) = (detach(operands)?, given.clone());
    let steps = Steps {
        at: place("checkpoint"),
        body: Box::new(move |_, _, operands: &[Tensor]| {
            let y = body(rebuild(&like, operands.iter().cloned())?)?;
            let ys = leaves(&y);
            if seen.get().is_none() {
                // `set` fails only if another thread has already stored the same structure.
                let _ = seen.set(detach(&y)?);
            }
            Ok((Vec::new(), ys))
        }),
        names: Vec::new(),
        xs: Vec::new(),
        axis: None,
        captured: Operand::all_contiguous(leaves(operands))?,
        rows: Some(1),
        reverse: false,
        keep: Keep::Every(1),
    };
    let (_, ys) = steps.run(Vec::new(), &|step, _| Ok(step == 0))?;
    match given.get() {
        Some(tree) => rebuild(tree, ys),
        None => crate::errors::bail!("the closure was not called"),
    }
}

/// Runs one of two closures on `operands`: `on_true` if the predicate is nonzero, and `on_false` otherwise. The other
/// closure does not run, and the variables that it captures have no gradient. The predicate must have one element. It
/// is copied to the host, and has no gradient.
///
/// ```
/// use candle_core::{Device, Result, Tensor, Var};
///
/// # fn main() -> Result<()> {
/// let x = Var::new(-2f32, &Device::Cpu)?;
/// let y = funcify_candle::cond(&x.gt(0f32)?, x.as_tensor(), |x| x.sqr(), |x| x * 0.5)?;
/// assert_eq!(y.to_scalar::<f32>()?, -1.0);
/// assert_eq!(y.backward()?.get(&x).unwrap().to_scalar::<f32>()?, 0.5);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn cond<K: TensorTree, Y: TensorTree>(
    predicate: &Tensor,
    operands: &K,
    on_true: impl FnOnce(K) -> Result<Y>,
    on_false: impl FnOnce(K) -> Result<Y>,
) -> Result<Y> {
    if predicate.elem_count() != 1 {
        let fix = "reduce the predicate to one element with `max` (any) or `min` (all)";
        let error = place("cond").mismatch("the predicate", "one element", errors::type_of(predicate), fix);
        return Err(errors::into_candle(error));
    }
    let decides = predicate.detach().flatten_all()?.get(0)?;
    let operands = rebuild(operands, leaves(operands))?;
    if decides.ne(&decides.zeros_like()?)?.to_scalar::<u8>()? == 1 { on_true(operands) } else { on_false(operands) }
}
