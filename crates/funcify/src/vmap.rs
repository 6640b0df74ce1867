//! Batching: a program on one lane becomes a program on many.
//!
//! Each op has a rule, [`OpRules::batch`](crate::ops::OpRules::batch), beside its type rule. Lanes lie along axis 0 of a
//! value inside of a batched program; the front door moves the axes that the user names there and back.

use crate::error::Site;
use crate::graph::{Graph, Value, at_site, emit};
use crate::ops::OpRules;
use crate::types::Dim;

/// A value of a batched program: one slice a lane along axis 0, or the same for all lanes.
#[derive(Clone, Copy, Debug)]
pub struct Batched {
    /// The value.
    pub value: Value,
    /// Whether axis 0 is that of the lanes.
    pub mapped: bool,
}

impl Batched {
    /// A value with one slice a lane along axis 0.
    pub fn lanes(value: Value) -> Self {
        Batched { value, mapped: true }
    }

    /// A value that is the same for all lanes.
    pub fn shared(value: Value) -> Self {
        Batched { value, mapped: false }
    }

    /// The rank that one lane has.
    pub fn lane_rank(&self) -> usize {
        self.value.rank() - usize::from(self.mapped)
    }

    /// With one slice for each of `size` lanes along axis 0: repeated, if all share it.
    pub fn spread(&self, size: &Dim) -> Value {
        match self.mapped {
            true => self.value,
            false => self.value.broadcast_to(self.value.shape().with_inserted(0, size.clone())),
        }
    }
}

/// Adds the nodes of `graph` to the open trace, for `size` lanes; gives its outputs. Nodes whose operands all lanes
/// share are added as they are.
pub(crate) fn inline(graph: &Graph, size: &Dim, inputs: &[Batched]) -> Vec<Batched> {
    let mut values: Vec<Option<Batched>> = vec![None; graph.values().count()];
    for (input, batched) in graph.inputs().iter().zip(inputs) {
        values[input.value.index()] = Some(*batched);
    }
    let of = |values: &[Option<Batched>], id: crate::graph::ValueId| {
        values[id.index()].unwrap_or(Batched::shared(Value::poison()))
    };
    for node in graph.nodes() {
        let operands: Vec<Batched> = node.inputs.iter().map(|input| of(&values, *input)).collect();
        let results = batch_node(&node.op, size, &operands, node.site);
        for (output, result) in node.outputs.iter().zip(results) {
            values[output.index()] = Some(result);
        }
    }
    graph.outputs().iter().map(|output| of(&values, output.value)).collect()
}

/// Applies the rule of one op, if any operand has lanes.
fn batch_node(op: &crate::ops::Op, size: &Dim, operands: &[Batched], site: Site) -> Vec<Batched> {
    if operands.iter().any(|operand| operand.mapped) {
        return at_site(site, || op.batch(size, operands));
    }
    let values: Vec<Value> = operands.iter().map(|operand| operand.value).collect();
    emit(op.clone(), &values, site).into_iter().map(Batched::shared).collect()
}
