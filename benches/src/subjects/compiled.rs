//! Compiles graphs for a backend and runs them on the backend's own tensors.

use anyhow::{Context, Result};
use funcify::HostTensor;
use funcify::dispatch::{Backend, CompileOptions, Function, Profile};

use super::{Phase, Prepared, Task};

struct Compiled<B: Backend> {
    function: Function<B>,
    inputs: Vec<B::Tensor>,
    wait: fn(&B) -> Result<()>,
}

/// Compiles a graph and uploads its inputs. `wait` blocks until the device is idle.
pub(super) fn prepare<B: Backend>(
    task: &Task<'_>,
    backend: &B,
    options: CompileOptions,
    wait: fn(&B) -> Result<()>,
) -> Result<Box<dyn Prepared>> {
    let graph = match task.phase {
        Phase::Forward => (task.workload.graph)(&task.sizes)?,
        Phase::Train => task.workload.training_graph(&task.sizes, options.grad_options(backend, None))?,
    };
    let function = Function::compile_with(&graph, backend, options)?;
    let upload =
        |(_, tensor): &(String, HostTensor)| backend.upload(tensor).map_err(|error| anyhow::anyhow!("{error}"));
    let inputs = task.inputs.iter().map(upload).collect::<Result<_>>()?;
    Ok(Box::new(Compiled { function, inputs, wait }))
}

impl<B: Backend> Prepared for Compiled<B> {
    fn run(&mut self) -> Result<()> {
        let results = self.function.call(&self.inputs)?;
        (self.wait)(self.function.backend())?;
        drop(results);
        Ok(())
    }

    fn results(&mut self) -> Result<Vec<(String, HostTensor)>> {
        let results = self.function.call(&self.inputs)?;
        let graph = self.function.graph();
        let named = results.iter().zip(graph.outputs()).enumerate().map(|(index, (tensor, output))| {
            let dtype = graph.output_type(index).dtype;
            let host = self.function.backend().download(tensor, dtype).map_err(|error| anyhow::anyhow!("{error}"));
            Ok((output.name.clone(), host.context("a result cannot be read")?))
        });
        named.collect()
    }

    fn profile(&mut self) -> Result<Option<Profile>> {
        self.function.call(&self.inputs)?;
        Ok(Some(self.function.profile(&self.inputs)?.1))
    }
}
