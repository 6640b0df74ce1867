//! Lattice models: the Ising model, with Metropolis updates that alternate between the two colours of a checkerboard.

use std::collections::BTreeMap;

use funcify::{DType, Graph, ScanOptions, Value, concat, constant, iota, random, scan_with, select};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("T", 100), ("H", 64), ("W", 64)])],
    quick: &[Sizes(&[("T", 5), ("H", 6), ("W", 8)])],
    loss: Loss::None,
    ..Workload::without_handwritten("ising", "lattice models", inputs, ising)
}];

/// The probabilities of accepting a flip at inverse temperature 0.4. Element `i` applies to a site with `i` aligned
/// neighbours out of four.
const ACCEPTANCE: [f32; 5] = [1.0, 1.0, 1.0, 0.201_896_52, 0.040_762_204];

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let bits = numbers.integers(&[sizes.get("H"), sizes.get("W")], DType::I32, 0, 2);
    vec![("bits", bits), ("key", random::host_key(7))]
}

/// Shifts a tensor by one position along an axis, cyclically.
fn roll(x: Value, axis: i64, forward: bool) -> Value {
    let cut = if forward { -1 } else { 1 };
    concat(&[x.slice(axis, cut..), x.slice(axis, ..cut)], axis)
}

fn ising(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = ScanOptions::new().length(sizes.get("T"));
    Graph::build("ising", |g| {
        let (bits, key) = (g.input("bits", "i32[H,W]"), g.input("key", "u32[2]"));
        let acceptance = constant(ACCEPTANCE);
        let colours = (iota(bits.dim(0), DType::I32).unsqueeze(1) + iota(bits.dim(1), DType::I32)) & 1;
        let ((spins, _), magnetisation) = scan_with(steps, (bits * 2 - 1, key), (), |(mut spins, key), ()| {
            let [key, own] = random::split(key, 2).unstack(0);
            // A step updates each site once, so one random number per site is enough for both colours.
            let uniform = random::uniform(own, spins.shape(), DType::F32, 0.0, 1.0);
            for colour in 0..2 {
                let neighbours =
                    roll(spins, 0, true) + roll(spins, 0, false) + roll(spins, 1, true) + roll(spins, 1, false);
                let chance = acceptance.take(0, (spins * neighbours + 4) >> 1);
                spins = select(colours.eq(colour) & uniform.lt(chance), -spins, spins);
            }
            ((spins, key), spins.sum(..))
        });
        BTreeMap::from([("spins", spins), ("magnetisation", magnetisation)])
    })
}
