//! A program: kernels over numbered slots, each slot freed or reused at its last use.

use std::borrow::Cow;
use std::slice::from_ref;
use std::sync::Arc;

use funcify_core::cancel::{Ran, Watch, free_after};
use funcify_core::error::{BackendError, Error, Place, Result, Site};
use funcify_core::ops::Op;
use funcify_core::types::{Sizes, Symbol, TensorType};
use smallvec::{SmallVec, smallvec};

use super::associative::AssociativeNode;
use super::backend::{Backend, Compiled, KernelCall, Part, StackType, Tensors};
use super::bind::BindNode;
use super::eager::execution_error;
use super::ledger::{Ledger, Memory};
use super::native::NativeLoop;
use super::profile::Profiler;
use super::registry::Kernel;
use super::switch::ChoiceNode;
use super::while_loop::WhileNode;

/// A number of a tensor: a register while the program is made (each is set once), then a slot.
pub(super) type Slot = u32;

/// Where an instruction finds an operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) slot: Slot,
    /// Whether this is the last use, which takes the tensor out of the slot.
    pub(super) last: bool,
}

/// One instruction.
pub(super) struct Instruction<B: Backend> {
    pub(super) action: Action<B>,
    pub(super) operands: SmallVec<[Operand; 3]>,
    /// Where the results go; `None` for those that nobody uses.
    pub(super) results: SmallVec<[Option<Slot>; 2]>,
}

/// What an instruction does.
pub(super) enum Action<B: Backend> {
    /// Runs a kernel.
    Kernel(Arc<KernelNode<B>>),
    /// Runs a native loop.
    Loop(Box<NativeLoop<B>>),
    /// Runs one of several programs.
    Choice(Box<ChoiceNode<B>>),
    /// Runs a program as long as another one gives true.
    While(Box<WhileNode<B>>),
    /// Runs the programs of an associative scan.
    Associative(Box<AssociativeNode<B>>),
    /// Runs what the backend compiled as a whole.
    Whole(WholeNode<B::Tensor>),
    /// Gives a tensor that is part of the program.
    Constant { tensor: B::Tensor, ty: TensorType },
    /// Gives a symbol its size for the instructions that follow: the number of steps of an unrolled loop.
    Bind { symbol: Symbol, size: usize },
    /// Gives a symbol the size that the operand says.
    BindSize(Box<BindNode>),
    /// One row of the operand.
    Row { row: usize, of: Arc<RowsNode> },
    /// Several rows of the operand.
    Rows { start: usize, count: usize, block: Box<TensorType>, of: Arc<RowsNode> },
    /// The operands along axis 0: rows, and blocks of rows.
    Stack(Arc<StackNode>),
}

/// A node that a kernel serves. All steps of an unrolled loop share it.
pub(super) struct KernelNode<B: Backend> {
    pub(super) kernel: Kernel<B>,
    pub(super) op: Op,
    pub(super) inputs: Vec<TensorType>,
    pub(super) outputs: Vec<TensorType>,
    pub(super) at: Place,
}

impl<B: Backend> KernelNode<B> {
    #[inline]
    fn run(&self, run: &Run<'_, B>, operands: Tensors<B::Tensor>) -> Result<Tensors<B::Tensor>, BackendError> {
        let (inputs, outputs) = (&self.inputs, &self.outputs);
        let call = KernelCall { op: &self.op, backend: run.backend, inputs, outputs, sizes: &run.sizes, at: &self.at };
        run.backend.run_kernel(self.kernel, &call, operands)
    }
}

/// A program or a loop that the backend compiled as a whole.
pub(super) struct WholeNode<T> {
    pub(super) compiled: Arc<dyn Compiled<T>>,
    pub(super) outputs: Vec<TensorType>,
    pub(super) at: Place,
}

/// A tensor of which rows are read.
pub(super) struct RowsNode {
    /// The type of a row.
    pub(super) row: TensorType,
    pub(super) at: Place,
}

/// A stack of rows and blocks.
pub(super) struct StackNode {
    pub(super) ty: TensorType,
    /// Whether each operand is a block of rows.
    pub(super) is_block: Vec<bool>,
    pub(super) at: Arc<Place>,
}

