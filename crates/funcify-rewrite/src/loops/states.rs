//! Removes carries that never change, and merges equal states (PyTensor's `scan_remove_constants_and_unused_inputs` and
//! `scan_merge_inouts`; XLA's while-loop simplifier).
//!
//! - A carry that each step returns unchanged becomes an invariant. The final value of the carry is its initial value,
//!   even if the loop has no steps.
//! - Carries with the same initial value are merged if they stay equal in each step. The rule first assumes that all
//!   carries with the same initial value are equal. It then repeatedly separates carries whose next values differ,
//!   until nothing changes. In this way, the rule also merges carries that depend on each other.
//! - Two reads of the same row of the same sequence are merged, and so are two invariants with the same value.
//!
//! Precondition: the loop must not be truncated, because a truncated derivative depends on the carries. If a carry
//! becomes an invariant, the loop must not be able to fail either.

use funcify_core::ops::OpRules;

use super::super::common::text;
use super::*;

/// Merges equal states and operands of a loop, and turns constant carries into invariants.
pub(crate) fn states(context: &RewriteContext<'_>) -> Option<Patch> {
    let Op::Scan(scan) = context.op else { return None };
    if scan.truncate.is_some() {
        return None;
    }
    let same = same_params(context, scan);
    // If carries become invariants, the remaining loop may become dead code, so it must not be able to fail.
    let constant = if is_certain_loop(context, scan) { constant_carries(scan, &same) } else { Vec::new() };
    if constant.is_empty() && same.iter().copied().eq(0..same.len()) {
        return None;
    }
    context.build(context.operands, |operands| emit_merged(scan, &same, &constant, operands))
}

/// Returns, for each parameter of the body, the index of the first parameter that equals it in each step.
fn same_params(context: &RewriteContext<'_>, scan: &Scan) -> Vec<usize> {
    let (layout, places) = (scan.params(), scan.operands());
    let mut same: Vec<usize> = (0..layout.count).collect();
    let mut rows: HashMap<(ValueId, usize), usize> = HashMap::new();
    for ((sequence, operand), params) in scan.sequences.iter().zip(places.sequences).zip(layout.sequences) {
        for (offset, param) in sequence.reads.iter().zip(params) {
            same[param] = *rows.entry((context.operands[operand], *offset)).or_insert(param);
        }
    }
    for (operands, params) in [(places.invariants, layout.invariants), (places.carries, layout.carries.clone())] {
        let mut values: HashMap<ValueId, usize> = HashMap::new();
        for (operand, param) in operands.zip(params) {
            same[param] = *values.entry(context.operands[operand]).or_insert(param);
        }
    }
    let carries: Vec<(usize, usize)> = layout.carries.zip(scan.results().carries).collect();
    // Each iteration splits a class of equal carries, so there are at most as many iterations as carries.
    while carries.iter().any(|(param, _)| same[*param] != *param) {
        let numbers = value_numbers(&scan.body, &same);
        let next = |result: usize| numbers[scan.body.outputs()[result].value.index()];
        let mut classes: HashMap<(usize, usize), usize> = HashMap::new();
        let mut split = same.clone();
        for (param, result) in &carries {
            split[*param] = *classes.entry((same[*param], next(*result))).or_insert(*param);
        }
        if split == same {
            break;
        }
        same = split;
    }
    same
}

/// Numbers the values of a body so that values with the same number are equal (value numbering). Assumes that two
/// parameters are equal if `same` maps them to the same parameter.
fn value_numbers(body: &Graph, same: &[usize]) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..body.values().count()).collect();
    for (param, first) in same.iter().enumerate() {
        numbers[body.inputs()[param].value.index()] = body.inputs()[*first].value.index();
    }
    let mut computed: HashMap<(&'static str, Vec<usize>, String), Vec<usize>> = HashMap::new();
    for node in body.nodes() {
        if node.op.is_opaque() || !node.op.bodies().is_empty() || node.op.binds().next().is_some() {
            continue;
        }
        let operands = node.inputs.iter().map(|input| numbers[input.index()]).collect();
        let results = node.outputs.iter().map(|output| output.index()).collect();
        let first: &Vec<usize> = computed.entry((node.op.name(), operands, text(&node.op))).or_insert(results);
        for (output, number) in node.outputs.iter().zip(first) {
            numbers[output.index()] = *number;
        }
    }
    numbers
}

/// Returns the indices of the carries that each step returns unchanged.
fn constant_carries(scan: &Scan, same: &[usize]) -> Vec<usize> {
    let body = &scan.body;
    let carries = scan.params().carries.zip(scan.results().carries).enumerate();
    let is_constant = |(param, result): (usize, usize)| {
        let next = body.outputs()[result].value;
        body.inputs().iter().position(|input| input.value == next).is_some_and(|next| same[next] == same[param])
    };
    carries.filter(|(_, pair)| is_constant(*pair)).map(|(carry, _)| carry).collect()
}

fn emit_merged(scan: &Scan, same: &[usize], constant: &[usize], operands: &[Value]) -> Option<Vec<Value>> {
    let layout = scan.params();
    let param = |index: usize| scan.body.inputs()[index].value;
    let mut parts = Loop::of(scan, operands);
    for (index, first) in same.iter().enumerate().filter(|(index, first)| index != *first) {
        parts.replacements.insert(param(index), param(*first));
    }
    let is_first = |value: ValueId| !parts.replacements.contains_key(&value);
    parts.sequences.iter_mut().for_each(|part| part.reads.retain(|(_, param)| is_first(*param)));
    parts.invariants.retain(|(_, param)| is_first(*param));
    // A sequence without reads can be removed without losing the check for missing rows, because another sequence reads
    // the same rows.
    parts.sequences.retain(|part| !part.reads.is_empty());
    let first_of = |carry: usize| same[layout.carries.start + carry] - layout.carries.start;
    let starts: Vec<Value> = parts.carries.iter().map(|part| part.value).collect();
    for carry in constant.iter().filter(|carry| first_of(**carry) == **carry) {
        parts.invariants.push((starts[*carry], parts.carries[*carry].param));
    }
    let mut carry = 0..scan.carries;
    let stays = |carry: usize| first_of(carry) == carry && !constant.contains(&carry);
    parts.carries.retain(|_| carry.next().is_some_and(stays));
    let mut results = parts.emit()?.old;
    for carry in 0..scan.carries {
        let number = |carry: usize| scan.buffers.len() + carry;
        results[number(carry)] = match constant.contains(&carry) {
            true => Some(starts[carry]),
            false => results[number(first_of(carry))],
        };
    }
    results.into_iter().collect()
}
