//! Implements the worker process for one of this program's own subjects. The worker builds and runs one workload at a
//! time.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context, Result};
use funcify::HostTensor;
use funcify::files::{read_safetensors, write_safetensors};

use crate::generality;
use crate::memory::{MemoryBaseline, processor_time};
use crate::protocol::{Answer, Request};
use crate::subjects::{self, Phase, Prepared, Subject};

/// The stack size of the worker's thread, in bytes. Handwritten Candle loops build graphs whose depth is proportional
/// to the number of steps, and dropping such a graph recurses just as deeply.
const STACK: usize = 1 << 30;

/// Answers requests from standard input until one of them asks the worker to quit.
pub(crate) fn serve(subject: &'static Subject) -> Result<()> {
    let worker = std::thread::Builder::new().stack_size(STACK).spawn(move || answer_all(subject))?;
    worker.join().map_err(|_| anyhow::anyhow!("the worker panicked"))?
}

fn answer_all(subject: &'static Subject) -> Result<()> {
    let mut prepared = None;
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?).context("a request must be a line of JSON")?;
        if matches!(request, Request::Quit) {
            break;
        }
        let answer = answer(subject, request, &mut prepared);
        let answer = answer.unwrap_or_else(|error| Answer::Failed { failed: format!("{error:#}") });
        let mut output = std::io::stdout().lock();
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
        output.flush()?;
    }
    Ok(())
}

fn answer(subject: &'static Subject, request: Request, prepared: &mut Option<Box<dyn Prepared>>) -> Result<Answer> {
    match request {
        Request::Prepare { workload, sizes, phase, inputs, outputs } => {
            let workload = generality::named(&workload)?;
            let sizes = workload.sizes(&sizes)?;
            let phase = Phase::ALL.into_iter().find(|each| each.name() == phase).context("no such phase")?;
            if let Some(declined) = subjects::declines(subject, workload, phase) {
                return Ok(Answer::Declined { declined });
            }
            let mut tensors = read_safetensors(inputs)?;
            let graph = (workload.graph)(&sizes)?;
            let inputs = (0..graph.inputs().len()).map(|index| {
                let name = graph.input_name(index);
                let tensor = tensors.remove(name).with_context(|| format!("the inputs have no `{name}`"))?;
                Ok((name.to_string(), tensor))
            });
            let inputs: Vec<(String, HostTensor)> = inputs.collect::<Result<_>>()?;
            let (start, cpu) = (Instant::now(), processor_time());
            let mut program = subjects::prepare(subject, workload, sizes, phase, &inputs)?;
            program.run()?;
            let (make_s, make_cpu_s) = (start.elapsed().as_secs_f64(), (processor_time() - cpu).as_secs_f64());
            write_safetensors(outputs, &program.results()?.into_iter().collect::<BTreeMap<_, _>>())?;
            *prepared = Some(program);
            Ok(Answer::Made { make_s, make_cpu_s })
        }
        Request::Run { count } => {
            let program = prepared.as_mut().context("no program is prepared")?;
            let (mut wall_s, mut cpu_s) = (Vec::with_capacity(count), Vec::with_capacity(count));
            for _ in 0..count {
                let (start, cpu) = (Instant::now(), processor_time());
                program.run()?;
                wall_s.push(start.elapsed().as_secs_f64());
                cpu_s.push((processor_time() - cpu).as_secs_f64());
            }
            Ok(Answer::Ran { wall_s, cpu_s })
        }
        Request::Peak => {
            let program = prepared.as_mut().context("no program is prepared")?;
            let baseline = MemoryBaseline::now();
            program.run()?;
            let system_bytes = baseline.resident().map(|bytes| bytes as u64);
            Ok(Answer::Memory { allocator_bytes: Some(baseline.allocated() as u64), system_bytes })
        }
        Request::Quit => anyhow::bail!("a quit request has no answer"),
    }
}
