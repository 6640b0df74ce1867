//! Inserts a graph into the program being traced.

use super::bind::{Match, SizeMismatch, size_fix, solve};
use super::tracer::check;
use super::*;

impl Graph {
    /// Inserts this graph into the program being traced and returns its outputs. `inputs` contains one value per input
    /// of the graph, in order.
    ///
    /// The symbols of the graph are replaced with the corresponding sizes of the values. These sizes may contain
    /// symbols of the surrounding program: an input of type `f32[N]` accepts an `f32[2*T]`. Dead nodes of the graph are
    /// left out. A graph can be applied wherever an op can be added: in the body of a loop, under `vmap`, or in a
    /// function that is differentiated.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, scan};
    ///
    /// let cell = Graph::build("cell", |g| (g.input("h", "f32[N]") * g.input("a", "f32[N]") + g.input("x", "f32[N]")).tanh())?;
    /// let network = Graph::build("network", |g| {
    ///     let [xs, h, a] = [g.input("xs", "f32[T,3]"), g.input("h", "f32[3]"), g.input("a", "f32[3]")];
    ///     scan(h, xs, |h, x| (cell.apply(&[h, a, x])[0], ())).0
    /// })?;
    /// assert_eq!(network.output_type(0).to_string(), "f32[3]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Building the program fails if the number of values, or the dtype or rank of a value, does not match the
    /// inputs, or if the sizes disagree.
    #[track_caller]
    pub fn apply(&self, inputs: &[Value]) -> Vec<Value> {
        let site = Site::caller();
        or_failed(self.try_apply(site, inputs), self.outputs().len())
    }

    fn try_apply(&self, site: Site, inputs: &[Value]) -> Result<Vec<Value>, Failed> {
        check(self.name(), site, inputs.iter().copied())?;
        let sizes = self.sizes_of(&Place::new(self.name(), site), inputs);
        let sizes = sizes.map_err(|error| fail(self.name(), site, inputs, |_| error))?;
        inline(&self.with_fresh_symbols().resized(&sizes), inputs)
    }

    /// Determines the sizes of the symbols in the input types from the shapes of the given values.
    fn sizes_of(&self, at: &Place, inputs: &[Value]) -> Result<BTreeMap<Symbol, Dim>> {
        self.checked()?;
        if inputs.len() != self.inputs().len() {
            let fix = "pass one value per input, in order";
            return Err(at.mismatch("the inputs", self.inputs().len(), inputs.len(), fix));
        }
        let mut sizes = BTreeMap::new();
        let mut pending = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            let (expected, found) = (self.input_type(index), input.ty());
            if expected.dtype != found.dtype || expected.rank() != found.rank() {
                return Err(self.argument_mismatch(at, index, &found, "pass a value of that dtype and rank"));
            }
            let dims = expected.shape.dims().iter().cloned().zip(found.shape.dims().to_vec());
            pending.extend(dims.map(|(expected, found)| (index, expected, found)));
        }
        let solved = solve(pending, |expected, found| match solve_symbol(expected, found, &sizes) {
            Some((symbol, size)) => {
                sizes.insert(symbol, size);
                Match::Equal
            }
            None if expected.symbols().into_iter().any(|symbol| !sizes.contains_key(symbol)) => Match::Undetermined,
            None if expected.replaced(&sizes) == *found => Match::Equal,
            None => Match::Different,
        });
        let (index, fix) = match solved {
            Ok(()) => return Ok(sizes),
            Err(SizeMismatch { index, undetermined: None }) => (index, size_fix("value", sizes.iter())),
            Err(SizeMismatch { index, undetermined: Some(dim) }) => {
                (index, format!("declare inputs in which each symbol of `{dim}` is a dimension by itself"))
            }
        };
        Err(self.argument_mismatch(at, index, &inputs[index].ty(), &fix))
    }

    fn argument_mismatch(&self, at: &Place, index: usize, found: &TensorType, fix: &str) -> Error {
        at.mismatch(format!("input {index} (`{}`)", self.input_name(index)), self.input_type(index), found, fix)
    }
}

/// Solves `expected == found` for the only symbol of `expected` whose size is unknown. Returns `None` if the equation
/// does not determine it.
fn solve_symbol(expected: &Dim, found: &Dim, sizes: &BTreeMap<Symbol, Dim>) -> Option<(Symbol, Dim)> {
    let is_new = |symbol: &Symbol| !sizes.contains_key(symbol);
    if let Some(symbol) = expected.as_symbol() {
        return is_new(symbol).then(|| (symbol.clone(), found.clone()));
    }
    // Otherwise, the equation can be solved only if `found` and all known sizes are constants: `2*T == 6` yields `T =
    // 3`.
    if !expected.symbols().into_iter().all(|symbol| sizes.get(symbol).is_none_or(|size| size.constant().is_some())) {
        return None;
    }
    let (symbol, size) = expected.replaced(sizes).solve(found.constant()?)?;
    is_new(&symbol).then(|| (symbol, Dim::from(size)))
}

