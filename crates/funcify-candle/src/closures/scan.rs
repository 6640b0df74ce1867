//! `scan`: a step over the rows of sequences, carrying a state.

use std::sync::{Arc, OnceLock};

use funcify_core::error::{Error, Place};

use super::record::Keep;
use super::steps::{Operand, Steps};
use super::*;

/// How [`scan_with`] runs: the number of steps, the direction, the axis, what is saved for the gradient.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    length: Option<usize>,
    reverse: bool,
    axis: usize,
    segments: Option<usize>,
    keep_graphs: bool,
}

impl ScanOptions {
    /// Upward over axis 0, as many steps as the sequences have rows, in as many segments as the root of that.
    pub fn new() -> Self {
        ScanOptions::default()
    }

    /// The number of steps. It must agree with the sequences; without sequences it is needed.
    pub fn length(mut self, steps: usize) -> Self {
        self.length = Some(steps);
        self
    }

    /// From the last row to the first. The ys stay aligned with the xs; no data is reversed.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// The axis of the sequences along which the steps lie, and that of the stacked ys. A step is given and gives
    /// tensors without it.
    pub fn axis(mut self, axis: usize) -> Self {
        self.axis = axis;
        self
    }

    /// In how many segments the steps are run again for the gradient. The carry at the start of each is saved, and while a
    /// segment is differentiated, the graphs of its steps: so the root of the number of steps, which is the default, needs
    /// least memory.
    pub fn segments(mut self, segments: usize) -> Self {
        self.segments = Some(segments.max(1));
        self
    }

