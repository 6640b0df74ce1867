//! Builds the start graph and the step graph of a single-step program, from the actions that `label.rs` assigns to the
//! nodes.

use std::collections::BTreeSet;

use funcify_core::graph::{Failed, Output, Source, ValueMap, at_site, emit, inline};
use funcify_core::ops::scan::{Returned, Scan, Start};
use funcify_core::tree::Named;
use funcify_core::{HostTensor, Scalar, Value, concat, constant, full, select};

use super::label::{Action, Labelling};
use super::time::Label;
use super::*;

/// A value that each step passes to the next one.
struct State {
    name: String,
    ty: TensorType,
    initial: Initial,
    /// The value that the state has in the next step.
    next: Value,
}

/// The source of a state's initial value.
#[derive(Clone, Copy)]
enum Initial {
    /// A value of the original program.
    Value(ValueId),
    /// A separate input of the start graph, for the rows of a sequence that precede the first step.
    Input,
    /// A tensor filled with a scalar of the original program, or with zeros if the scalar is `None`.
    Filled(Option<ValueId>),
}

/// The role of an input of the step graph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    State(usize),
    Row,
    Invariant(ValueId),
}

/// The step graph under construction. Its inputs are declared when they are first needed, and sorted at the end.
struct Draft<'p, 'g> {
    plan: &'p Labelling<'g>,
    at: Place,
    values: Vec<Option<Value>>,
    roles: Vec<Role>,
    names: BTreeSet<String>,
    states: Vec<State>,
    /// The flags of associative scans and cumulative ops, each with its shape. A flag is `true` if an earlier step has
    /// run. Its shape keeps the symbolic axes of the rows, so each stream has its own boolean.
    started: Vec<(Shape, Value)>,
}

/// The roles of the step's inputs, and the initial values of its states.
struct Parts {
    roles: Vec<Role>,
    initials: Vec<(String, TensorType, Initial)>,
}

