//! Ordinary differential equations with fixed and with adaptive step sizes, and the Hodgkin-Huxley model of neurons.

use funcify::{DType, Graph, ScanOptions, Value, full, scan_with, select, stack, while_loop};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 1000), ("B", 128)])],
        quick: &[Sizes(&[("T", 6), ("B", 3)])],
        differentiated: &["rates"],
        ..Workload::without_handwritten(
            "lotka_volterra",
            "ordinary differential equations",
            lotka_volterra_inputs,
            lotka_volterra,
        )
    },
    Workload {
        full: &[Sizes(&[("B", 256)])],
        quick: &[Sizes(&[("B", 3)])],
        loss: Loss::None,
        is_conditional: true,
        ..Workload::without_handwritten("adaptive_rk", "ordinary differential equations", adaptive_inputs, adaptive_rk)
    },
    Workload {
        full: &[Sizes(&[("T", 1000), ("B", 256)])],
        quick: &[Sizes(&[("T", 8), ("B", 4)])],
        loss: Loss::None,
        ..Workload::without_handwritten("hodgkin_huxley", "neuroscience", neuron_inputs, hodgkin_huxley)
    },
];

fn lotka_volterra_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let b = sizes.get("B");
    vec![("start", numbers.uniform(&[2, b], 0.5, 1.5)), ("rates", numbers.uniform(&[4, b], 0.5, 1.5))]
}

/// Builds a graph that integrates a predator-prey model by the classical Runge-Kutta method.
fn lotka_volterra(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = sizes.get("T");
    Graph::build("lotka_volterra", |g| {
        let start = g.input("start", "f32[2,B]");
        let [growth, eaten, fed, death] = g.input("rates", "f32[4,B]").unstack(0);
        let field = |y: Value| {
            let [prey, predators] = y.unstack(0);
            let met = prey * predators;
            stack(&[growth * prey - eaten * met, fed * met - death * predators], 0)
        };
        let (_, trajectory) = scan_with(ScanOptions::new().length(steps), start, (), |y, ()| {
            let k1 = field(y);
            let k2 = field(y + 0.01 * k1);
            let k3 = field(y + 0.01 * k2);
            let k4 = field(y + 0.02 * k3);
            let y = y + (0.02 / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4);
            (y, y)
        });
        output("trajectory", trajectory)
    })
}

/// The tolerance for the error of a step, both absolute and relative.
const TOLERANCE: f64 = 1e-5;
/// The time at which the integration ends.
const END: f64 = 10.0;

fn adaptive_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let b = sizes.get("B");
    vec![("start", numbers.normal(&[2, b], 1.0)), ("stiffness", numbers.uniform(&[b], 0.5, 2.0))]
}

/// Builds a graph that integrates van der Pol oscillators by the Bogacki-Shampine method. Each oscillator has its own
/// step size.
fn adaptive_rk(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("adaptive_rk", |g| {
        let (start, stiffness) = (g.input("start", "f32[2,B]"), g.input("stiffness", "f32[B]"));
        let field = |y: Value| {
            let [x, v] = y.unstack(0);
            stack(&[v, stiffness * (1.0 - x.square()) * v - x], 0)
        };
        let init = (stiffness.zeros_like(), stiffness.full_like(0.01), start, field(start));
        let (_, _, y, _) = while_loop(
            init,
            |(time, _, _, _)| time.lt(END).any(0),
            |(time, step, y, k1)| {
                let step = step.minimum(END - time);
                let k2 = field(y + 0.5 * step * k1);
                let k3 = field(y + 0.75 * step * k2);
                let next = y + step * ((2.0 / 9.0) * k1 + (1.0 / 3.0) * k2 + (4.0 / 9.0) * k3);
                let k4 = field(next);
                let error = step * ((5.0 / 72.0) * k1 - (1.0 / 12.0) * k2 - (1.0 / 9.0) * k3 + (1.0 / 8.0) * k4);
                let scale = TOLERANCE * (1.0 + y.abs().maximum(next.abs()));
                let error = (error.abs() / scale).max(0);
                let accepted = error.le(1.0);
                let factor = (0.9 * (error + 1e-10).pow(-1.0 / 3.0)).clamp(0.2, 5.0);
                let time = select(accepted, time + step, time);
                (time, step * factor, select(accepted, next, y), select(accepted, k4, k1))
            },
        );
        output("y", y)
    })
}

fn neuron_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("current", numbers.uniform(&[sizes.get("B")], 8.0, 20.0))]
}

/// Builds a graph that integrates Hodgkin-Huxley neurons, with exponential Euler steps for the gates and Euler steps
/// for the voltage. All neurons start at rest.
fn hodgkin_huxley(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = sizes.get("T");
    Graph::build("hodgkin_huxley", |g| {
        let current = g.input("current", "f32[B]");
        // Computes x / (1 - exp(-x)), whose limit at 0 is 1.
        let ratio = |x: Value| {
            let is_small = x.abs().lt(1e-4);
            select(is_small, 1.0 + 0.5 * x, x / (1.0 - (-select(is_small, 1.0, x)).exp()))
        };
        let advance = |gate: Value, opening: Value, closing: Value| {
            let rate = opening + closing;
            let target = opening / rate;
            target + (gate - target) * (-0.025 * rate).exp()
        };
        let all = |number: f64| full(["B"], DType::F32, number);
        let start = (all(-65.0), all(0.0529), all(0.5961), all(0.3177));
        let (_, voltage) = scan_with(ScanOptions::new().length(steps), start, (), |(v, m, h, n), ()| {
            let m = advance(m, ratio((v + 40.0) / 10.0), 4.0 * (-(v + 65.0) / 18.0).exp());
            let h = advance(h, 0.07 * (-(v + 65.0) / 20.0).exp(), ((v + 35.0) / 10.0).sigmoid());
            let n = advance(n, 0.1 * ratio((v + 55.0) / 10.0), 0.125 * (-(v + 65.0) / 80.0).exp());
            let sodium = 120.0 * m * m * m * h * (v - 50.0);
            let potassium = 36.0 * n.square().square() * (v + 77.0);
            let v = v + 0.025 * (current - sodium - potassium - 0.3 * (v + 54.387));
            ((v, m, h, n), v)
        });
        output("voltage", voltage)
    })
}
