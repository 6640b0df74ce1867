//! A backend that counts kernel runs, uploads, stacked rows and held bytes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use funcify::dispatch::{
    Backend, CompileOptions, Function, Kernel, LoopStrategy, Parallel, Part, Reference, StackType, Tensors,
};
use funcify::error::BackendError;
use funcify::ops::{EvalContext, OpRules};
use funcify::rewrite::RewriteOptions;
use funcify::{DType, Graph, HostTensor, funcify, ops};

/// The reference backend, with counters.
#[derive(Clone, Default)]
pub(crate) struct CountingBackend(Arc<Counts>);

/// A tensor of the reference backend whose bytes count as held until its last clone is dropped.
#[derive(Clone)]
pub(crate) struct CountedTensor(
    Arc<HostTensor>,
    #[expect(dead_code, reason = "returns the bytes to the counter on drop")] Arc<Bytes>,
);

/// The size of a tensor in bytes, which is subtracted from the counter `held` on drop.
struct Bytes(usize, Arc<Counts>);

impl Drop for Bytes {
    fn drop(&mut self) {
        self.1.held.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The counters of a [`CountingBackend`]. [`Cost::measure`] resets all of them except `held` before the measured call.
#[derive(Default)]
struct Counts {
    kernels: Mutex<BTreeMap<&'static str, usize>>,
    uploads: AtomicUsize,
    stacked: AtomicUsize,
    /// The size in bytes of all tensors that are currently held.
    held: AtomicUsize,
    /// The maximum of `held` during the measured call.
    peak: AtomicUsize,
}

funcify!(CountingBackend, ops::Scan, native_loop);

impl CountingBackend {
    fn hold(&self, tensor: Arc<HostTensor>) -> CountedTensor {
        let bytes = tensor.len() * tensor.dtype().size();
        let held = self.0.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.0.peak.fetch_max(held, Ordering::Relaxed);
        CountedTensor(tensor, Arc::new(Bytes(bytes, self.0.clone())))
    }

    /// Returns the number of runs of each op's kernel since the last call to this method, and resets these numbers.
    fn take_counts(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut *self.0.kernels.lock().unwrap())
    }
}

impl Backend for CountingBackend {
    type Tensor = CountedTensor;
    type Tracked = ();

    fn name(&self) -> &'static str {
        "counting"
    }

    fn unsupported(&self, dtype: DType, rank: usize) -> Option<String> {
        Reference.unsupported(dtype, rank)
    }

    fn upload(&self, tensor: &HostTensor) -> Result<Self::Tensor, BackendError> {
        self.0.uploads.fetch_add(1, Ordering::Relaxed);
        Ok(self.hold(Reference.upload(tensor)?))
    }

    fn download(&self, tensor: &Self::Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
        Reference.download(&tensor.0, dtype)
    }

    fn shape(&self, tensor: &Self::Tensor) -> Vec<usize> {
        Reference.shape(&tensor.0)
    }

    fn has_dtype(&self, tensor: &Self::Tensor, dtype: DType) -> bool {
        Reference.has_dtype(&tensor.0, dtype)
    }

    fn rows(&self, tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, BackendError> {
        Ok(self.hold(Reference.rows(&tensor.0, start, count)?))
    }

    fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, BackendError> {
        Ok(self.hold(Reference.row(&tensor.0, row)?))
    }

    fn stack(&self, parts: Vec<Part<Self::Tensor>>, ty: &StackType) -> Result<Self::Tensor, BackendError> {
        self.0.stacked.fetch_add(parts.len(), Ordering::Relaxed);
        let parts = parts.into_iter().map(|part| match part {
            Part::Row(row) => Part::Row(row.0),
            Part::Block(block) => Part::Block(block.0),
        });
        Ok(self.hold(Reference.stack(parts.collect(), ty)?))
    }

    /// Prefers low depth, like a device on which small kernels cost as much as large ones.
    fn parallel(&self) -> Parallel {
        Parallel::Prefer
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(|call, operands| {
            *call.backend.0.kernels.lock().unwrap().entry(call.op.name()).or_default() += 1;
            let mut sizes = call.sizes().clone();
            let mut context = EvalContext { at: call.place().clone(), sizes: &mut sizes };
            let inputs: Vec<HostTensor> = operands.iter().map(|tensor| (*tensor.0).clone()).collect();
            let results = call.op.eval(&mut context, &inputs, call.outputs)?;
            Ok(results.into_iter().map(|result| call.backend.hold(Arc::new(result))).collect::<Tensors<_>>())
        })
    }
}

/// The cost of calling a program that is already compiled.
pub(crate) struct Cost {
    /// The number of runs of each op's kernel.
    pub(crate) kernels: BTreeMap<&'static str, usize>,
    /// The number of host tensors uploaded to the device.
    pub(crate) uploads: usize,
    /// The number of rows and blocks that were stacked into tensors.
    pub(crate) stacked: usize,
    /// The peak size in bytes of the tensors that the call held, excluding those that the function keeps between calls.
    pub(crate) peak: usize,
    /// The peak that the function's report predicts, in bytes.
    pub(crate) planned: usize,
}

impl Cost {
    /// Measures the second call with these arguments, so that compilation is not included.
    pub(crate) fn measure(graph: &Graph, strategy: LoopStrategy, arguments: &[HostTensor]) -> Cost {
        Self::measure_rewritten(graph, strategy, arguments, None)
    }

    /// Works like [`Cost::measure`], but compiles the program with these rewrites.
    pub(crate) fn measure_rewritten(
        graph: &Graph,
        strategy: LoopStrategy,
        arguments: &[HostTensor],
        rewrites: Option<RewriteOptions>,
    ) -> Cost {
        let backend = CountingBackend::default();
        let options = CompileOptions { strategy, rewrites, ..CompileOptions::default() };
        let function = Function::compile_with(graph, &backend, options).unwrap();
        function.call_host(arguments).unwrap();
        backend.take_counts();
        let read = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
        for counter in [&backend.0.uploads, &backend.0.stacked, &backend.0.peak] {
            read(counter);
        }
        let before = backend.0.held.load(Ordering::Relaxed);
        function.call_host(arguments).unwrap();
        Cost {
            kernels: backend.take_counts(),
            uploads: read(&backend.0.uploads),
            stacked: read(&backend.0.stacked),
            peak: read(&backend.0.peak) - before,
            planned: function.report().peak_bytes.unwrap(),
        }
    }

    /// Returns the number of times that the kernel of an op ran.
    pub(crate) fn run_count(&self, op: &str) -> usize {
        self.kernels.get(op).copied().unwrap_or(0)
    }
}
