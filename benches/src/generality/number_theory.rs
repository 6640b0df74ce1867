//! Number theory: the lengths of Collatz sequences, and modular exponentiation.

use std::collections::BTreeMap;

use funcify::{DType, Graph, select, while_loop};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("N", 32_768)])],
        quick: &[Sizes(&[("N", 5)])],
        loss: Loss::None,
        is_conditional: true,
        ..Workload::without_handwritten("collatz", "number theory", starts, collatz)
    },
    Workload {
        full: &[Sizes(&[("N", 32_768)])],
        quick: &[Sizes(&[("N", 5)])],
        loss: Loss::None,
        is_conditional: true,
        ..Workload::without_handwritten("modular_power", "number theory", powers, modular_power)
    },
];

/// Draws starting numbers whose Collatz sequences stay below 2^31.
fn starts(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("starts", numbers.integers(&[sizes.get("N")], DType::I32, 1, 100_000))]
}

fn collatz(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("collatz", |g| {
        let starts = g.input("starts", "i32[N]");
        let (_, largest, counts) = while_loop(
            (starts, starts, starts.zeros_like()),
            |(numbers, _, _)| numbers.ne(1).any(0),
            |(numbers, largest, counts)| {
                let next = select((numbers & 1).eq(0), numbers >> 1, numbers * 3 + 1);
                let goes_on = numbers.ne(1);
                let numbers = select(goes_on, next, numbers);
                (numbers, largest.maximum(numbers), counts + goes_on.cast(DType::I32))
            },
        );
        BTreeMap::from([("counts", counts), ("largest", largest)])
    })
}

/// Draws bases, exponents and moduli. The moduli are below 2^15, so that the product of two remainders fits in 32 bits.
fn powers(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let n = sizes.get("N");
    vec![
        ("bases", numbers.integers(&[n], DType::U32, 0, 1 << 15)),
        ("exponents", numbers.integers(&[n], DType::U32, 0, 1 << 30)),
        ("moduli", numbers.integers(&[n], DType::U32, 2, 1 << 15)),
    ]
}

fn modular_power(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("modular_power", |g| {
        let [bases, exponents, moduli] = ["bases", "exponents", "moduli"].map(|name| g.input(name, "u32[N]"));
        let (powers, _, _) = while_loop(
            (bases.ones_like(), bases % moduli, exponents),
            |(_, _, exponents)| exponents.gt(0).any(0),
            |(powers, squares, exponents)| {
                let powers = select((exponents & 1).eq(1), powers * squares % moduli, powers);
                (powers, squares * squares % moduli, exponents >> 1)
            },
        );
        output("powers", powers.cast(DType::I32))
    })
}
