//! Runs handwritten Candle and Burn loops with the autodiff of each framework.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use burn::tensor::Tensor as BurnTensor;
use candle_core::{Tensor as CandleTensor, Var};
use funcify::{DType, Graph, HostTensor};
use funcify_burn::Burn;

use super::{Eager, Phase, Prepared, sync};
use crate::inputs::{BurnInputs, CandleInputs};
use crate::workloads::{Loss, Sizes, Workload};

/// Converts a host tensor to a Candle tensor.
pub(super) fn to_candle(tensor: &HostTensor) -> Result<CandleTensor> {
    let (shape, device) = (tensor.shape(), &candle_core::Device::Cpu);
    Ok(match tensor.as_slice::<i64>() {
        Some(numbers) => CandleTensor::from_slice(numbers, shape, device)?,
        None => CandleTensor::from_slice(tensor.as_slice::<f32>().context("inputs are f32 or i64")?, shape, device)?,
    })
}

/// Copies named Candle tensors, of dtype f32 or i64, to host memory.
pub(super) fn from_candle(results: Vec<(String, CandleTensor)>) -> Result<Vec<(String, HostTensor)>> {
    let host = |(name, tensor): (String, CandleTensor)| {
        let flat = tensor.flatten_all()?;
        let host = match tensor.dtype() {
            candle_core::DType::I64 => HostTensor::from_vec(flat.to_vec1::<i64>()?, tensor.dims()),
            _ => HostTensor::from_vec(flat.to_vec1::<f32>()?, tensor.dims()),
        };
        Ok((name, host.context("a tensor has as many elements as its shape")?))
    };
    results.into_iter().map(host).collect()
}

/// Returns the names of a graph's outputs.
pub(super) fn output_names(graph: &Graph) -> Vec<String> {
    graph.outputs().iter().map(|output| output.name.clone()).collect()
}

pub(super) fn candle(
    workload: &'static Workload,
    sizes: Sizes,
    phase: Phase,
    inputs: &[(String, HostTensor)],
) -> Result<Box<dyn Prepared>> {
    let mut named = BTreeMap::new();
    let mut vars = Vec::new();
    for (name, tensor) in inputs {
        let mut tensor = to_candle(tensor)?;
        let differentiated = workload.differentiated.iter().find(|other| *other == name);
        if let (Phase::Train, Some(name)) = (phase, differentiated) {
            let var = Var::from_tensor(&tensor)?;
            tensor = var.as_tensor().clone();
            vars.push((*name, var));
        }
        named.insert(name.clone(), tensor);
    }
    vars.sort_by_key(|(name, _)| workload.differentiated.iter().position(|other| other == name));
    let names = output_names(&(workload.graph)(&sizes)?);
    let inputs = CandleInputs::new(named);
    let compute = move || {
        let outputs = workload.candle.expect("checked by `declines`")(&sizes, &inputs)?;
        match phase {
            Phase::Forward => Ok(names.iter().cloned().zip(outputs).collect()),
            Phase::Train => candle_gradients(&candle_loss(workload.loss, &outputs)?, &vars),
        }
    };
    Ok(Box::new(Eager { compute, wait: || Ok(()), to_host: from_candle }))
}

/// Computes the loss of a handwritten Candle loop from its outputs.
pub(super) fn candle_loss(loss: Loss, outputs: &[CandleTensor]) -> Result<CandleTensor> {
    if loss == Loss::Output {
        return Ok(outputs[0].clone());
    }
    let mut sum = outputs[0].sqr()?.mean_all()?;
    for output in &outputs[1..] {
        sum = (sum + output.sqr()?.mean_all()?)?;
    }
    Ok(sum)
}

