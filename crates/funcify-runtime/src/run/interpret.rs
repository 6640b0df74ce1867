//! Interprets a program: runs its instructions in order on the slots of a frame.

use funcify_core::error::BackendError;
use smallvec::smallvec;

use super::ledger::{Ledger, Memory};
use super::profile::Profiler;
use super::program::{Action, KernelNode, Operand, Slot, StackNode, with_slots};
use super::whole::run_compiled;
use super::*;
use crate::backend::{KernelCall, wrong_number_of_results};

/// The context of a running program, including the sizes that are bound at run time.
pub(crate) struct Run<'a, B: Backend> {
    pub(crate) backend: &'a B,
    pub(crate) sizes: Sizes,
    /// The handles that can cancel the run.
    pub(crate) watch: ActiveHandles,
    /// The memory budget, if it must be checked during the run.
    pub(crate) memory: Option<Memory>,
    /// The profiler, if the call is profiled.
    pub(crate) profiler: Option<Profiler>,
}

impl<B: Backend> Run<'_, B> {
    /// Begins the next step of a loop, after `ran` steps. Returns an error if the run was cancelled.
    pub(crate) fn begin_step(&mut self, at: &Place, ran: usize) -> Result<()> {
        self.watch.check(at, Progress::Steps(ran))?;
        if let Some(profiler) = &mut self.profiler {
            profiler.note_step(ran);
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn fail<T>(&self, at: &Place, result: Result<T, BackendError>) -> Result<T> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(execution_error(at, self.backend.name(), error)),
        }
    }

    /// Evaluates the type of a stacked tensor at the current sizes.
    pub(crate) fn stack_type(&self, at: &Place, ty: &TensorType) -> Result<StackType> {
        let shape = ty.shape.value(&self.sizes).map_err(|error| funcify_core::ops::no_size(at, error))?;
        Ok(StackType { dtype: ty.dtype, rows: shape[0], row: shape[1..].to_vec() })
    }
}

/// The slots of a running program. A loop reuses the frame of its body, so that steps allocate no slots.
pub(crate) struct Frame<T> {
    slots: Vec<Option<T>>,
    /// The number of bytes in each slot, as tracked by a [`Ledger`].
    bytes: Vec<u64>,
}

impl<B: Backend> Program<B> {
    /// Runs the program on its arguments, in a new frame.
    pub(crate) fn execute(&self, run: &mut Run<'_, B>, arguments: Vec<B::Tensor>) -> Result<Vec<B::Tensor>> {
        let mut frame = self.frame();
        self.place_all(&mut frame, 0, arguments);
        if let Err(error) = self.interpret(&mut frame, run) {
            free_after(&error, frame.slots);
            return Err(error);
        }
        Ok((0..self.outputs.len()).map(|output| self.take(&mut frame, output)).collect())
    }

    /// Creates a frame with empty slots.
    pub(crate) fn frame(&self) -> Frame<B::Tensor> {
        Frame { slots: vec![None; self.slots], bytes: Vec::new() }
    }

    /// Puts an argument into a frame. Must be called before each run for all arguments except those that stay in the
    /// frame.
    #[inline(always)]
    pub(crate) fn place(&self, frame: &mut Frame<B::Tensor>, argument: usize, tensor: B::Tensor) {
        if let Some(slot) = self.inputs[argument] {
            frame.slots[slot as usize] = Some(tensor);
        }
    }

    /// Puts consecutive arguments into a frame, starting with argument `first`.
    pub(crate) fn place_all(
        &self,
        frame: &mut Frame<B::Tensor>,
        first: usize,
        tensors: impl IntoIterator<Item = B::Tensor>,
    ) {
        (first..).zip(tensors).for_each(|(argument, tensor)| self.place(frame, argument, tensor));
    }

    /// Moves an output out of a frame after a run. Each output must be taken exactly once, in order.
    #[inline(always)]
    pub(crate) fn take(&self, frame: &mut Frame<B::Tensor>, output: usize) -> B::Tensor {
        fetch(&mut frame.slots, self.outputs[output])
    }

