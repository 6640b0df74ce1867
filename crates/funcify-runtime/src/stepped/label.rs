//! Determines how each value of a program changes from step to step, and how a step computes each node. Rejects
//! programs that need rows of later steps, or the rows of all steps at once.

use funcify_core::graph::uses_any;
use funcify_core::ops::scan::{Returned, Scan, Start};
use funcify_core::ops::{Concat, Control, Cumulative, Pad, Slice};

use super::rows;
use super::time::{Label, RowLayout, Time};
use super::*;

/// The way a step computes a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// The node runs once, before the first step. No step computes it.
    Once,
    /// Each step runs the same op, with the sizes of a single step.
    Op,
    /// The node is a `pad` or `concat` that inserts `rows` rows before the first step. This delays the rows of its
    /// operand by `rows` steps.
    Delay { axis: usize, rows: usize },
    /// The node is a convolution that adds `rows` rows of zeros before the first step. Each step computes the
    /// convolution of the latest rows.
    DelayedConv { axis: usize, rows: usize },
    /// The node is a loop, and each step runs one iteration of it.
    Step,
    /// The node is an associative scan or a cumulative op along this axis. Each step combines the new element with the
    /// previous result.
    Running { axis: usize },
}

/// The labels of all values, and the actions for the nodes that the outputs need.
pub(super) struct Labelling<'g> {
    pub(super) graph: &'g Graph,
    pub(super) time: Time,
    pub(super) labels: Vec<Label>,
    pub(super) actions: Vec<Option<Action>>,
    /// The symbols of the sizes that each step binds.
    stepwise: Vec<&'g Symbol>,
}

/// Returns a `NotSteppable` error. `component` describes the part of the program that cannot be computed step by step.
fn not_steppable<T>(at: &Place, component: impl Into<String>, reason: &str, fix: &str) -> Result<T> {
    Err(Error::NotSteppable { at: at.boxed(), component: component.into(), reason: reason.into(), fix: fix.into() })
}

