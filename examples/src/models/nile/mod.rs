//! The local level model of the annual flow of the Nile, fitted by following the gradient of its likelihood.
//!
//! The level follows a random walk and is observed with noise: `y_t = level_t + ε_t`, `level_{t+1} = level_t + η_t`.
//! The Kalman filter computes the likelihood of the two variances, in a scan over the years. The initial level is
//! unknown (a diffuse prior), so the filter starts at the first flow. Durbin and Koopman, Time Series Analysis by State
//! Space Methods, 2nd edition (2012), estimate the variances of ε and η as 15099 and 1469.1 (section 2.10.3).

mod burn;
mod candle;

use anyhow::{Result, ensure};
use funcify::prelude::*;
use funcify_candle::Candle;

use crate::training::{Loop, Schedule, Training, train};
use crate::{Framework, Run};

/// The flow at Aswan in 10^8 cubic metres per year, 1871 to 1970 (Cobb 1978).
const FLOW: [f64; 100] = [
    1120., 1160., 963., 1210., 1160., 1160., 813., 1230., 1370., 1140., 995., 935., 1110., 994., 1020., 960., 1180.,
    799., 958., 1140., 1100., 1210., 1150., 1250., 1260., 1220., 1030., 1100., 774., 840., 874., 694., 940., 833.,
    701., 916., 692., 1020., 1050., 969., 831., 726., 456., 824., 702., 1120., 1100., 832., 764., 821., 768., 845.,
    864., 862., 698., 845., 744., 796., 1040., 759., 781., 865., 845., 944., 984., 897., 822., 1010., 771., 676., 649.,
    846., 812., 742., 801., 1040., 860., 874., 848., 890., 744., 749., 838., 1050., 918., 986., 797., 923., 975., 815.,
    1020., 906., 901., 1170., 912., 746., 919., 718., 714., 740.,
];
/// The published estimates of the variances of ε and η.
const PUBLISHED: [f64; 2] = [15_099.0, 1_469.1];
/// The starting point of the fit: the logarithms of two variances that are far from the estimates.
const START: [f64; 2] = [8.5, 8.5];

/// The constant part of the negative log-likelihood per year, `ln 2π / 2`.
const CONSTANT: f64 = 0.918_938_533_204_672_7;

/// Builds the graph of the negative log-likelihood per year, from flows `y` and the logarithms of the variances.
fn likelihood(dtype: DType) -> funcify::Result<Graph> {
    Graph::build("local_level", |g| {
        let y = g.input("y", TensorType::new(dtype, ["T"]));
        let variances = g.input("log_variances", TensorType::new(dtype, [2])).exp();
        let [noise, walk] = [variances.index(0, 0), variances.index(0, 1)];
        let first = (y.index(0, 0), noise, noise.zeros_like());
        let years = y.slice(0, 1..);
        let filter = |(level, variance, sum): (Value, Value, Value), y: Value| {
            let predicted = variance + walk;
            let spread = predicted + noise;
            let gain = predicted / spread;
            let surprise = y - level;
            let cost = (spread.log() + surprise * surprise / spread) * 0.5 + CONSTANT;
            ((level + gain * surprise, predicted * (1.0 - gain), sum + cost), ())
        };
        let ((_, _, sum), ()) = scan(first, years, filter);
        sum / (FLOW.len() - 1) as f64
    })
}

/// The interface of the model, which is implemented once for each framework.
trait LocalLevel: Training {
    /// Returns the logarithms of the fitted variances.
    fn log_variances(&self) -> Result<[f64; 2]>;
}

pub(crate) fn run(run: &Run) -> Result<()> {
    match &run.framework {
        Framework::Candle(device) => fit(run, |whose| candle::Model::new(whose, device)),
        Framework::Burn(device) => fit(run, |whose| burn::Model::new(whose, device)),
    }
}

fn fit<M: LocalLevel>(run: &Run, model: impl Fn(Loop) -> Result<M>) -> Result<()> {
    let schedule = Schedule { steps: run.quick_or_full(120, 200), rate: 0.3 };
    let Some((model, _)) = train(run, schedule, model)? else { return Ok(()) };
    let logarithms = model.log_variances()?;
    let errors = standard_errors(logarithms)?;
    println!("  variance       estimated (standard error)   published");
    for (index, name) in ["of the flow ", "of the level"].into_iter().enumerate() {
        let estimate = logarithms[index].exp();
        let (error, published) = (estimate * errors[index], PUBLISHED[index]);
        println!("  {name} {estimate:>11.1} {:>18} {published:>11.1}", format!("({error:.0})"));
        let tolerance = run.quick_or_full(0.05, 0.002);
        ensure!((estimate / published - 1.0).abs() < tolerance, "{name} is far from the published {published}");
    }
    Ok(())
}

/// Computes the standard errors of the log-variances, from the inverse of the Hessian of the negative log-likelihood.
fn standard_errors(logarithms: [f64; 2]) -> Result<[f64; 2]> {
    let hessian = likelihood(DType::F64)?.hessian("log_variances", funcify::GradOptions::new())?;
    let hessian = Function::compile(&hessian, &Candle::cpu())?;
    let years = (FLOW.len() - 1) as f64;
    let information = hessian.call_host(&[HostTensor::from(FLOW), HostTensor::from(logarithms)])?[0].to_f64_vec();
    let [a, b, c, d] = information[..] else { anyhow::bail!("the Hessian must be 2 by 2: {information:?}") };
    let determinant = a * d - b * c;
    Ok([d, a].map(|element| (element / determinant / years).sqrt()))
}
