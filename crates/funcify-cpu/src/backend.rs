//! The backend `cpu`: programs on host tensors, compiled as a whole where the planner takes them.

use std::borrow::Cow;
use std::sync::Arc;

use funcify_core::error::BackendError;
use funcify_core::ops::Scan;
use funcify_core::{DType, HostTensor};
use funcify_runtime::{Backend, Compiled, Compiles, Declined, Kernel, Outcome, Reference, WholeRequest};
use funcify_runtime::{evaluate_kernel, funcify, tensors_of};
use smallvec::SmallVec;

use crate::engine::{Elements, Engine};
use crate::machine::{Machine, Translation};
use crate::planner::Division;

/// The processor, without a tensor library. What is not compiled as a whole runs op for op by the reference evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    division: Division,
    translation: Translation,
}

impl Cpu {
    /// The processor, which divides programs however small they are, and makes strips of few steps. For tests.
    pub fn dividing_all() -> Self {
        Cpu { division: Division::Always, ..Cpu::default() }
    }

    /// The processor, which makes machine code of every loop that it can. For tests.
    pub fn translating_all() -> Self {
        Cpu { translation: Translation::Always, ..Cpu::default() }
    }
}

funcify!(Cpu, Scan, native_loop);
funcify_runtime::register_backend!("cpu", || funcify_core::Result::Ok(Cpu::default()));

impl Backend for Cpu {
    tensors_of!(Reference);

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn element_bytes(&self, dtype: DType) -> usize {
        Reference.element_bytes(dtype)
    }

    fn is_admitted(&self, _: &Self::Tensor, _: DType) -> bool {
        true
    }

    fn compiles(&self) -> Compiles {
        Compiles::Programs
    }

    fn compile_whole(&self, whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
        let machine = Machine::detect().translating(self.translation);
        Ok(Arc::new(OnHost(Engine::compile(whole, self.division, machine)?)))
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(evaluate_kernel)
    }
}

/// A program or a loop on host tensors.
#[derive(Debug)]
pub(crate) struct OnHost(pub(crate) Engine);

impl Compiled<Arc<HostTensor>> for OnHost {
    fn run(
        &self,
        operands: &[Arc<HostTensor>],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Outcome<Arc<HostTensor>>, BackendError> {
        let OnHost(engine) = self;
        let elements = operands.iter().enumerate().map(|(index, tensor)| match engine.reads(index) {
            Some(_) => borrow_elements(tensor, engine.dtype()).or_else(|| engine.elements(tensor)),
            None => Some(Elements::NONE),
        });
        let Some(elements) = elements.collect::<Option<SmallVec<[Elements<'_>; 16]>>>() else {
            return Ok(Outcome::Refused);
        };
        engine.call(&elements, stop)?.try_map(|results| {
            let typed = results.into_iter().zip(engine.results());
            let tensors = typed.map(|(elements, (dtype, shape))| engine.tensor(elements, *dtype, shape).map(Arc::new));
            tensors.collect()
        })
    }
}

/// The elements of a tensor where they are, if they are of that float type.
fn borrow_elements(tensor: &HostTensor, dtype: DType) -> Option<Elements<'_>> {
    match dtype {
        DType::F64 => tensor.as_slice().map(|numbers| Elements::F64(Cow::Borrowed(numbers))),
        _ => tensor.as_slice().map(|numbers| Elements::F32(Cow::Borrowed(numbers))),
    }
}
