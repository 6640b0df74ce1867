//! Lowers bodies: one program for each, shared by its steps, and the part of a loop's body that runs once before the
//! loop.

use funcify_core::graph::{cannot_fail, uses_any};

use super::*;

/// A loop's body whose invariant part is lowered.
pub(crate) struct Body {
    /// The registers of the invariant values.
    pub(crate) registers: Vec<(ValueId, Slot)>,
    /// `true` for the nodes that each step runs.
    pub(crate) step: Vec<bool>,
}

/// The source of a nested program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum BodyKey {
    /// A body. If `repeats` is set, its arguments after the first `carries` stay the same from run to run.
    Body { graph: GraphId, carries: usize, repeats: bool },
    /// The step of a native loop, identified by the loop because the loop decides which nodes of the body it runs.
    Step(NodeKey),
}

/// The key of a body's program: the body, its static arguments, and the sizes.
pub(crate) type ProgramKey = (BodyKey, Vec<Option<StaticNumber>>, Sizes);

/// A parameter of a body that is being lowered.
pub(crate) struct Parameter {
    pub(crate) value: ValueId,
    /// The value, if it is static.
    pub(crate) number: Option<StaticNumber>,
    /// `true` if it is the same in all runs of the program: see [`Argument::stays`].
    pub(crate) stays: bool,
    /// `true` if it is an integer that has a largest value.
    pub(crate) is_bounded: bool,
}

impl Parameter {
    /// Creates a parameter that may differ in each run.
    pub(crate) fn new(value: ValueId) -> Self {
        Parameter { value, number: None, stays: false, is_bounded: false }
    }
}

impl<B: Backend> Lowering<'_, B> {
    /// Returns the program of a body. Steps with the same static arguments share it.
    pub(crate) fn shared_program(
        &mut self,
        key: BodyKey,
        body: &Graph,
        parameters: &[Parameter],
        marked: &[bool],
    ) -> Result<Arc<Program<B>>> {
        let numbers = parameters.iter().map(|parameter| parameter.number.clone()).collect();
        let key = (key, numbers, self.sizes.clone());
        if let Some(program) = self.programs.get(&key) {
            return Ok(program.clone());
        }
        let mut inner = Lowering::new(self.settings.clone(), self.sizes.clone());
        inner.bounded = self.bounds_in_body(parameters);
        let (program, notes) = inner.lower_body(body, parameters, marked)?;
        self.notes.statics.extend(notes.statics);
        self.notes.fallback.extend(notes.fallback);
        notes.loops.into_iter().for_each(|each| self.notes.add_loop(self.notes.loops.len(), each));
        let program = Arc::new(program);
        self.programs.insert(key, program.clone());
        Ok(program)
    }

    /// Returns the program of a body whose parameters after the first `carries` are these operands. Static operands are
    /// static in the program as well. If `repeats` is set, all operands are the same in each run.
    pub(crate) fn sub_program(
        &mut self,
        body: &Arc<Graph>,
        carries: usize,
        operands: &[Slot],
        repeats: bool,
    ) -> Result<Arc<Program<B>>> {
        let mut parameters: Vec<_> = body.inputs().iter().map(|input| Parameter::new(input.value)).collect();
        for (parameter, operand) in parameters[carries..].iter_mut().zip(operands) {
            *parameter = self.capture_parameter(parameter.value, *operand, repeats);
        }
        let key = BodyKey::Body { graph: body.id(), carries, repeats };
        self.shared_program(key, body, &parameters, &body.live_nodes())
    }

    /// Lowers the marked nodes into a program with these parameters.
    pub(crate) fn lower_body(
        mut self,
        graph: &Graph,
        parameters: &[Parameter],
        marked: &[bool],
    ) -> Result<(Program<B>, Notes)> {
        let mut registers = Replay::new(graph, []);
        let mut inputs = Vec::with_capacity(parameters.len());
        for Parameter { value, number, stays, .. } in parameters {
            let register = self.register();
            self.statics.extend(number.clone().map(|number| (register, number)));
            registers.set(*value, register);
            inputs.push(Argument { register, ty: graph.ty(*value).clone(), stays: *stays });
        }
        let outputs = self.lower_nodes(graph, registers, marked)?.outputs()?;
        Ok((Program::plan(self.instructions, self.registers, inputs, &outputs), self.notes))
    }

    /// Lowers the nodes that depend on invariants only, to run once before the loop.
    pub(crate) fn lower_invariants(&mut self, ScanCall { scan, operands, .. }: ScanCall<'_>) -> Result<Body> {
        let body = &scan.body;
        let mut registers = Replay::new(body, []);
        let mut invariant = vec![false; body.values().count()];
        let places = scan.operands().invariants.zip(scan.params().invariants);
        for (operand, param) in places {
            let value = body.inputs()[param].value;
            registers.set(value, operands[operand]);
            invariant[value.index()] = true;
        }
        let live = body.live_nodes();
        let mut fixed = vec![false; body.nodes().len()];
        // The sizes that the loop binds: its own number of steps, if it is a value, and those of inner loops, which
        // each step binds anew.
        let mut stepwise: Vec<&Symbol> = scan.binds().collect();
        for (index, node) in body.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
            let depends = node.inputs.iter().any(|input| !invariant[input.index()]);
            fixed[index] = !depends && !uses_any(body, node, &stepwise) && cannot_fail(body, node, &self.sizes);
            if !fixed[index] {
                stepwise.extend(node.op.binds());
            }
            node.outputs.iter().for_each(|output| invariant[output.index()] = fixed[index]);
        }
        let registers = self.lower_nodes(body, registers, &fixed)?;
        let registers = body.values().filter_map(|value| Some((value, registers.get(value)?))).collect();
        let step = (0..live.len()).map(|index| live[index] && !fixed[index]).collect();
        Ok(Body { registers, step })
    }
}
