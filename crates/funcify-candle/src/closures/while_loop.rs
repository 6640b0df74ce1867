//! Defines `while_loop`, which runs a step while a condition holds.

use super::record::Keep;
use super::steps::Steps;
use super::*;

/// Runs `carry = body(carry)` while `condition(&carry)` is true, and returns the last carry.
///
/// The condition is evaluated on the host, and has no gradient. The gradient treats the number of steps that ran as a
/// constant. The number of carries saved for the backward pass grows with the square root of the number of steps; the
/// backward pass reruns the steps between saved carries. Closures and captured variables must meet the requirements of
/// [`scan`](crate::scan).
///
/// ```
/// use candle_core::{Device, Result, Tensor, Var};
///
/// # fn main() -> Result<()> {
/// let start = Var::new(1.5f64, &Device::Cpu)?;
/// let last = funcify_candle::while_loop(
///     start.as_tensor(),
///     |x| Ok(x.to_scalar::<f64>()? < 10.0),
///     |x| x.sqr(),
/// )?;
/// assert_eq!(last.to_scalar::<f64>()?, 1.5f64.powi(8));
/// let slope = last.backward()?.get(&start).unwrap().to_scalar::<f64>()?;
/// assert!((slope - 8.0 * 1.5f64.powi(7)).abs() < 1e-12);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn while_loop<C: TensorTree>(
    init: &C,
    condition: impl Fn(&C) -> Result<bool>,
    body: impl Fn(C) -> Result<C> + Send + Sync + 'static,
) -> Result<C> {
    let (at, names, like) = (place("while_loop"), names(init, "carry"), detach(init)?);
    let of_body = (at.clone(), names.clone());
    let steps = Steps {
        at,
        body: Box::new(move |carry, _, _| {
            let next = body(rebuild(&like, carry)?)?;
            check_names(&of_body.0, "carry", &of_body.1, &next)?;
            Ok((leaves(&next), Vec::new()))
        }),
        names,
        xs: Vec::new(),
        axis: None,
        captured: Vec::new(),
        rows: None,
        reverse: false,
        keep: Keep::Thinned(1),
    };
    let more = |_: usize, carry: &[candle_core::Tensor]| condition(&rebuild(init, carry.iter().cloned())?);
    let (carry, _) = steps.run(leaves(init), &more)?;
    rebuild(init, carry)
}
