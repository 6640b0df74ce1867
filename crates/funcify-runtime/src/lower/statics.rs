//! Tracks which integers and booleans of a program are static or bounded.
//!
//! A number is static if it is the same in every run of the program: a constant, a static input, a size of the call, or
//! a value computed only from such numbers. A number is bounded if it can take only finitely many values, regardless of
//! the data. For example, if a loop may exit early but has a bounded maximum number of steps, then its number of steps
//! is bounded, and so is a counter in the loop. A value computed only from bounded numbers is bounded too. A loop with
//! a bounded number of steps has a static maximum number of steps. If unrolling is forced, such a loop is not rejected,
//! but runs natively.

use super::*;
use crate::prepare::sizes::{evaluate_number, is_foldable};

/// A number that is the same in every run of the program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StaticNumber {
    number: i64,
    /// The indices of the static inputs on which the number depends.
    inputs: BTreeSet<usize>,
}

impl StaticNumber {
    /// Creates a number that depends on no static input.
    pub(crate) fn constant(number: i64) -> Self {
        StaticNumber { number, inputs: BTreeSet::new() }
    }

    /// Creates a number that holds the value of the static input with index `input`.
    pub(crate) fn of_input(input: usize, number: i64) -> Self {
        StaticNumber { number, inputs: BTreeSet::from([input]) }
    }
}

/// The sizes and registers that are bounded but not static.
#[derive(Clone, Default)]
pub(crate) struct Bounded {
    /// The bounded sizes. Loops bind them at run time.
    symbols: HashSet<Symbol>,
    /// The registers of bounded integers and booleans.
    registers: HashSet<Slot>,
}

impl StaticNumber {
    /// Returns the number as a tensor of the given dtype.
    pub(crate) fn tensor(&self, dtype: DType) -> HostTensor {
        HostTensor::scalar(self.number).cast(dtype)
    }
}

