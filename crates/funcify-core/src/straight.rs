//! Converts a program with loops into the straight-line program that runs for the given arguments. The straight-line
//! program contains every step of each loop, and the selected branch of each switch.
//!
//! The derivatives of the straight-line program use no control-flow rules, so tests can check the derivatives of loops
//! against them.

use crate::error::{Place, Result, Site};
use crate::graph::{Failed, Graph, Node, Replay, at_site, bind_sizes, emit, tracer};
use crate::host::HostTensor;
use crate::ops::scan::Start;
use crate::ops::{AssociativeScan, Control, EvalContext, Op, OpClass, OpRules, Scan, Switch, While, evaluate_in};
use crate::tree::Named;
use crate::types::{Sizes, TensorType};
use crate::value::{Value, concat, full};

impl Graph {
    /// Returns the straight-line program that runs for the given arguments, without loops or branches.
    ///
    /// The program is specialised to the sizes of the arguments. It contains the steps that run and the branches that
    /// are selected, in order. It has the same inputs and outputs as the graph, and the same derivatives at these
    /// arguments. Calls to functions with custom derivative rules are kept.
    ///
    /// Use this method for small programs, to inspect the steps of a loop and to check its derivatives.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, HostTensor, fori_loop};
    ///
    /// let powers = Graph::build("powers", |g| {
    ///     let (x, n) = (g.input("x", "f64[]"), g.input("n", "i64[]"));
    ///     fori_loop(0, n, x, |_, y| y * x)
    /// })?;
    /// let straight = powers.straight(&[HostTensor::scalar(2f64), HostTensor::scalar(3i64)])?;
    /// assert_eq!(straight.nodes().len(), 3);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn straight(&self, inputs: &[HostTensor]) -> Result<Graph> {
        let at = Place::new("straight", Site::caller());
        let types: Vec<TensorType> = inputs.iter().map(HostTensor::ty).collect();
        let mut sizes = bind_sizes(&at, self, &types)?;
        let graph = tracer::rebuild(self, at.site, |_| {
            tracer::reserve_symbols(self);
            let input = |(index, tensor): (usize, &HostTensor)| Concrete {
                value: tracer::input(self.input_name(index), tensor.ty(), self.inputs()[index].is_static, at.site),
                tensor: tensor.clone(),
            };
            let inputs: Vec<Concrete> = inputs.iter().enumerate().map(input).collect();
            let results = at_site(at.site, || run(self, inputs, &mut sizes))?;
            Ok(Named(self.named_outputs(results.into_iter().map(|result| result.value))))
        })?;
        Ok(graph.pruned())
    }
}

/// A traced value, together with the tensor that it evaluates to for the given arguments.
#[derive(Clone)]
struct Concrete {
    value: Value,
    tensor: HostTensor,
}

impl Concrete {
    /// Selects a row of the value and of its tensor, along axis 0.
    fn row(&self, row: usize) -> Concrete {
        Concrete { value: self.value.index(0, row as i64), tensor: self.tensor.row(row) }
    }
}

/// Replays `graph` for the given inputs, and adds each op that runs to the open graph. Returns the outputs of `graph`.
fn run(graph: &Graph, inputs: Vec<Concrete>, sizes: &mut Sizes) -> Result<Vec<Concrete>, Failed> {
    let concrete = Replay::new(graph, inputs).walk_marked(&graph.live_nodes(), |_, node, operands| {
        at_site(node.site, || match node.op.class() {
            OpClass::Control(Control::Scan(scan)) => run_scan(scan, node, &operands, sizes),
            OpClass::Control(Control::Switch(switch)) => run_switch(switch, &operands, sizes),
            OpClass::Control(Control::While(op)) => run_while(op, node, &operands, sizes),
            OpClass::Control(Control::AssociativeScan(op)) => run_associative(op, node, &operands, sizes),
            // The straight-line program has constant sizes, so it needs the size that the op binds, but not the op
            // itself.
            OpClass::Binding(op) => {
                let size = op.checked(&node.place(), operands[0].tensor.get(0).as_i64())?;
                sizes.set(&op.size, size);
                Ok(Vec::new())
            }
            OpClass::Elementwise(_)
            | OpClass::Movement(_)
            | OpClass::Creation(_)
            | OpClass::Indexing(_)
            | OpClass::Along(_)
            | OpClass::Product(_)
            | OpClass::RandomBits(_)
            | OpClass::Control(Control::Call(_))
            | OpClass::Custom(_) => run_op(&node.op, node, graph, &operands, sizes),
        })
    })?;
    Ok(concrete.outputs()?)
}