/// Runs the backward pass from `loss`. Returns the loss and its gradients with respect to `vars`, each with a name.
pub(super) fn candle_gradients(
    loss: &CandleTensor,
    vars: &[(&'static str, Var)],
) -> Result<Vec<(String, CandleTensor)>> {
    let gradients = loss.backward()?;
    let mut results = vec![("loss".to_string(), loss.clone())];
    for (name, var) in vars {
        let gradient = gradients.get(var).with_context(|| format!("the loss does not depend on `{name}`"))?;
        results.push((format!("grad_{name}"), gradient.clone()));
    }
    Ok(results)
}

/// Computes the mean of a vector. Splits the vector into rows and sums each row first, because Burn 0.22 on wgpu sums
/// only the first 2^18 elements of a vector.
fn mean(x: BurnTensor<1>) -> BurnTensor<1> {
    let count = x.shape().num_elements();
    let row = (1..=1024).rev().find(|row| count.is_multiple_of(*row)).unwrap_or(1);
    x.reshape([count / row, row]).sum_dim(1).sum() / count as f32
}

/// Computes the loss from the outputs and runs the backward pass. Returns the loss and the gradients as flat tensors,
/// each with a name.
pub(super) fn burn_gradients(
    workload: &Workload,
    inputs: &BurnInputs,
    outputs: Vec<BurnTensor<1>>,
) -> Result<Vec<(String, BurnTensor<1>)>> {
    let loss = match workload.loss {
        Loss::Output => outputs.into_iter().next(),
        _ => outputs.into_iter().map(|output| mean(output.clone() * output)).reduce(|sum, each| sum + each),
    };
    let loss = loss.context("a workload has outputs")?;
    let gradients = loss.backward();
    let mut results = vec![("loss".to_string(), loss.inner())];
    for name in workload.differentiated {
        let input = inputs.float(name);
        macro_rules! of_rank {
            ($($rank:literal)*) => {
                match input.shape().len() {
                    $($rank => input.into_tensor::<$rank, burn::tensor::Float>()?.grad(&gradients)
                        .map(|gradient| { let count = gradient.shape().num_elements(); gradient.reshape([count]) }),)*
                    rank => anyhow::bail!("no workload has inputs of rank {rank}"),
                }
            };
        }
        let gradient = of_rank!(1 2 3).with_context(|| format!("the loss does not depend on `{name}`"))?;
        results.push((format!("grad_{name}"), gradient));
    }
    Ok(results)
}

/// Copies named flat tensors to host memory, converted to the dtypes of the graph's outputs.
pub(super) fn from_burn(results: Vec<(String, BurnTensor<1>)>, graph: &Graph) -> Result<Vec<(String, HostTensor)>> {
    let host = |(index, (name, tensor)): (usize, (String, BurnTensor<1>))| {
        let numbers: Vec<f32> = tensor.into_data().iter::<f32>().collect();
        let count = numbers.len();
        let host = HostTensor::from_vec(numbers, [count]).context("a tensor has as many elements as its shape")?;
        let dtype = graph.outputs().get(index).map_or(DType::F32, |_| graph.output_type(index).dtype);
        Ok((name, host.cast(dtype)))
    };
    results.into_iter().enumerate().map(host).collect()
}

pub(super) fn burn(
    workload: &'static Workload,
    sizes: Sizes,
    phase: Phase,
    burn: &Burn,
    inputs: &[(String, HostTensor)],
) -> Result<Box<dyn Prepared>> {
    let tracked = if phase == Phase::Train { workload.differentiated } else { &[] };
    let inputs = BurnInputs::new(burn, inputs, tracked)?;
    let graph = (workload.graph)(&sizes)?;
    let names = output_names(&graph);
    let compute = move || {
        let outputs = workload.burn.expect("checked by `declines`")(&sizes, &inputs);
        match phase {
            Phase::Forward => Ok(names.iter().cloned().zip(outputs).collect()),
            Phase::Train => burn_gradients(workload, &inputs, outputs),
        }
    };
    let typed = if phase == Phase::Forward { graph } else { Graph::new("gradients") };
    let burn = burn.clone();
    Ok(Box::new(Eager { compute, wait: move || sync(&burn), to_host: move |results| from_burn(results, &typed) }))
}
