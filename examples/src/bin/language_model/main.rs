//! A small byte-level Mamba, end to end: trained in Candle or Burn, interrupted and resumed, served one byte at a time.
//!
//!     cargo run --release -p funcify-examples --bin language_model -- train --framework candle
//!     cargo run --release -p funcify-examples --bin language_model -- generate --prompt "A loop"
//!     cargo run --release -p funcify-examples --bin language_model -- serve
//!
//! Mamba (Gu and Dao, arXiv:2312.00752) consists of blocks around a selective scan. funcify runs the loop of the scan.
//! The framework computes embeddings, norms, linear maps and their gradients. The training text is this repository's
//! documentation.

mod burn;
mod candle;
mod compare;
mod graph;
mod learner;
mod serve;
mod text;
mod train;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use peak_alloc::PeakAlloc;

use crate::learner::{Learner, Loop, Sizes, Weights};
use crate::text::Text;

/// The global allocator, which counts the bytes that `compare` reports.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[derive(Parser)]
#[command(name = "language_model", about = "A small Mamba over bytes: trained, resumed, served")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train, save checkpoints from which training resumes exactly, and plot the losses.
    Train {
        #[command(flatten)]
        model: Model,
        #[command(flatten)]
        options: train::Options,
    },
    /// Train for `--steps` steps without interruption, and again in two halves with a checkpoint in between. Check that
    /// both runs agree bit for bit.
    Resume {
        #[command(flatten)]
        model: Model,
        #[command(flatten)]
        options: train::Options,
    },
    /// Continue a prompt, running the model one step per byte.
    Generate {
        #[command(flatten)]
        model: Model,
        /// The text to continue.
        #[arg(long, default_value = "A loop")]
        prompt: String,
        /// The number of bytes to write.
        #[arg(long, default_value_t = 200)]
        bytes: usize,
    },
    /// Answer each line of standard input with a line that continues it. Lines that are waiting are served as one
    /// batch.
    Serve {
        #[command(flatten)]
        model: Model,
        /// The maximum length of an answer in bytes. An answer also ends at the first newline.
        #[arg(long, default_value_t = 60)]
        bytes: usize,
        /// The maximum number of lines to serve at once.
        #[arg(long, default_value_t = 8)]
        streams: usize,
    },
    /// Compare the cost of training steps that use funcify's loop, the framework's own loop, and `transformers` if it
    /// is installed.
    Compare {
        #[command(flatten)]
        model: Model,
        /// A Python interpreter that has torch and transformers.
        #[arg(long, default_value = "python3")]
        python: PathBuf,
    },
}

/// The options that select the framework, the model's size and the folder for checkpoints.
#[derive(clap::Args, Clone)]
struct Model {
    #[arg(long, value_enum, default_value_t = Framework::Candle)]
    framework: Framework,
    /// Use a model with a few thousand parameters instead of a million.
    #[arg(long)]
    tiny: bool,
    /// The folder for checkpoints.
    #[arg(long, default_value = "target/language_model")]
    folder: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Framework {
    Candle,
    Burn,
}

impl Model {
    fn sizes(&self) -> Sizes {
        if self.tiny { Sizes::TINY } else { Sizes::MILLION }
    }

    fn learner(&self, weights: &Weights, whose: Loop) -> Result<Box<dyn Learner>> {
        Ok(match self.framework {
            Framework::Candle => Box::new(candle::Model::new(self.sizes(), weights, whose)?),
            Framework::Burn => Box::new(burn::Model::new(self.sizes(), weights, whose)?),
        })
    }

    /// Returns the weights of the last checkpoint. If there is none, trains a model for a few steps.
    fn trained_weights(&self) -> Result<Weights> {
        let file = self.folder.join(train::WEIGHTS);
        if !file.exists() {
            eprintln!("{} does not exist: training briefly first", file.display());
            train::run(self, &train::Options::short(), &Text::of_this_repository())?;
        }
        Ok(funcify::files::read_safetensors(file)?)
    }
}

fn main() -> Result<()> {
    // This thread needs a large stack: for a handwritten loop, the depth of the recorded graph grows with the sequence,
    // and Candle frees that graph recursively.
    let all = std::thread::Builder::new().stack_size(1 << 30).spawn(|| run(Arguments::parse().command))?;
    all.join().map_err(|_| anyhow::anyhow!("it panicked"))?
}

fn run(command: Command) -> Result<()> {
    let text = Text::of_this_repository();
    match command {
        Command::Train { model, options } => train::run(&model, &options, &text).map(|_| ()),
        Command::Resume { model, options } => train::resumes_exactly(&model, &options, &text),
        Command::Generate { model, prompt, bytes } => serve::generate(&model, &prompt, bytes),
        Command::Serve { model, bytes, streams } => serve::serve(&model, bytes, streams),
        Command::Compare { model, python } => compare::print(&model, &python, &text),
    }
}
