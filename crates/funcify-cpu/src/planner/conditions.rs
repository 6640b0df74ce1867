//! Finds the sizes for which no op of a loop's body may fail.
//!
//! A step may compute a size, such as the number `n` of rows of a slice `..n`. `capacity` pads values of such sizes, which
//! would hide errors: a slice beyond the rows would repeat the last row. So each size gets a range in which no op fails,
//! and the compiled code rejects a call with a number outside of this range.

use std::collections::HashMap;

use funcify_core::graph::{Graph, KnownSizes, Node, cannot_fail};
use funcify_core::ops::Op as GraphOp;
use funcify_core::ops::scan::Scan;
use funcify_core::types::{Dim, Sizes, Symbol, TensorType};

use super::buffers::{last_rows_of_end, returning_all_rows};

/// The capacity of a size for which no op of the loop may fail, however large it is.
const CAPACITY: usize = 64;
/// The maximum capacity of a size for which an op may fail, such as a slice of that many rows.
const MAX_CAPACITY: usize = 1024;
/// The maximum number that a size may have to be at least, such as 1 for a slice `n-1..`.
const MAX_LOWEST: usize = 4;
/// The maximum number of computed sizes of one op.
const MAX_SIZES: usize = 4;

/// The ops of a program's bodies that may fail because of a size that the bodies compute.
pub(super) struct Conditions<'g> {
    /// The sizes that numbers determine.
    numbers: Vec<&'g Symbol>,
    /// The loops that end early: the size, which is at most the number of steps.
    ends: Vec<(&'g Symbol, &'g Dim)>,
    /// The ops whose operands, results or attributes have computed sizes, with these sizes.
    nodes: Vec<(&'g Graph, &'g Node, Vec<&'g Symbol>)>,
}

impl<'g> Conditions<'g> {
    /// Finds the ops in the bodies of a graph. Returns `None` if one of them has too many computed sizes, or one that is
    /// not linear in each of them.
    pub(super) fn of(graph: &'g Graph) -> Option<Self> {
        let mut conditions = Conditions { numbers: Vec::new(), ends: Vec::new(), nodes: Vec::new() };
        let bodies = || graph.nodes().iter().flat_map(|node| node.op.bodies());
        bodies().for_each(|body| conditions.add_sizes(body));
        bodies().try_for_each(|body| conditions.add_nodes(body))?;
        Some(conditions)
    }

    fn add_sizes(&mut self, graph: &'g Graph) {
        for node in graph.live() {
            self.numbers.extend(node.op.bound_to_number());
            if let GraphOp::Scan(Scan { until: Some(symbol), steps, .. }) = &node.op {
                self.ends.push((symbol, steps));
            }
            node.op.bodies().into_iter().for_each(|body| self.add_sizes(body));
        }
    }

    fn add_nodes(&mut self, graph: &'g Graph) -> Option<()> {
        for node in graph.live() {
            let own = node.op.own_dims();
            let types = node.inputs.iter().chain(&node.outputs).map(|value| graph.ty(*value));
            let dims: Vec<&Dim> = types.flat_map(|ty| ty.shape.dims()).chain(&own).collect();
            let is_used = |symbol: &&Symbol| dims.iter().any(|dim| dim.symbols().contains(symbol));
            let ends = self.ends.iter().map(|(symbol, _)| *symbol);
            let mut symbols: Vec<&Symbol> = self.numbers.iter().copied().chain(ends).filter(is_used).collect();
            symbols.sort();
            symbols.dedup();
            let is_linear = |symbol: &&Symbol| dims.iter().all(|dim| is_linear(dim, symbol));
            if symbols.len() > MAX_SIZES || !symbols.iter().all(is_linear) {
                return None;
            }
            if !symbols.is_empty() {
                self.nodes.push((graph, node, symbols));
            }
            node.op.bodies().into_iter().try_for_each(|body| self.add_nodes(body))?;
        }
        Some(())
    }

