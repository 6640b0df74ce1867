//! Turns loops whose steps are affine in the states, such as `h[t] = a[t] * h[t-1] + b[t]`, into associative scans
//! (Blelloch, Prefix Sums and Their Applications, 1990, §1.4; Martin, Cundy, Parallelizing Linear Recurrent Neural Nets
//! Over Sequence Length, 2018; S5).
//!
//! The maps of two successive steps compose into another affine map, with factor `a2 a1` and addend `a2 b1 + b2`. An
//! associative scan of logarithmic depth over the initial value and the maps of the steps therefore computes all
//! states. Factors apply elementwise. If a step mixes two states, such as the real and imaginary parts of a complex
//! number, the two states form a single map with four factors per element. Traces of the states are taken from the rows
//! of the result, and the remaining ops of a step read these rows as a sequence.
//!
//! Precondition: the loop cannot fail, and runs all its steps. Only states of floats are replaced. To compute the next states, a
//! step only adds and subtracts, and multiplies or divides the states by values that depend only on sequences and
//! invariants. The memory for the factors and addends of all steps is at most a fixed multiple of the bytes that the
//! loop reads and writes. Running sums and products are left to the rule `cumulative`.
//!
//! The rule runs if it is requested by name, or if reassociation is tolerated and the device prefers less depth. An
//! associative scan does more work than the loop, and rounds sums differently. Its products of many factors may
//! overflow, even if every state of the loop is finite.

use std::collections::BTreeSet;

use funcify_core::ops::associative::{AssociativeScanOptions, associative_scan_with};
use funcify_core::ops::{Binary, Unary};
use funcify_core::types::TensorType;

use super::removed_states::{State, StateRows, read_as_sequence, remove_states, states};
use super::*;

/// The maximum number of states that one affine map combines.
const MAX_MIXED_STATES: usize = 2;

/// Replaces states that are affine recurrences with associative scans.
pub(crate) fn affine(context: &RewriteContext<'_>) -> Option<Patch> {
    let scan = whole_loop(context)?;
    let recurrences = recurrences(scan);
    if recurrences.is_empty() {
        return None;
    }
    context.build(context.operands, |operands| emit_as_scans(scan, &recurrences, operands))
}

/// The dependence of a value of the body on the states.
#[derive(Clone)]
enum Form {
    /// The value depends only on sequences and invariants.
    Known,
    /// The value is a sum of the given states, with optional factors and an optional addend that depend on no state.
    Affine { states: BTreeSet<usize>, is_scaled: bool, is_shifted: bool },
    /// The value depends on the states in any other way.
    Other,
}

impl Form {
    /// Returns the form of an op's result, given the forms of its operands.
    fn of(op: &Op, operands: &[&Form]) -> Form {
        match (op, operands) {
            (Op::Binary(Binary::Add | Binary::Sub), [left, right]) => left.plus(right),
            (Op::Binary(Binary::Mul | Binary::Div), [form @ Form::Affine { .. }, Form::Known]) => form.scaled(),
            (Op::Binary(Binary::Mul), [Form::Known, form @ Form::Affine { .. }]) => form.scaled(),
            (Op::Unary(Unary::Neg), [form @ Form::Affine { .. }]) => form.scaled(),
            _ => Form::Other,
        }
    }

    fn plus(&self, other: &Form) -> Form {
        match (self, other) {
            (
                Form::Affine { states: left, is_scaled: a, is_shifted: b },
                Form::Affine { states: right, is_scaled: c, is_shifted: d },
            ) => Form::Affine { states: left | right, is_scaled: a | c, is_shifted: b | d },
            (Form::Affine { states, is_scaled, .. }, Form::Known)
            | (Form::Known, Form::Affine { states, is_scaled, .. }) => {
                Form::Affine { states: states.clone(), is_scaled: *is_scaled, is_shifted: true }
            }
            _ => Form::Other,
        }
    }

    fn scaled(&self) -> Form {
        match self {
            Form::Affine { states, is_shifted, .. } => {
                Form::Affine { states: states.clone(), is_scaled: true, is_shifted: *is_shifted }
            }
            form => form.clone(),
        }
    }
}

