//! Traces the cell of a Burn module into a graph, trains the cell on Burn with `backward()` and on Candle, and checks
//! that the losses agree.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use funcify::dispatch::Function;
use funcify::{GradOptions, HostTensor};
use funcify_burn::Scan;
use funcify_candle::Candle;

const STEPS: usize = 6;
const RATE: f64 = 0.2;
const UPDATES: usize = 8;

#[derive(Module, Debug)]
struct Cell {
    input: Linear,
    hidden: Linear,
}

impl Cell {
    fn step(&self, h: Tensor<2>, x: Tensor<2>) -> Tensor<2> {
        (self.input.forward(x) + self.hidden.forward(h)).tanh()
    }
}

/// A mapper that updates each parameter by one step of gradient descent.
struct Descend<'a>(&'a Gradients);

impl ModuleMapper for Descend<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let gradient = tensor.grad(self.0).expect("the loss depends on every parameter");
            Tensor::from_inner(tensor.inner() - gradient * RATE).require_grad()
        })
    }
}

fn host(tensor: Tensor<2>) -> HostTensor {
    let shape = tensor.dims();
    HostTensor::from_vec(tensor.into_data().try_into_vec::<f32>().unwrap(), shape).unwrap()
}

#[test]
fn a_cell_of_burn_is_trained_on_burn_and_on_candle() {
    let device = Device::flex().autodiff();
    device.seed(7);
    let mut cell = Cell { input: LinearConfig::new(3, 4).init(&device), hidden: LinearConfig::new(4, 4).init(&device) };
    let wave = (0..STEPS * 2 * 3).map(|index| (index as f32 * 0.7).sin()).collect::<Vec<f32>>();
    let xs = Tensor::<3>::from_data(TensorData::new(wave.clone(), [STEPS, 2, 3]), &device);
    let init = Tensor::<2>::zeros([2, 4], &device);
    let target = Tensor::<2>::full([2, 4], 0.5, &device);

    let traced = Scan::new().trace(&cell, init.clone(), xs.clone(), |cell, h, x| (cell.step(h, x), ())).unwrap();
    let program = traced.graph().to_string();
    assert!(program.contains("f32[T,2,3]"), "{program}");

    // Candle runs the forward and backward graphs, and the test updates the weights.
    let count = (2 * 4) as f32;
    let backward = traced.graph().vjp(funcify::derivative::Wrt::Floats, GradOptions::new()).unwrap();
    let backward = Function::compile(&backward, &Candle::cpu()).unwrap();
    let mut weights = traced.host_weights(&cell).unwrap();
    assert_eq!(weights.len(), 4);
    let rest = [host(init.clone()), HostTensor::from_vec(wave, [STEPS, 2, 3]).unwrap()];
    let mut on_candle = Vec::new();
    for _ in 0..UPDATES {
        let forward = Function::compile(traced.graph(), &Candle::cpu()).unwrap();
        let arguments: Vec<HostTensor> = weights.iter().chain(&rest).cloned().collect();
        let last = forward.call_host(&arguments).unwrap().remove(0);
        let errors: Vec<f32> = last.as_slice::<f32>().unwrap().iter().map(|h| h - 0.5).collect();
        on_candle.push(errors.iter().map(|error| error * error).sum::<f32>() / count);
        let cotangent = errors.iter().map(|error| 2.0 * error / count).collect::<Vec<f32>>();
        let cotangent = HostTensor::from_vec(cotangent, [2, 4]).unwrap();
        let results = backward.call_host(&[arguments, vec![cotangent]].concat()).unwrap();
        for (weight, gradient) in weights.iter_mut().zip(&results[1..]) {
            let pairs = weight.as_slice::<f32>().unwrap().iter().zip(gradient.as_slice::<f32>().unwrap());
            let moved: Vec<f32> = pairs.map(|(weight, gradient)| weight - RATE as f32 * gradient).collect();
            *weight = HostTensor::from_vec(moved, weight.shape().to_vec()).unwrap();
        }
    }

    let mut on_burn = Vec::new();
    for _ in 0..UPDATES {
        let last: Tensor<2> = traced.call(&cell, (init.clone(), xs.clone())).unwrap();
        let loss = (last - target.clone()).powi_scalar(2).mean();
        let gradients = loss.backward();
        on_burn.push(loss.into_scalar::<f32>());
        cell = cell.map(&mut Descend(&gradients));
    }

    assert!(on_burn[UPDATES - 1] < 0.5 * on_burn[0], "{on_burn:?}");
    for (burn, candle) in on_burn.iter().zip(&on_candle) {
        assert!((burn - candle).abs() < 1e-5 * burn.abs(), "{on_burn:?} {on_candle:?}");
    }
}
