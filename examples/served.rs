//! The first program of the serving page: trains a layer on sequences, and serves it one step at a time.

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Optimizer, VarBuilder, VarMap};
use funcify::dispatch::Stepper;
use funcify_candle::Candle;
use funcify_candle::nn::{Gru, RecurrentConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A Candle model with a loop from funcify, over sequences `[batch, steps, features]`.
    let vars = VarMap::new();
    let vb = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let gru = Gru::new(1, 16, RecurrentConfig::default(), vb.pp("gru"))?;
    let head = candle_nn::linear(16, 1, vb.pp("head"))?;

    // Train it like any other model: predict the next value of a wave.
    let wave: Vec<f32> = (0..=100).map(|t| (t as f32 * 0.3).sin()).collect();
    let xs = Tensor::from_slice(&wave[..100], (1, 100, 1), &Device::Cpu)?;
    let next = Tensor::from_slice(&wave[1..], (1, 100, 1), &Device::Cpu)?;
    let mut adam = AdamW::new_lr(vars.all_vars(), 0.02)?;
    for _ in 0..150 {
        let loss = candle_nn::loss::mse(&head.forward(&gru.forward(&xs)?)?, &next)?;
        adam.backward_step(&loss)?;
    }

    // Serve it: run the layer's graph one step at a time, from zero states and with the trained weights.
    let weights: Vec<Tensor> = gru.parameters().iter().map(Tensor::detach).collect();
    let mut stepper = Stepper::new(gru.graph(), &Candle::cpu(), &[gru.zero_state(1)?, weights].concat())?;
    let mut y = Tensor::new(&[[0f32]], &Device::Cpu)?;
    for x in &wave[..100] {
        let hs = stepper.step(&[Tensor::new(&[[*x]], &Device::Cpu)?])?;
        y = head.forward(&hs[0])?;
    }
    let last = head.forward(&gru.forward(&xs)?)?.get(0)?.get(99)?;
    assert!((&y - &last.reshape((1, 1))?)?.abs()?.sum_all()?.to_scalar::<f32>()? < 1e-5);
    let (by_steps, by_sequence) = (y.get(0)?.to_vec1::<f32>()?, last.to_vec1::<f32>()?);
    println!("{by_steps:?} by steps, {by_sequence:?} by the sequence, of {:?}", wave[100]);

    // Save the state to a file, and let a second stream join the first.
    let file = std::env::temp_dir().join(format!("wave-{}.safetensors", std::process::id()));
    stepper.save_state(&file)?;
    stepper.load_state(&file)?;
    stepper.streams("B", &[Some(0), None])?;
    let hs = stepper.step(&[Tensor::new(&[[wave[100]], [wave[0]]], &Device::Cpu)?])?;
    println!("two streams: {:?}", hs[0].dims());
    Ok(std::fs::remove_file(file)?)
}