/// What is fixed while a program runs, and the sizes that its loops bind.
pub(super) struct Run<'a, B: Backend> {
    pub(super) backend: &'a B,
    pub(super) sizes: Sizes,
    /// What may stop it.
    pub(super) watch: Watch,
    /// The memory budget, where instructions are held against it.
    pub(super) memory: Option<Memory>,
    /// Watches the instructions, if the call is profiled.
    pub(super) profiler: Option<Profiler>,
}

impl<B: Backend> Run<'_, B> {
    /// A loop begins its next step, after so many, if nothing stops it.
    pub(super) fn step(&mut self, at: &Place, ran: usize) -> Result<()> {
        self.watch.check(at, Ran::Steps(ran))?;
        if let Some(profiler) = &mut self.profiler {
            profiler.step(ran);
        }
        Ok(())
    }

    pub(super) fn fail<T>(&self, at: &Place, result: Result<T, BackendError>) -> Result<T> {
        result.map_err(|error| execution_error(at, self.backend.name(), error))
    }

    /// The type that a stacked tensor has in this call.
    pub(super) fn stack_type(&self, at: &Place, ty: &TensorType) -> Result<StackType> {
        let shape = ty.shape.value(&self.sizes).map_err(|error| funcify_core::ops::no_size(at, error))?;
        Ok(StackType { dtype: ty.dtype, rows: shape[0], row: shape[1..].to_vec() })
    }
}

/// The memory of a running program. What runs a program again and again keeps it, so that nothing is allocated for a run.
pub(super) struct Frame<T> {
    slots: Vec<Option<T>>,
    /// What the slots hold, where a [`Ledger`] accounts for it.
    bytes: Vec<u64>,
}

/// An argument of a program that is planned.
pub(super) struct Argument {
    pub(super) register: Slot,
    pub(super) ty: TensorType,
    /// Whether it stays in the frame from run to run, as what a loop captures does. The others are taken at their last use.
    pub(super) stays: bool,
}

/// A compiled graph, or a compiled body of a native loop.
pub(super) struct Program<B: Backend> {
    pub(super) instructions: Vec<Instruction<B>>,
    pub(super) slots: usize,
    /// Where the arguments go; `None` for those that nobody uses.
    pub(super) inputs: Vec<Option<Slot>>,
    /// The types of the arguments.
    pub(super) input_types: Vec<TensorType>,
    outputs: Vec<Operand>,
}

impl<B: Backend> Program<B> {
    /// What it is, if it is one instruction that was compiled as a whole.
    pub(super) fn whole(&self) -> Option<&Arc<dyn Compiled<B::Tensor>>> {
        match self.instructions.as_slice() {
            [Instruction { action: Action::Whole(node), .. }] => Some(&node.compiled),
            _ => None,
        }
    }

    /// Plans the memory of instructions over registers: finds each last use and maps registers to slots.
    pub(super) fn plan(
        mut instructions: Vec<Instruction<B>>,
        registers: usize,
        arguments: Vec<Argument>,
        outputs: &[Slot],
    ) -> Self {
        let mut used = vec![false; registers];
        let mut stays = vec![false; registers];
        arguments.iter().for_each(|argument| stays[argument.register as usize] = argument.stays);
        let mut mark = |operand: &mut Operand| {
            let register = operand.slot as usize;
            operand.last = !std::mem::replace(&mut used[register], true) && !stays[register];
        };
        let mut outputs: Vec<Operand> = outputs.iter().map(|slot| Operand { slot: *slot, last: false }).collect();
        outputs.iter_mut().rev().for_each(&mut mark);
        for instruction in instructions.iter_mut().rev() {
            instruction.operands.iter_mut().rev().for_each(&mut mark);
        }

        let mut slots = SlotMap { slot_of: vec![None; registers], free: Vec::new(), count: 0 };
        let place = |argument: &Argument| used[argument.register as usize].then(|| slots.assign(argument.register));
        let inputs = arguments.iter().map(place).collect();
        let input_types = arguments.into_iter().map(|argument| argument.ty).collect();
        for instruction in &mut instructions {
            // The results get slots before the operands give theirs back: a kernel's operands and results never meet.
            let results = instruction.results.iter_mut();
            results.for_each(|result| *result = result.filter(|r| used[*r as usize]).map(|r| slots.assign(r)));
            instruction.operands.iter_mut().for_each(|operand| slots.resolve(operand));
        }
        outputs.iter_mut().for_each(|operand| slots.resolve(operand));
        Program { instructions, slots: slots.count, inputs, input_types, outputs }
    }

