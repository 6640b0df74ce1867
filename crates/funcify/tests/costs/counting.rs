//! A backend that counts what it is asked to do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use funcify::dispatch::{Backend, CompileOptions, Function, Kernel, LoopStrategy, Part, Reference, StackType, Tensors};
use funcify::error::BackendError;
use funcify::ops::{EvalContext, OpRules};
use funcify::{DType, Graph, HostTensor, funcify, ops};

/// The reference backend, counting.
#[derive(Clone, Default)]
pub(crate) struct Counting(Arc<Counts>);

/// What was asked since the last [`Counting::taken`].
#[derive(Default)]
struct Counts {
    kernels: Mutex<BTreeMap<&'static str, usize>>,
    uploads: AtomicUsize,
    stacked: AtomicUsize,
}

funcify!(Counting, ops::Scan, native_loop);

impl Counting {
    /// How often the kernel of each op ran since the last time.
    fn taken(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut *self.0.kernels.lock().unwrap())
    }
}

impl Backend for Counting {
    type Tensor = Arc<HostTensor>;

    fn name(&self) -> &'static str {
        "counting"
    }

    fn lacks(&self, dtype: DType, rank: usize) -> Option<String> {
        Reference.lacks(dtype, rank)
    }

    fn upload(&self, tensor: &HostTensor) -> Result<Self::Tensor, BackendError> {
        self.0.uploads.fetch_add(1, Ordering::Relaxed);
        Reference.upload(tensor)
    }

    fn download(&self, tensor: &Self::Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
        Reference.download(tensor, dtype)
    }

    fn shape(&self, tensor: &Self::Tensor) -> Vec<usize> {
        Reference.shape(tensor)
    }

    fn stores(&self, tensor: &Self::Tensor, dtype: DType) -> bool {
        Reference.stores(tensor, dtype)
    }

    fn rows(&self, tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, BackendError> {
        Reference.rows(tensor, start, count)
    }

    fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, BackendError> {
        Reference.row(tensor, row)
    }

    fn stack(&self, parts: Vec<Part<Self::Tensor>>, ty: &StackType) -> Result<Self::Tensor, BackendError> {
        self.0.stacked.fetch_add(parts.len(), Ordering::Relaxed);
        Reference.stack(parts, ty)
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(|call, operands| {
            *call.backend.0.kernels.lock().unwrap().entry(call.op.name()).or_default() += 1;
            let mut sizes = call.sizes().clone();
            let mut context = EvalContext { at: call.place().clone(), sizes: &mut sizes };
            let inputs: Vec<HostTensor> = operands.iter().map(|tensor| (**tensor).clone()).collect();
            let results = call.op.eval(&mut context, &inputs, call.outputs)?;
            Ok(results.into_iter().map(Arc::new).collect::<Tensors<_>>())
        })
    }
}

/// What one call of a program costs, once it is compiled for the sizes of the call.
pub(crate) struct Cost {
    /// How often the kernel of each op ran.
    pub(crate) kernels: BTreeMap<&'static str, usize>,
    /// How many host tensors became tensors of the device.
    pub(crate) uploads: usize,
    /// How many rows and blocks were put together to tensors.
    pub(crate) stacked: usize,
}

impl Cost {
    /// Of the second call with these arguments.
    pub(crate) fn of(graph: &Graph, strategy: LoopStrategy, arguments: &[HostTensor]) -> Cost {
        let backend = Counting::default();
        let options = CompileOptions { strategy, ..CompileOptions::default() };
        let function = Function::compile_with(graph, &backend, options).unwrap();
        function.call_host(arguments).unwrap();
        backend.taken();
        let read = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
        (read(&backend.0.uploads), read(&backend.0.stacked));
        function.call_host(arguments).unwrap();
        Cost { kernels: backend.taken(), uploads: read(&backend.0.uploads), stacked: read(&backend.0.stacked) }
    }

    /// How often the kernel of an op ran.
    pub(crate) fn ran(&self, op: &str) -> usize {
        self.kernels.get(op).copied().unwrap_or(0)
    }
}
