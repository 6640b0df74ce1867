//! Clamps activations only if some of them have overflowed, with a `cond` that runs only one of its branches.

use super::compile;
use anyhow::{Result, ensure};
use funcify::dispatch::Executor;
use funcify::prelude::*;

/// Runs an f16 layer on inputs that overflow and on inputs that do not.
pub(crate) fn show(backend: &dyn Executor) -> Result<()> {
    const MAX_HIDDEN: f64 = 65_504.0 - 1000.0;
    let layer = Graph::build("layer", |g| {
        let x = g.input("x", "f16[4]");
        let hidden = x * x;
        let overflowed = hidden.abs().eq(f64::INFINITY).any(0);
        let (clamped, branch) = cond(
            overflowed,
            || (hidden.minimum(MAX_HIDDEN).maximum(-MAX_HIDDEN), hidden.ones_like().sum(0)),
            || (hidden, hidden.zeros_like().sum(0)),
        );
        (clamped, branch.gt(0.0))
    })?;
    println!("{layer}");

    let function = compile(backend, &layer)?;
    for (numbers, invalid) in [([1.0, -2.0, 3.0, 100.0], false), ([1.0, -2.0, 300.0, 100.0], true)] {
        let results = function.call(&[HostTensor::from(numbers).cast(DType::F16)])?;
        println!("{numbers:?} squared in f16 on {}: {:?}, clamped: {}", backend.name(), results[0], invalid);
        ensure!(results[1].get(0).as_bool() == invalid, "the branch must match the values");
        ensure!(results[0].to_f64_vec().iter().all(|number| number.is_finite()), "the layer's outputs must be finite");
        ensure!(results[0].get(0).as_f64() == 1.0, "valid values must stay unchanged");
    }
    Ok(())
}
