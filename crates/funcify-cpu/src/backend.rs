//! The `cpu` backend: runs programs on host tensors, and compiles a program as a whole if the planner supports it.

use std::sync::Arc;

use funcify_core::error::BackendError;
use funcify_core::ops::Scan;
use funcify_core::{DType, HostTensor};
use funcify_runtime::{Backend, Compiled, Compiles, Declined, Kernel, Outcome, Reference, WholeRequest};
use funcify_runtime::{evaluate_kernel, funcify, tensors_of};
use smallvec::SmallVec;

use crate::engine::{Elements, Engine};
use crate::planner::Division;
use funcify_body::machine::{Machine, Translation};

/// The CPU backend, which needs no tensor library. Programs that the planner rejects run op by op on the reference
/// evaluator.
///
/// ```
/// use funcify::dispatch::Function;
/// use funcify::{Graph, HostTensor};
/// use funcify_cpu::Cpu;
///
/// let square = Graph::build("square", |g| g.input("x", "f32[N]").square())?;
/// let square = Function::compile(&square, &Cpu::default())?;
/// assert_eq!(square.call_host(&[[2f32, 3.0].into()])?, [HostTensor::from([4f32, 9.0])]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    division: Division,
    translation: Translation,
}

impl Cpu {
    /// Returns a backend that divides every program, however small, into parts for several threads, and uses strips of
    /// only a few steps. For tests.
    #[doc(hidden)]
    pub fn dividing_all() -> Self {
        Cpu { division: Division::Always, ..Cpu::default() }
    }

    /// Returns a backend that translates every supported loop to machine code. For tests.
    #[doc(hidden)]
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
        let machine = Machine::detect().with_translation(self.translation);
        Ok(Arc::new(HostProgram(Engine::compile(whole, self.division, machine)?)))
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(evaluate_kernel)
    }
}

/// A compiled program or loop that is called with host tensors.
#[derive(Debug)]
pub(crate) struct HostProgram(pub(crate) Engine);

impl Compiled<Arc<HostTensor>> for HostProgram {
    fn run(
        &self,
        operands: &[Arc<HostTensor>],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Outcome<Arc<HostTensor>>, BackendError> {
        let HostProgram(engine) = self;
        let elements = operands.iter().enumerate().map(|(index, tensor)| match engine.reads(index) {
            Some(_) => engine.elements(index, tensor),
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

    fn evaluated_ops(&self) -> Vec<&'static str> {
        self.0.evaluated_ops()
    }

    fn working_bytes(&self) -> usize {
        self.0.working_bytes()
    }
}