    /// Runs all instructions on the arguments in the frame.
    pub(crate) fn interpret(&self, frame: &mut Frame<B::Tensor>, run: &mut Run<'_, B>) -> Result<()> {
        let Frame { slots, bytes } = frame;
        let (mut ledger, backend) = (Ledger::open(self, run, bytes), run.backend);
        for (ran, instruction) in self.instructions.iter().enumerate() {
            run.watch.check_at(|| instruction.action.place(), Progress::Ops(ran))?;
            if let Some(ledger) = &ledger {
                ledger.check_instruction(instruction, run)?;
            }
            let _span = span::of_instruction(|| instruction.action.place());
            let operands: Tensors<_> = instruction.operands.iter().map(|operand| fetch(slots, *operand)).collect();
            if let Some(profiler) = &mut run.profiler {
                profiler.open();
            }
            let mut results = match &instruction.action {
                // Use a nested `match`, because `map_err` would copy the results, which are large on some backends.
                Action::Kernel(node) => match node.run_kernel(run, operands) {
                    Ok(results) if results.len() == node.outputs.len() => results,
                    Ok(results) => {
                        let error = wrong_number_of_results(results.len(), node.outputs.len());
                        return Err(execution_error(&node.at, backend.name(), error));
                    }
                    Err(error) => return Err(execution_error(&node.at, backend.name(), error)),
                },
                action => action.run(run, operands, &instruction.results)?,
            };
            run.note_profiled(instruction, &results);
            for (slot, tensor) in with_slots(&instruction.results, results.drain(..)) {
                slots[slot] = Some(tensor);
            }
            if let Some(ledger) = &mut ledger {
                ledger.record_results(instruction, run);
            }
        }
        Ok(())
    }
}

impl<B: Backend> KernelNode<B> {
    fn run_kernel(&self, run: &Run<'_, B>, operands: Tensors<B::Tensor>) -> Result<Tensors<B::Tensor>, BackendError> {
        let KernelNode { op, inputs, outputs, at, .. } = self;
        let call = KernelCall { op, backend: run.backend, inputs, outputs, sizes: &run.sizes, at };
        run.backend.run_kernel(self.kernel, &call, operands)
    }
}

impl<B: Backend> Action<B> {
    /// Runs the action on `operands`. `results` holds the slot of each result, or `None` if the result is unused.
    #[inline(never)] // Inlining would enlarge the interpreter's loop, which mostly runs kernels.
    fn run(
        &self,
        run: &mut Run<'_, B>,
        mut operands: Tensors<B::Tensor>,
        results: &[Option<Slot>],
    ) -> Result<Tensors<B::Tensor>> {
        Ok(match self {
            Action::Kernel(_) => unreachable!("the interpreter runs kernels itself"),
            Action::Whole(node) => {
                let at = || node.at.clone();
                let results = run_compiled(&*node.compiled, &run.watch, at, run.backend.name(), &operands)?;
                let refused = || "it refused its operands, although nothing else can run in its place".into();
                run.fail(&node.at, results.ok_or_else(refused))?.into()
            }
            Action::Group(node) => node.run_group(run, operands)?,
            Action::Loop(node) => node.run_loop(run, operands.into_vec(), results)?,
            Action::Switch(node) => node.run_branch(run, operands.into_vec())?,
            Action::While(node) => node.run_while(run, operands.into_vec())?,
            Action::Associative(node) => node.run_sweeps(run, operands.into_vec())?,
            Action::BindSize(node) => node.bind_size(run, &operands[0])?,
            Action::Bind { symbol, size } => {
                run.sizes.set(symbol, *size);
                Tensors::new()
            }
            Action::Constant { tensor, .. } => smallvec![tensor.clone()],
            Action::Row { row, of } => smallvec![run.fail(&of.at, run.backend.row(&operands[0], *row))?],
            Action::Rows { start, count, of, .. } => {
                smallvec![run.fail(&of.at, run.backend.rows(&operands[0], *start, *count))?]
            }
            Action::Stack(node) => smallvec![node.stack_parts(run, operands.drain(..))?],
        })
    }
}

impl StackNode {
    fn stack_parts<B: Backend>(
        &self,
        run: &Run<'_, B>,
        operands: impl Iterator<Item = B::Tensor>,
    ) -> Result<B::Tensor> {
        let ty = run.stack_type(&self.at, &self.ty)?;
        let parts = operands.zip(&self.is_block);
        let parts = parts.map(|(tensor, block)| if *block { Part::Block(tensor) } else { Part::Row(tensor) });
        run.fail(&self.at, run.backend.stack(parts.collect(), &ty))
    }
}

#[inline(always)]
fn fetch<T: Clone>(slots: &mut [Option<T>], operand: Operand) -> T {
    let slot = &mut slots[operand.slot as usize];
    let tensor = if operand.last { slot.take() } else { slot.clone() };
    tensor.expect("the plan sets each slot before its use")
}
