//! `cargo xtask run`: a program from a `.fir` file on a backend, tensors from and to safetensors files.

use std::path::PathBuf;

use anyhow::Result;
use funcify::dispatch::{CompileOptions, LoopStrategy, run_named};
use funcify::{Graph, read_safetensors, write_safetensors};

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
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let graph = Graph::parse(&read(&arguments.file)?)?;
    let inputs = read_safetensors(&arguments.inputs)?;
    let strategy = match (arguments.native, arguments.unroll) {
        (true, _) => Some(LoopStrategy::Native),
        (_, true) => Some(LoopStrategy::Unroll),
        _ => None,
    };
    let options = CompileOptions { strategy, ..CompileOptions::default() };
    let outputs = run_named(&arguments.backend, &graph, &inputs, options)?;
    match &arguments.out {
        Some(path) => {
            write_safetensors(path, &outputs)?;
            for (name, tensor) in &outputs {
                println!("{name}: {}", tensor.ty());
            }
        }
        None => outputs.iter().for_each(|(name, tensor)| println!("{name}: {tensor:?}")),
    }
    Ok(())
}
