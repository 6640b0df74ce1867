//! Runs the steps of a closure loop. This module represents each `TensorTree` as a list of its leaves. The module
//! [`back`](super::back) attaches the loop to Candle's graph.

use std::collections::HashSet;

use candle_core::{Result, Tensor, TensorId};
use funcify_core::cancel::{ActiveHandles, Progress};
use funcify_core::error::{Error, Place};

use super::record::{Keep, Record, Traced, fingerprints};
use crate::autodiff::local;
use crate::autodiff::node::Scope;
use crate::errors;

/// The step of a loop, as a function on lists of leaves. Takes the carry, one row of each sequence and the captured
/// tensors. Returns the next carry and the ys.
pub(super) type Body = dyn Fn(Vec<Tensor>, Vec<Tensor>, &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> + Send + Sync;

/// The maximum number of ops in the graphs of the tensors that a closure captures. The backward pass of every step
/// repeats these ops.
const MAX_CAPTURED: usize = 256;

/// A closure loop, with its operands and options.
pub(super) struct Steps {
    pub(super) at: Place,
    pub(super) body: Box<Body>,
    /// The names of the carry's leaves, for error messages.
    pub(super) names: Vec<String>,
    pub(super) xs: Vec<Operand>,
    /// The axis along which sequences are split and ys are stacked. If `None`, the ys are not stacked.
    pub(super) axis: Option<usize>,
    /// The captured tensors whose gradients are summed over all steps.
    pub(super) captured: Vec<Operand>,
    /// The number of steps, or `None` if a condition ends the loop.
    pub(super) rows: Option<usize>,
    pub(super) reverse: bool,
    pub(super) keep: Keep,
}

/// A tensor that the enclosing program passes to the loop.
pub(super) struct Operand {
    /// The tensor, detached from Candle's graph.
    pub(super) value: Tensor,
    /// The original tensor, if it is tracked and its elements are floats.
    pub(super) tracked: Option<Tensor>,
}

impl Operand {
    pub(super) fn all(tensors: Vec<Tensor>) -> Vec<Self> {
        tensors.into_iter().map(Operand::new).collect()
    }

    /// Creates contiguous operands, which are passed to every step unchanged. The leaves of a rerun are contiguous too.
    /// If the layouts in the forward pass and in the rerun differed, a kernel might add elements in a different order,
    /// and the results would not be bitwise equal.
    pub(super) fn all_contiguous(tensors: Vec<Tensor>) -> Result<Vec<Self>> {
        let contiguous = |operand: Operand| Ok(Operand { value: operand.value.contiguous()?, ..operand });
        Operand::all(tensors).into_iter().map(contiguous).collect()
    }

    fn new(tensor: Tensor) -> Self {
        let value = tensor.detach();
        Operand { value, tracked: (tensor.track_op() && tensor.dtype().is_float()).then_some(tensor) }
    }

    fn leaf(&self) -> Result<Tensor> {
        if self.tracked.is_some() { local::leaf(&self.value) } else { Ok(self.value.clone()) }
    }
}

/// The results of the forward pass of a loop.
pub(super) struct ForwardRun {
    pub(super) record: Record,
    pub(super) ys: Vec<Tensor>,
    /// The variables captured by the closure.
    pub(super) vars: Vec<Tensor>,
    /// The captured tensors as passed to the steps: new leaves if the graphs of the steps are saved.
    pub(super) captured: Vec<Tensor>,
    pub(super) scope: Scope,
}

impl Steps {
    /// Runs the forward pass from the initial carry `init`. Before each step, calls `has_more` with the number of steps
    /// run so far and the current carry, and stops if it returns `false`.
    pub(super) fn forward(
        &self,
        init: &[Operand],
        has_more: &dyn Fn(usize, &[Tensor]) -> Result<bool>,
    ) -> Result<ForwardRun> {
        let keeps_graphs = matches!(self.keep, Keep::Graphs);
        let captured = self.captured.iter();
        let captured = captured.map(|operand| if keeps_graphs { operand.leaf() } else { Ok(operand.value.clone()) });
        let captured = captured.collect::<Result<Vec<_>>>()?;
        let record = Record::new(self.keep);
        let mut run = ForwardRun { record, ys: Vec::new(), vars: Vec::new(), captured, scope: Scope::new() };
        let mut carry: Vec<Tensor> = init.iter().map(|operand| operand.value.clone()).collect();
        let mut captured_vars = CapturedVars::default();
        let watch = ActiveHandles::current();
        while has_more(run.record.steps, &carry)? {
            let step = run.record.steps;
            watch.check(&self.at, Progress::Steps(step)).map_err(errors::into_candle)?;
            run.record.save_if_due(&carry);
            let traced = if keeps_graphs {
                run.scope.run(|| self.trace_step(step, &carry, &run.captured))
            } else {
                self.run_step(step, &carry, &run.captured)
            };
            let traced =
                traced.map_err(|error| errors::without_backtrace(error).context(self.failure_context(step, "")))?;
            captured_vars.collect(&self.at, step, &traced, &run.captured)?;
            if step > 0 && traced.ys.len() != run.ys.len() {
                let expected = format!("{} leaves, as in step 0", run.ys.len());
                let fix = "return ys of the same structure in every step, so that they can be stacked";
                let component = format!("the ys of step {step}");
                return Err(errors::into_candle(self.at.mismatch(component, expected, traced.ys.len(), fix)));
            }
            for (index, y) in traced.ys.iter().enumerate() {
                self.write(&mut run.ys, index, step, y)?;
            }
            carry = traced.next.iter().map(|next| next.detach().contiguous()).collect::<Result<_>>()?;
            run.record.steps += 1;
            if keeps_graphs {
                run.record.graphs.push(traced);
            } else {
                run.record.fingerprints.extend(fingerprints(&traced.ys).collect::<Result<Vec<_>>>()?);
            }
        }
        run.record.last = carry;
        run.vars = captured_vars.vars;
        Ok(run)
    }

    /// Returns the index of the row that a step reads and writes.
    pub(super) fn row(&self, step: usize) -> usize {
        match self.rows {
            Some(rows) if self.reverse => rows - 1 - step,
            _ => step,
        }
    }

    /// Returns the context to prepend to the error of a step.
    pub(super) fn failure_context(&self, step: usize, suffix: &str) -> String {
        match self.rows {
            Some(1) => format!("{}: the closure failed{suffix}", self.at.op),
            Some(rows) => format!("{}: step {step} of {rows} failed{suffix}", self.at.op),
            None => format!("{}: step {step} failed{suffix}", self.at.op),
        }
    }

    fn row_of(&self, xs: &Operand, step: usize) -> Result<Tensor> {
        let axis = self.axis.expect("sequences have an axis of steps");
        xs.value.narrow(axis, self.row(step), 1)?.squeeze(axis)
    }

    /// Runs a step on detached tensors, so that Candle records only ops on captured variables.
    fn run_step(&self, step: usize, carry: &[Tensor], captured: &[Tensor]) -> Result<Traced> {
        let xs = self.xs.iter().map(|xs| self.row_of(xs, step)?.contiguous()).collect::<Result<Vec<_>>>()?;
        let (next, ys) = self.call(carry.to_vec(), xs, captured)?;
        Ok(Traced { carry: Vec::new(), xs: Vec::new(), next, ys })
    }

    /// Runs a step on new leaves, so that the step can be differentiated.
    pub(super) fn trace_step(&self, step: usize, carry: &[Tensor], captured: &[Tensor]) -> Result<Traced> {
        let carry = carry.iter().map(local::leaf).collect::<Result<Vec<_>>>()?;
        let leaf = |xs: &Operand| match &xs.tracked {
            Some(_) => local::leaf(&self.row_of(xs, step)?),
            None => self.row_of(xs, step)?.contiguous(),
        };
        let xs = self.xs.iter().map(leaf).collect::<Result<Vec<_>>>()?;
        let (next, ys) = self.call(carry.clone(), xs.clone(), captured)?;
        Ok(Traced { carry, xs, next, ys })
    }

    /// Returns the captured tensors, with each tracked tensor replaced by a new leaf.
    pub(super) fn captured_leaves(&self) -> Result<Vec<Tensor>> {
        self.captured.iter().map(Operand::leaf).collect()
    }

    /// Calls the closure, and checks that the new carry has the same types as the old one.
    fn call(&self, carry: Vec<Tensor>, xs: Vec<Tensor>, captured: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let types: Vec<_> = carry.iter().map(|leaf| (leaf.dtype(), leaf.shape().clone())).collect();
        let (next, ys) = (self.body)(carry, xs, captured)?;
        if next.len() != types.len() {
            let expected = format!("{} leaves, as in the first carry", types.len());
            let fix = "return a next carry with the structure of the first";
            return Err(errors::into_candle(self.at.mismatch("the next carry", expected, next.len(), fix)));
        }
        for (index, (next, (dtype, shape))) in next.iter().zip(&types).enumerate() {
            if next.dtype() != *dtype || next.shape() != shape {
                let component = format!("leaf `{}` of the next carry", self.names[index]);
                let fix =
                    "return a carry with the types of the first: convert or reshape it, or start from another carry";
                let expected = errors::type_text(*dtype, shape.dims());
                return Err(errors::into_candle(self.at.mismatch(component, expected, errors::type_of(next), fix)));
            }
        }
        Ok((next, ys))
    }

    /// Writes `y`, number `index` among the ys of the step, to the step's row of the stacked ys. If the ys are not
    /// stacked, appends `y` to `ys` instead.
    fn write(&self, ys: &mut Vec<Tensor>, index: usize, step: usize, y: &Tensor) -> Result<()> {
        let (Some(axis), Some(rows)) = (self.axis, self.rows) else {
            ys.push(y.detach());
            return Ok(());
        };
        let mut shape = y.dims().to_vec();
        if axis > shape.len() {
            let fix = "choose a smaller `ScanOptions::axis`, or return ys with more axes";
            let expected = format!("at least {axis} axes, so that the steps can be stacked along axis {axis}");
            let component = format!("y {index} of the step");
            return Err(errors::into_candle(self.at.mismatch(component, expected, errors::type_of(y), fix)));
        }
        shape.insert(axis, rows);
        if ys.len() <= index {
            ys.push(Tensor::zeros(shape.as_slice(), y.dtype(), y.device())?);
        }
        let all = &ys[index];
        if all.dtype() != y.dtype() || all.dims() != shape {
            let mut row = all.dims().to_vec();
            row.remove(axis);
            let expected = format!("{}, as in step 0", errors::type_text(all.dtype(), &row));
            let fix = "return ys of the same types in every step, so that they can be stacked";
            let component = format!("y {index} of step {step}");
            return Err(errors::into_candle(self.at.mismatch(component, expected, errors::type_of(y), fix)));
        }
        if y.elem_count() == 0 {
            return Ok(());
        }
        all.slice_set(&y.detach().contiguous()?.unsqueeze(axis)?, axis, self.row(step))
    }
}

/// The variables captured by a closure, found in the graphs of its steps.
#[derive(Default)]
struct CapturedVars {
    vars: Vec<Tensor>,
    seen: HashSet<TensorId>,
    /// The ops in the graph of the first step.
    first: HashSet<TensorId>,
}

impl CapturedVars {
    fn collect(&mut self, at: &Place, step: usize, traced: &Traced, captured: &[Tensor]) -> Result<()> {
        let outputs = traced.next.iter().chain(&traced.ys).map(|output| (output, None));
        let Some(root) = local::join_outputs(outputs)? else {
            return Ok(());
        };
        let is_own = |id: TensorId| traced.carry.iter().chain(&traced.xs).chain(captured).any(|leaf| leaf.id() == id);
        let mut captured_ops = 0;
        for node in root.sorted_nodes() {
            let id = node.id();
            if node.is_variable() {
                if !is_own(id) && self.seen.insert(id) {
                    self.vars.push(node.clone());
                }
            } else if step == 0 {
                self.first.insert(id);
            } else if step == 1 && self.first.contains(&id) {
                // If an op occurs in the graphs of both step 0 and step 1, it was recorded outside the loop.
                captured_ops += 1;
            }
        }
        if step == 1 {
            self.first = HashSet::new();
        }
        if captured_ops > MAX_CAPTURED {
            return Err(errors::into_candle(Error::Type {
                at: at.boxed(),
                component: "the tensors that the closure captures".into(),
                expected: format!("`Var`s and tensors with at most {MAX_CAPTURED} recorded ops"),
                found: format!("{captured_ops} recorded ops, which the backward pass of every step would repeat"),
                fix: "pass the computed tensors to `scan_captured`, or in the carry or the sequences".into(),
            }));
        }
        Ok(())
    }
}
