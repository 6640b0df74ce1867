//! Counts the features of programs: their ops and the kinds of their loops.

use std::collections::BTreeMap;

use funcify::ops::scan::{Returned, Start};
use funcify::ops::{Op, OpRules, Scan};
use funcify::{DType, Graph};

/// The number of occurrences of each feature. Keys are names of ops and descriptions of loops.
pub type Features = BTreeMap<&'static str, usize>;

/// Counts the features of a graph, including those of its nested bodies.
pub fn count(graph: &Graph, features: &mut Features) {
    count_within(graph, 0, features);
}

fn count_within(graph: &Graph, depth: usize, features: &mut Features) {
    for node in graph.nodes() {
        let mut add = |feature: &'static str| *features.entry(feature).or_default() += 1;
        add(node.op.name());
        if let Op::Scan(scan) = &node.op {
            loop_features(scan, &mut add);
        }
        let bodies = node.op.bodies();
        if !bodies.is_empty() {
            match depth {
                0 => {}
                1 => add("body in a body"),
                _ => add("body in a body in a body"),
            }
        }
        bodies.into_iter().for_each(|body| count_within(body, depth + 1, features));
    }
}

fn loop_features(scan: &Scan, add: &mut impl FnMut(&'static str)) {
    for buffer in &scan.buffers {
        add(buffer.kind());
        if buffer.reads.len() > 1 {
            add("several taps of a buffer");
        }
        let overwrites = |write: &usize| buffer.reads.contains(write);
        if buffer.start == Start::Full && buffer.writes.iter().any(overwrites) {
            add("overwritten rows");
        }
        if buffer.writes.len() > 1 {
            add("several writes");
        }
        if matches!(buffer.returned, Returned::Last(_)) {
            add("last rows");
        }
    }
    if scan.sequences.iter().any(|sequence| sequence.reads.len() > 1) {
        add("several taps of a sequence");
    }
    let is_repeated = |reads: &[usize]| (1..reads.len()).any(|index| reads[..index].contains(&reads[index]));
    if scan.sequences.iter().any(|sequence| is_repeated(&sequence.reads)) {
        add("a row of a sequence read twice");
    }
    if scan.reverse && scan.until.is_some() {
        add("downward until");
        if scan.buffers.iter().any(|buffer| buffer.start == Start::Full) {
            add("downward until with a full buffer");
        }
    }
    if scan.reverse {
        add("downward");
        if scan.buffers.iter().any(|buffer| matches!(buffer.start, Start::Given(_))) {
            add("downward with given rows");
        }
    }
    match (&scan.until, scan.steps_operand, scan.steps.constant()) {
        (Some(_), true, _) => add("until of a computed number of steps"),
        (Some(_), ..) => add("until"),
        (None, true, _) => add("computed number of steps"),
        (None, false, None) => add("symbolic number of steps"),
        (None, false, Some(0)) => add("no steps"),
        (None, false, Some(1)) => add("one step"),
        _ => add("constant number of steps"),
    }
    let params = scan.params();
    for index in params.carries {
        match scan.body.input_type(index).dtype {
            DType::Bool => add("boolean carry"),
            dtype if dtype.is_int() => add("integer carry"),
            _ => add("float carry"),
        }
    }
    if !params.invariants.is_empty() {
        add("invariants");
    }
}