    /// How many instructions it has, those of loops' bodies and of branches included.
    pub(super) fn len(&self) -> usize {
        let nested = self.instructions.iter().flat_map(|instruction| instruction.action.programs());
        self.instructions.len() + nested.map(|program| program.len()).sum::<usize>()
    }

    /// Runs the program on its arguments.
    pub(super) fn run(&self, run: &mut Run<'_, B>, arguments: Vec<B::Tensor>) -> Result<Vec<B::Tensor>> {
        let mut frame = self.frame();
        self.place_all(&mut frame, 0, arguments);
        if let Err(error) = self.run_in(&mut frame, run) {
            free_after(&error, frame.slots);
            return Err(error);
        }
        Ok((0..self.outputs.len()).map(|output| self.take(&mut frame, output)).collect())
    }

    /// A frame without arguments.
    pub(super) fn frame(&self) -> Frame<B::Tensor> {
        Frame { slots: vec![None; self.slots], bytes: Vec::new() }
    }

    /// Puts an argument into a frame. Before each run all are put there that do not stay.
    pub(super) fn place(&self, frame: &mut Frame<B::Tensor>, argument: usize, tensor: B::Tensor) {
        if let Some(slot) = self.inputs[argument] {
            frame.slots[slot as usize] = Some(tensor);
        }
    }

    /// Puts arguments into a frame, those from `first` on.
    pub(super) fn place_all(
        &self,
        frame: &mut Frame<B::Tensor>,
        first: usize,
        tensors: impl IntoIterator<Item = B::Tensor>,
    ) {
        (first..).zip(tensors).for_each(|(argument, tensor)| self.place(frame, argument, tensor));
    }

    /// Takes an output out of a frame, in which the program ran. They are taken in order, each once.
    pub(super) fn take(&self, frame: &mut Frame<B::Tensor>, output: usize) -> B::Tensor {
        fetch(&mut frame.slots, self.outputs[output])
    }

    /// Runs the instructions on the arguments that are in the frame.
    pub(super) fn run_in(&self, frame: &mut Frame<B::Tensor>, run: &mut Run<'_, B>) -> Result<()> {
        let Frame { slots, bytes } = frame;
        let mut ledger = Ledger::open(self, run, bytes);
        for (ran, instruction) in self.instructions.iter().enumerate() {
            run.watch.check_at(|| instruction.action.place(), Ran::Ops(ran))?;
            if let Some(ledger) = &ledger {
                ledger.before(instruction, run)?;
            }
            let _span = super::span::instruction(|| instruction.action.place());
            let operands = instruction.operands.iter().map(|operand| fetch(slots, *operand)).collect();
            let mut results = match (&run.profiler, &instruction.action) {
                (None, Action::Kernel(node)) => match node.run(run, operands) {
                    Ok(results) => results,
                    Err(error) => return run.fail(&node.at, Err(error)),
                },
                (None, action) => action.run(run, operands, &instruction.results)?,
                (Some(_), _) => instruction.run_watched(run, operands)?,
            };
            for (slot, tensor) in with_slots(&instruction.results, results.drain(..)) {
                slots[slot] = Some(tensor);
            }
            if let Some(ledger) = &mut ledger {
                ledger.after(instruction, run);
            }
        }
        Ok(())
    }
}

/// What has a slot, with the slot's number.
pub(super) fn with_slots<T>(
    slots: &[Option<Slot>],
    all: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = (usize, T)> {
    slots.iter().zip(all).filter_map(|(slot, each)| Some(((*slot)? as usize, each)))
}

fn fetch<T: Clone>(slots: &mut [Option<T>], operand: Operand) -> T {
    let slot = &mut slots[operand.slot as usize];
    let tensor = if operand.last { slot.take() } else { slot.clone() };
    tensor.expect("the plan sets a slot before it is used")
}

/// Hands out slots and takes back those whose tensor was used for the last time.
struct SlotMap {
    slot_of: Vec<Option<Slot>>,
    free: Vec<Slot>,
    count: usize,
}

impl SlotMap {
    fn assign(&mut self, register: Slot) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            (self.count - 1) as Slot
        });
        self.slot_of[register as usize] = Some(slot);
        slot
    }

    fn resolve(&mut self, operand: &mut Operand) {
        let slot = self.slot_of[operand.slot as usize].expect("a register is set before it is used");
        operand.slot = slot;
        if operand.last {
            self.free.push(slot);
        }
    }
}

