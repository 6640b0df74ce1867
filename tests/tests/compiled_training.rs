//! Tests the training of compiled loops through the plug-ins, for many steps and on many threads.

use std::sync::Arc;
use std::thread;

use candle_core::{Device, Tensor, Var};
use funcify::{GradOptions, HostTensor, evaluate};
use funcify_burn::Burn;
use funcify_candle::{Candle, Differentiable};
use funcify_tests::training::{WIDTH, assert_compiled, graph, sequence, subjects};

const WEIGHTS: [f32; WIDTH] = [0.3, -0.8, 0.95];

/// Computes the loss and its gradient with the reference evaluator.
fn expected(steps: usize, weights: &[f32]) -> (f32, Vec<f32>) {
    let gradient = graph().value_and_grad("w", GradOptions::new()).unwrap();
    let xs = HostTensor::from_vec(sequence(steps), [steps, WIDTH]).unwrap();
    let found = evaluate(&gradient, &[xs, HostTensor::from_vec(weights.to_vec(), [WIDTH]).unwrap()]).unwrap();
    (found[0].get(0).as_f64() as f32, found[1].as_slice::<f32>().unwrap().to_vec())
}

fn assert_same(found: &(f32, Vec<f32>), expected: &(f32, Vec<f32>), what: &str) {
    let all = |(loss, gradient): &(f32, Vec<f32>)| [vec![*loss], gradient.clone()].concat();
    let (found, expected) = (all(found), all(expected));
    let scale = expected.iter().fold(0f32, |scale, number| scale.max(number.abs()));
    let is_same = found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() <= 1e-4 * scale);
    assert!(is_same && found.len() == expected.len(), "{what}: {found:?} is not {expected:?}");
}

#[test]
fn forward_and_backward_are_compiled() {
    assert_compiled(&Candle::cpu());
    assert_compiled(&Burn::flex());
    assert_compiled(&Burn::ndarray());
}

#[test]
fn a_hundred_thousand_steps_in_a_thread_of_two_megabytes() {
    const STEPS: usize = 100_000;
    let expected = expected(STEPS, &WEIGHTS);
    for (name, step) in subjects(STEPS) {
        let found = thread::Builder::new().stack_size(2 << 20).spawn(move || step(&WEIGHTS)).unwrap().join().unwrap();
        assert_same(&found, &expected, name);
    }
}

/// Calls one function from eight threads at once. Each call must have its own memory.
#[test]
fn eight_threads_call_one_function() {
    const STEPS: usize = 200;
    let weights = |thread: usize| WEIGHTS.map(|weight| weight * (1.0 - thread as f32 / 10.0));
    let expected: Arc<Vec<_>> = Arc::new((0..8).map(|thread| expected(STEPS, &weights(thread))).collect());
    for (name, step) in subjects(STEPS) {
        let threads = (0..8).map(|index| {
            let (step, expected) = (step.clone(), expected.clone());
            thread::spawn(move || {
                for _ in 0..50 {
                    assert_same(&step(&weights(index)), &expected[index], name);
                }
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Tests inputs that are views of one tensor: a transposed sequence, and weights that are one row of this sequence.
/// Both are read in place and must stay unchanged.
#[test]
fn inputs_may_share_their_memory_and_be_turned() {
    const STEPS: usize = 6;
    let turned = sequence(STEPS);
    let in_order: Vec<f32> = (0..STEPS * WIDTH).map(|index| turned[index % WIDTH * STEPS + index / WIDTH]).collect();
    let function = Differentiable::compile(&graph(), &Candle::cpu()).unwrap();
    let memory = Var::from_slice(&turned, (WIDTH, STEPS), &Device::Cpu).unwrap();
    let gradient = |xs: &Tensor, w: &Tensor, by: &Var| {
        let loss = function.call(&[xs.clone(), w.clone()]).unwrap().remove(0);
        let gradients = loss.backward().unwrap();
        gradients.get(by).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    let xs = memory.t().unwrap();
    let found = gradient(&xs, &xs.get(2).unwrap(), &memory);

    let copy = Var::from_slice(&in_order, (STEPS, WIDTH), &Device::Cpu).unwrap();
    let w = Var::from_slice(&in_order[2 * WIDTH..3 * WIDTH], WIDTH, &Device::Cpu).unwrap();
    let (of_xs, of_w) = (gradient(&copy, &w, &copy), gradient(&copy, &w, &w));
    assert_eq!(found.len(), STEPS * WIDTH);
    for (index, found) in found.iter().enumerate() {
        let (step, lane) = (index % STEPS, index / STEPS);
        let expected = of_xs[step * WIDTH + lane] + if step == 2 { of_w[lane] } else { 0.0 };
        assert!((found - expected).abs() < 1e-6, "{index}: {found} is not {expected}");
    }
    assert_eq!(memory.flatten_all().unwrap().to_vec1::<f32>().unwrap(), turned);
}