impl Labelling<'_> {
    /// Builds the start graph and the step graph.
    pub(super) fn build_graphs(&self, at: &Place) -> Result<Stepped> {
        let mut parts = None;
        let draft = tracer::rebuild(self.graph, at.site, |_| {
            tracer::reserve_symbols(self.graph);
            at_site(at.site, || {
                let (outputs, made) = Draft::new(self, at).outputs()?;
                parts = Some(made);
                Ok::<_, Failed>(Named(outputs))
            })
        })?;
        let parts = parts.unwrap_or(Parts { roles: Vec::new(), initials: Vec::new() });
        let kept = needed_states(&draft, &parts);
        let (step, invariants) = self.order_inputs(&draft, &parts, &kept)?;
        check_sizes(at, &step)?;
        let initials: Vec<_> = kept.iter().map(|state| parts.initials[*state].clone()).collect();
        let start = self.start(at, &initials, &invariants)?;
        let rows = parts.roles.iter().filter(|role| **role == Role::Row).count();
        Ok(Stepped { start, step, states: kept.len(), rows })
    }

    /// Sorts the inputs of the step graph and removes the states that are not in `kept`. Returns the graph, and, for
    /// each of its invariant inputs, the corresponding value of the original program.
    fn order_inputs(&self, draft: &Graph, parts: &Parts, kept: &[usize]) -> Result<(Graph, Vec<ValueId>)> {
        let (states, results) = draft.outputs().split_at(parts.initials.len());
        let outputs = kept.iter().map(|state| states[*state].clone()).chain(results.iter().cloned());
        let draft = draft.with_outputs(outputs.collect());
        let live = draft.live_values();
        let of = |wanted: &dyn Fn(Role) -> bool| -> Vec<usize> {
            (0..parts.roles.len()).filter(|input| wanted(parts.roles[*input])).collect()
        };
        let is_live = |input: &usize| live[draft.inputs()[*input].value.index()];
        let mut order: Vec<usize> = kept.iter().flat_map(|state| of(&|role| role == Role::State(*state))).collect();
        order.extend(of(&|role| role == Role::Row));
        let of_invariants = of(&|role| matches!(role, Role::Invariant(_)));
        order.extend(of_invariants.into_iter().filter(is_live));
        let (mut graph, mut copied) = (Graph::new(draft.name()), ValueMap::new(&draft));
        for index in &order {
            let input = &draft.inputs()[*index];
            let (name, ty) = (draft.input_name(*index), draft.input_type(*index).clone());
            copied.set(input.value, graph.push_input(name, ty, input.is_static));
        }
        let invariants = order.iter().filter_map(|input| match parts.roles[*input] {
            Role::Invariant(value) => Some(value),
            Role::State(_) | Role::Row => None,
        });
        let invariants = invariants.collect();
        let missing = || draft.undefined_value_error("a value of the step".into());
        for node in draft.live() {
            copied.node(&mut graph, node, node.op.clone()).ok_or_else(missing)?;
        }
        copied.outputs(&mut graph).ok_or_else(missing)?;
        Ok((graph, invariants))
    }

    /// Builds the start graph, which runs before the first step. If its inputs do not determine all sizes, also
    /// declares rows of sequences as inputs. Only the shapes of these rows are used.
    fn start(&self, at: &Place, initials: &[(String, TensorType, Initial)], invariants: &[ValueId]) -> Result<Graph> {
        let plain = self.start_with(at, initials, invariants, &[])?;
        let mut known: Vec<Symbol> = Vec::new();
        let add_known = |known: &mut Vec<Symbol>, ty: &TensorType| {
            let dims = ty.shape.dims().iter().filter(|dim| dim.symbols().len() == 1);
            known.extend(dims.flat_map(|dim| dim.symbols().into_iter().cloned()));
        };
        (0..plain.inputs().len()).for_each(|index| add_known(&mut known, plain.input_type(index)));
        plain.nodes().iter().for_each(|node| known.extend(node.op.binds().cloned()));
        let mut needed = BTreeSet::new();
        plain.visit_symbols(&mut |symbol| _ = needed.insert(symbol.clone()));
        let mut samples = Vec::new();
        for (index, input) in self.graph.inputs().iter().enumerate() {
            let Some(axis) = self.axis(input.value) else { continue };
            let row = row_type(self.graph.ty(input.value), axis);
            if row
                .shape
                .dims()
                .iter()
                .any(|dim| dim.symbols().iter().any(|it| needed.contains(*it) && !known.contains(it)))
            {
                add_known(&mut known, &row);
                samples.push((format!("{}_row", self.graph.input_name(index)), row));
            }
        }
        if samples.is_empty() { Ok(plain) } else { self.start_with(at, initials, invariants, &samples) }
    }

    fn start_with(
        &self,
        at: &Place,
        initials: &[(String, TensorType, Initial)],
        invariants: &[ValueId],
        samples: &[(String, TensorType)],
    ) -> Result<Graph> {
        let graph = self.graph;
        let of_state = |initial: &Initial| match initial {
            Initial::Value(value) | Initial::Filled(Some(value)) => Some(*value),
            Initial::Input | Initial::Filled(None) => None,
        };
        let roots = initials.iter().filter_map(|(_, _, initial)| of_state(initial));
        let output = |value: ValueId| Output { name: String::new(), value };
        let roots = graph.with_outputs(roots.chain(invariants.iter().copied()).map(output).collect());
        let (needed, nodes) = (roots.live_values(), roots.live_nodes());
        let name = format!("{}_start", graph.name());
        tracer::build(&name, at.site, |_| {
            tracer::reserve_symbols(graph);
            at_site(at.site, || {
                let mut replay = funcify_core::graph::Replay::new(graph, []);
                for (index, input) in graph.inputs().iter().enumerate().filter(|(_, input)| needed[input.value.index()])
                {
                    let (name, ty) = (graph.input_name(index), graph.input_type(index).clone());
                    replay.set(input.value, tracer::input(name, ty, input.is_static, at.site));
                }
                let given = initials.iter().map(|(name, ty, initial)| match initial {
                    Initial::Input => Some(tracer::input(name, ty.clone(), false, at.site)),
                    _ => None,
                });
                let given: Vec<Option<Value>> = given.collect();
                samples.iter().for_each(|(name, ty)| _ = tracer::input(name, ty.clone(), false, at.site));
                let replay = replay.walk_marked(&nodes, |_, node, operands| emit(node.op.clone(), &operands))?;
                let mut outputs = Vec::new();
                for ((name, ty, initial), given) in initials.iter().zip(given) {
                    outputs.push((
                        name.clone(),
                        match (initial, given) {
                            (Initial::Value(value), _) => replay.value(*value)?,
                            (Initial::Filled(Some(number)), _) => replay.value(*number)?.broadcast_to(&ty.shape),
                            (_, Some(given)) => given,
                            _ => zeros(ty),
                        },
                    ));
                }
                for (number, value) in invariants.iter().enumerate() {
                    let name = graph.value_name(*value).map_or_else(|| format!("v{number}"), str::to_string);
                    let is_taken = outputs.iter().any(|(other, _)| *other == name);
                    let name = if is_taken { format!("invariant_{number}") } else { name };
                    outputs.push((name, replay.value(*value)?));
                }
                Ok::<_, Failed>(Named(outputs))
            })
        })
    }
}

