//! Checksums and random number generators: table-driven CRC-32, and xorshift generators with a histogram of their
//! numbers.

use std::collections::BTreeMap;

use funcify::ops::ScatterMode;
use funcify::{DType, Graph, ScanOptions, constant, full, scan_with};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("L", 1024), ("B", 256)])],
        quick: &[Sizes(&[("L", 12), ("B", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("crc32", "checksums and generators", messages, crc32)
    },
    Workload {
        full: &[Sizes(&[("T", 500), ("B", 1024)])],
        quick: &[Sizes(&[("T", 8), ("B", 5)])],
        loss: Loss::None,
        ..Workload::without_handwritten("xorshift", "checksums and generators", seeds, xorshift)
    },
];

fn messages(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("messages", numbers.integers(&[sizes.get("B"), sizes.get("L")], DType::U8, 0, 256))]
}

/// Returns the CRC-32 lookup table: the checksum of each byte under the reversed polynomial.
fn checksums() -> [u32; 256] {
    std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |sum, _| if sum & 1 == 1 { (sum >> 1) ^ 0xEDB8_8320 } else { sum >> 1 })
    })
}

fn crc32(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("crc32", |g| {
        let messages = g.input("messages", "u8[B,L]");
        let table = constant(checksums());
        let start = full([messages.dim(0)], DType::U32, f64::from(u32::MAX));
        let (sums, ()) = scan_with(ScanOptions::new().axis(1), start, messages, |sums, bytes| {
            let entries = table.take(0, (sums ^ bytes.cast(DType::U32)) & 0xff);
            (entries ^ (sums >> 8), ())
        });
        output("checksums", (!sums).cast(DType::I32))
    })
}

fn seeds(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("seeds", numbers.integers(&[sizes.get("B")], DType::U32, 1, 1 << 32))]
}

fn xorshift(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = ScanOptions::new().length(sizes.get("T"));
    Graph::build("xorshift", |g| {
        let (last, drawn) = scan_with(steps, g.input("seeds", "u32[B]"), (), |state, ()| {
            let state = state ^ (state << 13);
            let state = state ^ (state >> 17);
            let state = state ^ (state << 5);
            (state, state)
        });
        // Count how often each value of the top eight bits occurs.
        let bins = (drawn >> 24).cast(DType::I32).reshape([drawn.dim(0) * drawn.dim(1)]);
        let counts = full([256], DType::I32, 0.0).scatter(0, bins, bins.ones_like(), ScatterMode::Add);
        BTreeMap::from([("last", last.cast(DType::I32)), ("counts", counts)])
    })
}