impl<'g> Labelling<'g> {
    pub(super) fn of(at: &Place, graph: &'g Graph) -> Result<Self> {
        let live = graph.live_nodes();
        let time = find_time(at, graph, &live)?;
        let labels = vec![Label::Fixed; graph.values().count()];
        let mut plan = Labelling { graph, time, labels, actions: vec![None; live.len()], stepwise: Vec::new() };
        for (index, input) in graph.inputs().iter().enumerate() {
            plan.labels[input.value.index()] = plan.label_input(at, index)?;
        }
        for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
            let (action, labels) = plan.label_node(node).map_err(|error| graph.explain(error))?;
            plan.actions[index] = Some(action);
            if action != Action::Once {
                plan.stepwise.extend(node.op.binds());
            }
            node.outputs.iter().zip(labels).for_each(|(output, label)| plan.labels[output.index()] = label);
        }
        for output in graph.outputs() {
            let shape = &graph.ty(output.value).shape;
            if matches!(plan.label(output.value), Label::Rows(rows) if rows.axis(shape).is_none()) {
                let (reason, fix) =
                    ("its steps share an axis with other elements", "reshape it so that the steps have their own axis");
                return not_steppable(at, format!("output `{}`", output.name), reason, fix);
            }
        }
        Ok(plan)
    }

    pub(super) fn label(&self, value: ValueId) -> &Label {
        &self.labels[value.index()]
    }

    /// Returns the axis along which a value has one row per step. Returns `None` if the value does not have rows, or if
    /// its rows are merged with other axes.
    pub(super) fn axis(&self, value: ValueId) -> Option<usize> {
        match self.label(value) {
            Label::Rows(rows) => rows.axis(&self.graph.ty(value).shape),
            _ => None,
        }
    }

    /// Returns the number of rows of a value that each step sees, or 0 if the value does not have rows.
    pub(super) fn window(&self, value: ValueId) -> usize {
        match self.label(value) {
            Label::Rows(rows) => {
                self.time.window(&rows.rows).expect("labelling rejects values with any other number of rows")
            }
            _ => 0,
        }
    }

    /// Returns the label of an input: `Fixed` if no axis depends on the number of steps, and `Rows` if exactly one axis
    /// does and the length of that axis is the number of steps plus a constant. Rejects all other inputs.
    fn label_input(&self, at: &Place, index: usize) -> Result<Label> {
        let shape = &self.graph.input_type(index).shape;
        if !self.time.is_in_shape(shape) {
            return Ok(Label::Fixed);
        }
        let mut axes = (0..shape.rank()).filter(|axis| self.time.is_in(&shape[*axis]));
        let axis = axes.next().filter(|axis| axes.next().is_none() && self.time.counts_steps(&shape[*axis]));
        match axis.filter(|axis| self.time.window(&shape[*axis]).is_some_and(|rows| rows > 0)) {
            Some(axis) => Ok(Label::Rows(RowLayout::of(shape, axis))),
            None => not_steppable(
                at,
                format!("input `{}`", self.graph.input_name(index)),
                "it does not have one row per step along one axis",
                "give it one axis with as many rows as there are steps, plus a constant",
            ),
        }
    }

    /// Returns the action for a node and the labels of its results.
    fn label_node(&self, node: &Node) -> Result<(Action, Vec<Label>)> {
        let at = &node.place();
        let labels: Vec<Label> = node.inputs.iter().map(|input| self.label(*input).clone()).collect();
        match &node.op {
            Op::Scan(scan) if self.time.is_in(&scan.steps) => {
                return Ok((Action::Step, self.label_scan(at, node, scan)?));
            }
            Op::AssociativeScan(op) if self.axis(node.inputs[0]) == Some(0) => {
                return Ok((Action::Running { axis: 0 }, self.label_running(at, node, op)?));
            }
            Op::Cumulative(Cumulative { axis, reverse: false, .. }) if self.axis(node.inputs[0]) == Some(*axis) => {
                return Ok((Action::Running { axis: *axis }, labels));
            }
            op => {
                if let Some((action, label)) = self.label_row_move(node, op) {
                    if matches!(&label, Label::Rows(rows) if self.time.window(&rows.rows).is_none_or(|rows| rows == 0))
                    {
                        let (reason, fix) =
                            ("it has no rows for the first steps", "add rows before it: `pad(axis, rows, 0, number)`");
                        return not_steppable(at, self.result_name(node), reason, fix);
                    }
                    return Ok((action, vec![label]));
                }
            }
        }
        let has_rows = labels.iter().any(|label| matches!(label, Label::Rows(_)));
        if !has_rows && !uses_any(self.graph, node, &[&self.time.symbol]) {
            let is_fixed =
                labels.iter().all(|label| *label == Label::Fixed) && !uses_any(self.graph, node, &self.stepwise);
            let (action, label) = if is_fixed { (Action::Once, Label::Fixed) } else { (Action::Op, Label::Latest) };
            return Ok((action, vec![label; node.outputs.len()]));
        }
        let results = rows::result_rows(&self.time, self.graph, node, &labels);
        match results.filter(|results| results.iter().all(|rows| self.time.window(&rows.rows).is_some())) {
            Some(results) => Ok((Action::Op, results.into_iter().map(Label::Rows).collect())),
            None => {
                let (reason, fix) = rows::reason_and_fix(&node.op, labels.contains(&Label::Latest));
                not_steppable(at, self.result_name(node), reason, fix)
            }
        }
    }

    /// Returns the action for an op that shifts or selects rows along the step axis, and the label of its result.
    /// Returns `None` for all other ops.
    fn label_row_move(&self, node: &Node, op: &Op) -> Option<(Action, Label)> {
        let first = *node.inputs.first()?;
        let result = &self.graph.ty(*node.outputs.first()?).shape;
        let rows = |axis: usize| Label::Rows(RowLayout::of(result, axis));
        match op {
            Op::Slice(Slice { axis, start, limit, step: 1 }) if self.axis(first) == Some(*axis) => {
                if start.constant().is_some() && self.time.counts_steps(limit) {
                    return Some((Action::Op, rows(*axis)));
                }
                // A slice of the last rows is labelled `Latest`, provided that each step sees all rows of the slice.
                let is_last = self.time.counts_steps(start) && self.time.counts_steps(limit);
                let is_seen = self.time.at_one_step(start).constant().is_some_and(|start| start >= 0);
                (is_last && is_seen).then_some((Action::Op, Label::Latest))
            }
            Op::Pad(Pad { axis, low, high, interior: 0 }) if self.axis(first) == Some(*axis) => {
                let count = low.constant().and_then(|low| usize::try_from(low).ok()).filter(|low| *low > 0)?;
                let is_before = high.constant() == Some(0) && *self.label(node.inputs[1]) == Label::Fixed;
                is_before.then(|| (Action::Delay { axis: *axis, rows: count }, rows(*axis)))
            }
            Op::Concat(Concat { axis }) => {
                let [before, sequence] = node.inputs[..] else { return None };
                let is_before = *self.label(before) == Label::Fixed && self.axis(sequence) == Some(*axis);
                let count = self.graph.ty(before).shape[*axis].constant().filter(|_| is_before)?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
                Some((Action::Delay { axis: *axis, rows: count }, rows(*axis)))
            }
            Op::Conv(Conv { strides, low, high, input_dilation, .. }) => {
                let axis = self.axis(first).filter(|axis| *axis >= 2)?;
                let count =
                    low[axis - 2].constant().and_then(|low| usize::try_from(low).ok()).filter(|low| *low > 0)?;
                let slides = strides[axis - 2] == 1 && input_dilation[axis - 2] == 1;
                let is_before = high[axis - 2].constant() == Some(0) && *self.label(node.inputs[1]) == Label::Fixed;
                (slides && is_before).then(|| (Action::DelayedConv { axis, rows: count }, rows(axis)))
            }
            _ => None,
        }
    }

    /// Returns the labels of the results of a loop over the steps. Returns an error if the loop cannot run step by
    /// step.
    fn label_scan(&self, at: &Place, node: &Node, scan: &Scan) -> Result<Vec<Label>> {
        let places = scan.operands();
        let operand = |place: usize, kind: &str| match self.graph.value_name(node.inputs[place]) {
            Some(name) => format!("{kind} `{name}`"),
            None => format!("{kind} (operand {place})"),
        };
        // `counts_steps` rejects, for example, a loop of `2 T - 1` steps. Such a loop runs a single step if `T` is 1,
        // but each additional row adds two steps.
        if !self.time.counts_steps(&scan.steps) || self.time.at_one_step(&scan.steps).constant() != Some(1) {
            let (reason, fix) =
                ("its number of steps is not that of the other loops", "split them into separate programs");
            return not_steppable(at, "the loop", reason, fix);
        }
        if scan.reverse {
            let (reason, fix) = ("it runs in reverse, from the last step", "run it forward, or on the whole sequence");
            return not_steppable(at, "the loop", reason, fix);
        }
        if scan.until.is_some() {
            let fix = "return the `until` condition as an output, and let the caller stop";
            return not_steppable(at, "the loop", "it ends early", fix);
        }
        let is_in_body = scan.body.nodes().iter().any(|node| uses_any(&scan.body, node, &[&self.time.symbol]));
        if is_in_body {
            let fix = "compute the value that depends on it outside, and pass it as an input";
            return not_steppable(at, "the body of the loop", "a step uses the total number of steps", fix);
        }
        for (place, sequence) in places.sequences.zip(&scan.sequences) {
            let value = node.inputs[place];
            if self.axis(value) != Some(0) || self.window(value) <= sequence.reach() {
                let (reason, fix) =
                    ("it does not have one row per step", "make it an input, or compute it from inputs row by row");
                return not_steppable(at, operand(place, "sequence"), reason, fix);
            }
        }
        let mut states: Vec<(usize, &str)> =
            places.carries.map(|place| (place, "the initial value of carry")).collect();
        for (buffer, place) in scan.buffers.iter().zip(&places.buffers) {
            let Some(place) = place else { continue };
            if buffer.start == Start::Full {
                let fix = "keep the rows that a step reads in a state with taps (mit-sot), or in a carry";
                return not_steppable(
                    at,
                    operand(*place, "full buffer (mit-mot)"),
                    "a step may read and write all of its rows",
                    fix,
                );
            }
            states.push((*place, "the initial rows of state"));
        }
        states.extend(places.invariants.map(|place| (place, "invariant")));
        for (place, kind) in states {
            let reason = match self.label(node.inputs[place]) {
                Label::Fixed => continue,
                Label::Rows(_) => "it depends on the sequence, which is not available before the first step",
                Label::Latest => "it is the result of another loop after its last step",
            };
            return not_steppable(at, operand(place, kind), reason, "compute it from inputs that are not sequences");
        }
        let mut labels = Vec::new();
        for (number, buffer) in scan.buffers.iter().enumerate() {
            let shape = &self.graph.ty(node.outputs[number]).shape;
            labels.push(match (buffer.returned, buffer.start) {
                (Returned::All, _) => Label::Rows(RowLayout::of(shape, 0)),
                (Returned::Last(count), Start::Given(given)) if count <= given + 1 => Label::Latest,
                (Returned::Last(1), _) => Label::Latest,
                (Returned::Last(_), _) => {
                    let (reason, fix) = ("it returns the last rows of several steps", "return all of its rows");
                    return not_steppable(at, format!("trace {number} ({})", buffer.kind()), reason, fix);
                }
            });
        }
        labels.extend(vec![Label::Latest; scan.carries]);
        Ok(labels)
    }

    /// Returns the labels of the results of an associative scan over the steps. Returns an error if the scan cannot run
    /// step by step.
    fn label_running(&self, at: &Place, node: &Node, op: &AssociativeScan) -> Result<Vec<Label>> {
        if op.reverse {
            let (reason, fix) = ("it runs in reverse, from the last step", "run it forward, or on the whole sequence");
            return not_steppable(at, "the associative scan", reason, fix);
        }
        let (leaves, captured) = node.inputs.split_at(op.leaves);
        let is_one = |value: &ValueId| self.axis(*value) == Some(0) && self.window(*value) == self.window(leaves[0]);
        let is_in_body = op.combine.nodes().iter().any(|node| uses_any(&op.combine, node, &[&self.time.symbol]));
        if !leaves.iter().all(is_one) || captured.iter().any(|value| *self.label(*value) != Label::Fixed) || is_in_body
        {
            let (reason, fix) = (
                "one of its elements or captures is not available step by step",
                "give its leaves one row per step, and capture only inputs that are not sequences",
            );
            return not_steppable(at, "the associative scan", reason, fix);
        }
        Ok(leaves.iter().map(|value| self.label(*value).clone()).collect())
    }

    fn result_name(&self, node: &Node) -> String {
        let name = node.outputs.iter().find_map(|output| self.graph.value_name(*output));
        name.map_or_else(|| "the result".to_string(), |name| format!("the result `{name}`"))
    }
}

