//! Programs: lists of instructions on numbered slots. A slot can be reused after the last use of its tensor.

use std::borrow::Cow;
use std::slice::from_ref;

use funcify_core::ops::Op;
use funcify_core::types::Symbol;
use smallvec::SmallVec;

use super::associative::AssociativeNode;
use super::bind::BindNode;
use super::late::GroupNode;
use super::native::NativeLoop;
use super::switch::SwitchNode;
use super::while_loop::WhileNode;
use super::*;
use crate::backend::registry::Kernel;

/// The index of a slot, which holds a tensor. While a program is being built, a `Slot` is instead the index of a
/// register, which is set exactly once.
pub(crate) type Slot = u32;

/// An operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) slot: Slot,
    /// `true` if this is the last use of the tensor, which is then moved out of the slot.
    pub(crate) last: bool,
}

/// An instruction: an action with its operands and results.
pub(crate) struct Instruction<B: Backend> {
    pub(crate) action: Action<B>,
    pub(crate) operands: SmallVec<[Operand; 3]>,
    /// The slot of each result, or `None` if the result is unused.
    pub(crate) results: SmallVec<[Option<Slot>; 2]>,
}

/// The operation that an instruction performs.
pub(crate) enum Action<B: Backend> {
    /// Runs a kernel.
    Kernel(Arc<KernelNode<B>>),
    /// Runs a native loop.
    Loop(Box<NativeLoop<B>>),
    /// Runs one of several programs, selected by an index.
    Switch(Box<SwitchNode<B>>),
    /// Runs the program of a loop body for as long as the program of the condition returns `true`.
    While(Box<WhileNode<B>>),
    /// Runs the two sweeps of an associative scan.
    Associative(Box<AssociativeNode<B>>),
    /// Runs code that the backend compiled as a whole.
    Whole(WholeNode<B::Tensor>),
    /// Runs a group of ops that the backend compiles at run time.
    Group(Box<GroupNode<B>>),
    /// Returns a constant, which is stored in the program.
    Constant { tensor: B::Tensor, ty: TensorType },
    /// Binds a symbol to a static size, such as the number of steps of an unrolled loop, for the following
    /// instructions.
    Bind { symbol: Symbol, size: usize },
    /// Binds a symbol to the value of the operand, for the following instructions.
    BindSize(Box<BindNode>),
    /// Reads row `row` of the operand.
    Row { row: usize, of: Arc<RowsNode> },
    /// Reads `count` consecutive rows of the operand, starting at row `start`.
    Rows { start: usize, count: usize, block: Box<TensorType>, of: Arc<RowsNode> },
    /// Concatenates rows and blocks of rows along axis 0.
    Stack(Arc<StackNode>),
}

/// A node that runs as a kernel. The steps of an unrolled loop share one `KernelNode`.
pub(crate) struct KernelNode<B: Backend> {
    pub(crate) kernel: Kernel<B>,
    pub(crate) op: Op,
    pub(crate) inputs: Vec<TensorType>,
    pub(crate) outputs: Vec<TensorType>,
    pub(crate) at: Place,
}

/// A program, a loop or an op that the backend compiled as a whole.
pub(crate) struct WholeNode<T> {
    pub(crate) compiled: Arc<dyn Compiled<T>>,
    pub(crate) outputs: Vec<TensorType>,
    pub(crate) at: Place,
}

/// The data of an [`Action::Row`] or [`Action::Rows`]: the row type of the operand, and the place of the op.
pub(crate) struct RowsNode {
    /// The type of a row.
    pub(crate) row: TensorType,
    pub(crate) at: Place,
}

/// The data of an [`Action::Stack`]: the result type, the kinds of the operands, and the place of the op.
pub(crate) struct StackNode {
    pub(crate) ty: TensorType,
    /// For each operand, `true` if it is a block of rows rather than a single row.
    pub(crate) is_block: Vec<bool>,
    pub(crate) at: Arc<Place>,
}

/// An argument of a program that is being built.
pub(crate) struct Argument {
    pub(crate) register: Slot,
    pub(crate) ty: TensorType,
    /// `true` if the argument stays in the frame between runs, like the captures of a loop. All other arguments are
    /// moved out of the frame at their last use.
    pub(crate) stays: bool,
}

/// The executable form of a graph or of a body: instructions on slots.
pub(crate) struct Program<B: Backend> {
    pub(crate) instructions: Vec<Instruction<B>>,
    pub(crate) slots: usize,
    /// The slot of each argument, or `None` if the argument is unused.
    pub(crate) inputs: Vec<Option<Slot>>,
    /// The types of the arguments.
    pub(crate) input_types: Vec<TensorType>,
    pub(crate) outputs: Vec<Operand>,
}

