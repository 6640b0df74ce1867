//! What the benchmarks share: a model, its inputs, and the loops that one would write by hand.

use candle_core::{Device, Tensor};
use funcify::dispatch::{Backend, CompileOptions, Function, LoopStrategy};
use funcify::{Graph, HostTensor, Result, Scalar, scan};

/// The sizes of a recurrent network: steps, batch, width.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The number of steps.
    pub steps: usize,
    /// The number of sequences.
    pub batch: usize,
    /// The width of input and state.
    pub width: usize,
}

/// `h = tanh(x W + h U + b)`, with the trace of `h`.
pub fn rnn() -> Result<Graph> {
    Graph::build("rnn", |g| {
        let [xs, h0] = [g.input("xs", "f32[T,B,N]"), g.input("h0", "f32[B,N]")];
        let [w, u, b] = [g.input("w", "f32[N,N]"), g.input("u", "f32[N,N]"), g.input("b", "f32[N]")];
        scan(h0, xs, |h, x| {
            let h = (x.matmul(w) + h.matmul(u) + b).tanh();
            (h, h)
        })
    })
}

/// The inputs of [`rnn`], in order.
pub fn inputs(sizes: Sizes) -> Vec<HostTensor> {
    let Sizes { steps, batch, width } = sizes;
    let shapes: [&[usize]; 5] = [&[steps, batch, width], &[batch, width], &[width, width], &[width, width], &[width]];
    let mut state = 1u64;
    let mut noise = |_: &[usize]| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Scalar::Float(((state >> 40) as f64 / (1u64 << 24) as f64 - 0.5) / (width as f64).sqrt())
    };
    shapes.iter().map(|shape| HostTensor::from_fn(funcify::DType::F32, shape, &mut noise)).collect()
}

/// [`rnn`] compiled for a backend, with its inputs on the device.
pub fn prepared<B: Backend>(backend: &B, strategy: LoopStrategy, sizes: Sizes) -> (Function<B>, Vec<B::Tensor>) {
    let graph = rnn().expect("the model is well typed");
    let options = CompileOptions { strategy, ..CompileOptions::default() };
    let function = Function::compile_with(&graph, backend, options).expect("the backend has every op");
    let uploaded = inputs(sizes).iter().map(|tensor| backend.upload(tensor).expect("a float tensor")).collect();
    (function, uploaded)
}

/// The loop that one would write on Candle.
pub fn candle_by_hand(inputs: &[Tensor]) -> candle_core::Result<Tensor> {
    let [xs, h0, w, u, b] = inputs else {
        candle_core::bail!("five inputs");
    };
    let mut h = h0.clone();
    let mut rows = Vec::new();
    for t in 0..xs.dim(0)? {
        h = (xs.get(t)?.matmul(w)? + h.matmul(u)?)?.broadcast_add(b)?.tanh()?;
        rows.push(h.clone());
    }
    Tensor::stack(&rows, 0)
}

/// The inputs of [`candle_by_hand`].
pub fn candle_inputs(sizes: Sizes) -> Vec<Tensor> {
    let tensor = |host: &HostTensor| {
        let elements = host.as_slice::<f32>().expect("f32").to_vec();
        Tensor::from_vec(elements, host.shape(), &Device::Cpu).expect("as many elements as the shape has")
    };
    inputs(sizes).iter().map(tensor).collect()
}
