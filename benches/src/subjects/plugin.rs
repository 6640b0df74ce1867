//! Runs graphs through the plug-ins: each graph is a single op of the framework's autodiff, and `loss.backward()`
//! differentiates it.

use anyhow::Result;
use candle_core::{Tensor as CandleTensor, Var};
use funcify::{Graph, HostTensor};
use funcify_burn::{AnyTensor, Burn};
use funcify_candle::{Candle, Differentiable};

use super::by_hand::{burn_gradients, candle_gradients, candle_loss, from_burn, from_candle, to_candle};
use super::{Eager, Prepared, sync};
use crate::inputs::BurnInputs;
use crate::workloads::{Sizes, Workload};

pub(super) fn candle(
    workload: &'static Workload,
    sizes: &Sizes,
    inputs: &[(String, HostTensor)],
) -> Result<Box<dyn Prepared>> {
    let function = Differentiable::compile(&(workload.graph)(sizes)?, &Candle::cpu())?;
    let mut tensors: Vec<CandleTensor> = inputs.iter().map(|(_, tensor)| to_candle(tensor)).collect::<Result<_>>()?;
    let mut vars = Vec::new();
    for name in workload.differentiated {
        let index =
            inputs.iter().position(|(other, _)| other == name).expect("a workload differentiates only its inputs");
        let var = Var::from_tensor(&tensors[index])?;
        tensors[index] = var.as_tensor().clone();
        vars.push((*name, var));
    }
    let compute = move || {
        let outputs = function.call(&tensors)?;
        candle_gradients(&candle_loss(workload.loss, &outputs)?, &vars)
    };
    Ok(Box::new(Eager { compute, wait: || Ok(()), to_host: from_candle }))
}

pub(super) fn burn(
    workload: &'static Workload,
    sizes: &Sizes,
    burn: &Burn,
    inputs: &[(String, HostTensor)],
) -> Result<Box<dyn Prepared>> {
    let function = funcify_burn::Differentiable::new(&(workload.graph)(sizes)?);
    let inputs = BurnInputs::new(burn, inputs, workload.differentiated)?;
    let compute = move || {
        let outputs: Vec<AnyTensor> = function.call(inputs.in_order(function.graph()))?;
        burn_gradients(workload, &inputs, outputs.into_iter().map(flat).collect::<Result<_>>()?)
    };
    let burn = burn.clone();
    let to_host = |results| from_burn(results, &Graph::new("gradients"));
    Ok(Box::new(Eager { compute, wait: move || sync(&burn), to_host }))
}

/// Flattens a float tensor of rank 1, 2 or 3 to a vector.
fn flat(tensor: AnyTensor) -> Result<burn::tensor::Tensor<1>> {
    use burn::tensor::Float;
    Ok(match tensor.shape().len() {
        1 => tensor.into_tensor::<1, Float>()?,
        2 => tensor.into_tensor::<2, Float>()?.flatten(0, 1),
        rank => {
            anyhow::ensure!(rank == 3, "no workload has outputs of rank {rank}");
            tensor.into_tensor::<3, Float>()?.flatten(0, 2)
        }
    })
}
