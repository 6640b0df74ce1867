//! The rlx worker of the benchmarks, which answers the requests described in PROTOCOL.md.

mod memory;
mod program;
mod tensors;
mod value;
mod workloads;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::memory::{MemoryBaseline, processor_time};
use crate::program::{Declined, Program};
use crate::workloads::Sizes;

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Request {
    Prepare { workload: String, sizes: BTreeMap<String, usize>, phase: String, inputs: String, outputs: String },
    Run { count: usize },
    Peak,
    Quit,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Made { make_s: f64, make_cpu_s: f64 },
    Ran { wall_s: Vec<f64>, cpu_s: Vec<f64> },
    Memory { allocator_bytes: usize, system_bytes: Option<usize> },
    Declined { declined: String },
    Failed { failed: String },
}

/// A program, and the memory in use before the program was built.
struct Prepared {
    program: Program,
    before: MemoryBaseline,
}

fn main() -> Result<()> {
    let mut prepared = None;
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?).context("a request must be a line of JSON")?;
        if matches!(request, Request::Quit) {
            break;
        }
        // Catch panics, because rlx panics on unsupported programs.
        let answer = catch_unwind(AssertUnwindSafe(|| answer(request, &mut prepared)));
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => match error.downcast_ref::<Declined>() {
                Some(declined) => Answer::Declined { declined: declined.to_string() },
                None => Answer::Failed { failed: format!("{error:#}") },
            },
            Err(panic) => Answer::Failed { failed: first_line(&*panic) },
        };
        let mut output = std::io::stdout().lock();
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
        output.flush()?;
    }
    Ok(())
}

fn answer(request: Request, prepared: &mut Option<Prepared>) -> Result<Answer> {
    match request {
        Request::Prepare { workload, sizes, phase, inputs, outputs } => {
            *prepared = None;
            let tensors = tensors::read(&inputs)?;
            let before = MemoryBaseline::now();
            let (start, cpu) = (Instant::now(), processor_time());
            let mut program = Program::make(&workload, Sizes(sizes), &phase, &tensors)?;
            let results = program.run()?;
            let (make_s, make_cpu_s) = (start.elapsed().as_secs_f64(), (processor_time() - cpu).as_secs_f64());
            tensors::write(&outputs, &program.results_by_name(results))?;
            *prepared = Some(Prepared { program, before });
            Ok(Answer::Made { make_s, make_cpu_s })
        }
        Request::Run { count } => {
            let program = &mut prepared.as_mut().context("no program is prepared")?.program;
            let (mut wall_s, mut cpu_s) = (Vec::with_capacity(count), Vec::with_capacity(count));
            for _ in 0..count {
                let (start, cpu) = (Instant::now(), processor_time());
                let results = program.run()?;
                wall_s.push(start.elapsed().as_secs_f64());
                cpu_s.push((processor_time() - cpu).as_secs_f64());
                drop(results);
            }
            Ok(Answer::Ran { wall_s, cpu_s })
        }
        // rlx allocates a program's memory at compile time, and keeps it. The peak is therefore measured relative to
        // the memory in use before the program was built. The inputs cancel out: the program holds a copy of them, and
        // the baseline includes the originals, which have since been freed.
        Request::Peak => {
            let Prepared { program, before } = prepared.as_mut().context("no program is prepared")?;
            let system_watches = MemoryBaseline::start_tracking();
            program.run()?;
            let system_bytes = before.resident_since().filter(|_| system_watches);
            Ok(Answer::Memory { allocator_bytes: before.allocated_since(), system_bytes })
        }
        Request::Quit => anyhow::bail!("a quit request has no answer"),
    }
}

/// Returns the first line of a panic message.
fn first_line(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("rlx panicked").lines().next().unwrap_or_default().to_string()
}
