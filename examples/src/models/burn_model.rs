//! A loop in a Burn model, once handwritten and once with funcify. The model, its parameters and `backward()` stay the
//! same.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, TensorData};
use funcify_burn::scan;

#[derive(Module, Debug)]
struct Model {
    input: Linear,
    hidden: Linear,
}

impl Model {
    fn step(&self, h: Tensor<2>, x: Tensor<2>) -> Tensor<2> {
        (self.input.forward(x) + self.hidden.forward(h)).tanh()
    }

    /// Runs the handwritten loop. Burn's autodiff records a node on its tape for each op of each step.
    fn by_hand(&self, mut h: Tensor<2>, xs: Tensor<3>) -> Tensor<2> {
        for x in xs.iter_dim(0) {
            h = self.step(h, x.squeeze_dim(0));
        }
        h
    }

    /// Runs the loop with funcify. Burn's autodiff records the whole loop as a single op.
    fn forward(&self, h: Tensor<2>, xs: Tensor<3>) -> funcify::Result<Tensor<2>> {
        let (h, ()) = scan(self, h, xs, |model, h, x| (model.step(h, x), ()))?;
        Ok(h)
    }
}

/// Checks that both loops return the same final state, and that the gradients of a weight agree.
pub(crate) fn run(device: &Device) -> anyhow::Result<()> {
    let device = device.clone().autodiff();
    let model = Model { input: LinearConfig::new(3, 8).init(&device), hidden: LinearConfig::new(8, 8).init(&device) };
    let wave = (0..100 * 2 * 3).map(|index| (index as f32 * 0.1).sin()).collect::<Vec<f32>>();
    let xs = Tensor::<3>::from_data(TensorData::new(wave, [100, 2, 3]), &device);
    let zeros = || Tensor::<2>::zeros([2, 8], &device);

    let (by_hand, by_funcify) = (model.by_hand(zeros(), xs.clone()), model.forward(zeros(), xs)?);
    let distance = (by_hand.clone() - by_funcify.clone()).abs().max().into_scalar::<f32>();
    anyhow::ensure!(distance < 1e-5, "the last states differ by {distance}");
    let gradient = |last: Tensor<2>| model.hidden.weight.grad(&last.sum().backward());
    let (Some(by_hand), Some(by_funcify)) = (gradient(by_hand), gradient(by_funcify)) else {
        anyhow::bail!("no gradient reaches the weights");
    };
    let largest = by_hand.clone().abs().max().into_scalar::<f32>();
    let distance = (by_hand - by_funcify).abs().max().into_scalar::<f32>();
    anyhow::ensure!(distance < 1e-5 * largest.max(1.0), "the gradients differ by {distance}");
    println!("the last states and the gradients of the weights agree");
    Ok(())
}
