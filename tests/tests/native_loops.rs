//! A step of a native loop allocates what the library allocates for it, and nothing else: as many allocations as in a loop by hand.

use allocation_counter::measure;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Dispatch, TensorMetadata};
use burn::tensor::{Shape, Slice};
use candle_core::Tensor;
use funcify::dispatch::{Backend, CompileOptions, Function, LoopStrategy};
use funcify::{DType, Graph, HostTensor, Scalar, scan};
use funcify_burn::Burn;
use funcify_candle::Candle;

const WIDTH: usize = 8;

/// `h <- tanh(x + h a)`: all states, and the last one.
fn decay() -> Graph {
    let decay = Graph::build("decay", |g| {
        let [h, xs, a] = [g.input("h", "f32[8]"), g.input("xs", "f32[T,8]"), g.input("a", "f32[8]")];
        scan(h, xs, |h, x| {
            let next = (x + h * a).tanh();
            (next, next)
        })
    });
    decay.unwrap()
}

fn numbers(shape: &[usize]) -> HostTensor {
    HostTensor::from_fn(DType::F32, shape, |index| Scalar::Float((index.iter().sum::<usize>() as f64 * 0.7).sin()))
}

/// How many allocations one step of 200 more than of 100 takes.
fn allocations_of_a_step(mut run: impl FnMut(usize)) -> f64 {
    let mut of = |steps: usize| {
        run(steps);
        measure(|| run(steps)).count_total
    };
    let (short, long) = (of(100), of(200));
    (long - short) as f64 / 100.0
}

fn native<B: Backend>(backend: &B, graph: &Graph, shapes: impl Fn(usize) -> Vec<Vec<usize>>) -> f64 {
    let options = CompileOptions { strategy: LoopStrategy::Native, rewrites: None, ..CompileOptions::default() };
    let function = Function::compile_with(graph, backend, options).unwrap();
    let arguments = |steps| -> Vec<B::Tensor> {
        shapes(steps).iter().map(|shape| backend.upload(&numbers(shape)).unwrap()).collect()
    };
    let given = [arguments(100), arguments(200)];
    allocations_of_a_step(|steps| {
        function.call(&given[steps / 100 - 1]).unwrap();
    })
}

fn shapes(steps: usize) -> Vec<Vec<usize>> {
    vec![vec![WIDTH], vec![steps, WIDTH], vec![WIDTH]]
}

#[test]
fn a_step_on_candle() {
    let candle = Candle::cpu();
    let [h, a] = [&[WIDTH][..], &[WIDTH]].map(|shape| candle.upload(&numbers(shape)).unwrap());
    let xs = [100, 200].map(|steps| candle.upload(&numbers(&[steps, WIDTH])).unwrap());
    let by_hand = allocations_of_a_step(|steps| {
        let xs = &xs[steps / 100 - 1];
        let (mut h, mut hs) = (h.clone(), Vec::with_capacity(steps));
        for t in 0..steps {
            let x = xs.narrow(0, t, 1).unwrap().squeeze(0).unwrap();
            h = (x + (&h * &a).unwrap()).unwrap().tanh().unwrap();
            hs.push(h.clone());
        }
        Tensor::stack(&hs, 0).unwrap();
    });
    let found = native(&candle, &decay(), shapes);
    println!("candle: {found} {by_hand}");
}

#[test]
fn a_step_on_burn() {
    for burn in [Burn::flex(), Burn::ndarray()] {
        let [h, a] = [&[WIDTH][..], &[WIDTH]].map(|shape| burn.upload(&numbers(shape)).unwrap());
        let xs = [100, 200].map(|steps| burn.upload(&numbers(&[steps, WIDTH])).unwrap());
        let row = |t: usize| [Slice::new(t as isize, Some(t as isize + 1), 1), Slice::new(0, Some(WIDTH as isize), 1)];
        let by_hand = allocations_of_a_step(|steps| {
            let xs = &xs[steps / 100 - 1];
            let (mut h, mut hs) = (h.clone(), burn.upload(&numbers(&[steps, WIDTH])).unwrap());
            for t in 0..steps {
                let x = Dispatch::float_slice(xs.clone(), &row(t));
                let x = Dispatch::float_reshape(x, Shape::new([WIDTH]));
                h = Dispatch::float_tanh(Dispatch::float_add(x, Dispatch::float_mul(h, a.clone())));
                let next = Dispatch::float_reshape(h.clone(), Shape::new([1, WIDTH]));
                hs = Dispatch::float_slice_assign(hs, &row(t), next);
            }
            assert_eq!(hs.shape().rank(), 2);
        });
        let found = native(&burn, &decay(), shapes);
        println!("{}: {found} {by_hand}", burn.name());
    }
}
