//! Compares the time of a single step in `Stepper` and in `OnSlices` with the time of a step inside the scan:
//! `--steps`.
//!
//! The benchmark first checks that the outputs agree. Each reported time is the lowest of many turns. Everything runs
//! on a single thread. Otherwise, a scan that batches work over all steps would use several threads, whereas a step of
//! a few microseconds is too short to be parallelised.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use funcify::dispatch::{Backend, CompileOptions, Function, Stepper};
use funcify::nn::{Cell, Minimal, MinimalCell, Recurrent, SelectiveScan};
use funcify::stepped::Steppable;
use funcify::{DType, Graph, HostTensor, Scalar, Sizes, Symbol};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_cpu::{Cpu, OnSlices};

use crate::compare::largest_difference;

/// The maximum allowed difference between the outputs of a step and of the scan, relative to the scan's largest
/// element. The outputs differ slightly, because a matrix product with a single row sums its terms in a different order
/// than a product with the rows of several steps.
const MAX_DIFFERENCE: f64 = 1e-5;

/// The number of input and output features of each layer.
const FEATURES: usize = 128;

/// Prints a table with a row for each layer, batch size and backend.
pub(crate) fn print(is_quick: bool) -> Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(|| rows(is_quick))
}

fn rows(is_quick: bool) -> Result<()> {
    let (steps, turns) = if is_quick { (64, 3) } else { (1024, 15) };
    println!(
        "| layer of {FEATURES} features, one thread | batch | backend | in the scan | `Stepper` | | `OnSlices` | |"
    );
    println!("|---|--:|---|--:|--:|--:|--:|--:|");
    for (name, graph) in layers()? {
        for batch in [1, 32] {
            let case = Case { name, graph: &graph, inputs: inputs(&graph, steps, batch)?, batch, steps, turns };
            case.row(&Cpu::default(), Some(case.on_slices()?))?;
            case.row(&Candle::cpu(), None)?;
            case.row(&Burn::flex(), None)?;
        }
    }
    Ok(())
}

/// Builds the layers to measure, each with its name. Their sequences have shape `[T,B,F]`.
fn layers() -> Result<[(&'static str, Graph); 4]> {
    let recurrent = |cell| Recurrent { batch_first: false, ..Recurrent::new(cell, FEATURES, FEATURES) }.layer();
    let minimal =
        Minimal { batch_first: false, associative: false, ..Minimal::new(MinimalCell::Gru, FEATURES, FEATURES) };
    let selective = SelectiveScan { batch_first: false, ..SelectiveScan::new(FEATURES) };
    Ok([
        ("RNN", without_last_states(&recurrent(Cell::Rnn)?.graph)?),
        ("GRU", without_last_states(&recurrent(Cell::Gru)?.graph)?),
        ("minGRU", without_last_states(&minimal.layer()?.graph)?),
        ("selective scan", without_last_states(&selective.layer()?.graph)?),
    ])
}

/// Removes the final states from the outputs of a layer's graph, because the stepper keeps the states itself.
fn without_last_states(layer: &Graph) -> Result<Graph> {
    Ok(Graph::build(layer.name(), |g| {
        let inputs = (0..layer.inputs().len()).map(|index| g.input(layer.input_name(index), layer.input_type(index)));
        layer.apply(&inputs.collect::<Vec<_>>())[0]
    })?)
}

/// Builds inputs for a layer, with `steps` steps and the given batch size.
fn inputs(graph: &Graph, steps: usize, batch: usize) -> Result<Vec<HostTensor>> {
    let mut sizes = Sizes::new();
    [("T", steps), ("B", batch)].into_iter().for_each(|(name, size)| sizes.set(&Symbol::new(name), size));
    let types = (0..graph.inputs().len()).map(|input| graph.input_type(input));
    let numbers = types.map(|ty| {
        let mut index = 0f64;
        let next = |_: &[usize]| {
            index += 1.0;
            Scalar::Float(0.1 * (index * 0.7).sin())
        };
        Ok(HostTensor::from_fn(DType::F32, &ty.shape.value(&sizes)?, next))
    });
    numbers.collect()
}

/// A layer to measure, with its inputs.
struct Case<'a> {
    name: &'static str,
    graph: &'a Graph,
    inputs: Vec<HostTensor>,
    batch: usize,
    steps: usize,
    turns: usize,
}