/// Adds an op to the open graph, with its symbolic sizes replaced by numbers, and evaluates it.
fn run_op(
    op: &Op,
    node: &Node,
    graph: &Graph,
    operands: &[Concrete],
    sizes: &mut Sizes,
) -> Result<Vec<Concrete>, Failed> {
    let sized = op.at_sizes(sizes);
    let tensors: Vec<HostTensor> = operands.iter().map(|operand| operand.tensor.clone()).collect();
    let mut context = EvalContext { at: node.place(), sizes };
    let tensors = op.eval(&mut context, &tensors, &graph.types(&node.outputs))?;
    let values: Vec<Value> = operands.iter().map(|operand| operand.value).collect();
    let values = emit(sized, &values)?;
    Ok(values.into_iter().zip(tensors).map(|(value, tensor)| Concrete { value, tensor }).collect())
}

fn run_switch(switch: &Switch, operands: &[Concrete], sizes: &mut Sizes) -> Result<Vec<Concrete>, Failed> {
    let index = operands[0].tensor.get(0);
    let chosen = switch.selected_branch(index.as_i64());
    run(&switch.branches[chosen], operands[switch.operands()[chosen].clone()].to_vec(), sizes)
}

fn run_while(op: &While, node: &Node, operands: &[Concrete], sizes: &mut Sizes) -> Result<Vec<Concrete>, Failed> {
    let places = op.operands();
    let context = EvalContext { at: node.place(), sizes };
    let bound = op.bound.as_ref().map(|bound| context.dim(bound)).transpose()?.unwrap_or(i64::MAX);
    let mut carries = operands[places.carries].to_vec();
    for _ in 0..bound {
        let inputs = [&carries, &operands[places.condition.clone()]].concat();
        let inputs = inputs.into_iter().map(|input| input.tensor).collect();
        if !evaluate_in(&op.condition, inputs, sizes)?[0].get(0).as_bool() {
            break;
        }
        carries = run(&op.body, [&carries, &operands[places.body.clone()]].concat(), sizes)?;
    }
    Ok(carries)
}

fn run_associative(
    op: &AssociativeScan,
    node: &Node,
    operands: &[Concrete],
    sizes: &mut Sizes,
) -> Result<Vec<Concrete>, Failed> {
    let (xs, captured) = operands.split_at(op.leaves);
    let count = xs[0].tensor.shape()[0];
    let mut rows: Vec<Vec<Concrete>> = Vec::with_capacity(count);
    for step in 0..count {
        let at = if op.reverse { count - 1 - step } else { step };
        let element: Vec<Concrete> = xs.iter().map(|leaf| leaf.row(at)).collect();
        let next = match rows.last() {
            Some(before) => run(&op.combine, [before, element.as_slice(), captured].concat(), sizes)?,
            None => element,
        };
        rows.push(next);
    }
    if op.reverse {
        rows.reverse();
    }
    let leaf = |leaf: usize| {
        let ty = op.combine.output_type(leaf);
        stacked(&node.place(), ty, rows.iter().map(|row| row[leaf].clone()).collect(), sizes)
    };
    (0..op.leaves).map(leaf).collect()
}

