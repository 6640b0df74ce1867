//! Error-correcting codes: Viterbi decoding of a convolutional code, and min-sum decoding of a low-density parity-check
//! code.

use funcify::ops::ScatterMode;
use funcify::{
    DType, Dim, Graph, HostTensor, Scalar, ScanOptions, Value, constant, full, iota, scan, scan_with, select,
};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 1000), ("B", 64)])],
        quick: &[Sizes(&[("T", 12), ("B", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("viterbi_decoder", "error-correcting codes", received, viterbi_decoder)
    },
    Workload {
        full: &[Sizes(&[("T", 20), ("B", 16), ("M", 512)])],
        quick: &[Sizes(&[("T", 3), ("B", 3), ("M", 4)])],
        loss: Loss::None,
        ..Workload::without_handwritten("min_sum", "error-correcting codes", noisy, min_sum)
    },
];

/// The generators of the convolutional code, which has constraint length 5. Each generator produces one bit per bit of
/// the message.
const GENERATORS: [usize; 2] = [0o23, 0o35];

/// Returns the two bits that the encoder sends when `register` holds the last five bits of the message.
fn sent(register: usize) -> [i32; 2] {
    GENERATORS.map(|generator| ((register & generator).count_ones() % 2) as i32)
}

/// Encodes random messages, and flips each encoded bit with a probability of 1/20.
fn received(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b] = ["T", "B"].map(|letter| sizes.get(letter));
    let mut registers = vec![0; b];
    let mut bits = Vec::new();
    for _ in 0..t {
        for register in &mut registers {
            *register = ((*register << 1) | usize::from(numbers.unit() < 0.5)) & 31;
            bits.extend(sent(*register).map(|bit| bit ^ i32::from(numbers.unit() < 0.05)));
        }
    }
    vec![("received", HostTensor::from_vec(bits, [t, b, 2]).expect("there are two bits for each bit of a message"))]
}

/// Builds a graph that decodes messages by the Viterbi algorithm. A state consists of the last four bits of the
/// message; the predecessors of state `s` are `s >> 1` and `s >> 1 | 8`.
fn viterbi_decoder(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("viterbi_decoder", |g| {
        let received = g.input("received", "i32[T,B,2]");
        let origins: [[i32; 16]; 2] = [0, 8].map(|high| std::array::from_fn(|state| (state as i32 / 2) | high));
        let [first, second] = [0, 1].map(|generator| {
            constant([0, 16].map(|high| std::array::from_fn::<i32, 16, _>(|state| sent(state | high)[generator])))
        });
        let origins = constant(origins);
        // The encoder starts in state 0, so all other states have a high initial cost.
        let start = select(iota(16, DType::I32).eq(0), constant(0i32), constant(1000i32));
        let start = start.broadcast_to([received.dim(1), Dim::from(16)]);
        let (last, choices) = scan(start, received, |metrics, received| {
            let differs =
                |sent: Value, generator: i64| received.slice(1, generator..generator + 1).unsqueeze(2).ne(sent);
            let distances = differs(first, 0).cast(DType::I32) + differs(second, 1).cast(DType::I32);
            let candidates = metrics.take(1, origins) + distances;
            (candidates.min(1), candidates.argmin(1).cast(DType::I32))
        });
        let end = last.argmin(1).cast(DType::I32);
        let (_, bits) = scan_with(ScanOptions::new().reverse(), end, choices, |state, choices| {
            let choice = choices.take_along(1, state.unsqueeze(1)).squeeze(1);
            ((state >> 1) | (choice << 3), state & 1)
        });
        output("bits", bits)
    })
}

/// The number of bits in each parity check. Each bit takes part in half as many checks.
const DEGREE: usize = 6;
/// The factor that scales the messages from the checks, to compensate for the min-sum approximation.
const SCALE: f64 = 0.75;
/// The standard deviation of the channel's noise.
const DEVIATION: f64 = 0.8;

/// Draws a random regular code, and the log-likelihood ratios of noisy transmissions of the all-zero code word.
fn noisy(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let (b, m) = (sizes.get("B"), sizes.get("M"));
    let mut ends: Vec<i32> = (0..m * DEGREE).map(|end| (end / (DEGREE / 2)) as i32).collect();
    for index in (1..ends.len()).rev() {
        ends.swap(index, (numbers.unit() * (index + 1) as f64) as usize);
    }
    let noise = numbers.normal(&[b, 2 * m], DEVIATION);
    let llr = HostTensor::from_fn(DType::F32, &[b, 2 * m], |index| {
        Scalar::Float(2.0 * (1.0 + noise.at(index).as_f64()) / (DEVIATION * DEVIATION))
    });
    let checks = HostTensor::from_vec(ends, [m * DEGREE]).expect("each check has the same number of bits");
    vec![("llr", llr), ("checks", checks)]
}

fn min_sum(sizes: &Sizes) -> funcify::Result<Graph> {
    let [b, m] = ["B", "M"].map(|letter| sizes.get(letter));
    let steps = ScanOptions::new().length(sizes.get("T"));
    Graph::build("min_sum", |g| {
        let llr = g.input("llr", format!("f32[{b},{}]", 2 * m).as_str());
        // `bits` holds the index of the bit for each edge between a check and a bit. The edges are sorted by check.
        let bits = g.input("checks", format!("i32[{}]", m * DEGREE).as_str());
        let targets = bits.unsqueeze(0).broadcast_to([b, m * DEGREE]);
        let places = iota(DEGREE, DType::I64);
        let (beliefs, ()) =
            scan_with(steps, (llr, full([b, m * DEGREE], DType::F32, 0.0)), (), |(beliefs, sent), ()| {
                let inputs = (beliefs.take(1, bits) - sent).reshape([b, m, DEGREE]);
                let signs = select(inputs.lt(0.0), -1.0, 1.0);
                let magnitudes = inputs.abs();
                // For each edge, `others` holds the smallest magnitude among the other edges of its check. For the edge
                // with the smallest magnitude, `others` holds the second smallest magnitude.
                let is_smallest = magnitudes.argmin(2).unsqueeze(2).eq(places);
                let second = select(is_smallest, f64::INFINITY, magnitudes).min(2);
                let others = select(is_smallest, second.unsqueeze(2), magnitudes.min(2).unsqueeze(2));
                let sent = signs * signs.prod(2).unsqueeze(2) * others * SCALE;
                let sent = sent.reshape([b, m * DEGREE]);
                ((llr.scatter(1, targets, sent, ScatterMode::Add), sent), ())
            });
        output("beliefs", beliefs.0)
    })
}
