//! Integers of a program that are static, and those that are not and yet have a largest number.
//!
//! A number is static if it is the same whenever the program runs: constants, static inputs, sizes of the call, and what follows
//! from them. It is bounded if it is one of finitely many, whatever the data are: the number of steps of a loop that ends early, a
//! counter of such a loop, and what follows from bounded numbers alone. A loop whose number of steps is bounded has a largest
//! count that is static, so a program whose loops are forced to be unrolled has it, and runs it as a loop that ends early.

use funcify_core::HostTensor;
use funcify_core::ops::{Creation, EvalContext};

use super::*;

/// A number that is static: the same whenever the program runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StaticNumber {
    number: i64,
    /// The static inputs that it follows from.
    inputs: BTreeSet<usize>,
}

impl StaticNumber {
    /// One that follows from no input.
    pub(crate) fn constant(number: i64) -> Self {
        StaticNumber { number, inputs: BTreeSet::new() }
    }

    /// The number of a static input.
    pub(crate) fn of_input(input: usize, number: i64) -> Self {
        StaticNumber { number, inputs: BTreeSet::from([input]) }
    }
}

/// What is bounded, beside what is static.
#[derive(Clone, Default)]
pub(crate) struct Bounded {
    /// Sizes that loops bind.
    symbols: HashSet<Symbol>,
    /// Registers of integers and truth values.
    registers: HashSet<Slot>,
}

impl<B: Backend> Lowering<'_, B> {
    /// The number in a register, if it is static: the program then depends on it.
    pub(crate) fn static_number(&mut self, register: Slot) -> Option<i64> {
        let StaticNumber { number, inputs } = self.statics.get(&register)?;
        self.notes.statics.extend(inputs);
        Some(*number)
    }

    /// The number that an integer or boolean scalar has, if it follows from sizes and numbers that are static.
    pub(crate) fn static_result(&self, kernel: &KernelNode<B>, operands: &[Slot]) -> Option<StaticNumber> {
        if !folds(&kernel.op) || !kernel.inputs.iter().chain(&kernel.outputs).all(is_number) {
            return None;
        }
        let numbers: Vec<&StaticNumber> =
            operands.iter().map(|operand| self.statics.get(operand)).collect::<Option<_>>()?;
        let tensor = |(of, ty): (&&StaticNumber, &TensorType)| HostTensor::scalar(of.number).cast(ty.dtype);
        let inputs: Vec<HostTensor> = numbers.iter().zip(&kernel.inputs).map(tensor).collect();
        let mut sizes = self.sizes.clone();
        let mut context = EvalContext { at: kernel.at.clone(), sizes: &mut sizes };
        let results = kernel.op.eval(&mut context, &inputs, &kernel.outputs).ok()?;
        let inputs = numbers.iter().flat_map(|number| &number.inputs).copied().collect();
        Some(StaticNumber { number: results.first()?.get(0).as_i64(), inputs })
    }

    /// Whether it matters what is bounded: only where loops must have a static largest count.
    fn asks_for_bounds(&self) -> bool {
        self.settings.forced() == Some(LoopStrategy::Unroll)
    }

    fn is_bounded(&self, register: Slot) -> bool {
        self.statics.contains_key(&register) || self.bounded.registers.contains(&register)
    }

    fn is_bounded_size(&self, dim: &Dim) -> bool {
        dim.symbols()
            .into_iter()
            .all(|symbol| self.sizes.get(symbol).is_some() || self.bounded.symbols.contains(symbol))
    }

    /// Whether the steps of a loop and the rows that it reads are bounded.
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

    /// Notes the sizes that a bounded loop binds.
    pub(crate) fn note_bounded_sizes<'s>(&mut self, symbols: impl Iterator<Item = &'s Symbol>) {
        if self.asks_for_bounds() {
            self.bounded.symbols.extend(symbols.cloned());
        }
    }

    /// Notes a kernel's result that follows from bounded numbers.
    pub(crate) fn note_bounded_result(&mut self, kernel: &KernelNode<B>, operands: &[Slot], result: Slot) {
        let follows = || {
            let types = kernel.inputs.iter().chain(&kernel.outputs);
            self.gives_bounded(&kernel.op, types) && operands.iter().all(|operand| self.is_bounded(*operand))
        };
        if self.asks_for_bounds() && follows() {
            self.bounded.registers.insert(result);
        }
    }

    /// Notes the carries of a bounded loop, in `results`, that each step computes from bounded numbers and such carries.
    pub(crate) fn note_bounded_carries(&mut self, op: &While, operands: &[Slot], results: &[Slot]) {
        if !self.asks_for_bounds() {
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

    /// Which outputs of a body are bounded, if these of its inputs are.
    fn bounded_outputs(&self, body: &Graph, inputs: impl Iterator<Item = bool>) -> Vec<bool> {
        let flagged = body.inputs().iter().zip(inputs).filter(|(_, flag)| *flag);
        let mut bounded: HashSet<ValueId> = flagged.map(|(input, _)| input.value).collect();
        for node in body.nodes() {
            let types = || node.inputs.iter().chain(&node.outputs).map(|value| body.ty(*value));
            let follows = self.gives_bounded(&node.op, types()) || matches!(node.op, Op::Constant(_));
            if follows && types().all(is_number) && node.inputs.iter().all(|input| bounded.contains(input)) {
                bounded.extend(&node.outputs);
            }
        }
        body.outputs().iter().map(|output| bounded.contains(&output.value)).collect()
    }

    /// Whether an op on numbers of these types gives a bounded one where its operands are.
    fn gives_bounded<'t>(&self, op: &Op, mut types: impl Iterator<Item = &'t TensorType>) -> bool {
        let has_size = if let Op::Size(size) = op { self.is_bounded_size(&size.dim) } else { true };
        folds(op) && has_size && types.all(is_number)
    }

    /// What is bounded in the program of a body with these parameters, whose registers are the first ones.
    pub(crate) fn bounded_in(&self, parameters: &[Parameter]) -> Bounded {
        let registers = parameters.iter().enumerate().filter(|(_, parameter)| parameter.is_bounded);
        Bounded {
            symbols: self.bounded.symbols.clone(),
            registers: registers.map(|(index, _)| index as Slot).collect(),
        }
    }

    /// A parameter of a body that is this register of the program around it.
    pub(crate) fn captured(&self, value: ValueId, register: Slot, stays: bool) -> Parameter {
        let number = self.statics.get(&register).cloned();
        Parameter { value, number, stays, is_bounded: self.is_bounded(register) }
    }
}

/// Whether an op on integers and truth values is computed when the program is made, where its operands are static.
fn folds(op: &Op) -> bool {
    match op.class() {
        OpClass::Elementwise(op) => match op {
            Elementwise::Unary(_) | Elementwise::Binary(_) | Elementwise::Compare(_) => true,
            Elementwise::Select(_) | Elementwise::Cast(_) => true,
            Elementwise::Bits(_) | Elementwise::Predicate(_) => false,
            Elementwise::NextAfter(_) | Elementwise::Polygamma(_) => false,
        },
        OpClass::Creation(Creation::Size(_)) => true,
        OpClass::Creation(_) | OpClass::Movement(_) | OpClass::Indexing(_) | OpClass::Along(_) => false,
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => false,
        OpClass::Control(_) | OpClass::Custom(_) => false,
    }
}
