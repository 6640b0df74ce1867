//! Runs associative scans with the odd-even recursion. Each batch of combinations is a program of the backend.
//!
//! The recursion combines the elements in pairs, scans these combinations, half as many, and combines the results with
//! the elements between the pairs (Blelloch, "Prefix sums and their applications"; JAX's `lax.associative_scan`). One
//! program serves every length. The up-sweep, which combines pairs, computes all leaves. The down-sweep, which computes
//! the running combinations, computes the used leaves only; for an affine recurrence it leaves out the factors.

use funcify_core::types::Symbol;

use super::*;

/// An associative scan with its two compiled sweeps.
pub(crate) struct AssociativeNode<B: Backend> {
    pub(crate) at: Place,
    pub(crate) reverse: bool,
    /// The types of the leaves.
    pub(crate) leaves: Vec<TensorType>,
    /// The indices of the leaves that have results.
    pub(crate) needed: Vec<usize>,
    pub(crate) outputs: Vec<TensorType>,
    /// The symbol for the number of pairs.
    pub(crate) pairs: Symbol,
    /// The program that computes the combination of each pair from the rows of the pairs.
    pub(crate) up_sweep: Arc<Program<B>>,
    /// The program that computes the needed leaves of all results from those at every other row and the pairs of the
    /// rows between.
    pub(crate) down_sweep: Arc<Program<B>>,
}

impl<B: Backend> AssociativeNode<B> {
    /// Runs the two sweeps, for any number of elements.
    pub(crate) fn run_sweeps(&self, run: &mut Run<'_, B>, mut operands: Vec<B::Tensor>) -> Result<Tensors<B::Tensor>> {
        let captured = operands.split_off(self.leaves.len());
        let sizes = run.sizes.clone();
        let results = self.level(run, operands, &captured, &mut 0);
        // Outside of the scan, the symbol for the number of pairs is unbound or has another size.
        run.sizes = sizes;
        Ok(results?.into())
    }

    /// Returns the sizes together with those of the largest batch of combinations.
    pub(crate) fn largest_sizes(&self, sizes: &Sizes) -> Sizes {
        let mut sizes = sizes.clone();
        let rows = self.leaves.first().and_then(|leaf| leaf.shape.dims().first());
        if let Some(Ok(rows)) = rows.map(|rows| rows.value(&sizes)) {
            // A negative number of rows is reported when the call runs. So are more rows than memory can hold.
            sizes.set(&self.pairs, usize::try_from(rows.max(0)).unwrap_or(usize::MAX) / 2);
        }
        sizes
    }

    /// Computes the running combinations of the needed leaves. `ran` counts the batches of combinations.
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
        // In a forward scan, pairs begin at row 0; in a reverse scan, they end at the last row. The first row in the
        // order of the scan is therefore its own result. For an even count, the last row in that order is the result of
        // the last pair.
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
