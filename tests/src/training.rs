//! A loop that the tests train through the plug-ins of both frameworks, on every device that compiles it.

use std::sync::Arc;

use burn::tensor::{Tensor as BurnTensor, TensorData};
use candle_core::{Device, Tensor, Var};
use funcify::derivative::BackwardInput;
use funcify::dispatch::{Backend, CompileOptions, Function, LoopStrategy};
use funcify::{Graph, HostTensor, Value, scan};
use funcify_burn::Burn;
use funcify_candle::{Candle, Differentiable};

/// The number of elements of a state.
pub const WIDTH: usize = 3;

/// Builds the graph of the loss of a recurrent loop, `h = tanh(w h + x)`. The loss is the mean of all states plus the
/// sum of the squares of the last state.
pub fn graph() -> Graph {
    let built = Graph::build("recurrent", |g| {
        let (xs, w) = (g.input("xs", "f32[T,3]"), g.input("w", "f32[3]"));
        let step = |h: Value, x: Value| {
            let h = (h * w + x).tanh();
            (h, h)
        };
        let (last, ys) = scan(w.zeros_like(), xs, step);
        ys.mean(..) + last.square().sum(..)
    });
    built.expect("the graph is well formed")
}

/// Returns the elements of a sequence, `[steps, WIDTH]`, in row-major order.
pub fn sequence(steps: usize) -> Vec<f32> {
    (0..steps * WIDTH).map(|index| (index as f32 * 0.37).sin()).collect()
}

/// A function that maps the weights to the loss and its gradient, computed with the `backward` of a framework.
pub type Step = Arc<dyn Fn(&[f32]) -> (f32, Vec<f32>) + Send + Sync>;

/// Returns the name of each device, with a [`Step`] that runs the loop on this device for `steps` steps.
pub fn subjects(steps: usize) -> Vec<(&'static str, Step)> {
    vec![
        ("candle", candle(steps)),
        ("burn-flex", burn(steps, &Burn::flex())),
        ("burn-ndarray", burn(steps, &Burn::ndarray())),
    ]
}

fn candle(steps: usize) -> Step {
    let function = Differentiable::compile(&graph(), &Candle::cpu()).expect("it compiles");
    let xs = Tensor::from_vec(sequence(steps), (steps, WIDTH), &Device::Cpu).expect("its elements");
    Arc::new(move |w| {
        let run = || {
            let w = Var::new(w, &Device::Cpu)?;
            let loss = function.call(&[xs.clone(), w.as_tensor().clone()])?.remove(0);
            let gradients = loss.backward()?;
            let gradient = gradients.get(&w).ok_or_else(|| candle_core::Error::Msg("no gradient".into()))?;
            Ok::<_, candle_core::Error>((loss.to_scalar()?, gradient.to_vec1()?))
        };
        run().expect("it runs")
    })
}

fn burn(steps: usize, burn: &Burn) -> Step {
    let function = funcify_burn::Differentiable::new(&graph());
    let device = burn.device().clone().autodiff();
    let xs = BurnTensor::<2>::from_data(TensorData::new(sequence(steps), [steps, WIDTH]), &device);
    Arc::new(move |w| {
        let w = BurnTensor::<1>::from_data(TensorData::new(w.to_vec(), [WIDTH]), &device).require_grad();
        let loss: BurnTensor<1> = function.call((xs.clone(), w.clone())).expect("it runs");
        let gradient = w.grad(&loss.backward()).expect("a gradient");
        (loss.into_scalar::<f32>(), gradient.into_data().iter::<f32>().collect())
    })
}

/// Asserts that a backend compiles the forward and the backward loop.
pub fn assert_compiled<B: Backend>(backend: &B) {
    let options = CompileOptions::default();
    let pullback = graph().pullback(["w"], options.grad_options(backend, None)).expect("it has a derivative");
    let run = |graph: &Graph, inputs: &[HostTensor]| {
        let function = Function::compile_with(graph, backend, options.clone()).expect("it compiles");
        let results = function.call_host(inputs).expect("it runs");
        let loops = function.report().loops;
        assert!(!loops.is_empty(), "{}: {graph}", backend.name());
        assert!(loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{}: {loops:?}", backend.name());
        results
    };
    let inputs = [HostTensor::from_vec(sequence(5), [5, WIDTH]), HostTensor::from_vec(vec![0.5f32; WIDTH], [WIDTH])];
    let inputs = inputs.map(|input| input.expect("its elements"));
    let results = run(&pullback.forward, &inputs);
    let backward_inputs = pullback.backward_inputs.iter().map(|input| match input {
        BackwardInput::Input(index) => inputs[*index].clone(),
        BackwardInput::Output(index) => results[*index].clone(),
        BackwardInput::Cotangent(_) => HostTensor::scalar(1f32),
    });
    run(&pullback.backward, &backward_inputs.collect::<Vec<_>>());
}
