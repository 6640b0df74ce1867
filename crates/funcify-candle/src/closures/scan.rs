//! Defines `scan`, which runs a closure over the rows of sequences and carries a state from step to step.

use std::sync::{Arc, OnceLock};

use funcify_core::error::{Error, Place};

use super::record::Keep;
use super::steps::{Operand, Steps};
use super::*;

/// Options of [`scan_with`]: the number of steps, the direction, the axis, and the values saved for the backward
/// pass.
///
/// ```
/// use candle_core::{Device, Result, Tensor};
/// use funcify_candle::{ScanOptions, scan_with};
///
/// # fn main() -> candle_core::Result<()> {
/// let xs = Tensor::new(&[[1f64, 2.0, 3.0]], &Device::Cpu)?;
/// let start = Tensor::zeros(1, xs.dtype(), &Device::Cpu)?;
/// // From the last column to the first.
/// let options = ScanOptions::new().axis(1).reverse();
/// let (_, sums) = scan_with(options, &start, &xs, |sum, x| Ok(((&sum + &x)?, (sum + x)?)))?;
/// assert_eq!(sums.to_vec2::<f64>()?, [[6.0, 5.0, 3.0]]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    length: Option<usize>,
    reverse: bool,
    axis: usize,
    segments: Option<usize>,
    keep_graphs: bool,
}

impl ScanOptions {
    /// Creates the default options: a forward loop along axis 0, with one step per row of the sequences. The default
    /// number of segments is the square root of the number of steps.
    pub fn new() -> Self {
        ScanOptions::default()
    }

    /// Sets the number of steps. It must equal the number of rows of each sequence, and is required if there are no
    /// sequences.
    pub fn length(mut self, steps: usize) -> Self {
        self.length = Some(steps);
        self
    }

    /// Makes the loop run from the last row to the first. The ys stay aligned with the xs, and the loop makes no
    /// reversed copies.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Sets the axis along which the sequences are split and the ys are stacked. The tensors of a single step do not
    /// have this axis.
    pub fn axis(mut self, axis: usize) -> Self {
        self.axis = axis;
        self
    }

    /// Sets the number of segments. The forward pass saves the carry at the start of each segment, and the backward
    /// pass holds the graphs of all steps of one segment at a time. The default, the square root of the number of
    /// steps, balances these two memory costs.
    pub fn segments(mut self, segments: usize) -> Self {
        self.segments = Some(segments.max(1));
        self
    }

    /// Makes the forward pass save the graphs of all steps, so that the backward pass does not rerun the steps. This is
    /// faster, but needs as much memory as a handwritten loop. This option is required for closures that draw random
    /// numbers or have side effects, such as updating the running statistics of `BatchNorm`.
    pub fn keep_graphs(mut self) -> Self {
        self.keep_graphs = true;
        self
    }

    pub(super) fn segments_unless_given(mut self, segments: usize) -> Self {
        self.segments = self.segments.or(Some(segments));
        self
    }

    pub(super) fn keep(&self, steps: usize) -> Keep {
        if self.keep_graphs {
            return Keep::Graphs;
        }
        let segments = self.segments.unwrap_or_else(|| (steps as f64).sqrt().ceil() as usize).clamp(1, steps.max(1));
        Keep::Every(steps.div_ceil(segments).max(1))
    }
}

/// Computes `(carry, y) = step(carry, x)` for each row `x` of `xs` along axis 0. Returns the last carry and the ys,
/// stacked along axis 0.
///
/// The whole loop is one node of Candle's graph. Its backward pass reruns segments of steps instead of saving their
/// graphs, takes time linear in the number of steps, and has constant stack depth. Gradients are computed for `init`,
/// for `xs`, and for variables that the closure captures. If a captured tensor was itself computed by tracked ops,
/// pass it to [`scan_captured`].
///
/// `init`, `xs` and the ys can be any [`TensorTree`]. Each new carry must have exactly the types of `init`; non-float
/// leaves have no gradient. If there are no steps, the closure is called once, on zeros, to determine the types of the
/// ys. The results of the closure must depend only on its arguments and on the tensors that it captures. On the CPU,
/// the backward pass checks that the rerun returns the same results as the forward pass.
///
/// The closure must not have side effects either, because it runs twice per step if a gradient is computed. For
/// example, `candle_nn`'s `BatchNorm` in training mode would update its running statistics twice as often as in a
/// handwritten loop, and no check would detect this. With [`ScanOptions::keep_graphs`], the closure is called only once
/// per step.
///
/// ```
/// use candle_core::{Device, Result, Tensor, Var};
///
/// # fn main() -> Result<()> {
/// let decay = Var::new(0.5f64, &Device::Cpu)?;
/// let xs = Tensor::new(&[1f64, 2.0, 3.0], &Device::Cpu)?;
/// let start = Tensor::new(0f64, &Device::Cpu)?;
/// let captured = decay.clone();
/// let (last, sums) = funcify_candle::scan(&start, &xs, move |sum, x| {
///     let sum = ((sum * captured.as_tensor())? + x)?;
///     Ok((sum.clone(), sum))
/// })?;
/// assert_eq!(sums.to_vec1::<f64>()?, [1.0, 2.5, 4.25]);
/// let gradients = last.backward()?; // d(decay^2 + 2 decay + 3)
/// assert_eq!(gradients.get(&decay).unwrap().to_scalar::<f64>()?, 3.0);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn scan<C: TensorTree, X: TensorTree, Y: TensorTree>(
    init: &C,
    xs: &X,
    step: impl Fn(C, X) -> Result<(C, Y)> + Send + Sync + 'static,
) -> Result<(C, Y)> {
    run(place("scan"), &ScanOptions::new(), init, xs, &(), move |carry, x, ()| step(carry, x))
}