/// Adds the steps of a scan to the open graph, in the order in which the reference evaluator runs them.
fn run_scan(scan: &Scan, node: &Node, operands: &[Concrete], sizes: &mut Sizes) -> Result<Vec<Concrete>, Failed> {
    let (places, at) = (scan.operands(), node.place());
    if let (Some(operand), Some(symbol)) = (places.steps, scan.steps.as_symbol()) {
        let count = scan.check_count(&at, operands[operand].tensor.get(0).as_i64())?;
        sizes.set(symbol, count);
    }
    let steps = scan.check_count(&at, EvalContext { at: at.clone(), sizes }.dim(&scan.steps)?)?;
    let mut buffers: Vec<Vec<Option<Concrete>>> = Vec::new();
    for (buffer, operand) in scan.buffers.iter().zip(&places.buffers) {
        let given = operand.map_or(0, |operand| operands[operand].tensor.shape()[0]);
        let is_full = buffer.start == Start::Full;
        let mut rows = vec![None; if is_full { given } else { steps + given }];
        let first = if is_full { 0 } else { scan.first_given_row(steps) };
        if let Some(operand) = operand {
            (0..given).for_each(|row| rows[first + row] = Some(operands[*operand].row(row)));
        }
        buffers.push(rows);
    }
    let row = |rows: &[Option<Concrete>], row: usize| {
        let expected = "a row that was given or written";
        let lost = || at.mismatch("a row that is read", expected, row.to_string(), "run `Graph::check`");
        rows.get(row).cloned().flatten().ok_or_else(lost)
    };
    let mut carries = operands[places.carries.clone()].to_vec();
    let results = scan.results();
    let mut ran = 0;
    for t in scan.order(steps) {
        let mut inputs = Vec::new();
        for (sequence, operand) in scan.sequences.iter().zip(places.sequences.clone()) {
            inputs.extend(sequence.reads.iter().map(|k| operands[operand].row(t + k)));
        }
        for (rows, buffer) in buffers.iter().zip(&scan.buffers) {
            for k in &buffer.reads {
                inputs.push(row(rows, t + k)?);
            }
        }
        inputs.extend(carries);
        inputs.extend_from_slice(&operands[places.invariants.clone()]);
        let mut written = run(&scan.body, inputs, sizes)?;
        let ends = results.until.is_some_and(|until| written[until].tensor.get(0).as_bool());
        carries = written.drain(results.carries.clone()).collect();
        for ((rows, buffer), results) in buffers.iter_mut().zip(&scan.buffers).zip(&results.buffers) {
            for (k, result) in buffer.writes.iter().zip(results.clone()) {
                rows[t + k] = Some(written[result].clone());
            }
        }
        ran += 1;
        if ends {
            break;
        }
    }
    if let Some(symbol) = &scan.until {
        sizes.set(symbol, ran);
    }
    let mut outputs = Vec::new();
    for ((rows, buffer), written) in buffers.iter().zip(&scan.buffers).zip(&results.buffers) {
        let returned = scan.returned_rows(buffer, rows.len(), steps - ran);
        let returned = returned.map(|index| row(rows, index)).collect::<Result<Vec<_>>>()?;
        outputs.push(stacked(&at, scan.body.output_type(written.start), returned, sizes)?);
    }
    outputs.extend(carries);
    Ok(outputs)
}

/// Stacks rows along a new leading axis.
fn stacked(at: &Place, row: &TensorType, rows: Vec<Concrete>, sizes: &mut Sizes) -> Result<Concrete, Failed> {
    let context = EvalContext { at: at.clone(), sizes };
    let tensors: Vec<HostTensor> = rows.iter().map(|row| row.tensor.clone()).collect();
    let tensor = crate::ops::scan::stack_rows(&context, row, &tensors)?;
    let values: Vec<Value> = rows.iter().map(|row| row.value.unsqueeze(0)).collect();
    let value = match values.is_empty() {
        true => full(tensor.ty().shape, row.dtype, 0.0),
        false => concat(&values, 0),
    };
    Ok(Concrete { value, tensor })
}