/// Returns the form of each value in the body.
fn forms(scan: &Scan, states: &[State]) -> Vec<Form> {
    let (body, classes) = (&scan.body, classes(scan));
    let mut forms: Vec<Form> =
        classes.iter().map(|class| if *class == Class::Stepwise { Form::Other } else { Form::Known }).collect();
    for (number, state) in states.iter().enumerate().filter(|(_, state)| body.ty(state.before).dtype.is_float()) {
        let states = BTreeSet::from([number]);
        forms[state.before.index()] = Form::Affine { states, is_scaled: false, is_shifted: false };
    }
    for node in body.nodes() {
        let [output] = node.outputs[..] else { continue };
        if let Form::Other = forms[output.index()] {
            let operands: Vec<&Form> = node.inputs.iter().map(|input| &forms[input.index()]).collect();
            forms[output.index()] = Form::of(&node.op, &operands);
        }
    }
    forms
}

/// Returns the states that are affine recurrences, in groups. States that a step mixes are in the same group.
fn recurrences(scan: &Scan) -> Vec<Vec<State>> {
    let all = states(scan);
    if all.is_empty() {
        return Vec::new();
    }
    let forms = forms(scan, &all);
    let next = |number: usize| match &forms[all[number].after.index()] {
        Form::Affine { states, is_scaled, is_shifted } => Some((states, *is_scaled, *is_shifted)),
        _ => None,
    };
    // Merge the groups that share a state.
    let mut groups: Vec<BTreeSet<usize>> = Vec::new();
    for number in 0..all.len() {
        let mut group = BTreeSet::from([number]);
        group.extend(next(number).into_iter().flat_map(|(states, ..)| states));
        let (mixed, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(|other| !other.is_disjoint(&group));
        mixed.into_iter().for_each(|other| group.extend(other));
        groups = apart;
        groups.push(group);
    }
    let present = bytes_of_step(scan);
    let mut held = Dim::from(0);
    let is_recurrence = |group: &BTreeSet<usize>| {
        let forms: Option<Vec<_>> = group.iter().map(|number| next(*number)).collect();
        let Some(forms) = forms.filter(|forms| forms.len() <= MAX_MIXED_STATES) else { return false };
        let is_one = forms.iter().any(|(_, is_scaled, _)| *is_scaled) && forms.iter().any(|(.., shifted)| *shifted);
        let Some(first) = group.first() else { return false };
        let ty = scan.body.ty(all[*first].before);
        let rows = group.len() * (group.len() + 1);
        let with = held.clone() + bytes(ty) * rows;
        let fits = is_one && is_bounded(&with, &present, MAX_MEMORY_FACTOR, &scan.steps);
        if fits {
            held = with;
        }
        fits
    };
    groups.retain(is_recurrence);
    groups.sort();
    groups.into_iter().map(|group| group.into_iter().map(|number| all[number]).collect()).collect()
}

/// Computes the given states with associative scans, and removes them from the loop. The remaining loop reads the
/// values of these states as sequences.
fn emit_as_scans(scan: &Scan, recurrences: &[Vec<State>], operands: &[Value]) -> Option<Vec<Value>> {
    let mut parts = Loop::of(scan, operands);
    let mut all = Vec::new();
    for states in recurrences {
        let maps = Maps::of(&parts, &scan.steps, states)?;
        let starts: Option<Vec<Value>> = states.iter().map(|state| state.start(scan, operands)).collect();
        all.push(maps.run(scan, states, starts?));
    }
    let states = recurrences.concat();
    let mut given = Vec::new();
    let removed = remove_states(&mut parts, &states);
    for ((removed, rows), state) in removed.into_iter().zip(all.concat()).zip(&states) {
        let rows = StateRows::with_start(scan, state, rows);
        given.extend(read_as_sequence(&mut parts, scan.reverse, &scan.steps, removed, rows));
    }
    let mut results = parts.emit_rest()?.old;
    given.into_iter().for_each(|(number, value)| results[number] = Some(value));
    results.into_iter().collect()
}

/// A factor or addend: a number that is the same in all steps, or a row for each step.
#[derive(Clone, Copy)]
enum Term {
    Number(f64),
    Rows(Value),
}

impl Term {
    fn plus(self, other: Term) -> Term {
        match (self, other) {
            (Term::Number(left), Term::Number(right)) => Term::Number(left + right),
            (Term::Number(0.0), term) | (term, Term::Number(0.0)) => term,
            (Term::Number(number), Term::Rows(rows)) | (Term::Rows(rows), Term::Number(number)) => {
                Term::Rows(rows + number)
            }
            (Term::Rows(left), Term::Rows(right)) => Term::Rows(left + right),
        }
    }

    fn minus(self) -> Term {
        match self {
            Term::Number(0.0) => self,
            Term::Number(number) => Term::Number(-number),
            Term::Rows(rows) => Term::Rows(-rows),
        }
    }

    fn times(self, factor: Value) -> Term {
        match self {
            Term::Number(0.0) => self,
            Term::Number(1.0) => Term::Rows(factor),
            Term::Number(number) => Term::Rows(factor * number),
            Term::Rows(rows) => Term::Rows(rows * factor),
        }
    }

    fn over(self, divisor: Value) -> Term {
        match self {
            Term::Number(0.0) => self,
            Term::Number(number) => Term::Rows(divisor.full_like(number) / divisor),
            Term::Rows(rows) => Term::Rows(rows / divisor),
        }
    }

    /// Expands the term to a tensor with a row for each step.
    fn rows(self, row: &TensorType, steps: &Dim) -> Value {
        match self {
            Term::Number(number) => full(row.shape.with_inserted(0, steps.clone()), row.dtype, number),
            Term::Rows(rows) => rows,
        }
    }
}

/// An affine combination of the states: a factor for each state, followed by an addend.
type Sum = Vec<Term>;

/// The affine maps of all steps: the next value of each state, as an affine combination of the states.
struct Maps {
    row: TensorType,
    steps: Dim,
    sums: Vec<Sum>,
}

impl Maps {
    fn of(parts: &Loop, steps: &Dim, states: &[State]) -> Option<Maps> {
        let body = &parts.body;
        let afters: Vec<ValueId> = states.iter().map(|state| state.after).collect();
        let depends = depends_on_states(body, states);
        let needed = needed(body, &afters, |value| states.iter().any(|state| state.before == value));
        let is_on_the_way = |output: &ValueId| needed[output.index()] && depends[output.index()];
        let nodes: Vec<&Node> = body.nodes().iter().filter(|node| node.outputs.iter().any(is_on_the_way)).collect();
        let operands = nodes.iter().flat_map(|node| node.inputs.iter().copied());
        let mut known: Vec<ValueId> = operands.filter(|value| !depends[value.index()]).collect();
        known.sort_unstable();
        known.dedup();
        let rows = compute_for_all_steps(parts, steps, &[], &known)?;
        let row_of = |value: ValueId| known.binary_search(&value).ok().map(|index| rows[index]);
        let none = vec![Term::Number(0.0); states.len() + 1];
        let mut sums: Vec<Option<Sum>> = vec![None; body.values().count()];
        for (number, state) in states.iter().enumerate() {
            let mut sum = none.clone();
            sum[number] = Term::Number(1.0);
            sums[state.before.index()] = Some(sum);
        }
        for value in &known {
            let mut sum = none.clone();
            sum[states.len()] = Term::Rows(row_of(*value)?);
            sums[value.index()] = Some(sum);
        }
        for node in nodes {
            let sum = sum_of(node, &sums, row_of)?;
            sums[node.outputs[0].index()] = Some(sum);
        }
        let sums = afters.iter().map(|after| sums[after.index()].clone()).collect::<Option<_>>()?;
        Some(Maps { row: body.ty(states.first()?.before).clone(), steps: steps.clone(), sums })
    }

    /// Computes one tensor per state. Its rows are the initial value of the state and the value after each step.
    fn run(&self, scan: &Scan, states: &[State], starts: Vec<Value>) -> Vec<Value> {
        let count = states.len();
        let rows = |term: Term| term.rows(&self.row, &self.steps);
        let mut leaves = Vec::new();
        for (number, sum) in self.sums.iter().enumerate() {
            for (other, factor) in sum[..count].iter().enumerate() {
                // The row of the initial value needs factors of the right shape, although these factors do not affect
                // any result.
                let one = full(self.row.shape.clone(), self.row.dtype, f64::from(u8::from(number == other)));
                let (one, factors) = (one.unsqueeze(0), rows(*factor));
                leaves.push(concat(&if scan.reverse { [factors, one] } else { [one, factors] }, 0));
            }
        }
        for ((sum, state), start) in self.sums.iter().zip(states).zip(starts) {
            leaves.push(state.with_start(scan, start, rows(sum[count])));
        }
        let mut options = AssociativeScanOptions::new();
        if scan.reverse {
            options = options.reverse();
        }
        associative_scan_with(options, leaves, |first, second| compose_maps(count, &first, &second))
            .split_off(count * count)
    }
}

/// Returns a flag for each value of the body: `true` if the value depends on one of the given states.
fn depends_on_states(body: &Graph, states: &[State]) -> Vec<bool> {
    let mut depends = vec![false; body.values().count()];
    states.iter().for_each(|state| depends[state.before.index()] = true);
    for node in body.nodes() {
        let is_so = node.inputs.iter().any(|input| depends[input.index()]);
        node.outputs.iter().for_each(|output| depends[output.index()] = is_so);
    }
    depends
}

/// Returns the result of a node as an affine combination of the states, or `None` if the result is not affine. `rows`
/// returns the rows of a value that depends on no state, or `None` for any other value.
fn sum_of(node: &Node, sums: &[Option<Sum>], rows: impl Fn(ValueId) -> Option<Value>) -> Option<Sum> {
    let sum = |operand: usize| sums[node.inputs[operand].index()].as_ref();
    let each = |sum: &Sum, f: &dyn Fn(Term) -> Term| sum.iter().map(|term| f(*term)).collect::<Sum>();
    match &node.op {
        Op::Unary(Unary::Neg) => Some(each(sum(0)?, &Term::minus)),
        Op::Binary(op @ (Binary::Add | Binary::Sub)) => {
            let right = if *op == Binary::Sub { each(sum(1)?, &Term::minus) } else { sum(1)?.clone() };
            Some(sum(0)?.iter().zip(right).map(|(left, right)| left.plus(right)).collect())
        }
        Op::Binary(Binary::Mul) => match (rows(node.inputs[0]), rows(node.inputs[1])) {
            (Some(factor), None) => Some(each(sum(1)?, &|term| term.times(factor))),
            (None, Some(factor)) => Some(each(sum(0)?, &|term| term.times(factor))),
            _ => None,
        },
        Op::Binary(Binary::Div) => {
            let divisor = rows(node.inputs[1])?;
            Some(each(sum(0)?, &|term| term.over(divisor)))
        }
        _ => None,
    }
}

/// Composes two successive maps: `(A2 A1, A2 b1 + b2)`. A map `A x + b` is a list of the entries of `A` in row-major
/// order, followed by the entries of `b`.
fn compose_maps(count: usize, first: &[Value], second: &[Value]) -> Vec<Value> {
    let product = |row: usize, of: &dyn Fn(usize) -> Value| {
        let terms = (0..count).map(|inner| second[row * count + inner] * of(inner));
        terms.reduce(|sum, term| sum + term)
    };
    let factors =
        (0..count * count).filter_map(|place| product(place / count, &|inner| first[inner * count + place % count]));
    let addends = (0..count).filter_map(|row| {
        let addend = second[count * count + row];
        product(row, &|inner| first[count * count + inner]).map(|moved| moved + addend)
    });
    factors.chain(addends).collect()
}
