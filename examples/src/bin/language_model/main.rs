//! A small Mamba over bytes, the whole way: trained in Candle or in Burn, stopped and resumed, served one byte at a time.
//!
//!     cargo run --release -p funcify-examples --bin language_model -- train --framework candle
//!     cargo run --release -p funcify-examples --bin language_model -- generate --prompt "A loop"
//!     cargo run --release -p funcify-examples --bin language_model -- serve
//!
//! Mamba (Gu and Dao, arXiv:2312.00752) is blocks around a selective scan, whose loop is funcify's; embeddings, norms,
//! linear maps and their gradients are the framework's. It reads this repository's own documentation.

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

/// Counts the bytes that are held, for `compare`.
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
    /// Trains, with checkpoints from which it resumes exactly, and plots the losses.
    Train {
        #[command(flatten)]
        model: Model,
        #[command(flatten)]
        options: train::Options,
    },
    /// Trains for `--steps` at once, and in two halves with a checkpoint between them, which must be the same, bit for bit.
    Resume {
        #[command(flatten)]
        model: Model,
        #[command(flatten)]
        options: train::Options,
    },
    /// Goes on from a prompt, by one step of the model a byte.
    Generate {
        #[command(flatten)]
        model: Model,
        /// What the text begins with.
        #[arg(long, default_value = "A loop")]
        prompt: String,
        /// How many bytes to write.
        #[arg(long, default_value_t = 200)]
        bytes: usize,
    },
    /// Answers each line of the standard input by a line: what the model writes after it. Lines that wait are served side by
    /// side.
    Serve {
        #[command(flatten)]
        model: Model,
        /// How many bytes an answer has at most; it ends before a new line.
        #[arg(long, default_value_t = 60)]
        bytes: usize,
        /// How many lines are served side by side.
        #[arg(long, default_value_t = 8)]
        streams: usize,
    },
    /// Measures a training step with funcify's loop, with the framework's own, and of `transformers` where Python has it.
    Compare {
        #[command(flatten)]
        model: Model,
        /// A Python with torch and transformers.
        #[arg(long, default_value = "python3")]
        python: PathBuf,
    },
}

/// Which model, in which framework.
#[derive(clap::Args, Clone)]
struct Model {
    #[arg(long, value_enum, default_value_t = Framework::Candle)]
    framework: Framework,
    /// A model of some thousand parameters instead of a million.
    #[arg(long)]
    tiny: bool,
    /// Where checkpoints are.
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

    /// The weights of the last checkpoint; without one, those of a short training.
    fn trained(&self) -> Result<Weights> {
        let file = self.folder.join(train::WEIGHTS);
        if !file.exists() {
            eprintln!("there is no {}: a short training first", file.display());
            train::run(self, &train::Options::short(), &Text::of_this_repository())?;
        }
        Ok(funcify::files::read_safetensors(file)?)
    }
}

fn main() -> Result<()> {
    // The loops by hand make graphs that are as deep as the sequences are long, which Candle frees by recursion.
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