/// Works like [`scan`], but with options.
///
/// ```
/// use candle_core::{Device, Result, Tensor};
/// use funcify_candle::{ScanOptions, scan_with};
///
/// # fn main() -> candle_core::Result<()> {
/// // The powers of two, without sequences.
/// let one = Tensor::new(1f64, &Device::Cpu)?;
/// let (last, ()) = scan_with(ScanOptions::new().length(10), &one, &(), |power, ()| Ok(((power * 2.0)?, ())))?;
/// assert_eq!(last.to_scalar::<f64>()?, 1024.0);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn scan_with<C: TensorTree, X: TensorTree, Y: TensorTree>(
    options: ScanOptions,
    init: &C,
    xs: &X,
    step: impl Fn(C, X) -> Result<(C, Y)> + Send + Sync + 'static,
) -> Result<(C, Y)> {
    run(place("scan"), &options, init, xs, &(), move |carry, x, ()| step(carry, x))
}

/// Works like [`scan_with`], but also passes `captured`, a tree of tensors from the enclosing program, to every step:
/// `step(carry, x, captured)`.
///
/// A tensor that a closure captures directly also has a gradient if it is a `Var` or was computed from `Var`s. But if
/// the tensor was computed, every step's backward pass also runs through its computation. For a tensor in `captured`,
/// the gradients of all steps are summed first, and the sum is propagated once. Pass the output of an encoder or of
/// another loop in `captured`.
///
/// ```
/// use candle_core::{Device, Result, Tensor, Var};
/// use funcify_candle::{ScanOptions, scan_captured};
///
/// # fn main() -> candle_core::Result<()> {
/// let x = Var::new(3f64, &Device::Cpu)?;
/// let encoded = x.as_tensor().sqr()?; // computed once, outside the loop
/// let start = Tensor::new(0f64, &Device::Cpu)?;
/// let options = ScanOptions::new().length(4);
/// let (sum, ()) = scan_captured(options, &start, &(), &encoded, |sum, (), encoded| Ok(((sum + encoded)?, ())))?;
/// assert_eq!(sum.to_scalar::<f64>()?, 36.0);
/// assert_eq!(sum.backward()?.get(&x).unwrap().to_scalar::<f64>()?, 24.0);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn scan_captured<C: TensorTree, X: TensorTree, K: TensorTree, Y: TensorTree>(
    options: ScanOptions,
    init: &C,
    xs: &X,
    captured: &K,
    step: impl Fn(C, X, K) -> Result<(C, Y)> + Send + Sync + 'static,
) -> Result<(C, Y)> {
    run(place("scan"), &options, init, xs, captured, step)
}

