//! Derivatives of loops: gradients through a scan and a while loop, second derivatives, gradients per lane, and the
//! text of a gradient.

use super::compile;
use anyhow::{Result, ensure};
use funcify::dispatch::Executor;
use funcify::prelude::*;

/// Folds a sequence with c <- c * w + x, starting from zero.
fn decay(w: Value, xs: Value) -> Value {
    scan(w.zeros_like(), xs, |c, x| (c * w + x, ())).0
}

fn slopes() -> funcify::Result<Graph> {
    Graph::build("slopes", |g| {
        let [w, xs] = [g.input("w", "f32[]"), g.input("xs", "f32[B,T]")];
        let loss = |w| vmap(xs, |row| decay(w, row)).sum(0);
        let power = |w| while_loop(w, |y: Value| y.lt(100.0), |y| y * w);
        let through_a_scan = grad(w, loss);
        let along_a_vector = hvp(w, w.ones_like(), loss);
        let of_each_row = vmap(xs, |row| grad(w, |w| decay(w, row)));
        let through_a_while_loop = grad(w, power);
        (through_a_scan, along_a_vector, of_each_row, through_a_while_loop)
    })
}

pub(crate) fn show(backend: &dyn Executor) -> Result<()> {
    let inputs = [HostTensor::scalar(10f32), HostTensor::from([[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]])];
    let slopes = compile(backend, &slopes()?)?.call(&inputs)?;
    println!("{slopes:?}");
    // For the row (x0, x1, x2), `decay` computes x0 w^2 + x1 w + x2. Its derivative is 2 w x0 + x1, and its second
    // derivative is 2 x0. The while loop runs one step, so it computes w^2.
    let scalar = HostTensor::scalar::<f32>;
    ensure!(slopes == [scalar(107.0), scalar(10.0), [22f32, 85.0].into(), scalar(20.0)], "unexpected slopes");

    // The gradient of a graph is also a graph, and its text parses back to the same graph.
    let decay = Graph::build("decay", |g| decay(g.input("w", "f32[]"), g.input("xs", "f32[T]")))?;
    let gradient = decay.grad("w", GradOptions::new())?;
    println!("{gradient}");
    let parsed = Graph::parse(&gradient.to_string())?;
    let slope = compile(backend, &parsed)?.call(&[scalar(10.0), [1f32, 2.0, 3.0].into()])?;
    ensure!(slope == [scalar(22.0)], "unexpected slope: {slope:?}");
    Ok(())
}
