//! Bodies: a program for each, which steps share, and what of a loop's body runs once, before the loop.

use funcify_core::graph::{is_certain, uses_any};

use super::*;

/// A loop's body whose invariant part is lowered.
pub(crate) struct Body {
    /// The registers of the invariant values.
    pub(crate) registers: Vec<(ValueId, Slot)>,
    /// Which nodes each step runs.
    pub(crate) step: Vec<bool>,
}

/// What a program in a program is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum BodyKey {
    /// A body, whose arguments after the first `carries` stay from run to run if it `repeats`.
    Body { graph: GraphId, carries: usize, repeats: bool },
    /// The step of a native loop: which nodes of the body it runs belongs to the loop.
    Step(NodeKey),
}

/// What the program of a body depends on: the body, which of its arguments are static, and the sizes.
pub(crate) type ProgramKey = (BodyKey, Vec<Option<StaticNumber>>, Sizes);

/// A parameter of a body that is lowered.
pub(crate) struct Parameter {
    pub(crate) value: ValueId,
    /// Its number, if it is static.
    pub(crate) number: Option<StaticNumber>,
    /// Whether it is the same in all runs of the program: see [`Argument::stays`].
    pub(crate) stays: bool,
    /// Whether it is an integer that has a largest number.
    pub(crate) is_bounded: bool,
}

impl Parameter {
    /// One that each run has anew.
    pub(crate) fn new(value: ValueId) -> Self {
        Parameter { value, number: None, stays: false, is_bounded: false }
    }
}

impl<B: Backend> Lowering<'_, B> {
    /// Returns the program of a body. Steps that know as much of its arguments share it.
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
        inner.bounded = self.bounded_in(parameters);
        let (program, notes) = inner.lower_body(body, parameters, marked)?;
        self.notes.statics.extend(notes.statics);
        self.notes.fallback.extend(notes.fallback);
        notes.loops.into_iter().for_each(|each| self.notes.add_loop(self.notes.loops.len(), each));
        let program = Arc::new(program);
        self.programs.insert(key, program.clone());
        Ok(program)
    }

    /// The program of a body whose parameters after the first `carries` are these operands. Those that are
    /// static are static in it; all are the same in each run of a program that `repeats`.
    pub(crate) fn sub_program(
        &mut self,
        body: &Arc<Graph>,
        carries: usize,
        operands: &[Slot],
        repeats: bool,
    ) -> Result<Arc<Program<B>>> {
        let mut parameters: Vec<_> = body.inputs().iter().map(|input| Parameter::new(input.value)).collect();
        for (parameter, operand) in parameters[carries..].iter_mut().zip(operands) {
            *parameter = self.captured(parameter.value, *operand, repeats);
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

    /// Lowers what depends on the invariants only, once, before the loop.
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
        // The sizes that the loop binds: its own number of steps, if it is a value, and those of inner loops,
        // which each step gives anew.
        let mut stepwise: Vec<&Symbol> = scan.binds().collect();
        for (index, node) in body.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
            let depends = node.inputs.iter().any(|input| !invariant[input.index()]);
            fixed[index] = !depends && !uses_any(body, node, &stepwise) && is_certain(body, node, &self.sizes);
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