    /// Saves the graphs of all steps instead of running them again: faster, in the memory of a loop by hand. A closure
    /// that draws random numbers or changes something (the running statistics of `BatchNorm`) needs it.
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

/// Runs `step` over the rows of `xs`, carrying a state: `(carry, y) = step(carry, x)` for each row `x` along axis 0. Gives
/// the last carry and all `y`, stacked along axis 0.
///
/// The whole is one node of Candle's graph: `backward` runs segments of the steps again instead of saving them, at a cost
/// that is linear in the number of steps, and at a constant depth of the stack. Variables that the closure captures have
/// gradients, as have `init` and `xs`; other tensors that have a graph are better passed to [`scan_captured`].
///
/// `init`, `xs` and the ys are any [`TensorTree`]. The next carry has exactly the types of `init`; leaves that are no floats
/// are carried without a gradient. Without steps, the closure is called once, on zeros, to learn what it gives. The
/// closure must depend on its arguments alone: that it gives the same when it runs again is checked, on the CPU.
///
/// The closure must not change anything either, for it runs twice where there is a gradient. `candle_nn`'s `BatchNorm` in training
/// moves its running statistics in each call, so twice as far as in a loop by hand, and no check sees that:
/// [`ScanOptions::keep_graphs`] calls the closure once a step.
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

/// [`scan`] with options.
#[track_caller]
pub fn scan_with<C: TensorTree, X: TensorTree, Y: TensorTree>(
    options: ScanOptions,
    init: &C,
    xs: &X,
    step: impl Fn(C, X) -> Result<(C, Y)> + Send + Sync + 'static,
) -> Result<(C, Y)> {
    run(place("scan"), &options, init, xs, &(), move |carry, x, ()| step(carry, x))
}

/// [`scan_with`], with tensors of the enclosing program that every step is given: `step(carry, x, captured)`.
///
/// What a closure captures by itself has its gradient too, if that is a `Var`; or if Candle recorded how it was computed
/// from `Var`s, but then the backward of every step runs through that record. A tensor in `captured` is differentiated once,
/// for all steps: the way for the output of an encoder, or of another loop.
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

/// The loop on trees.
pub(crate) fn run<C: TensorTree, X: TensorTree, K: TensorTree, Y: TensorTree>(
    at: Place,
    options: &ScanOptions,
    init: &C,
    xs: &X,
    captured: &K,
    step: impl Fn(C, X, K) -> Result<(C, Y)> + Send + Sync + 'static,
) -> Result<(C, Y)> {
    let sequences = leaves(xs);
    let rows = count(&at, options, &sequences, &names(xs, "xs"))?;
    let given: Arc<OnceLock<Given<Y>>> = Arc::default();
    let (like, seen) = ((detached(init)?, detached(xs)?, detached(captured)?), given.clone());
    let carry_names = names(init, "carry");
    let of_body = (at.clone(), carry_names.clone());
    let body = move |carry: Vec<Tensor>, x: Vec<Tensor>, captured: &[Tensor]| {
        let captured = rebuild(&like.2, captured.iter().cloned())?;
        let (next, y) = step(rebuild(&like.0, carry)?, rebuild(&like.1, x)?, captured)?;
        let (at, carry_names) = &of_body;
        check_names(at, "carry", carry_names, &next)?;
        match seen.get() {
            Some((_, names)) => check_names(at, "y", names, &y)?,
            // Another thread may have been first, with the same structure.
            None => _ = seen.set((detached(&y)?, names(&y, "y"))),
        }
        Ok((leaves(&next), leaves(&y)))
    };
    if rows == 0 {
        return without_steps(&at, options, init, &sequences, captured, body, &given);
    }
    let steps = Steps {
        at: at.clone(),
        body: Box::new(body),
        names: carry_names,
        xs: Operand::all(sequences),
        axis: Some(options.axis),
        captured: Operand::all_in_order(leaves(captured))?,
        rows: Some(rows),
        reverse: options.reverse,
        keep: options.keep(rows),
    };
    let (carry, ys) = steps.run(leaves(init), &|step, _| Ok(step < rows))?;
    Ok((rebuild(init, carry)?, rebuild_ys(&at, &given, ys)?))
}

/// What the first step gave beside its carry, with the names of its leaves.
type Given<Y> = (Y, Vec<String>);

fn rebuild_ys<Y: TensorTree>(at: &Place, given: &OnceLock<Given<Y>>, ys: Vec<Tensor>) -> Result<Y> {
    match given.get() {
        Some((tree, _)) => rebuild(tree, ys),
        None => crate::errors::bail!("{}: the closure was not called", at.op),
    }
}

/// The results of a loop without steps: what it starts from, and ys of the types that the closure gives on zeros.
fn without_steps<C: TensorTree, K: TensorTree, Y: TensorTree>(
    at: &Place,
    options: &ScanOptions,
    init: &C,
    sequences: &[Tensor],
    captured: &K,
    body: impl Fn(Vec<Tensor>, Vec<Tensor>, &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)>,
    given: &OnceLock<Given<Y>>,
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
    Ok((rebuild(init, leaves(init))?, rebuild_ys(at, given, ys)?))
}

/// The number of steps, on which the sequences and the options agree.
fn count(at: &Place, options: &ScanOptions, sequences: &[Tensor], names: &[String]) -> Result<usize> {
    let refused = |reason, fix: &str| errors::candle(Error::StepCount { at: at.boxed(), reason, fix: fix.into() });
    let mut rows = options.length.map(|length| (length, "`ScanOptions::length`".to_string()));
    for (xs, name) in sequences.iter().zip(names) {
        let Some(size) = xs.dims().get(options.axis).copied() else {
            let expected = format!("an axis {} for the steps", options.axis);
            let fix = "give each sequence one row a step, or choose another `ScanOptions::axis`";
            let component = format!("sequence `{name}`");
            return Err(errors::candle(at.mismatch(component, expected, errors::type_of(xs), fix)));
        };
        match &rows {
            Some((count, source)) if *count != size => {
                let reason = format!("{source} gives {count} steps, and `{name}` has {size} rows");
                return Err(refused(reason, "give all sequences as many rows as there are steps"));
            }
            _ => rows = Some((size, format!("`{name}`"))),
        }
    }
    let fix = "give the number of steps: `ScanOptions::new().length(n)`";
    let missing = || refused("there are no sequences".into(), fix);
    rows.map(|(rows, _)| rows).ok_or_else(missing)
}
