//! The steps of a loop over a closure, on lists of leaves. As a node of Candle's graph they run in [`back`](super::back).

use std::collections::HashSet;

use candle_core::{Result, Tensor, TensorId};
use funcify_core::cancel::{Ran as Progress, Watch};
use funcify_core::error::{Error, Place};

use super::record::{Keep, Record, Traced, prints};
use crate::autodiff::local;
use crate::autodiff::node::Scope;
use crate::errors;

/// A closure on leaves: carry, one row of each sequence, captured; the next carry and the ys.
pub(super) type Body = dyn Fn(Vec<Tensor>, Vec<Tensor>, &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> + Send + Sync;

/// How many recorded ops of captured tensors a step may have behind it: each step's backward runs through all of them.
const MAX_CAPTURED: usize = 256;

/// A loop over a closure.
pub(super) struct Steps {
    pub(super) at: Place,
    pub(super) body: Box<Body>,
    /// The names of the carry's leaves.
    pub(super) names: Vec<String>,
    pub(super) xs: Vec<Operand>,
    /// The axis of the sequences and of the ys along which the steps lie. Without one, the ys are not stacked.
    pub(super) axis: Option<usize>,
    /// Tensors by which the loop is differentiated as a whole.
    pub(super) captured: Vec<Operand>,
    /// The number of steps; `None` if the loop ends by itself.
    pub(super) rows: Option<usize>,
    pub(super) reverse: bool,
    pub(super) keep: Keep,
}

/// A tensor of the enclosing program.
pub(super) struct Operand {
    /// Its numbers, without a graph.
    pub(super) value: Tensor,
    /// The tensor itself, if it is tracked.
    pub(super) tracked: Option<Tensor>,
}

impl Operand {
    pub(super) fn all(tensors: Vec<Tensor>) -> Vec<Self> {
        tensors.into_iter().map(Operand::new).collect()
    }

    /// Operands that every step is given as they are. Their elements lie in order, as those of leaves do: a kernel may
    /// add in another order where they do not, and a step that runs again must give the same bits.
    pub(super) fn all_in_order(tensors: Vec<Tensor>) -> Result<Vec<Self>> {
        let in_order = |operand: Operand| Ok(Operand { value: operand.value.contiguous()?, ..operand });
        Operand::all(tensors).into_iter().map(in_order).collect()
    }

    fn new(tensor: Tensor) -> Self {
        let value = tensor.detach();
        Operand { value, tracked: (tensor.track_op() && tensor.dtype().is_float()).then_some(tensor) }
    }

    fn leaf(&self) -> Result<Tensor> {
        if self.tracked.is_some() { local::leaf(&self.value) } else { Ok(self.value.clone()) }
    }
}

/// What the steps gave.
pub(super) struct Ran {
    pub(super) record: Record,
    pub(super) ys: Vec<Tensor>,
    /// The variables that the closure captures.
    pub(super) vars: Vec<Tensor>,
    /// What the steps were given as captured.
    pub(super) captured: Vec<Tensor>,
    pub(super) scope: Scope,
}

impl Steps {
    /// Runs the steps from these carries, as long as `more` says so.
    pub(super) fn forward(&self, init: &[Operand], more: &dyn Fn(usize, &[Tensor]) -> Result<bool>) -> Result<Ran> {
        let keeps_graphs = matches!(self.keep, Keep::Graphs);
        let captured = self.captured.iter();
        let captured = captured.map(|operand| if keeps_graphs { operand.leaf() } else { Ok(operand.value.clone()) });
        let captured = captured.collect::<Result<Vec<_>>>()?;
        let record = Record::new(self.keep);
        let mut ran = Ran { record, ys: Vec::new(), vars: Vec::new(), captured, scope: Scope::fresh() };
        let mut carry: Vec<Tensor> = init.iter().map(|operand| operand.value.clone()).collect();
        let mut captured_vars = CapturedVars::default();
        let watch = Watch::current();
        while more(ran.record.steps, &carry)? {
            let step = ran.record.steps;
            watch.check(&self.at, Progress::Steps(step)).map_err(errors::candle)?;
            ran.record.offer(&carry);
            let traced = if keeps_graphs {
                ran.scope.run(|| self.trace(step, &carry, &ran.captured))
            } else {
                self.plain(step, &carry, &ran.captured)
            };
            let traced = traced.map_err(|error| errors::plain(error).context(self.failed(step, "")))?;
            captured_vars.collect(&self.at, step, &traced, &ran.captured)?;
            if step > 0 && traced.ys.len() != ran.ys.len() {
                let expected = format!("{} leaves, as step 0 gave", ran.ys.len());
                let fix = "give ys of the same structure in every step: they are stacked";
                let component = format!("what step {step} gives");
                return Err(errors::candle(self.at.mismatch(component, expected, traced.ys.len(), fix)));
            }
            for (index, y) in traced.ys.iter().enumerate() {
                self.write(&mut ran.ys, index, step, y)?;
            }
            carry = traced.next.iter().map(|next| next.detach().contiguous()).collect::<Result<_>>()?;
            ran.record.steps += 1;
            if keeps_graphs {
                ran.record.graphs.push(traced);
            } else {
                ran.record.prints.extend(prints(&traced.ys).collect::<Result<Vec<_>>>()?);
            }
        }
        ran.record.last = carry;
        ran.vars = captured_vars.vars;
        Ok(ran)
    }

    /// The row of a step.
    pub(super) fn row(&self, step: usize) -> usize {
        match self.rows {
            Some(rows) if self.reverse => rows - 1 - step,
            _ => step,
        }
    }

    /// What precedes the error of a step.
    pub(super) fn failed(&self, step: usize, suffix: &str) -> String {
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

    /// A step without leaves: nothing is recorded but what comes of captured variables.
    fn plain(&self, step: usize, carry: &[Tensor], captured: &[Tensor]) -> Result<Traced> {
        let xs = self.xs.iter().map(|xs| self.row_of(xs, step)?.contiguous()).collect::<Result<Vec<_>>>()?;
        let (next, ys) = self.call(carry.to_vec(), xs, captured)?;
        Ok(Traced { carry: Vec::new(), xs: Vec::new(), next, ys })
    }

    /// A step between leaves of its own.
    pub(super) fn trace(&self, step: usize, carry: &[Tensor], captured: &[Tensor]) -> Result<Traced> {
        let carry = carry.iter().map(local::leaf).collect::<Result<Vec<_>>>()?;
        let leaf = |xs: &Operand| match &xs.tracked {
            Some(_) => local::leaf(&self.row_of(xs, step)?),
            None => self.row_of(xs, step)?.contiguous(),
        };
        let xs = self.xs.iter().map(leaf).collect::<Result<Vec<_>>>()?;
        let (next, ys) = self.call(carry.clone(), xs.clone(), captured)?;
        Ok(Traced { carry, xs, next, ys })
    }

    /// The captured tensors as leaves.
    pub(super) fn captured_leaves(&self) -> Result<Vec<Tensor>> {
        self.captured.iter().map(Operand::leaf).collect()
    }

    /// Calls the closure, and checks that it gives a carry of the types that it was given.
    fn call(&self, carry: Vec<Tensor>, xs: Vec<Tensor>, captured: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let types: Vec<_> = carry.iter().map(|leaf| (leaf.dtype(), leaf.shape().clone())).collect();
        let (next, ys) = (self.body)(carry, xs, captured)?;
        if next.len() != types.len() {
            let expected = format!("{} leaves, as the first carry has", types.len());
            let fix = "give the next carry the structure of the first";
            return Err(errors::candle(self.at.mismatch("the next carry", expected, next.len(), fix)));
        }
        for (index, (next, (dtype, shape))) in next.iter().zip(&types).enumerate() {
            if next.dtype() != *dtype || next.shape() != shape {
                let component = format!("leaf `{}` of the next carry", self.names[index]);
                let fix =
                    "give the next carry the types of the first: convert or reshape it, or start from another carry";
                let expected = errors::ty(*dtype, shape.dims());
                return Err(errors::candle(self.at.mismatch(component, expected, errors::type_of(next), fix)));
            }
        }
        Ok((next, ys))
    }

    /// Writes what a step gave into its row.
    fn write(&self, ys: &mut Vec<Tensor>, index: usize, step: usize, y: &Tensor) -> Result<()> {
        let (Some(axis), Some(rows)) = (self.axis, self.rows) else {
            ys.push(y.detach());
            return Ok(());
        };
        let mut shape = y.dims().to_vec();
        if axis > shape.len() {
            let fix = "choose a smaller `ScanOptions::axis`, or give ys of more axes";
            let expected = format!("at least {axis} axes, for the steps to lie along axis {axis}");
            let component = format!("y {index} of the step");
            return Err(errors::candle(self.at.mismatch(component, expected, errors::type_of(y), fix)));
        }
        shape.insert(axis, rows);
        if ys.len() <= index {
            ys.push(Tensor::zeros(shape.as_slice(), y.dtype(), y.device())?);
        }
        let all = &ys[index];
        if all.dtype() != y.dtype() || all.dims() != shape {
            let mut row = all.dims().to_vec();
            row.remove(axis);
            let expected = format!("{}, as step 0 gave", errors::ty(all.dtype(), &row));
            let fix = "give ys of the same types in every step: they are stacked";
            let component = format!("y {index} of step {step}");
            return Err(errors::candle(self.at.mismatch(component, expected, errors::type_of(y), fix)));
        }
        if y.elem_count() == 0 {
            return Ok(());
        }
        all.slice_set(&y.detach().contiguous()?.unsqueeze(axis)?, axis, self.row(step))
    }
}

/// The variables that a closure captures, from the graphs of its steps.
#[derive(Default)]
struct CapturedVars {
    vars: Vec<Tensor>,
    seen: HashSet<TensorId>,
    /// The recorded ops of the first step.
    first: HashSet<TensorId>,
}

impl CapturedVars {
    fn collect(&mut self, at: &Place, step: usize, traced: &Traced, captured: &[Tensor]) -> Result<()> {
        let outputs = traced.next.iter().chain(&traced.ys).map(|output| (output, None));
        let Some(root) = local::join(outputs)? else {
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
                // What both of the first two steps have was recorded outside of them.
                captured_ops += 1;
            }
        }
        if step == 1 {
            self.first = HashSet::new();
        }
        if captured_ops > MAX_CAPTURED {
            return Err(errors::candle(Error::Type {
                at: at.boxed(),
                component: "what the closure captures".into(),
                expected: format!("`Var`s and tensors with at most {MAX_CAPTURED} recorded ops"),
                found: format!("{captured_ops} recorded ops, which the backward of every step would run through"),
                fix: "pass the computed tensors to `scan_captured`, or as carry or sequences".into(),
            }));
        }
        Ok(())
    }
}
