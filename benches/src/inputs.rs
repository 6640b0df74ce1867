//! Converts the inputs of workloads to the tensors of each framework.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use burn::tensor::{Int, Tensor as BurnTensor, TensorData};
use candle_core::Tensor as CandleTensor;
use funcify::{Graph, HostTensor};
use funcify_burn::{AnyTensor, Burn};

/// The inputs of a workload as Candle tensors, keyed by name.
pub(crate) struct CandleInputs(BTreeMap<String, CandleTensor>);

impl CandleInputs {
    /// Wraps Candle tensors that are keyed by name.
    pub(crate) fn new(named: BTreeMap<String, CandleTensor>) -> CandleInputs {
        CandleInputs(named)
    }

    /// Returns the tensors with these names.
    pub(crate) fn all<const N: usize>(&self, names: [&str; N]) -> [&CandleTensor; N] {
        names.map(|name| &self.0[name])
    }
}

/// The inputs of a workload as Burn tensors, keyed by name. Scalars are vectors of one element, because Burn has no
/// tensors of rank 0.
pub(crate) struct BurnInputs {
    floats: BTreeMap<String, AnyTensor>,
    integers: BTreeMap<String, AnyTensor>,
}

impl BurnInputs {
    /// Returns the float tensor with this name.
    pub(crate) fn get<const D: usize>(&self, name: &str) -> BurnTensor<D> {
        self.float(name).into_tensor().expect("a workload knows the ranks of its inputs")
    }

    /// Returns the float tensor with this name, as a tensor of dynamic rank.
    pub(crate) fn float(&self, name: &str) -> AnyTensor {
        self.floats[name].clone()
    }

    /// Returns the float tensors with these names. All of them must have rank `D`.
    pub(crate) fn all<const N: usize, const D: usize>(&self, names: [&str; N]) -> [BurnTensor<D>; N] {
        names.map(|name| self.get(name))
    }

    /// Returns the integer tensor with this name.
    pub(crate) fn integers<const D: usize>(&self, name: &str) -> BurnTensor<D, Int> {
        self.integers[name].clone().into_tensor().expect("a workload knows the ranks of its inputs")
    }

    /// Uploads the inputs. The inputs in `tracked` require gradients. If `tracked` is not empty, all inputs are created
    /// on an autodiff device.
    pub(crate) fn new(burn: &Burn, inputs: &[(String, HostTensor)], tracked: &[&str]) -> Result<BurnInputs> {
        let plain = burn.device().clone();
        let device = if tracked.is_empty() { plain } else { plain.autodiff() };
        let mut uploaded = BurnInputs { floats: BTreeMap::new(), integers: BTreeMap::new() };
        for (name, tensor) in inputs {
            let shape = if tensor.shape().is_empty() { &[1] } else { tensor.shape() };
            if let Some(numbers) = tensor.as_slice::<i64>() {
                let data = TensorData::new(numbers.to_vec(), shape.to_vec());
                let integers = BurnTensor::<1, Int>::from_data(data, (&device, burn::tensor::DType::I64));
                uploaded.integers.insert(name.clone(), AnyTensor::from(integers));
                continue;
            }
            let numbers = tensor.as_slice::<f32>().context("inputs are f32 or i64")?.to_vec();
            let data = TensorData::new(numbers, shape.to_vec());
            let is_tracked = tracked.contains(&name.as_str());
            macro_rules! of_rank {
                ($($rank:literal)*) => {
                    match shape.len() {
                        $($rank => {
                            let tensor = BurnTensor::<$rank>::from_data(data, &device);
                            AnyTensor::from(if is_tracked { tensor.require_grad() } else { tensor })
                        })*
                        rank => anyhow::bail!("no workload has inputs of rank {rank}"),
                    }
                };
            }
            uploaded.floats.insert(name.clone(), of_rank!(1 2 3));
        }
        Ok(uploaded)
    }

    /// Returns all tensors, in the order of the graph's inputs.
    pub(crate) fn in_order(&self, graph: &Graph) -> Vec<AnyTensor> {
        let named = (0..graph.inputs().len()).map(|index| graph.input_name(index));
        named.map(|name| self.floats.get(name).unwrap_or_else(|| &self.integers[name]).clone()).collect()
    }
}
