//! The switch op, which runs one of several branches.
//!
//! - **switch-c1** the index is an integer scalar, which is clamped to the range of branches. If the switch has two
//!   branches, the index may also be a boolean scalar, and `false` selects the first branch.
//! - **switch-c2** all branches have the same number of results, of exactly the same types.
//! - **switch-c3** only the selected branch runs.
//!
//! Operands, in order: the index, the operands of the first branch, the operands of the second branch, and so on. A
//! value that two branches use appears twice among the operands. Results: the results of the selected branch.
//!
//! No backend has a lowering rule for the op. Unless the backend compiles the switch as part of a loop or of the whole
//! program, the host reads the index and runs the program of the selected branch.

mod batch;
mod bodied;
mod build;
mod grad;
mod text;

use super::*;

pub use build::{cond, switch};

/// An op that runs one of several branches, selected by its first operand, the index.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The graphs of the branches.
    pub branches: Vec<Arc<Graph>>,
}

op_text!("switch" => Switch);

impl Switch {
    /// Returns, for each branch, the index range of its operands.
    pub fn operands(&self) -> Vec<Range<usize>> {
        let mut next = 1;
        let take = |branch: &Arc<Graph>| {
            let start = next;
            next += branch.inputs().len();
            start..next
        };
        self.branches.iter().map(take).collect()
    }

    /// Traces a new version of each branch with `f`, and returns a switch with the new branches, together with its
    /// operands. `f` receives the position, the graph and the operand range of each old branch.
    fn retrace(
        &self,
        index: Value,
        mut f: impl FnMut(usize, &Graph, Range<usize>) -> Result<Vec<(String, Value)>, Failed>,
    ) -> Result<(Switch, Vec<Value>), Failed> {
        let (mut branches, mut operands) = (Vec::with_capacity(self.branches.len()), vec![index]);
        for (number, (branch, places)) in self.branches.iter().zip(self.operands()).enumerate() {
            let closed = trace_body("switch", branch.name(), &[], |_| f(number, branch, places))?;
            branches.push(Arc::new(closed.graph));
            operands.extend(closed.captures);
        }
        Ok((Switch { branches }, operands))
    }

    /// Returns the position of the branch that `index` selects: `index`, clamped to the range of branches (switch-c1).
    pub fn selected_branch(&self, index: i64) -> usize {
        crate::ops::clamp_index(index, self.branches.len())
    }
}

impl OpRules for Switch {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let Some(first) = self.branches.first() else {
            return Err(at.mismatch("the list of branches", "one branch or more", "none", "add a branch"));
        };
        let places = self.operands();
        let count = places.last().map_or(1, |range| range.end);
        if inputs.len() != count {
            let (expected, found) = (format!("{count} operands"), format!("{} operands", inputs.len()));
            let fix = "pass the index and the operands of the branches";
            return Err(at.mismatch("the operand list", expected, found, fix));
        }
        self.check_index(at, &inputs[0])?;
        let results: Vec<TensorType> = output_types(first).cloned().collect();
        for (number, (branch, places)) in self.branches.iter().zip(places).enumerate() {
            let component = |index| format!("parameter {index} of branch {number}");
            let fix = "give the parameter the type of the operand";
            check_types(at, &inputs[places], input_types(branch), component, fix)?;
            if branch.outputs().len() != results.len() {
                let (expected, found) = (results.len(), branch.outputs().len());
                let component = format!("the list of results of branch {number}");
                let fix = "return the same number of results from all branches";
                return Err(at.mismatch(component, format!("{expected} values"), format!("{found} values"), fix));
            }
            let component = |index| format!("result {index} of branch {number}");
            let fix = "make the types equal, by a cast, a reshape or a broadcast";
            check_types(at, &results, output_types(branch), component, fix)?;
        }
        Ok(results)
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        // switch-c3
        let chosen = self.selected_branch(inputs[0].get(0).as_i64());
        evaluate_in(&self.branches[chosen], inputs[self.operands()[chosen].clone()].to_vec(), context.sizes)
    }

    rules_of_modules!(batch, grad, grad);
}

impl Switch {
    /// Checks the type of the index and, for a boolean, the number of branches (switch-c1).
    fn check_index(&self, at: &Place, ty: &TensorType) -> Result<()> {
        if ty.rank() != 0 || !(ty.dtype.is_int() || ty.dtype == DType::Bool) {
            let fix = "pass a scalar; compare or cast to get one";
            return Err(at.mismatch("the index", "an integer or boolean scalar", ty, fix));
        }
        if ty.dtype == DType::Bool && self.branches.len() != 2 {
            let (found, fix) = (format!("{} branches", self.branches.len()), "use an integer index");
            return Err(at.mismatch("the list of branches", "2 branches, for a boolean index", found, fix));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Graph, HostTensor, Tree, Value, cond, evaluate, switch};

    fn check<T: Tree>(program: impl Fn(Value, Value) -> T, index: HostTensor, expected: [f32; 2]) {
        let ty = index.ty();
        let graph = Graph::build("choice", |g| program(g.input("index", &ty), g.input("x", "f32[2]"))).unwrap();
        assert!(graph.check().is_ok());
        let results = evaluate(&graph, &[index, HostTensor::from([1f32, 2.])]).unwrap();
        assert_eq!(results, [HostTensor::from(expected)]);
    }

    #[test]
    fn c1_the_index_is_clamped() {
        let program = |index, x: Value| switch(index, [&|| x, &|| x * 2.0, &|| x * 3.0]);
        check(program, HostTensor::scalar(1i64), [2., 4.]);
        check(program, HostTensor::scalar(-5i32), [1., 2.]);
        check(program, HostTensor::scalar(9u8), [3., 6.]);
    }

    #[test]
    fn c1_true_is_the_first_of_cond() {
        let program = |index, x: Value| cond(index, || x + 1.0, || -x);
        check(program, HostTensor::scalar(true), [2., 3.]);
        check(program, HostTensor::scalar(false), [-1., -2.]);
    }

    #[test]
    fn c3_the_other_branch_does_not_run() {
        let program = |index, x: Value| {
            cond(
                index,
                || x,
                || {
                    let steps = x.sum(0).cast(DType::I64) - 10;
                    let mut loop_ = crate::Recurrence::new();
                    let carry = loop_.carry(x);
                    let done = loop_.steps_value(steps).run(|step| {
                        let next = step.read(&carry);
                        step.write(&carry, next);
                    });
                    done.last(&carry)
                },
            )
        };
        check(program, HostTensor::scalar(true), [1., 2.]);
    }
}