#[cfg(test)]
mod tests {
    use crate::error::Site;
    use crate::{DType, Dim, Error, GradOptions, Graph, HostTensor, Value, VmapOptions, evaluate, iota, scan};

    /// Builds a graph with a loop over `N` rows. `N` also occurs in the attributes and result types of other ops.
    fn running() -> Graph {
        let graph = Graph::build("running", |g| {
            let (xs, a) = (g.input("xs", "f64[N]"), g.input("a", "f64[2*N]"));
            let (_, sums) = scan(xs.index(0, 0).zeros_like(), xs, |sum, x| (sum * 0.5 + x, sum));
            (sums + iota("N", DType::F64)).broadcast_to([2.into(), Dim::from("N")]).reshape(a.shape()) * a
        });
        graph.unwrap()
    }

    /// Checks that applying a graph to vectors of `N + 1` and `2 * N + 2` elements returns the same results as
    /// evaluating the graph on such vectors.
    #[test]
    fn a_graph_takes_the_sizes_of_its_values() {
        let one = running();
        let longer = |xs: Value| crate::concat(&[xs, xs.slice(0, 0..1)], 0);
        let applied = Graph::build("applied", |g| {
            let xs = longer(g.input("xs", "f64[N]"));
            one.apply(&[xs, crate::concat(&[xs, xs], 0)])
        });
        let applied = applied.unwrap();
        assert!(applied.check().is_ok(), "{applied}");
        assert_eq!(applied.output_type(0).to_string(), "f64[2*N+2]");
        let xs = HostTensor::from([1.0, 2.0, 3.0]);
        let same = [HostTensor::from([1.0, 2.0, 3.0, 1.0]), HostTensor::from([1.0, 2.0, 3.0, 1.0, 1.0, 2.0, 3.0, 1.0])];
        assert_eq!(evaluate(&applied, &[xs]).unwrap(), evaluate(&one, &same).unwrap());
    }

    #[test]
    fn a_graph_is_differentiated_and_batched_where_it_stands() {
        let one = running();
        let sum =
            Graph::build("sum", |g| one.apply(&[g.input("xs", "f64[3]"), g.input("a", "f64[6]")])[0].sum(0)).unwrap();
        let gradient =
            sum.grad("xs", GradOptions::new()).unwrap().vmap(2, VmapOptions::new().in_axes([("xs", 0)])).unwrap();
        let (row, ones) = (HostTensor::from([1.0, 2.0, 3.0]), HostTensor::from([1.0; 6]));
        let rows = HostTensor::from([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]);
        let of_row =
            evaluate(&sum.grad("xs", GradOptions::new()).unwrap(), &[row, ones.clone()]).unwrap()[0].to_f64_vec();
        // Row `i` of `xs` has weight 1 in partial sum `i + 1`, weight 1/2 in partial sum `i + 2`, and so on. The result
        // contains each partial sum twice, which doubles the weights.
        assert_eq!(of_row, [3.0, 2.0, 0.0]);
        assert_eq!(evaluate(&gradient, &[rows, ones]).unwrap()[0].to_f64_vec(), [3.0, 2.0, 0.0, 3.0, 2.0, 0.0]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let one = running();
        let error = |types: &[&str]| {
            let names: Vec<String> = (0..types.len()).map(|index| format!("v{index}")).collect();
            let built = Graph::build("wrong", |g| {
                let inputs: Vec<Value> = types.iter().zip(&names).map(|(ty, name)| g.input(name, *ty)).collect();
                one.apply(&inputs)
            });
            match built {
                Err(Error::Type { at, component, expected, found, fix }) => {
                    assert!(matches!(at.site, Site::Rust(line) if line.file().ends_with("apply.rs")));
                    format!("{component}: {expected}, not {found}: {fix}")
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(error(&["f64[3]"]), "the inputs: 2, not 1: pass one value per input, in order");
        assert_eq!(
            error(&["f64[3]", "f32[6]"]),
            "input 1 (`a`): f64[2*N], not f32[6]: pass a value of that dtype and rank"
        );
        assert_eq!(
            error(&["f64[N]", "f64[N]"]),
            "input 1 (`a`): f64[2*N], not f64[N]: pass a value whose shape agrees with N = N"
        );
    }
}