impl Case<'_> {
    fn row<B: Backend>(&self, backend: &B, on_slices: Option<f64>) -> Result<()> {
        let Case { name, graph, inputs, batch, steps, turns } = self;
        let tensors = inputs.iter().map(|input| backend.upload(input)).collect::<Result<Vec<_>, _>>();
        let tensors = tensors.map_err(anyhow::Error::from_boxed)?;
        let rows = (0..*steps).map(|step| backend.upload(&inputs[0].row(step))).collect::<Result<Vec<_>, _>>();
        let rows = rows.map_err(anyhow::Error::from_boxed)?;
        let whole =
            Function::compile_with(graph, backend, CompileOptions { whole: true, ..CompileOptions::default() })?;
        let mut stepper = Stepper::new(graph, backend, &tensors[1..])?;

        let expected = backend.download(&whole.call(&tensors)?[0], DType::F32).map_err(anyhow::Error::from_boxed)?;
        for (step, row) in rows.iter().enumerate() {
            let found = backend.download(&stepper.step(std::slice::from_ref(row))?[0], DType::F32);
            let found = found.map_err(anyhow::Error::from_boxed)?;
            let apart = largest_difference(&expected.row(step), &found).unwrap_or(f64::INFINITY);
            ensure!(apart < MAX_DIFFERENCE, "{name} on {}: step {step} differs by {apart:.1e}", backend.name());
        }

        let (mut in_scan, mut alone) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..*turns {
            let start = Instant::now();
            black_box(whole.call(&tensors)?);
            in_scan = in_scan.min(start.elapsed().as_secs_f64());
            stepper.reset();
            let start = Instant::now();
            for row in &rows {
                black_box(stepper.step(std::slice::from_ref(row))?);
            }
            alone = alone.min(start.elapsed().as_secs_f64());
        }
        let [in_scan, alone] = [in_scan, alone].map(|seconds| seconds * 1e6 / *steps as f64);
        let on_slices = on_slices.map_or("| ".into(), |slices| format!("{slices:.2} µs | {:.2} ×", slices / in_scan));
        let ratio = alone / in_scan;
        let backend = backend.name();
        println!("| {name} | {batch} | {backend} | {in_scan:.2} µs | {alone:.2} µs | {ratio:.2} × | {on_slices} |");
        Ok(())
    }

    /// Returns the lowest time of a step in `OnSlices`, in microseconds.
    fn on_slices(&self) -> Result<f64> {
        let stepped = self.graph.stepped()?;
        let start = Function::compile(&stepped.start, &Cpu::default())?.call_host(&self.inputs[1..])?;
        let (states, shared) = start.split_at(stepped.states);
        let row = self.inputs[0].row(0);
        let arguments: Vec<&HostTensor> = states.iter().chain([&row]).chain(shared).collect();
        let shapes: Vec<&[usize]> = arguments.iter().map(|tensor| tensor.shape()).collect();
        let step = OnSlices::compile(&stepped.step, &shapes)?;
        let mut slices: Vec<Vec<f32>> =
            arguments.iter().filter_map(|tensor| tensor.as_slice::<f32>().map(<[f32]>::to_vec)).collect();
        let mut results: Vec<Vec<f32>> = step.outputs().map(|(_, ty)| vec![0.0; elements(ty)]).collect();
        let mut lowest = f64::INFINITY;
        for _ in 0..self.turns {
            let start = Instant::now();
            for _ in 0..self.steps {
                let given: Vec<&[f32]> = slices.iter().map(Vec::as_slice).collect();
                let mut into: Vec<&mut [f32]> = results.iter_mut().map(Vec::as_mut_slice).collect();
                step.call(&given, &mut into)?;
                slices
                    .iter_mut()
                    .zip(&mut results)
                    .take(stepped.states)
                    .for_each(|(now, next)| std::mem::swap(now, next));
            }
            lowest = lowest.min(start.elapsed().as_secs_f64());
        }
        black_box(&results);
        Ok(lowest * 1e6 / self.steps as f64)
    }
}

fn elements(ty: &funcify::TensorType) -> usize {
    ty.shape.dims().iter().filter_map(|dim| dim.constant()).product::<i64>() as usize
}