/// Returns an error if the step graph uses a size that only the start graph determines.
fn check_sizes(at: &Place, step: &Graph) -> Result<()> {
    let Err(errors) = step.check() else { return Ok(()) };
    let Some(found) = errors.iter().find_map(|error| match error {
        Error::Invalid { invariant, found, .. } if invariant == "graph-c7" => Some(found),
        _ => None,
    }) else {
        return Ok(());
    };
    Err(Error::NotSteppable {
        at: at.boxed(),
        component: "a step".into(),
        reason: format!("it uses {found}, which is known only before the first step"),
        fix: "give a state, or an input that is not a sequence, that size".into(),
    })
}

/// Returns the indices of the states that the outputs need, directly or through other states.
fn needed_states(draft: &Graph, parts: &Parts) -> Vec<usize> {
    let count = parts.initials.len();
    let mut kept = vec![false; count];
    loop {
        let outputs = draft.outputs().iter().enumerate().filter(|(index, _)| *index >= count || kept[*index]);
        let live = draft.with_outputs(outputs.map(|(_, output)| output.clone()).collect()).live_values();
        let mut is_done = true;
        for (input, role) in draft.inputs().iter().zip(&parts.roles) {
            if let Role::State(state) = role
                && live[input.value.index()]
                && !kept[*state]
            {
                (kept[*state], is_done) = (true, false);
            }
        }
        if is_done {
            return (0..count).filter(|state| kept[*state]).collect();
        }
    }
}

/// Returns the type of a single row of a value: the type of the value without the step axis.
fn row_type(ty: &TensorType, axis: usize) -> TensorType {
    ty.with_shape(ty.shape.without(axis))
}

fn zeros(ty: &TensorType) -> Value {
    if ty.dtype == DType::Bool {
        constant(HostTensor::from_fn(DType::Bool, &[], |_| Scalar::Bool(false))).broadcast_to(&ty.shape)
    } else {
        full(&ty.shape, ty.dtype, 0.0)
    }
}

/// Returns rows `from..to` of a value along `axis`.
fn rows(value: Value, axis: usize, from: usize, to: usize) -> Value {
    value.slice(axis as i64, from as i64..to as i64)
}

impl<'p, 'g> Draft<'p, 'g> {
    fn new(plan: &'p Labelling<'g>, at: &Place) -> Self {
        let names = (0..plan.graph.inputs().len()).map(|index| plan.graph.input_name(index).to_string()).collect();
        let values = vec![None; plan.graph.values().count()];
        let at = at.clone();
        Draft { plan, at, values, roles: Vec::new(), names, states: Vec::new(), started: Vec::new() }
    }

    /// Returns an unused input name: `wanted`, or `wanted` with a number appended.
    fn unused_name(&mut self, wanted: &str) -> String {
        let numbered = (1..).map(|number| format!("{wanted}_{number}"));
        let name = std::iter::once(wanted.to_string()).chain(numbered).find(|name| !self.names.contains(name));
        let name = name.expect("the numbered names are endless, and only finitely many are taken");
        self.names.insert(name.clone());
        name
    }

    /// Declares a state. Returns its index, and its value at the start of the step.
    fn declare_state(&mut self, wanted: &str, ty: TensorType, initial: Initial) -> (usize, Value) {
        // Prefer the name of the input that initializes the state, if the step has no input of that name.
        let own = match initial {
            Initial::Value(value) => match self.plan.graph.source(value) {
                Source::Input(input) => Some(self.plan.graph.input_name(input).to_string()),
                Source::Node(..) => None,
            },
            _ => None,
        };
        let name = own.filter(|name| !tracer::has_input(name)).unwrap_or_else(|| self.unused_name(wanted));
        let value = tracer::input(&name, ty.clone(), false, self.at.site);
        let number = self.states.len();
        self.roles.push(Role::State(number));
        self.states.push(State { name, ty, initial, next: value });
        (number, value)
    }