/// Runs the loop of [`scan`] and its variants. Errors refer to the place `at`.
pub(crate) fn run<C: TensorTree, X: TensorTree, K: TensorTree, Y: TensorTree>(
    at: Place,
    options: &ScanOptions,
    init: &C,
    xs: &X,
    captured: &K,
    step: impl Fn(C, X, K) -> Result<(C, Y)> + Send + Sync + 'static,
) -> Result<(C, Y)> {
    let sequences = leaves(xs);
    let rows = step_count(&at, options, &sequences, &names(xs, "xs"))?;
    let first_ys: Arc<OnceLock<FirstYs<Y>>> = Arc::default();
    let (like, seen) = ((detach(init)?, detach(xs)?, detach(captured)?), first_ys.clone());
    let carry_names = names(init, "carry");
    let of_body = (at.clone(), carry_names.clone());
    let body = move |carry: Vec<Tensor>, x: Vec<Tensor>, captured: &[Tensor]| {
        let captured = rebuild(&like.2, captured.iter().cloned())?;
        let (next, y) = step(rebuild(&like.0, carry)?, rebuild(&like.1, x)?, captured)?;
        let (at, carry_names) = &of_body;
        check_names(at, "carry", carry_names, &next)?;
        match seen.get() {
            Some((_, names)) => check_names(at, "y", names, &y)?,
            // `set` fails only if another thread has already stored the same structure.
            None => _ = seen.set((detach(&y)?, names(&y, "y"))),
        }
        Ok((leaves(&next), leaves(&y)))
    };
    if rows == 0 {
        return without_steps(&at, options, init, &sequences, captured, body, &first_ys);
    }
    let steps = Steps {
        at: at.clone(),
        body: Box::new(body),
        names: carry_names,
        xs: Operand::all(sequences),
        axis: Some(options.axis),
        captured: Operand::all_contiguous(leaves(captured))?,
        rows: Some(rows),
        reverse: options.reverse,
        keep: options.keep(rows),
    };
    let (carry, ys) = steps.run(leaves(init), &|step, _| Ok(step < rows))?;
    Ok((rebuild(init, carry)?, rebuild_ys(&at, &first_ys, ys)?))
}

/// The ys of the first step, with the names of their leaves.
type FirstYs<Y> = (Y, Vec<String>);

fn rebuild_ys<Y: TensorTree>(at: &Place, first_ys: &OnceLock<FirstYs<Y>>, ys: Vec<Tensor>) -> Result<Y> {
    match first_ys.get() {
        Some((tree, _)) => rebuild(tree, ys),
        None => crate::errors::bail!("{}: the closure was not called", at.op),
    }
}

/// Returns the results of a loop with zero steps: the initial carry, and empty ys. Calls the closure on zeros to
/// determine the types of the ys.
fn without_steps<C: TensorTree, K: TensorTree, Y: TensorTree>(
    at: &Place,
    options: &ScanOptions,
    init: &C,
    sequences: &[Tensor],
    captured: &K,
    body: impl Fn(Vec<Tensor>, Vec<Tensor>, &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)>,
    first_ys: &OnceLock<FirstYs<Y>>,
) -> Result<(C, Y)> {
    let zeros = |xs: &Tensor| {
        let mut shape = xs.dims().to_vec();
        shape.remove(options.axis);
        Tensor::zeros(shape, xs.dtype(), xs.device())
    };
    let rows = sequences.iter().map(zeros).collect::<Result<Vec<_>>>()?;
    let of = |tensors: Vec<Tensor>| tensors.iter().map(Tensor::detach).collect::<Vec<_>>();
    let (_, ys) = body(of(leaves(init)), rows, &of(leaves(captured)))?;
    let empty = |y: &Tensor| {
        let mut shape = y.dims().to_vec();
        shape.insert(options.axis.min(shape.len()), 0);
        Tensor::zeros(shape, y.dtype(), y.device())
    };
    let ys = ys.iter().map(empty).collect::<Result<Vec<_>>>()?;
    Ok((rebuild(init, leaves(init))?, rebuild_ys(at, first_ys, ys)?))
}

/// Returns the number of steps. Returns an error if the sequences and the options specify different numbers, or none.
fn step_count(at: &Place, options: &ScanOptions, sequences: &[Tensor], names: &[String]) -> Result<usize> {
    let step_count_error =
        |reason, fix: &str| errors::into_candle(Error::StepCount { at: at.boxed(), reason, fix: fix.into() });
    let mut rows = options.length.map(|length| (length, "`ScanOptions::length`".to_string()));
    for (xs, name) in sequences.iter().zip(names) {
        let Some(size) = xs.dims().get(options.axis).copied() else {
            let expected = format!("an axis {} for the steps", options.axis);
            let fix = "pass sequences with one row per step, or choose another `ScanOptions::axis`";
            let component = format!("sequence `{name}`");
            return Err(errors::into_candle(at.mismatch(component, expected, errors::type_of(xs), fix)));
        };
        match &rows {
            Some((count, source)) if *count != size => {
                let reason = format!("{source} specifies {count} steps, but `{name}` has {size} rows");
                return Err(step_count_error(reason, "pass sequences with one row per step"));
            }
            _ => rows = Some((size, format!("`{name}`"))),
        }
    }
    let fix = "set the number of steps: `ScanOptions::new().length(n)`";
    let missing = || step_count_error("there are no sequences".into(), fix);
    rows.map(|(rows, _)| rows).ok_or_else(missing)
}