impl<B: Backend> Program<B> {
    /// Returns the compiled code of a program that is a single [`Action::Whole`], or `None` for all other programs.
    pub(crate) fn whole(&self) -> Option<&Arc<dyn Compiled<B::Tensor>>> {
        match self.instructions.as_slice() {
            [Instruction { action: Action::Whole(node), .. }] => Some(&node.compiled),
            _ => None,
        }
    }

    /// Builds a program by assigning slots to registers. The slot of a register can be reused after the last use of the
    /// register.
    pub(crate) fn plan(
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
            // Assign slots to the results before freeing the slots of the operands, so that a kernel's results never
            // share a slot with its operands.
            let results = instruction.results.iter_mut();
            results.for_each(|result| *result = result.filter(|r| used[*r as usize]).map(|r| slots.assign(r)));
            instruction.operands.iter_mut().for_each(|operand| slots.resolve(operand));
        }
        outputs.iter_mut().for_each(|operand| slots.resolve(operand));
        Program { instructions, slots: slots.count, inputs, input_types, outputs }
    }

    /// Returns the number of instructions, including those of nested programs.
    pub(crate) fn len(&self) -> usize {
        let nested = self.instructions.iter().flat_map(|instruction| instruction.action.programs());
        self.instructions.len() + nested.map(|program| program.len()).sum::<usize>()
    }
}

/// Pairs each item with the index of its slot. Skips items without a slot.
pub(crate) fn with_slots<T>(
    slots: &[Option<Slot>],
    all: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = (usize, T)> {
    slots.iter().zip(all).filter_map(|(slot, each)| Some(((*slot)? as usize, each)))
}

/// A mapping from registers to slots. Freed slots are reused.
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
        let slot = self.slot_of[operand.slot as usize].expect("lowering sets each register before its use");
        operand.slot = slot;
        if operand.last {
            self.free.push(slot);
        }
    }
}

impl<B: Backend> Action<B> {
    /// Returns the programs nested in the action.
    pub(crate) fn programs(&self) -> Vec<&Arc<Program<B>>> {
        match self {
            Action::Loop(native) => vec![&native.body],
            Action::Switch(node) => node.branches.iter().collect(),
            Action::While(node) => vec![&node.condition, &node.body],
            Action::Associative(node) => vec![&node.up_sweep, &node.down_sweep],
            Action::Group(node) => vec![&node.program],
            _ => Vec::new(),
        }
    }

    /// Returns the op with the user's source line.
    pub(crate) fn place(&self) -> Place {
        self.place_and_output_types().0.into_owned()
    }

    /// Returns the types of the results.
    pub(crate) fn output_types(&self) -> &[TensorType] {
        self.place_and_output_types().1
    }

    /// Returns the op with the user's source line, and the types of the results.
    fn place_and_output_types(&self) -> (Cow<'_, Place>, &[TensorType]) {
        let (at, outputs) = match self {
            Action::Kernel(node) => (&node.at, node.outputs.as_slice()),
            Action::Loop(native) => (&native.at, native.outputs.as_slice()),
            Action::Switch(node) => (&node.at, node.outputs.as_slice()),
            Action::While(node) => (&node.at, node.outputs.as_slice()),
            Action::Associative(node) => (&node.at, node.outputs.as_slice()),
            Action::Whole(node) => (&node.at, node.outputs.as_slice()),
            Action::Group(node) => (&node.at, node.outputs.as_slice()),
            Action::Constant { ty, .. } => return (Cow::Owned(Place::new("constant", Site::Unknown)), from_ref(ty)),
            Action::Bind { .. } => return (Cow::Owned(Place::new("scan", Site::Unknown)), &[]),
            Action::BindSize(node) => (&node.at, [].as_slice()),
            Action::Row { of, .. } => (&of.at, from_ref(&of.row)),
            Action::Rows { block, of, .. } => (&of.at, from_ref(&**block)),
            Action::Stack(node) => (&*node.at, from_ref(&node.ty)),
        };
        (Cow::Borrowed(at), outputs)
    }
}

/// Builds the error for a program whose number of instructions exceeds the limit.
pub(crate) fn too_large(at: &Place, backend: &str, kernels: usize, limit: usize) -> Error {
    Error::ProgramTooLarge {
        at: at.boxed(),
        backend: backend.to_string(),
        kernels,
        limit,
        fix: "run fewer steps per call, raise `CompileOptions::max_kernels`, or use `LoopStrategy::Native`".into(),
    }
}