    /// Returns the value in the step graph that corresponds to a value of the original program.
    fn value(&mut self, id: ValueId) -> Result<Value, Failed> {
        if let Some(value) = self.values[id.index()] {
            return Ok(value);
        }
        let graph = self.plan.graph;
        if *self.plan.label(id) != Label::Fixed {
            return Err(graph.undefined_value_error(format!("value {}", id.index())).into());
        }
        let value = match graph.node_of(id) {
            Some(node) if matches!(node.op, Op::Constant(_)) => emit(node.op.clone(), &[])?[0],
            _ => {
                let (wanted, is_static) = match graph.source(id) {
                    Source::Input(input) => (graph.input_name(input).to_string(), graph.inputs()[input].is_static),
                    Source::Node(..) => (graph.value_name(id).unwrap_or("invariant").to_string(), false),
                };
                // An input keeps its name, unless a state has the same name.
                let is_free = matches!(graph.source(id), Source::Input(_)) && !tracer::has_input(&wanted);
                let name = if is_free { wanted } else { self.unused_name(&wanted) };
                self.roles.push(Role::Invariant(id));
                tracer::input(&name, graph.ty(id).clone(), is_static, self.at.site)
            }
        };
        self.values[id.index()] = Some(value);
        Ok(value)
    }

    /// Returns the named outputs of the step graph: the next states, then the outputs of the program.
    fn outputs(mut self) -> Result<(Vec<(String, Value)>, Parts), Failed> {
        self.declare_sequences();
        let plan = self.plan;
        for (index, node) in plan.graph.nodes().iter().enumerate() {
            let Some(action) = plan.actions[index].filter(|action| *action != Action::Once) else { continue };
            let results = at_site(node.site, || self.emit_node(node, action))?;
            tracer::keep_names(plan.graph, node, results.iter().copied());
            node.outputs.iter().zip(results).for_each(|(output, result)| self.values[output.index()] = Some(result));
        }
        let mut results = Vec::new();
        for output in plan.graph.outputs() {
            let value = self.value(output.value)?;
            let newest = plan.axis(output.value).map_or(value, |axis| value.index(axis as i64, -1));
            results.push((output.name.clone(), newest));
        }
        let mut outputs = Vec::new();
        for state in &self.states {
            let next = format!("next_{}", state.name);
            let is_taken = results.iter().any(|(other, _)| *other == next);
            outputs.push((if is_taken { format!("{next}_state") } else { next }, state.next.checked()?));
        }
        outputs.extend(results);
        let initials = self.states.into_iter().map(|state| (state.name, state.ty, state.initial));
        Ok((outputs, Parts { initials: initials.collect(), roles: self.roles }))
    }

    /// For each sequence, declares an input that receives one row per step. If a step also reads earlier rows, declares
    /// a state that holds them.
    fn declare_sequences(&mut self) {
        let plan = self.plan;
        for (index, input) in plan.graph.inputs().iter().enumerate() {
            let Some(axis) = plan.axis(input.value) else { continue };
            let (name, ty, window) =
                (plan.graph.input_name(index), plan.graph.input_type(index), plan.window(input.value));
            self.roles.push(Role::Row);
            let row = tracer::input(name, row_type(ty, axis), false, self.at.site).unsqueeze(axis as i64);
            let value = if window == 1 {
                row
            } else {
                let before = ty.with_shape(ty.shape.with_dim(axis, window - 1));
                self.with_earlier_rows(&format!("{name}_before"), before, Initial::Input, row, axis, window)
            };
            self.values[input.value.index()] = Some(value);
        }
    }

    /// Declares a state that holds earlier rows, and returns these rows followed by `rest`. In the next step, the state
    /// holds the same number of rows, starting one row later.
    fn with_earlier_rows(
        &mut self,
        name: &str,
        ty: TensorType,
        initial: Initial,
        rest: Value,
        axis: usize,
        window: usize,
    ) -> Value {
        let count = ty.shape[axis].constant().expect("the rows of a state are a constant") as usize;
        let (state, before) = self.declare_state(name, ty, initial);
        let all = concat(&[before, rest], axis as i64);
        self.states[state].next = if count == 1 && window == 2 { rest } else { rows(all, axis, 1, count + 1) };
        all
    }

