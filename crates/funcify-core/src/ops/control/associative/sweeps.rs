//! The programs for the up and down sweeps of the odd-even recursion (Blelloch 1990). They accept any number of pairs
//! of adjacent elements.
//!
//! `combine` is batched with the pairs as lanes, so that all pairs are combined at once. Pairs are split and joined by
//! reshaping `2n` rows to `n` rows of twice the length.

use super::*;

use crate::fixpoint::or_flags;
use crate::graph::tracer::{self, input};
use crate::value::concat;
use crate::vmap::inline;

/// The two programs that an associative scan runs on pairs of adjacent elements.
#[doc(hidden)]
pub struct Sweeps {
    /// The symbol for the number of pairs.
    pub pairs: Symbol,
    /// The program that combines the elements of each pair. Its inputs are the rows of the pairs, and the values that
    /// `combine` captures.
    pub up: Arc<Graph>,
    /// The program that computes the results at all rows from the results at every other row. Its inputs are the
    /// results at every other row, the rows of the pairs, and the values that `combine` captures. It computes only the
    /// needed leaves.
    pub down: Arc<Graph>,
    /// The leaves whose results are used, and the leaves that `combine` reads to compute them.
    pub needed: Vec<usize>,
}

impl AssociativeScan {
    /// Builds the sweeps for operands of the types in `inputs`. `used` marks the results that the caller needs.
    #[doc(hidden)]
    pub fn sweeps(&self, at: &Place, inputs: &[TensorType], used: &[bool]) -> Result<Sweeps> {
        let needed = self.needed(used);
        let pairs = self.unused_symbol(inputs);
        let size = Dim::symbol(&pairs);
        let rows: Vec<TensorType> = inputs[..self.leaves].iter().filter_map(TensorType::row).collect();
        let captured = &inputs[self.leaves..];
        let all: Vec<usize> = (0..self.leaves).collect();
        let leaves = |name: &str, count: &Dim, which: &[usize]| -> Vec<Value> {
            let leaf = |index: &usize| input(&format!("{name}{index}"), rows[*index].stacked(count), false, at.site);
            which.iter().map(leaf).collect()
        };
        let captures = || {
            let capture = |(index, ty): (usize, &TensorType)| input(&format!("c{index}"), ty.clone(), false, at.site);
            captured.iter().enumerate().map(capture).collect::<Vec<Value>>()
        };
        let build = |name: &str, body: &dyn Fn() -> Result<Vec<Value>, Failed>| {
            tracer::build(name, at.site, |_| {
                tracer::reserve_symbols(&self.combine);
                tracer::at_site(at.site, body)
            })
        };
        let up = build("combine", &|| {
            let both = leaves("x", &(size.clone() * 2), &all);
            let captured = captures();
            let elements: Vec<[Value; 2]> = both.into_iter().map(|leaf| split_pairs(leaf, &size)).collect();
            // In a reverse scan, the accumulated element is the second element of the pair.
            let first = elements.iter().map(|pair| pair[usize::from(self.reverse)]).collect::<Vec<_>>();
            let second = elements.iter().map(|pair| pair[usize::from(!self.reverse)]).collect::<Vec<_>>();
            self.combined(&size, &first, &second, &captured, &all)
        })?;
        let down = build("spread", &|| {
            let every_other = leaves("y", &size, &needed);
            let both = leaves("x", &(size.clone() * 2), &all);
            let captured = captures();
            let between: Vec<Value> =
                both.into_iter().map(|leaf| split_pairs(leaf, &size)[usize::from(!self.reverse)]).collect();
            // The leaves of `first` that are not needed can be arbitrary, because no needed result depends on them.
            let mut first = between.clone();
            needed.iter().zip(&every_other).for_each(|(leaf, result)| first[*leaf] = *result);
            let between = self.combined(&size, &first, &between, &captured, &needed)?;
            let both = |(one, other): (Value, Value)| match self.reverse {
                false => join_pairs(one, other, &size),
                true => join_pairs(other, one, &size),
            };
            Ok(every_other.into_iter().zip(between).map(both).collect())
        })?;
        Ok(Sweeps { pairs, up: Arc::new(up), down: Arc::new(down), needed })
    }

    /// Returns the leaves whose results are used, and the leaves that `combine` reads to compute them.
    fn needed(&self, used: &[bool]) -> Vec<usize> {
        flagged_indices(&fixpoint(used.to_vec(), |needed| or_flags(needed, self.combine.needed_inputs(needed))))
    }

    /// Combines pairs of elements, and returns only the leaves in `which`.
    fn combined(
        &self,
        size: &Dim,
        first: &[Value],
        second: &[Value],
        captured: &[Value],
        which: &[usize],
    ) -> Result<Vec<Value>, Failed> {
        let elements = first.iter().chain(second).map(|value| Batched::mapped(*value));
        let inputs: Vec<Batched> = elements.chain(captured.iter().map(|value| Batched::unmapped(*value))).collect();
        let outputs = which.iter().map(|leaf| self.combine.outputs()[*leaf].clone()).collect();
        let combine = self.combine.with_outputs(outputs);
        Ok(inline(&combine, size, &inputs)?.into_iter().map(|result| result.materialized(size)).collect())
    }

    /// Returns a symbol that does not occur in `combine` or in the types of the operands.
    fn unused_symbol(&self, inputs: &[TensorType]) -> Symbol {
        let mut used: Vec<Symbol> = Vec::new();
        used.extend(inputs.iter().flat_map(|ty| ty.shape.dims()).flat_map(Dim::symbols).cloned());
        self.combine.visit_symbols(&mut |symbol| used.push(symbol.clone()));
        let names = std::iter::once("$pairs".to_string()).chain((1usize..).map(|number| format!("$pairs{number}")));
        let mut free = names.map(|name| Symbol::new(&name)).filter(|symbol| !used.contains(symbol));
        free.next().unwrap_or_else(|| Symbol::new("$pairs"))
    }
}

/// Groups rows into pairs of adjacent rows. Returns the first rows of all pairs, and the second rows of all pairs.
fn split_pairs(rows: Value, pairs: &Dim) -> [Value; 2] {
    let row = rows.row_type().shape;
    let length = row.elements();
    let flat = rows.reshape([pairs.clone(), length.clone() * 2]);
    let half = |start: Dim| {
        let limit = start.clone() + &length;
        flat.slice(1, start..limit).reshape(row.with_leading(pairs.clone()))
    };
    [half(Dim::from(0)), half(length.clone())]
}

/// Joins the first rows and the second rows of `n` pairs into `2n` rows.
fn join_pairs(first: Value, second: Value, pairs: &Dim) -> Value {
    let row = first.row_type().shape;
    let flat = [first, second].map(|rows| rows.reshape([pairs.clone(), row.elements()]));
    concat(&flat, 1).reshape(row.with_leading(pairs.clone() * 2))
}
