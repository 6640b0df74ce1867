//! Runs associative scans with the recursive odd-even algorithm. A single run of a program combines a whole batch of
//! pairs.
//!
//! The algorithm combines adjacent elements in pairs, recursively scans the combined pairs (half as many elements), and
//! combines the results of that scan with the elements in between (Blelloch, "Prefix sums and their applications";
//! JAX's `lax.associative_scan`). The same two programs serve every length. The up-sweep combines pairs and computes
//! all leaves (the components of an element). The down-sweep computes the results, but only for the leaves that are
//! used. For an affine recurrence, the down-sweep therefore skips the products of the coefficients.

use funcify_core::types::Symbol;

use super::*;

/// An associative scan, lowered to two programs.
pub(crate) struct AssociativeNode<B: Backend> {
    pub(crate) at: Place,
    pub(crate) reverse: bool,
    /// The types of the leaves: the scanned tensors, each of which holds one component of every element.
    pub(crate) leaves: Vec<TensorType>,
    /// The indices of the leaves whose results are computed.
    pub(crate) needed: Vec<usize>,
    pub(crate) outputs: Vec<TensorType>,
    /// The symbol for the number of pairs in a batch.
    pub(crate) pairs: Symbol,
    /// The program that combines a batch of pairs.
    pub(crate) up_sweep: Arc<Program<B>>,
    /// The program that combines the result of each pair with the next element in scan order, and so computes the
    /// result for that element. Computes only the needed leaves.
    pub(crate) down_sweep: Arc<Program<B>>,
}

impl<B: Backend> AssociativeNode<B> {
    /// Runs the scan with both sweeps, for any number of elements. Returns the results of the needed leaves.
    pub(crate) fn run_sweeps(&self, run: &mut Run<'_, B>, mut operands: Vec<B::Tensor>) -> Result<Tensors<B::Tensor>> {
        let captured = operands.split_off(self.leaves.len());
        let sizes = run.sizes.clone();
        let results = self.level(run, operands, &captured, &mut 0);
        // Restore the sizes, because outside of the scan the symbol for the number of pairs may be unbound or have
        // another size.
        run.sizes = sizes;
        Ok(results?.into())
    }

    /// Returns the sizes, with `pairs` set to the number of pairs in the largest batch.
    pub(crate) fn largest_sizes(&self, sizes: &Sizes) -> Sizes {
        let mut sizes = sizes.clone();
        let rows = self.leaves.first().and_then(|leaf| leaf.shape.dims().first());
        if let Some(Ok(rows)) = rows.map(|rows| rows.value(&sizes)) {
            // Do not check for a negative or excessive number of rows here: the run reports it.
            sizes.set(&self.pairs, usize::try_from(rows.max(0)).unwrap_or(usize::MAX) / 2);
        }
        sizes
    }

    /// Scans the elements `xs`, and returns the results of the needed leaves. `ran` counts the batches so far.
    fn level(
        &self,
        run: &mut Run<'_, B>,
        xs: Vec<B::Tensor>,
        captured: &[B::Tensor],
        ran: &mut usize,
    ) -> Result<Vec<B::Tensor>> {
        let count = run.backend.shape(&xs[0])[0];
        let of_needed: Vec<B::Tensor> = self.needed.iter().map(|leaf| xs[*leaf].clone()).collect();
        if count < 2 {
            return Ok(of_needed);
        }
        // The pairs start at row 0, or, in a reverse scan, end at the last row. The result of the first row in scan
        // order is the row itself. If the number of rows is even, the result of the last row in scan order is the
        // result of the last pair.
        let (pairs, between) = (count / 2, (count - 1) / 2);
        let start = if self.reverse { count - 2 * pairs } else { 0 };
        let arguments = self.rows(run, &xs, start, 2 * pairs)?;
        let combined = self.combine(run, &self.up_sweep, pairs, [arguments.as_slice(), captured].concat(), ran)?;
        let of_pairs = self.level(run, combined, captured, ran)?;

        let (own, rest) = if self.reverse { (count - 1, 0) } else { (0, between) };
        let own = self.rows(run, &of_needed, own, 1)?;
        let rest = if pairs > between { self.rows(run, &of_pairs, rest, 1)? } else { Vec::new() };
        let mut inner = Vec::new();
        if between > 0 {
            let of_pairs = self.rows(run, &of_pairs, if self.reverse { pairs - between } else { 0 }, between)?;
            let start = if self.reverse { count - 1 - 2 * between } else { 1 };
            let elements = self.rows(run, &xs, start, 2 * between)?;
            inner =
                self.combine(run, &self.down_sweep, between, [of_pairs.as_slice(), &elements, captured].concat(), ran)?;
        }
        let mut blocks = if self.reverse { [rest, inner, own] } else { [own, inner, rest] }.map(Vec::into_iter);
        let stack = |ty: &TensorType| {
            let parts = blocks.iter_mut().filter_map(Iterator::next).map(Part::Block).collect();
            let mut ty = run.stack_type(&self.at, ty)?;
            ty.rows = count;
            run.fail(&self.at, run.backend.stack(parts, &ty))
        };
        self.outputs.iter().map(stack).collect()
    }

    fn rows(&self, run: &Run<'_, B>, xs: &[B::Tensor], start: usize, count: usize) -> Result<Vec<B::Tensor>> {
        xs.iter().map(|leaf| run.fail(&self.at, run.backend.rows(leaf, start, count))).collect()
    }

    fn combine(
        &self,
        run: &mut Run<'_, B>,
        program: &Program<B>,
        pairs: usize,
        arguments: Vec<B::Tensor>,
        ran: &mut usize,
    ) -> Result<Vec<B::Tensor>> {
        run.watch.check(&self.at, Progress::Steps(*ran))?;
        run.sizes.set(&self.pairs, pairs);
        let results = program.execute(run, arguments).map_err(|error| error.in_step(&self.at, *ran))?;
        *ran += 1;
        Ok(results)
    }
}