/// Finds the symbol that counts the steps. Takes the symbol from the first of these kinds of ops that occurs in the
/// program: a scan whose number of steps depends on the size of an input; an associative scan or cumulative op over an
/// axis whose length depends on the size of an input; a scan with any other symbolic number of steps. Returns an error
/// if the program contains none of these.
fn find_time(at: &Place, graph: &Graph, live: &[bool]) -> Result<Time> {
    let mut found: [Option<Time>; 3] = [None, None, None];
    let mut fixed: Option<(Place, Dim)> = None;
    for node in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]).map(|(_, node)| node) {
        let dims = |input: usize| graph.ty(node.inputs[input]).shape.dims();
        let (steps, is_loop) = match node.op.class() {
            OpClass::Control(Control::Scan(scan)) => (scan.steps.clone(), true),
            OpClass::Control(Control::AssociativeScan(_)) => (dims(0)[0].clone(), false),
            OpClass::Along(Along::Cumulative(op)) => (dims(0)[op.axis].clone(), false),
            // These ops either have no steps or run until a condition ends them.
            OpClass::Control(Control::While(_) | Control::Switch(_) | Control::Call(_)) => continue,
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => continue,
            OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) => continue,
            OpClass::Binding(_) | OpClass::Custom(_) => continue,
        };
        let Some(time) = Time::of(&steps) else {
            fixed.get_or_insert((node.place(), steps));
            continue;
        };
        match (is_loop, is_input_size(graph, &time)) {
            (true, true) => _ = found[0].get_or_insert(time),
            // Associative scans and cumulative ops start with the first row, so each row is one step.
            (false, true) => _ = found[1].get_or_insert(Time { size: 1, ..time }),
            (true, false) => _ = found[2].get_or_insert(time),
            (false, false) => _ = fixed.get_or_insert((node.place(), steps)),
        }
    }
    if let Some(time) = found.into_iter().flatten().next() {
        return Ok(time);
    }
    let (at, reason) = match fixed {
        Some((at, steps)) => {
            (at, format!("its number of steps is `{steps}`, which is not determined by one symbol of the inputs"))
        }
        None => (at.clone(), "it has no loop".to_string()),
    };
    let fix = "add a loop over the rows of an input whose number of rows is a symbol, such as `f32[T,3]`";
    let at = at.boxed();
    Err(graph.explain(Error::NotSteppable { at, component: "the program".into(), reason, fix: fix.into() }))
}

/// Returns `true` if the symbol that counts the steps occurs in the shape of an input.
fn is_input_size(graph: &Graph, time: &Time) -> bool {
    (0..graph.inputs().len()).any(|index| time.is_in_shape(&graph.input_type(index).shape))
}