    /// Returns the range of each size that a number determines, as large as the ops permit. Returns `None` if an op may
    /// fail regardless of the range.
    pub(super) fn ranges(&self) -> Option<Ranges> {
        // All sizes start with the same number, because ops may limit the sum of several sizes.
        let all = |low, high| self.numbers.iter().map(|symbol| ((*symbol).clone(), (low, high))).collect::<Ranges>();
        let low = (0..=MAX_LOWEST).find(|low| self.hold(&all(*low, *low)))?;
        let high = largest(low, |high| self.hold(&all(low, high)))?;
        let mut ranges = all(low, high);
        for symbol in &self.numbers {
            let mut holds = |low, high| {
                ranges.insert((*symbol).clone(), (low, high));
                self.hold(&ranges)
            };
            let low = (0..=low).find(|low| holds(*low, high))?;
            let high = largest(high, |high| holds(low, high))?;
            // A call with rows would always be rejected.
            if high == 0 {
                return None;
            }
            ranges.insert((*symbol).clone(), (low, if high > MAX_CAPACITY { CAPACITY.max(low) } else { high }));
        }
        Some(ranges)
    }

    /// Returns `true` if no op may fail if each size is in its range. All conditions are linear in each size, so it
    /// suffices to check each combination of the ends of the ranges.
    fn hold(&self, ranges: &Ranges) -> bool {
        let mut ranges = ranges.clone();
        for (symbol, steps) in &self.ends {
            let mut range: Option<(i64, i64)> = None;
            for corner in corners(&ranges, &steps.symbols()) {
                let Ok(steps) = steps.value(&corner) else { return false };
                range = Some(range.map_or((steps, steps), |(low, high)| (low.min(steps), high.max(steps))));
            }
            let (low, high) = range.unwrap_or((0, 0));
            // A loop with steps runs at least one of them.
            ranges.insert((*symbol).clone(), (usize::from(low > 0), usize::try_from(high).unwrap_or(0)));
        }
        let mut nodes = self.nodes.iter();
        nodes.all(|(graph, node, symbols)| corners(&ranges, symbols).all(|sizes| succeeds(graph, node, &sizes)))
    }
}

/// The smallest and the largest value of each size.
pub(super) type Ranges = HashMap<Symbol, (usize, usize)>;

/// Returns each combination of the ends of the symbols' ranges.
fn corners<'s>(ranges: &'s Ranges, symbols: &'s [&Symbol]) -> impl Iterator<Item = Sizes> + 's {
    (0..1usize << symbols.len()).map(move |corner| {
        let mut sizes = Sizes::new();
        for (place, symbol) in symbols.iter().enumerate() {
            if let Some((low, high)) = ranges.get(*symbol) {
                sizes.set(symbol, if corner & (1 << place) == 0 { *low } else { *high });
            }
        }
        sizes
    })
}

/// Returns the largest number from `lowest` on for which `holds` returns `true`, at most `MAX_CAPACITY + 1`. Returns
/// `None` if there is none.
fn largest(lowest: usize, mut holds: impl FnMut(usize) -> bool) -> Option<usize> {
    let (mut capacity, mut beyond) = (lowest, MAX_CAPACITY + 1);
    if holds(beyond) {
        return Some(beyond);
    }
    if !holds(capacity) {
        return None;
    }
    while beyond - capacity > 1 {
        let middle = capacity.midpoint(beyond);
        *if holds(middle) { &mut capacity } else { &mut beyond } = middle;
    }
    Some(capacity)
}

fn is_linear(dim: &Dim, symbol: &Symbol) -> bool {
    let next = dim.replaced(&[(symbol.clone(), Dim::symbol(symbol) + 1)].into());
    !(next - dim).symbols().contains(&symbol)
}

/// Returns `true` if an op succeeds for the given sizes, provided that the ops in its bodies do and that the numbers that
/// it binds are sizes. `capacity` rejects calls in which a loop that ends early has too few rows.
fn succeeds(graph: &Graph, node: &Node, sizes: &Sizes) -> bool {
    let types: Vec<&TensorType> = node.inputs.iter().map(|input| graph.ty(*input)).collect();
    if let GraphOp::Scan(scan) = &node.op {
        let counted =
            Scan { steps_operand: false, ..returning_all_rows(scan, |buffer| last_rows_of_end(scan, buffer)) };
        return counted.has_all_rows_given(&types[usize::from(scan.steps_operand)..], &KnownSizes(sizes));
    }
    if node.op.bodies().is_empty() {
        return matches!(node.op, GraphOp::BindSize(_)) || cannot_fail(graph, node, sizes);
    }
    node.op.own_dims().iter().all(|dim| dim.value(sizes).is_ok_and(|size| size >= 0))
}
