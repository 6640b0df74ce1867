//! A program or a loop, compiled: slices in, vectors out. What backends whose tensors lie in host memory compile to.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use funcify::DType;
use funcify::dispatch::{Declined, Whole};
use funcify::error::BackendError;

use crate::machine::Machine;
use crate::planner::{Division, GraphPlan, plan_graph};
use crate::run::{Element, Executor};

/// A program or a loop, compiled for sizes that are known. It may be called by several threads at once.
///
/// All floats have one element type, [`dtype`](Engine::dtype), and booleans are numbers of it, 1 and 0.
pub struct Engine {
    plan: GraphPlan,
    kept: Kept,
}

/// Elements in row-major order, of the engine's type.
#[derive(Clone, PartialEq, Debug)]
pub enum Elements<'a> {
    /// Of an engine for f32.
    F32(Cow<'a, [f32]>),
    /// Of an engine for f64.
    F64(Cow<'a, [f64]>),
}

impl Elements<'_> {
    /// What is given for an operand that is not read.
    pub const NONE: Elements<'static> = Elements::F32(Cow::Borrowed(&[]));
}

/// Constants, and executors for as many calls at once as there were.
enum Kept {
    F32(Vec<Vec<f32>>, Mutex<Vec<Executor<f32>>>),
    F64(Vec<Vec<f64>>, Mutex<Vec<Executor<f64>>>),
}

impl Engine {
    /// Compiles a program, or a loop of one; or says which op stands in the way.
    pub fn compile(whole: Whole<'_>, division: Division) -> Result<Self, Declined> {
        let plan = plan_graph(whole.graph, whole.sizes, division)?;
        let bytes = plan.plan.scratch_elements() as u64 * plan.dtype.size() as u64;
        if bytes > whole.memory_budget {
            return Err(Declined::new("scan", format!("{bytes} bytes between steps, beyond the memory budget")));
        }
        let kept = match plan.dtype {
            DType::F64 => Kept::F64(
                plan.constants.iter().map(|constant| constant.to_f64_vec()).collect(),
                Mutex::new(vec![executor(&plan)?]),
            ),
            _ => Kept::F32(
                plan.constants
                    .iter()
                    .map(|constant| singles(constant.scalars().map(|number| number.as_f64())))
                    .collect(),
                Mutex::new(vec![executor(&plan)?]),
            ),
        };
        Ok(Engine { plan, kept })
    }

    /// The element type of all floats: f32 or f64.
    pub fn dtype(&self) -> DType {
        self.plan.dtype
    }

    /// Whether an operand is read. For one that is not, [`Elements::NONE`] is enough.
    pub fn reads(&self, operand: usize) -> bool {
        self.plan.reads[operand]
    }

    /// The types and sizes of the results.
    pub fn results(&self) -> &[(DType, Vec<usize>)] {
        &self.plan.results
    }

    /// Runs it. `None` if `stop`, which it asks between steps every so often, said true.
    pub fn call(
        &self,
        operands: &[Elements<'_>],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Elements<'static>>>, BackendError> {
        match &self.kept {
            Kept::F32(constants, executors) => {
                let slices = operands.iter().map(|operand| match operand {
                    Elements::F32(elements) => &**elements,
                    Elements::F64(_) => &[],
                });
                let results = self.run(slices, constants, executors, stop)?;
                Ok(results.map(|results| results.into_iter().map(|each| Elements::F32(each.into())).collect()))
            }
            Kept::F64(constants, executors) => {
                let slices = operands.iter().map(|operand| match operand {
                    Elements::F64(elements) => &**elements,
                    Elements::F32(_) => &[],
                });
                let results = self.run(slices, constants, executors, stop)?;
                Ok(results.map(|results| results.into_iter().map(|each| Elements::F64(each.into())).collect()))
            }
        }
    }

    fn run<'a, T: Element + Default>(
        &self,
        operands: impl Iterator<Item = &'a [T]>,
        constants: &'a [Vec<T>],
        executors: &Mutex<Vec<Executor<T>>>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Vec<T>>>, BackendError> {
        let kept = executors.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut executor = match kept {
            Some(executor) => executor,
            None => executor(&self.plan)?,
        };
        let inputs: Vec<&[T]> = operands.chain(constants.iter().map(Vec::as_slice)).collect();
        let len = |shape: &[usize]| shape.iter().product();
        let mut results: Vec<Vec<T>> =
            self.plan.results.iter().map(|(_, shape)| vec![T::default(); len(shape)]).collect();
        let mut outputs: Vec<&mut [T]> = results.iter_mut().map(Vec::as_mut_slice).collect();
        let is_done = executor.call_until(&inputs, &mut outputs, stop)?;
        executors.lock().unwrap_or_else(PoisonError::into_inner).push(executor);
        Ok(is_done.then_some(results))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Numbers as f32.
fn singles(numbers: impl Iterator<Item = f64>) -> Vec<f32> {
    numbers.map(|number| number as f32).collect()
}

/// An executor of a plan. That a plan does not pass its check is a fault of the planner, which tests look for.
fn executor<T: Element>(plan: &GraphPlan) -> Result<Executor<T>, Declined> {
    Executor::new(plan.plan.clone(), Machine::detect())
        .map_err(|error| Declined::new("plan", format!("a fault of the planner: {error}")))
}
