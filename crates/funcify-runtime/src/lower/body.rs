//! Lowers the bodies of loops and branches to separate programs, and the invariant part of a loop's body to
//! instructions that run once, before the loop.

use funcify_core::graph::{cannot_fail, uses_any};

use super::*;

/// A loop body whose invariant part is already lowered.
pub(crate) struct Body {
    /// The registers of the loop-invariant values.
    pub(crate) registers: Vec<(ValueId, Slot)>,
    /// For each node of the body, `true` if it must run in every step. The other live nodes run before the loop.
    pub(crate) step: Vec<bool>,
}

/// The identity of the graph from which a nested program is built.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum BodyKey {
    /// A body whose first `carries` parameters are carries. If `repeats` is set, the other parameters have the same
    /// values in every run of the program.
    Body { graph: GraphId, carries: usize, repeats: bool },
    /// The step of a native loop. Identified by the loop's node, because the loop determines which nodes of its body
    /// run in each step.
    Step(NodeKey),
}

/// The key for sharing a nested program: its source, the static values of its parameters, and the sizes.
pub(crate) type ProgramKey = (BodyKey, Vec<Option<StaticNumber>>, Sizes);

/// A parameter of a body that is being lowered.
pub(crate) struct Parameter {
    pub(crate) value: ValueId,
    /// The parameter's value, if it is static.
    pub(crate) number: Option<StaticNumber>,
    /// `true` if the argument is the same in every run of the program (see [`Argument::stays`]).
    pub(crate) stays: bool,
    /// `true` if the parameter is an integer or a boolean that is static or bounded (see [`Bounded`]).
    pub(crate) is_bounded: bool,
}

impl Parameter {
    /// Creates a parameter whose argument may differ in every run.
    pub(crate) fn new(value: ValueId) -> Self {
        Parameter { value, number: None, stays: false, is_bounded: false }
    }
}

impl<B: Backend> Lowering<'_, B> {
    /// Returns the program for the marked nodes of a body. Programs with the same key, static parameters and sizes are
    /// built only once.
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
        inner.grouping = self.grouping;
        let (program, notes) = inner.lower_body(body, parameters, marked)?;
        self.notes.statics.extend(notes.statics);
        self.notes.fallback.extend(notes.fallback);
        notes.loops.into_iter().for_each(|each| self.notes.add_loop(self.notes.loops.len(), each));
        let program = Arc::new(program);
        self.programs.insert(key, program.clone());
        Ok(program)
    }

    /// Returns the program of a body. The first `carries` arguments are carries, and `operands` are the other
    /// arguments. Static operands become static parameters of the program. If `repeats` is set, the operands are the
    /// same in every run of the program.
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

    /// Lowers the marked nodes to a program with the given parameters.
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

    /// Lowers the loop-invariant nodes of a body, so that they run once, before the loop. If the loop is compiled at run
    /// time, lowers only single numbers, because the compiled code computes the invariants itself.
    pub(crate) fn lower_invariants(
        &mut self,
        ScanCall { scan, operands, .. }: ScanCall<'_>,
        is_late: bool,
    ) -> Result<Body> {
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
        // The sizes that change from step to step or are not known before the loop: the loop's own number of steps, if
        // an operand or an early exit determines it, and the sizes that nodes of the body bind.
        let mut stepwise: Vec<&Symbol> = scan.binds().collect();
        for (index, node) in body.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
            let depends = node.inputs.iter().any(|input| !invariant[input.index()]);
            let is_number = || node.outputs.iter().all(|output| is_number(body.ty(*output)));
            fixed[index] = !depends
                && (!is_late || is_number())
                && !uses_any(body, node, &stepwise)
                && cannot_fail(body, node, &self.sizes);
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