impl<B: Backend> Lowering<'_, B> {
    /// Returns the value of a register if it is static, and records the static inputs on which the value depends.
    pub(crate) fn static_number(&mut self, register: Slot) -> Option<i64> {
        let StaticNumber { number, inputs } = self.statics.get(&register)?;
        self.notes.statics.extend(inputs);
        Some(*number)
    }

    /// Evaluates a kernel at compile time if its result is an integer or boolean scalar and its operands are static.
    /// Otherwise returns `None`.
    pub(crate) fn static_result(&self, kernel: &KernelNode<B>, operands: &[Slot]) -> Option<StaticNumber> {
        if !kernel.inputs.iter().chain(&kernel.outputs).all(is_number) {
            return None;
        }
        let numbers: Vec<&StaticNumber> =
            operands.iter().map(|operand| self.statics.get(operand)).collect::<Option<_>>()?;
        let operands = numbers.iter().zip(&kernel.inputs);
        let inputs: Vec<HostTensor> = operands.map(|(number, ty)| number.tensor(ty.dtype)).collect();
        let result = evaluate_number(&kernel.op, kernel.at.clone(), &inputs, &kernel.outputs, &self.sizes)?;
        let inputs = numbers.iter().flat_map(|number| &number.inputs).copied().collect();
        Some(StaticNumber { number: result.get(0).as_i64(), inputs })
    }

    /// Returns `true` if bounds are tracked. Only forced unrolling needs them.
    fn tracks_bounds(&self) -> bool {
        self.settings.forced_strategy() == Some(LoopStrategy::Unroll)
    }

    fn is_bounded(&self, register: Slot) -> bool {
        self.statics.contains_key(&register) || self.bounded.registers.contains(&register)
    }

    fn is_bounded_size(&self, dim: &Dim) -> bool {
        dim.symbols()
            .into_iter()
            .all(|symbol| self.sizes.get(symbol).is_some() || self.bounded.symbols.contains(symbol))
    }

    /// Returns `true` if the number of steps of a loop and the lengths of its sequences and buffers are bounded.
    pub(crate) fn is_bounded_loop(&self, ScanCall { scan, operands, types, .. }: ScanCall<'_>) -> bool {
        let places = scan.operands();
        let has_bounded_steps = match places.steps {
            Some(operand) => self.is_bounded(operands[operand]),
            None => self.is_bounded_size(&scan.steps),
        };
        let mut with_rows = places.sequences.chain(places.buffers.into_iter().flatten());
        has_bounded_steps
            && with_rows
                .all(|operand| types[operand].shape.dims().first().is_none_or(|rows| self.is_bounded_size(rows)))
    }

    /// Records that the given sizes are bounded, because a loop with a bounded number of steps binds them.
    pub(crate) fn note_bounded_sizes<'s>(&mut self, symbols: impl Iterator<Item = &'s Symbol>) {
        if self.tracks_bounds() {
            self.bounded.symbols.extend(symbols.cloned());
        }
    }

    /// Records that a kernel's result is bounded, if it is computed from bounded numbers alone.
    pub(crate) fn note_bounded_result(&mut self, kernel: &KernelNode<B>, operands: &[Slot], result: Slot) {
        let follows = || {
            let types = kernel.inputs.iter().chain(&kernel.outputs);
            self.has_bounded_result(&kernel.op, types) && operands.iter().all(|operand| self.is_bounded(*operand))
        };
        if self.tracks_bounds() && follows() {
            self.bounded.registers.insert(result);
        }
    }

    /// Records which carries of a bounded `while` loop are bounded. A carry is bounded if its initial value is bounded,
    /// and each step computes its next value from bounded numbers and bounded carries alone.
    pub(crate) fn note_bounded_carries(&mut self, op: &While, operands: &[Slot], results: &[Slot]) {
        if !self.tracks_bounds() {
            return;
        }
        let places = op.operands();
        let mut carries: Vec<bool> =
            operands[places.carries.clone()].iter().map(|initial| self.is_bounded(*initial)).collect();
        let captured: Vec<bool> = operands[places.body].iter().map(|operand| self.is_bounded(*operand)).collect();
        loop {
            let next = self.bounded_outputs(&op.body, carries.iter().chain(&captured).copied());
            let kept: Vec<bool> = carries.iter().zip(next).map(|(carry, next)| *carry && next).collect();
            if kept == carries {
                break;
            }
            carries = kept;
        }
        self.bounded
            .registers
            .extend(results.iter().zip(carries).filter(|(_, carry)| *carry).map(|(result, _)| *result));
    }

    /// Returns a flag for each output of a body: `true` if the output is bounded whenever the flagged inputs are
    /// bounded.
    fn bounded_outputs(&self, body: &Graph, inputs: impl Iterator<Item = bool>) -> Vec<bool> {
        let flagged = body.inputs().iter().zip(inputs).filter(|(_, flag)| *flag);
        let mut bounded: HashSet<ValueId> = flagged.map(|(input, _)| input.value).collect();
        for node in body.nodes() {
            let types = || node.inputs.iter().chain(&node.outputs).map(|value| body.ty(*value));
            let follows = self.has_bounded_result(&node.op, types()) || matches!(node.op, Op::Constant(_));
            if follows && types().all(is_number) && node.inputs.iter().all(|input| bounded.contains(input)) {
                bounded.extend(&node.outputs);
            }
        }
        body.outputs().iter().map(|output| bounded.contains(&output.value)).collect()
    }

    /// Returns `true` if an op on numbers of the given types has a bounded result whenever its operands are bounded.
    fn has_bounded_result<'t>(&self, op: &Op, mut types: impl Iterator<Item = &'t TensorType>) -> bool {
        let has_size = if let Op::Size(size) = op { self.is_bounded_size(&size.dim) } else { true };
        is_foldable(op) && has_size && types.all(is_number)
    }

    /// Returns the bounded sizes and registers for the program of a body. The parameters of the body are in the first
    /// registers of that program, in order.
    pub(crate) fn bounds_in_body(&self, parameters: &[Parameter]) -> Bounded {
        let registers = parameters.iter().enumerate().filter(|(_, parameter)| parameter.is_bounded);
        Bounded {
            symbols: self.bounded.symbols.clone(),
            registers: registers.map(|(index, _)| index as Slot).collect(),
        }
    }

    /// Creates a parameter of a body that captures a register of the enclosing program.
    pub(crate) fn capture_parameter(&self, value: ValueId, register: Slot, stays: bool) -> Parameter {
        let number = self.statics.get(&register).cloned();
        Parameter { value, number, stays, is_bounded: self.is_bounded(register) }
    }
}
