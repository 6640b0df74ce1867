//! The plug-ins: a graph as one op of the framework's autodiff, trained through `loss.backward()`.

use anyhow::Result;
use candle_core::{Tensor as CandleTensor, Var};
use funcify::{Graph, HostTensor};
use funcify_burn::{AnyTensor, Burn};
use funcify_candle::{Candle, Differentiable};

use super::Prepared;
use super::by_hand::{burn_gradients, candle_gradients, candle_loss, from_burn, from_candle, to_candle};
use crate::inputs::BurnInputs;
use crate::workloads::{Sizes, Workload};

struct CandlePlugin {
    workload: &'static Workload,
    function: Differentiable,
    inputs: Vec<CandleTensor>,
    vars: Vec<(&'static str, Var)>,
}

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
            inputs.iter().position(|(other, _)| other == name).expect("a workload differentiates by its inputs");
        let var = Var::from_tensor(&tensors[index])?;
        tensors[index] = var.as_tensor().clone();
        vars.push((*name, var));
    }
    Ok(Box::new(CandlePlugin { workload, function, inputs: tensors, vars }))
}

impl CandlePlugin {
    fn compute(&self) -> Result<Vec<(String, CandleTensor)>> {
        let outputs = self.function.call(&self.inputs)?;
        candle_gradients(&candle_loss(self.workload.loss, &outputs)?, &self.vars)
    }
}

impl Prepared for CandlePlugin {
    fn run(&mut self) -> Result<()> {
        self.compute().map(drop)
    }

    fn results(&mut self) -> Result<Vec<(String, HostTensor)>> {
        self.compute()?.into_iter().map(|(name, tensor)| Ok((name, from_candle(&tensor)?))).collect()
    }
}

struct BurnPlugin {
    workload: &'static Workload,
    function: funcify_burn::Differentiable,
    burn: Burn,
    inputs: BurnInputs,
}

pub(super) fn burn(
    workload: &'static Workload,
    sizes: &Sizes,
    burn: &Burn,
    inputs: &[(String, HostTensor)],
) -> Result<Box<dyn Prepared>> {
    let function = funcify_burn::Differentiable::new(&(workload.graph)(sizes)?);
    let inputs = BurnInputs::new(burn, inputs, workload.differentiated)?;
    Ok(Box::new(BurnPlugin { workload, function, burn: burn.clone(), inputs }))
}

impl BurnPlugin {
    fn compute(&self) -> Result<Vec<(String, burn::tensor::Tensor<1>)>> {
        let outputs: Vec<AnyTensor> = self.function.call(self.inputs.in_order(self.function.graph()))?;
        let flat = outputs.into_iter().map(flat).collect::<Result<_>>()?;
        burn_gradients(self.workload, &self.inputs, flat)
    }
}

/// A float tensor of any rank as a vector.
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

impl Prepared for BurnPlugin {
    fn run(&mut self) -> Result<()> {
        let results = self.compute()?;
        self.burn.device().sync().map_err(|error| anyhow::anyhow!("{error:?}"))?;
        drop(results);
        Ok(())
    }

    fn results(&mut self) -> Result<Vec<(String, HostTensor)>> {
        from_burn(self.compute()?, &Graph::new("gradients"))
    }
}
