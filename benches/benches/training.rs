//! Training a recurrent network on Candle: the loop by hand, a loop over a closure, and a compiled graph.
//!
//! Prints the median time of a step, forward and backward, with gradients of the weights and of the sequence; and how it
//! grows with the number of steps. `cargo bench -p funcify-benches --bench training`; set `RAYON_NUM_THREADS=1` (or `2`):
//! without it Candle's matrix product reads `/proc/cpuinfo` each time, in any loop. Read the figures as ratios within one
//! run: the ways take turns.

use std::time::Instant;

use candle_core::{DType, Device, Result, Tensor, Var};
use funcify::{Graph, Residuals, scan};
use funcify_candle::{Candle, Differentiable, DifferentiableOptions, ScanOptions, scan_with};

const BATCH: usize = 32;
const WIDTH: usize = 128;
const FEW: usize = 250;
const MANY: usize = 4000;
/// What the loop by hand is measured with: its time grows with the square of the number of steps.
const SOME: usize = 500;
const ROUNDS: usize = 5;

/// The weights `w`, `u`, `b` and the sequence, all with gradients.
struct Model {
    weights: [Var; 3],
    xs: Var,
    start: Tensor,
}

impl Model {
    fn new(steps: usize) -> Result<Self> {
        let var = |shape: &[usize]| Var::rand(-0.05f32, 0.05, shape, &Device::Cpu);
        let weights = [var(&[WIDTH, WIDTH])?, var(&[WIDTH, WIDTH])?, var(&[WIDTH])?];
        let start = Tensor::zeros((BATCH, WIDTH), DType::F32, &Device::Cpu)?;
        Ok(Model { weights, xs: var(&[steps, BATCH, WIDTH])?, start })
    }
}

fn cell(h: &Tensor, x: &Tensor, [w, u, b]: [&Tensor; 3]) -> Result<Tensor> {
    (x.matmul(w)? + h.matmul(u)?)?.broadcast_add(b)?.tanh()
}

fn by_hand(model: &Model) -> Result<Tensor> {
    let mut h = model.start.clone();
    let mut hs = Vec::new();
    for t in 0..model.xs.dim(0)? {
        h = cell(&h, &model.xs.get(t)?, model.weights.each_ref().map(|w| w.as_tensor()))?;
        hs.push(h.clone());
    }
    Tensor::stack(&hs, 0)
}

fn closure(options: &ScanOptions, model: &Model) -> Result<Tensor> {
    let weights = model.weights.clone();
    let step = move |h: Tensor, x: Tensor| {
        let h = cell(&h, &x, weights.each_ref().map(|w| w.as_tensor()))?;
        Ok((h.clone(), h))
    };
    Ok(scan_with(options.clone(), &model.start, model.xs.as_tensor(), step)?.1)
}

fn rnn(residuals: Residuals) -> Differentiable {
    let graph = Graph::build("rnn", |g| {
        let (xs, start) = (g.input("xs", "f32[T,B,N]"), g.input("start", "f32[B,N]"));
        let [w, u, b] = [g.input("w", "f32[N,N]"), g.input("u", "f32[N,N]"), g.input("b", "f32[N]")];
        let (_, hs) = scan(start, xs, |h, x| {
            let h = (x.matmul(w) + h.matmul(u) + b).tanh();
            (h, h)
        });
        hs
    });
    let options = DifferentiableOptions::new().residuals(residuals);
    Differentiable::compile_with(&graph.expect("well typed"), &Candle::cpu(), options).expect("every op is there")
}

fn compiled(function: &Differentiable, model: &Model) -> Result<Tensor> {
    let [w, u, b] = model.weights.each_ref().map(|w| w.as_tensor().clone());
    Ok(function.call(&[model.xs.as_tensor().clone(), model.start.clone(), w, u, b])?.remove(0))
}

/// Microseconds a step of one training pass.
fn time(model: &Model, forward: &dyn Fn(&Model) -> Result<Tensor>) -> Result<f64> {
    let start = Instant::now();
    let loss = forward(model)?.sqr()?.mean_all()?;
    let gradients = loss.backward()?;
    assert!(gradients.get(&model.xs).is_some() && gradients.get(&model.weights[1]).is_some());
    drop((loss, gradients));
    Ok(start.elapsed().as_secs_f64() * 1e6 / model.xs.dim(0)? as f64)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn run() -> Result<()> {
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        println!("RAYON_NUM_THREADS is not set: each product of matrices reads /proc/cpuinfo");
    }
    let (few, some, many) = (Model::new(FEW)?, Model::new(SOME)?, Model::new(MANY)?);
    let [recompute, save] = [Residuals::Recompute, Residuals::SaveAll].map(rnn);
    type Way<'a> = (&'a str, &'a Model, Box<dyn Fn(&Model) -> Result<Tensor> + 'a>);
    let ways: [Way<'_>; 5] = [
        ("by hand", &some, Box::new(by_hand)),
        ("closure", &many, Box::new(|model| closure(&ScanOptions::new(), model))),
        ("closure, graphs kept", &many, Box::new(|model| closure(&ScanOptions::new().keep_graphs(), model))),
        ("graph, states saved", &many, Box::new(|model| compiled(&recompute, model))),
        ("graph, all saved", &many, Box::new(|model| compiled(&save, model))),
    ];
    let mut times = vec![(Vec::new(), Vec::new()); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, long, way), (of_few, of_many)) in ways.iter().zip(&mut times) {
            of_few.push(time(&few, way)?);
            of_many.push(time(long, way)?);
        }
    }
    println!("B={BATCH}, H={WIDTH}; microseconds a step, medians of {ROUNDS}");
    println!("{:22} {:>8} {:>14} {:>7} {:>12}", "", format!("T={FEW}"), "T", "ratio", "to by hand");
    let reference = median(&mut times[0].0);
    for ((name, long, _), (of_few, of_many)) in ways.iter().zip(&mut times) {
        let (short, steps, long) = (median(of_few), long.xs.dim(0)?, median(of_many));
        let (ratio, gain) = (long / short, reference / short);
        println!("{name:22} {short:8.1} {:>14} {ratio:7.2} {gain:11.2}x", format!("{long:.1} ({steps})"));
    }
    Ok(())
}

fn main() {
    // The loop by hand recurses through all its steps.
    let bench = std::thread::Builder::new().stack_size(256 << 20).spawn(run).expect("a thread");
    if let Err(error) = bench.join().expect("no panic") {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