    /// Emits the ops that compute a node in the step graph, and returns the results.
    fn emit_node(&mut self, node: &Node, action: Action) -> Result<Vec<Value>, Failed> {
        let plan = self.plan;
        match (action, &node.op) {
            (Action::Step, Op::Scan(scan)) => return self.emit_step(node, scan),
            (Action::Running { axis }, op) => return self.emit_running(node, op, axis),
            _ => {}
        }
        let name = plan.graph.value_name(node.inputs[0]).unwrap_or("rows").to_string() + "_before";
        match (action, &node.op) {
            (Action::Delay { axis, rows: count }, op) => {
                let is_pad = matches!(op, Op::Pad(_));
                let sequence = if is_pad { node.inputs[0] } else { node.inputs[1] };
                let ty = plan.graph.ty(sequence);
                let ty = ty.with_shape(ty.shape.with_dim(axis, count));
                let initial =
                    if is_pad { Initial::Filled(Some(node.inputs[1])) } else { Initial::Value(node.inputs[0]) };
                let rest = self.value(sequence)?;
                let window = count + plan.window(sequence);
                Ok(vec![self.with_earlier_rows(&name, ty, initial, rest, axis, window)])
            }
            (Action::DelayedConv { axis, rows: count }, Op::Conv(conv)) => {
                let ty = plan.graph.ty(node.inputs[0]);
                let ty = ty.with_shape(ty.shape.with_dim(axis, count));
                let (rest, kernel) = (self.value(node.inputs[0])?, self.value(node.inputs[1])?);
                let window = count + plan.window(node.inputs[0]);
                let all = self.with_earlier_rows(&name, ty, Initial::Filled(None), rest, axis, window);
                let mut conv = Conv { ..conv.clone() };
                conv.low[axis - 2] = Dim::from(0);
                emit(Op::from(conv).at_sizes(&plan.time.sizes()), &[all, kernel])
            }
            (_, op) => {
                let operands = node.inputs.iter().map(|input| self.value(*input));
                let operands = operands.collect::<Result<Vec<Value>, Failed>>()?;
                emit(op.at_sizes(&plan.time.sizes()), &operands)
            }
        }
    }

    /// Emits one iteration of a loop. The loop's carries and the rows that its taps read become states.
    fn emit_step(&mut self, node: &Node, scan: &Scan) -> Result<Vec<Value>, Failed> {
        let (places, layout, results) = (scan.operands(), scan.params(), scan.results());
        let param_name = |index: usize| scan.body.input_name(index).to_string();
        let mut params = Vec::new();
        for (place, sequence) in places.sequences.clone().zip(&scan.sequences) {
            let value = self.value(node.inputs[place])?;
            params.extend(sequence.reads.iter().map(|offset| value.index(0, *offset as i64)));
        }
        let mut buffers = Vec::new();
        for (number, (buffer, place)) in scan.buffers.iter().zip(&places.buffers).enumerate() {
            let state = match (buffer.start, place) {
                (Start::Given(_), Some(place)) => {
                    let name = layout.buffers[number].clone().next().map_or_else(|| "state".to_string(), param_name);
                    let ty = self.plan.graph.ty(node.inputs[*place]).clone();
                    Some(self.declare_state(&name, ty, Initial::Value(node.inputs[*place])))
                }
                _ => None,
            };
            params.extend(
                state.iter().flat_map(|(_, rows)| buffer.reads.iter().map(|offset| rows.index(0, *offset as i64))),
            );
            buffers.push(state);
        }
        let mut carries = Vec::new();
        for (place, param) in places.carries.clone().zip(layout.carries.clone()) {
            let ty = self.plan.graph.ty(node.inputs[place]).clone();
            let (state, value) = self.declare_state(&param_name(param), ty, Initial::Value(node.inputs[place]));
            carries.push(state);
            params.push(value);
        }
        for place in places.invariants.clone() {
            params.push(self.value(node.inputs[place])?);
        }
        let written = inline(&scan.body, &params)?;
        let mut outputs = Vec::new();
        for ((buffer, state), written_rows) in scan.buffers.iter().zip(buffers).zip(results.buffers) {
            let row = written[written_rows.start].unsqueeze(0);
            outputs.push(match (state, buffer.start) {
                (Some((state, before)), Start::Given(given)) => {
                    let all = concat(&[before, row], 0);
                    self.states[state].next = if given == 1 { row } else { rows(all, 0, 1, given + 1) };
                    match buffer.returned {
                        Returned::Last(1) => row,
                        Returned::Last(count) => rows(all, 0, given + 1 - count, given + 1),
                        Returned::All => all,
                    }
                }
                _ => row,
            });
        }
        for (state, result) in carries.into_iter().zip(results.carries) {
            self.states[state].next = written[result];
            outputs.push(written[result]);
        }
        Ok(outputs)
    }

