//! The public functions `cond(predicate, || then, || otherwise)` and `switch(index, [&|| .., &|| ..])`.

use super::*;

use crate::tree;

/// Returns the results of `then` if the predicate, a boolean scalar, is true, or the results of `otherwise` if it is
/// false. Only the selected branch runs.
///
/// The results can be any [`Tree`], with the same structure and types in both branches. Each closure is traced once,
/// and may capture values of the enclosing graph.
///
/// To avoid NaN in gradients, move any computation whose derivative may be infinite or NaN into the branch that uses
/// its result. If the computation runs before the `cond` and that branch is not selected, the cotangent of its result
/// is 0, and 0 times an infinite derivative is NaN.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, cond, evaluate};
///
/// let safe_log = Graph::build("safe_log", |g| {
///     let x = g.input("x", "f32[]");
///     cond(x.gt(0.0), || x.log(), || x.zeros_like())
/// })?;
/// assert_eq!(evaluate(&safe_log, &[HostTensor::scalar(-1f32)])?[0], HostTensor::scalar(0f32));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn cond<T: Tree>(predicate: Value, then: impl FnOnce() -> T, otherwise: impl FnOnce() -> T) -> T {
    let at = Place::new("cond", Site::caller());
    let ty = predicate.ty();
    if !predicate.is_failed() && (ty.dtype != DType::Bool || ty.rank() != 0) {
        let fix = "compare, and reduce with `any(..)` or `all(..)`; to choose by element, use `select`";
        fail_mismatch(&at, &[predicate], "the predicate", "bool[]", &ty, fix);
    }
    let mut traced = Traced::new(at);
    let structure = traced.branch("the first branch", then);
    traced.branch("the second branch", otherwise);
    traced.branches.reverse();
    traced.finish(predicate, &structure)
}

/// Returns the results of the branch that `index` selects. The index is an integer scalar, and is clamped to the range
/// of branches. Only the selected branch runs.
///
/// The results can be any [`Tree`], with the same structure and types in all branches. Each closure is traced once, and
/// may capture values of the enclosing graph.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, switch};
///
/// let activation = Graph::build("activation", |g| {
///     let [kind, x] = [g.input("kind", "i64[]"), g.input("x", "f32[]")];
///     switch(kind, [&|| x, &|| x.tanh(), &|| x.maximum(0.0)])
/// })?;
/// let inputs = [HostTensor::scalar(2i64), HostTensor::scalar(-3f32)];
/// assert_eq!(evaluate(&activation, &inputs)?[0], HostTensor::scalar(0f32));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn switch<T: Tree, const N: usize>(index: Value, branches: [&dyn Fn() -> T; N]) -> T {
    const { assert!(N > 0, "a switch needs at least one branch") };
    let at = Place::new("switch", Site::caller());
    let ty = index.ty();
    if !index.is_failed() && (!ty.dtype.is_int() || ty.rank() != 0) {
        let fix = "cast it, or use `cond` for a boolean";
        fail_mismatch(&at, &[index], "the index", "an integer scalar", &ty, fix);
    }
    let mut traced = Traced::new(at);
    let structure = traced.branch("branch 0", branches[0]);
    for (number, branch) in branches.into_iter().enumerate().skip(1) {
        traced.branch(&format!("branch {number}"), branch);
    }
    traced.finish(index, &structure)
}

/// The branches that have been traced so far.
struct Traced {
    at: Place,
    branches: Vec<Result<ClosedBody, Failed>>,
    /// The names and types of the first branch's results.
    results: Option<Vec<(String, TensorType)>>,
}

impl Traced {
    fn new(at: Place) -> Self {
        Traced { at, branches: Vec::new(), results: None }
    }

    fn branch<T: Tree>(&mut self, name: &str, branch: impl FnOnce() -> T) -> T {
        let (trace, _) = BodyTrace::open(&self.at, "", &[]);
        let result = branch();
        let leaves = tree::leaves(&result, "out");
        self.check_results(name, &leaves);
        let closed = trace.close(&leaves).and_then(|body| reject_bound_sizes(&self.at, name, body));
        self.branches.push(closed);
        result
    }

    /// Checks that the results of a branch have the structure and the types of the first branch's results (switch-c2).
    /// The error names the leaf that differs. For the first branch, records its results instead.
    fn check_results(&mut self, branch: &str, leaves: &[(String, Value)]) {
        if leaves.iter().any(|(_, value)| value.is_failed()) {
            return;
        }
        let Some(first) = &self.results else {
            self.results = Some(leaves.iter().map(|(name, value)| (name.clone(), value.ty())).collect());
            return;
        };
        let (at, fix) = (&self.at, "return values of one structure from all branches");
        if check_names(at, &format!("the structure of the results of {branch}"), first, leaves, fix) {
            let broadcast = "reshape or broadcast one of them: branches are not broadcast";
            let fixes = ["one of them", broadcast, "return values of one type from all branches"];
            for ((name, expected), (_, value)) in first.iter().zip(leaves) {
                check_type(at, &format!("result `{name}` of {branch}"), expected, *value, fixes);
            }
        }
    }

    fn finish<T: Tree>(self, index: Value, structure: &T) -> T {
        let results = self.branches.into_iter().collect::<Result<Vec<_>, _>>().and_then(|closed| {
            let captures = closed.iter().flat_map(|body| body.captures.clone());
            let operands: Vec<Value> = std::iter::once(index).chain(captures).collect();
            let branches = closed.into_iter().map(|body| Arc::new(body.graph)).collect();
            emit_at(Switch { branches }, &operands, self.at.site)
        });
        tree::rebuild_or_failed(structure, results)
    }
}
