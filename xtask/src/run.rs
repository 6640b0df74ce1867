//! `cargo xtask run`: a program from a `.fir` file on a backend, tensors from and to safetensors files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use funcify::dispatch::{CompileOptions, LoopStrategy, open_backend, ordered_inputs};
use funcify::error::{Place, Site};
use funcify::{Graph, HostTensor, read_safetensors, write_safetensors};

use crate::read;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The program.
    file: PathBuf,
    /// The backend, by name.
    #[arg(long, default_value = "reference")]
    backend: String,
    /// The inputs, by name; sizes are bound from their shapes.
    #[arg(long)]
    inputs: PathBuf,
    /// Where the outputs go, by name. Without it they are printed.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Run every loop natively.
    #[arg(long, conflicts_with = "unroll")]
    native: bool,
    /// Unroll every loop.
    #[arg(long)]
    unroll: bool,
    /// Print what the program became: instructions, loops, memory.
    #[arg(long)]
    report: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let graph = Graph::parse(&read(&arguments.file)?)?;
    let inputs = read_safetensors(&arguments.inputs)?;
    let strategy = match (arguments.native, arguments.unroll) {
        (true, _) => LoopStrategy::Native,
        (_, true) => LoopStrategy::Unroll,
        _ => LoopStrategy::Auto,
    };
    let options = CompileOptions { strategy, ..CompileOptions::default() };
    let inputs = ordered_inputs(&Place::new(graph.name(), Site::Unknown), &graph, &inputs)?;
    let function = open_backend(&arguments.backend)?.compile(&graph, options)?;
    let results = function.call(&inputs)?;
    let names = graph.outputs().iter().map(|output| output.name.clone());
    let outputs: BTreeMap<String, HostTensor> = names.zip(results).collect();
    match &arguments.out {
        Some(path) => {
            write_safetensors(path, &outputs)?;
            for (name, tensor) in &outputs {
                println!("{name}: {}", tensor.ty());
            }
        }
        None => outputs.iter().for_each(|(name, tensor)| println!("{name}: {tensor:?}")),
    }
    if arguments.report {
        print!("\n{}", function.report());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use funcify::dispatch::{backend_names, open_backend};

    use super::*;

    const PROGRAM: &str = "fn @sums(%xs: f32[T], %start: f32[]) {
  %ys: f32[T], %last: f32[] = scan @body for t in 0..T {
    seq %x: f32[] = %xs[t]
    nit-sot %ys
    carry %sum: f32[] = %last from %start
    %0: f32[] = add %sum, %x
    %ys[t] = %0
    %last = %0
  }
  return ys=%ys, last=%last
}
";

    #[test]
    fn a_program_from_a_file_runs_on_every_backend_in_both_strategies() {
        let folder = std::env::temp_dir().join(format!("funcify-run-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, inputs) = (folder.join("sums.fir"), folder.join("in.safetensors"));
        std::fs::write(&file, PROGRAM).unwrap();
        let tensors = [("xs", [1f32, 2.0, 3.0].into()), ("start", HostTensor::scalar(10f32))];
        write_safetensors(&inputs, &tensors.map(|(name, tensor)| (name.to_string(), tensor)).into()).unwrap();
        let is_absent = |name: &str| matches!(open_backend(name), Err(funcify::Error::Absent { .. }));
        for backend in backend_names().into_iter().filter(|name| !is_absent(name)) {
            for (native, unroll) in [(true, false), (false, true), (false, false)] {
                let out = folder.join(format!("{backend}.safetensors"));
                let arguments = Arguments {
                    file: file.clone(),
                    backend: backend.to_string(),
                    inputs: inputs.clone(),
                    out: Some(out.clone()),
                    native,
                    unroll,
                    report: true,
                };
                run(&arguments).unwrap();
                let expected: BTreeMap<String, HostTensor> =
                    [("ys", [11f32, 13.0, 16.0].into()), ("last", HostTensor::scalar(16f32))]
                        .map(|(name, tensor)| (name.to_string(), tensor))
                        .into();
                assert_eq!(read_safetensors(&out).unwrap(), expected, "{backend}");
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
