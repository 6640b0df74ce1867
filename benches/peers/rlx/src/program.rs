//! Compiles a workload to an rlx program, and uploads its inputs.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use rlx::{CompiledGraph, Device, Session, grad_with_loss};

use crate::tensors::Tensor;
use crate::value::{Builder, Value};
use crate::workloads::{ALL, Inputs, Sizes, Workload};

/// A compiled workload. Its inputs are uploaded as rlx params once, when the program is built.
pub(crate) struct Program {
    compiled: CompiledGraph,
    results: Vec<ResultDescription>,
    is_training: bool,
}

/// The name and type of a result.
struct ResultDescription {
    name: String,
    shape: Vec<usize>,
    is_integer: bool,
}

/// The reason why rlx does not support a workload or a phase.
#[derive(Debug)]
pub(crate) struct Declined(pub(crate) &'static str);

impl std::fmt::Display for Declined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Declined {}

impl Program {
    pub(crate) fn make(name: &str, sizes: Sizes, phase: &str, tensors: &BTreeMap<String, Tensor>) -> Result<Program> {
        let workload = ALL.iter().find(|workload| workload.name == name);
        let workload = workload.with_context(|| format!("there is no workload `{name}`"))?;
        let forward = workload.forward.map_err(Declined)?;
        let is_training = phase == "train";
        if is_training && workload.differentiated.is_empty() {
            bail!(Declined("the workload has no gradient"));
        }
        let builder = Builder::new(name);
        let params =
            tensors.iter().map(|(name, tensor)| (name.clone(), builder.param(name, &at_least_a_vector(tensor))));
        let inputs = Inputs(params.collect());
        let outputs = forward(&sizes, &inputs);
        let (graph, results) = if is_training {
            let loss = if workload.loss_is_output { outputs[0] } else { sum_of_mean_squares(&outputs) };
            let wrt: Vec<_> = workload.differentiated.iter().map(|name| inputs.0[*name].id).collect();
            (grad_with_loss(&builder.finish(&[loss]), &wrt), training_results(workload, tensors))
        } else {
            (builder.finish(&outputs), forward_results(workload, &sizes))
        };
        let mut compiled = Session::new(Device::Cpu).compile(graph);
        for (name, tensor) in tensors {
            compiled.set_param(name, &tensor.numbers);
        }
        Ok(Program { compiled, results, is_training })
    }

    /// Runs the program. Returns copies of the results, as rlx's interface requires.
    pub(crate) fn run(&mut self) -> Result<Vec<Vec<f32>>> {
        let seed: &[(&str, &[f32])] = if self.is_training { &[("d_output", &[1.0])] } else { &[] };
        Ok(self.compiled.try_run(seed)?)
    }

    /// Converts the results of a run to tensors, keyed by name.
    pub(crate) fn results_by_name(&self, results: Vec<Vec<f32>>) -> BTreeMap<String, Tensor> {
        let named = self.results.iter().zip(results).map(|(described, numbers)| {
            let ResultDescription { name, shape, is_integer } = described;
            (name.clone(), Tensor { shape: shape.clone(), numbers, is_integer: *is_integer })
        });
        named.collect()
    }
}

/// Returns the shape of a tensor, or `[1]` for a scalar, because rlx's loops do not support tensors of rank 0.
fn at_least_a_vector(tensor: &Tensor) -> Vec<usize> {
    if tensor.shape.is_empty() { vec![1] } else { tensor.shape.clone() }
}

fn sum_of_mean_squares<'g>(outputs: &[Value<'g>]) -> Value<'g> {
    let squares = outputs.iter().map(|output| output.mean_square());
    squares.reduce(|sum, each| sum + each).expect("a workload has outputs")
}

fn forward_results(workload: &Workload, sizes: &Sizes) -> Vec<ResultDescription> {
    let described = workload.outputs.iter().map(|output| ResultDescription {
        name: output.name.into(),
        shape: output.shape(sizes),
        is_integer: output.is_integer,
    });
    described.collect()
}

fn training_results(workload: &Workload, tensors: &BTreeMap<String, Tensor>) -> Vec<ResultDescription> {
    let float = |name: String, shape: &[usize]| ResultDescription { name, shape: shape.to_vec(), is_integer: false };
    let gradients = workload.differentiated.iter().map(|name| float(format!("grad_{name}"), &tensors[*name].shape));
    [float("loss".into(), &[])].into_iter().chain(gradients).collect()
}
