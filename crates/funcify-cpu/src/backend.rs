//! The backend `cpu`: programs on host tensors, compiled as a whole where the planner takes them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use funcify::dispatch::{Backend, Compiled, Declined, Kernel, Part, Reference, StackType, Tensors, Whole};
use funcify::error::BackendError;
use funcify::ops::{EvalContext, OpRules, Scan};
use funcify::{DType, HostTensor, Scalar, funcify};

use crate::machine::Machine;
use crate::planner::{Division, GraphPlan, plan_graph};
use crate::run::{Element, Executor};

/// The processor, without a tensor library. What is not compiled as a whole runs op for op by the reference evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    division: Division,
}

impl Cpu {
    /// The processor, which divides programs however small they are, and makes strips of few steps. For tests.
    pub fn dividing_all() -> Self {
        Cpu { division: Division::Always }
    }
}

funcify!(Cpu, Scan, compiled_loop);
funcify::register_backend!("cpu", || funcify::Result::Ok(Cpu::default()));

impl Backend for Cpu {
    type Tensor = Arc<HostTensor>;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn lacks(&self, _: DType, _: usize) -> Option<String> {
        None
    }

    fn upload(&self, tensor: &HostTensor) -> Result<Self::Tensor, BackendError> {
        Reference.upload(tensor)
    }

    fn download(&self, tensor: &Self::Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
        Reference.download(tensor, dtype)
    }

    fn shape(&self, tensor: &Self::Tensor) -> Vec<usize> {
        tensor.shape().to_vec()
    }

    fn stores(&self, tensor: &Self::Tensor, dtype: DType) -> bool {
        tensor.dtype() == dtype
    }

    fn rows(&self, tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, BackendError> {
        Reference.rows(tensor, start, count)
    }

    fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, BackendError> {
        Reference.row(tensor, row)
    }

    fn stack(&self, parts: Vec<Part<Self::Tensor>>, ty: &StackType) -> Result<Self::Tensor, BackendError> {
        Reference.stack(parts, ty)
    }

    fn element_bytes(&self, dtype: DType) -> usize {
        Reference.element_bytes(dtype)
    }

    fn compile(&self, whole: Whole<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
        let plan = plan_graph(whole.graph, whole.sizes, self.division)?;
        let bytes = plan.plan.scratch_elements() as u64 * plan.dtype.size() as u64;
        if bytes > whole.memory_budget {
            return Err(Declined::new("scan", format!("{bytes} bytes between steps, beyond the memory budget")));
        }
        match plan.dtype {
            DType::F64 => Ok(Arc::new(Engine::<f64>::new(plan)?)),
            _ => Ok(Arc::new(Engine::<f32>::new(plan)?)),
        }
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(|call, operands| {
            let mut sizes = call.sizes().clone();
            let mut context = EvalContext { at: call.place().clone(), sizes: &mut sizes };
            let inputs: Vec<HostTensor> = operands.iter().map(|tensor| (**tensor).clone()).collect();
            let results = call.op.eval(&mut context, &inputs, call.outputs)?;
            Ok(results.into_iter().map(Arc::new).collect::<Tensors<_>>())
        })
    }
}

/// A plan with executors for as many calls at once as there were.
struct Engine<T> {
    plan: GraphPlan,
    constants: Vec<Vec<T>>,
    executors: Mutex<Vec<Executor<T>>>,
}

impl<T: Number> Engine<T> {
    fn new(plan: GraphPlan) -> Result<Self, Declined> {
        let executor = executor(&plan)?;
        let constants = plan.constants.iter().map(T::numbers).collect();
        Ok(Engine { plan, constants, executors: Mutex::new(vec![executor]) })
    }
}

/// An executor of a plan. That a plan does not pass its check is a fault of the planner, which tests look for.
fn executor<T: Element>(plan: &GraphPlan) -> Result<Executor<T>, Declined> {
    Executor::new(plan.plan.clone(), Machine::detect())
        .map_err(|error| Declined::new("plan", format!("a fault of the planner: {error}")))
}

impl<T: Number> Compiled<Arc<HostTensor>> for Engine<T> {
    fn run(
        &self,
        operands: &[Arc<HostTensor>],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Tensors<Arc<HostTensor>>>, BackendError> {
        let kept = self.executors.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut executor = match kept {
            Some(executor) => executor,
            None => executor(&self.plan)?,
        };
        // Booleans are numbers here; floats are read where they are.
        let converted: Vec<Option<Vec<T>>> = operands
            .iter()
            .zip(&self.plan.reads)
            .map(|(tensor, is_read)| (*is_read && T::slice(tensor).is_none()).then(|| T::numbers(tensor)))
            .collect();
        let mut inputs: Vec<&[T]> = Vec::with_capacity(operands.len() + self.constants.len());
        for (tensor, converted) in operands.iter().zip(&converted) {
            inputs.push(converted.as_deref().or_else(|| T::slice(tensor)).unwrap_or_default());
        }
        inputs.extend(self.constants.iter().map(Vec::as_slice));
        let len = |shape: &[usize]| shape.iter().product();
        let mut results: Vec<Vec<T>> =
            self.plan.results.iter().map(|(_, shape)| vec![T::default(); len(shape)]).collect();
        let mut outputs: Vec<&mut [T]> = results.iter_mut().map(Vec::as_mut_slice).collect();
        let is_done = executor.call_until(&inputs, &mut outputs, stop)?;
        self.executors.lock().unwrap_or_else(PoisonError::into_inner).push(executor);
        let typed = results.into_iter().zip(&self.plan.results);
        let tensors = typed.map(|(elements, (dtype, shape))| {
            let tensor = HostTensor::from_vec(elements, shape.clone()).ok_or("a result of another size")?;
            Ok(Arc::new(if tensor.dtype() == *dtype { tensor } else { tensor.cast(*dtype) }))
        });
        if is_done { tensors.collect::<Result<_, _>>().map(Some) } else { Ok(None) }
    }
}

/// The element types of plans.
trait Number: Element + funcify::Element + Default {
    /// The elements of a tensor of this type, where they are.
    fn slice(tensor: &HostTensor) -> Option<&[Self]> {
        tensor.as_slice::<Self>()
    }

    /// The elements of any tensor as numbers of this type.
    fn numbers(tensor: &HostTensor) -> Vec<Self>;
}

impl Number for f32 {
    fn numbers(tensor: &HostTensor) -> Vec<f32> {
        tensor.scalars().map(|scalar: Scalar| scalar.as_f64() as f32).collect()
    }
}

impl Number for f64 {
    fn numbers(tensor: &HostTensor) -> Vec<f64> {
        tensor.to_f64_vec()
    }
}

impl<T> fmt::Debug for Engine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("plan", &self.plan).finish_non_exhaustive()
    }
}