impl<B: Backend> Action<B> {
    /// The programs that it runs.
    pub(super) fn programs(&self) -> Vec<&Arc<Program<B>>> {
        match self {
            Action::Loop(native) => vec![&native.body],
            Action::Choice(choice) => choice.branches.iter().collect(),
            Action::While(node) => vec![&node.condition, &node.body],
            Action::Associative(node) => vec![&node.up_sweep, &node.down_sweep],
            _ => Vec::new(),
        }
    }

    /// The op that it serves.
    pub(super) fn place(&self) -> Place {
        self.serves().0.into_owned()
    }

    /// The types of its results.
    pub(super) fn output_types(&self) -> &[TensorType] {
        self.serves().1
    }

    /// The op that it serves, and the types of its results.
    fn serves(&self) -> (Cow<'_, Place>, &[TensorType]) {
        let (at, outputs) = match self {
            Action::Kernel(node) => (&node.at, node.outputs.as_slice()),
            Action::Loop(native) => (&native.at, native.outputs.as_slice()),
            Action::Choice(choice) => (&choice.at, choice.outputs.as_slice()),
            Action::While(node) => (&node.at, node.outputs.as_slice()),
            Action::Associative(node) => (&node.at, node.outputs.as_slice()),
            Action::Whole(node) => (&node.at, node.outputs.as_slice()),
            Action::Constant { ty, .. } => return (Cow::Owned(Place::new("constant", Site::Unknown)), from_ref(ty)),
            Action::Bind { .. } => return (Cow::Owned(Place::new("scan", Site::Unknown)), &[]),
            Action::BindSize(node) => (&node.at, [].as_slice()),
            Action::Row { of, .. } => (&of.at, from_ref(&of.row)),
            Action::Rows { block, of, .. } => (&of.at, from_ref(&**block)),
            Action::Stack(node) => (&*node.at, from_ref(&node.ty)),
        };
        (Cow::Borrowed(at), outputs)
    }

    pub(super) fn run(
        &self,
        run: &mut Run<'_, B>,
        operands: Tensors<B::Tensor>,
        results: &[Option<Slot>],
    ) -> Result<Tensors<B::Tensor>> {
        let backend = run.backend;
        match self {
            Action::Kernel(node) => run.fail(&node.at, node.run(run, operands)),
            Action::Loop(native) => native.run(run, operands.into_vec(), results),
            Action::Choice(choice) => choice.run(run, operands.into_vec()),
            Action::While(node) => node.run(run, operands.into_vec()),
            Action::Associative(node) => node.run(run, operands.into_vec()),
            Action::Whole(node) => node.run(run, &operands),
            Action::Bind { symbol, size } => {
                run.sizes.set(symbol, *size);
                Ok(Tensors::new())
            }
            Action::BindSize(node) => node.run(run, &operands[0]),
            Action::Constant { tensor, .. } => Ok(smallvec![tensor.clone()]),
            Action::Row { row, of } => Ok(smallvec![run.fail(&of.at, backend.row(&operands[0], *row))?]),
            Action::Rows { start, count, of, .. } => {
                Ok(smallvec![run.fail(&of.at, backend.rows(&operands[0], *start, *count))?])
            }
            Action::Stack(node) => {
                let ty = run.stack_type(&node.at, &node.ty)?;
                let parts = operands.into_iter().zip(&node.is_block);
                let parts = parts.map(|(tensor, block)| if *block { Part::Block(tensor) } else { Part::Row(tensor) });
                Ok(smallvec![run.fail(&node.at, backend.stack(parts.collect(), &ty))?])
            }
        }
    }
}

/// The error of a program that grows past the limit.
pub(super) fn too_large(at: &Place, backend: &str, kernels: usize, limit: usize) -> Error {
    Error::ProgramTooLarge {
        at: at.boxed(),
        backend: backend.to_string(),
        kernels,
        limit,
        fix: "run fewer steps a call, raise `CompileOptions::max_kernels`, or use `LoopStrategy::Native`".into(),
    }
}