    /// Emits a step of an associative scan or a cumulative op. The latest results of the op become states. The first
    /// step ignores the initial values of these states.
    fn emit_running(&mut self, node: &Node, op: &Op, axis: usize) -> Result<Vec<Value>, Failed> {
        let count = if let Op::AssociativeScan(op) = op { op.leaves } else { 1 };
        let window = self.plan.window(node.inputs[0]);
        let operands = node.inputs.iter().map(|input| self.value(*input)).collect::<Result<Vec<Value>, Failed>>()?;
        let (leaves, captured) = operands.split_at(count);
        let combine = |before: &[Value], element: &[Value]| match op {
            Op::AssociativeScan(AssociativeScan { combine, .. }) => {
                inline(combine, &[before, element, captured].concat())
            }
            Op::Cumulative(op) => emit(op.kind.binary(), &[before[0], element[0]]),
            _ => unreachable!("a running combination is an associative scan or a cumulative op"),
        };
        let element =
            |row: usize| -> Vec<Value> { leaves.iter().map(|leaf| leaf.index(axis as i64, row as i64)).collect() };
        // The states hold the results for the rows of the window that earlier steps have already seen. If the window is
        // a single row, they hold the previous result.
        let known = (window - 1).max(1);
        let mut states = Vec::new();
        for row in 0..known {
            let of_row: Vec<(usize, Value)> = element(row)
                .into_iter()
                .map(|element| self.declare_state("so_far", element.ty(), Initial::Filled(None)))
                .collect();
            states.push(of_row);
        }
        let started: Vec<Value> = element(0).iter().map(|element| self.started_flag(&element.shape())).collect();
        let chosen = |later: &[Value], first: &[Value]| -> Vec<Value> {
            let pairs = later.iter().zip(first).zip(&started);
            pairs.map(|((later, first), started)| select(started.broadcast_to(later.shape()), *later, *first)).collect()
        };
        let so_far = |row: usize| -> Vec<Value> { states[row].iter().map(|(_, value)| *value).collect() };
        let mut combined: Vec<Vec<Value>> = Vec::new();
        for row in 0..window {
            let element = element(row);
            let before = combined.last().cloned();
            combined.push(match before {
                None if window == 1 => chosen(&combine(&so_far(0), &element)?, &element),
                None => chosen(&so_far(0), &element),
                Some(before) if row + 1 < window => chosen(&so_far(row), &combine(&before, &element)?),
                Some(before) => combine(&before, &element)?,
            });
        }
        for (row, of_row) in states.iter().enumerate() {
            let next = &combined[window - known + row];
            of_row.iter().zip(next).for_each(|((state, _), next)| self.states[*state].next = *next);
        }
        let along = |leaf: usize| -> Value {
            let parts: Vec<Value> = combined.iter().map(|row| row[leaf].unsqueeze(axis as i64)).collect();
            if parts.len() == 1 { parts[0] } else { concat(&parts, axis as i64) }
        };
        Ok((0..count).map(along).collect())
    }

    /// Returns the flag for rows of this shape. The flag is `true` if an earlier step has run. If it does not exist
    /// yet, declares it as a state.
    fn started_flag(&mut self, row: &Shape) -> Value {
        let is_open = |dim: &Dim| dim.constant().is_none();
        let one_of = |dim: &Dim| if is_open(dim) { dim.clone() } else { Dim::from(1) };
        let shape = match row.dims().iter().any(is_open) {
            true => Shape::from(row.dims().iter().map(one_of).collect::<Vec<_>>()),
            false => Shape::scalar(),
        };
        if let Some((_, started)) = self.started.iter().find(|(of, _)| *of == shape) {
            return *started;
        }
        let ty = TensorType::new(DType::Bool, shape.clone());
        let (state, value) = self.declare_state("started", ty, Initial::Filled(None));
        self.states[state].next = constant(true).broadcast_to(&shape);
        self.started.push((shape, value));
        value
    }
}
