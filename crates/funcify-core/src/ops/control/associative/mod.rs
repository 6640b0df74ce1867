//! The associative scan: an inclusive prefix scan in logarithmic depth, like JAX's `lax.associative_scan`.
//!
//! In a forward scan, `y[0] = x[0]` and `y[t] = combine(y[t-1], x[t])`. In a reverse scan, `y[n-1] = x[n-1]` and `y[t]
//! = combine(y[t+1], x[t])`. `combine` is defined on single elements.
//!
//! - **associative-c1** all leaves have the same number of rows.
//! - **associative-c2** the rows of a leaf, the two parameters of `combine` for that leaf, and its result for that leaf
//!   all have the same type.
//! - **associative-c3** `combine` is associative. This is not checked. The order of the combinations is unspecified, so
//!   the result is unspecified if `combine` is not associative. For floats, the last bits of the result depend on the
//!   order even if `combine` is associative in exact arithmetic, because of rounding.
//!
//! Operands, in order: the leaves, whose rows are the elements, and the values that `combine` captures. Parameters of
//! `combine`: the leaves of the first element, the leaves of the second element, and the captured values. Results: for
//! each leaf, a tensor of the leaf's type.
//!
//! No backend has a lowering rule for the op. `AssociativeScan::sweeps` batches `combine` into two programs that
//! combine many pairs at once, and the runtime runs these programs in an odd-even recursion. For n elements, this takes
//! about 2n combinations in 2 log n batches. Backends that compile loops run the scan and its derivatives as a loop
//! with one combination per step.

mod batch;
mod bodied;
mod build;
mod grad;
mod jacobian;
mod parallel;
mod sequential;
mod stepwise;
mod sweeps;
mod text;

use super::*;

pub use build::{AssociativeScanOptions, associative_scan, associative_scan_with};

pub use sweeps::Sweeps;

use crate::ops::scan::stack_rows;

/// The associative scan: an inclusive prefix scan with an associative `combine`.
#[derive(Clone, Debug)]
pub struct AssociativeScan {
    /// The graph that combines two elements. The first of them is the accumulated element.
    pub combine: Arc<Graph>,
    /// The number of leaves of an element.
    pub leaves: usize,
    /// `true` if the scan starts at the last element.
    pub reverse: bool,
}

op_text!("associative_scan" => AssociativeScan);

impl AssociativeScan {
    /// Returns which parameters of `combine` depend on the operands that `wrt` marks.
    pub(crate) fn active(&self, wrt: &[bool]) -> Vec<bool> {
        let (of_leaves, of_captured) = wrt.split_at(self.leaves);
        let feeds: Vec<(usize, usize)> =
            (0..self.leaves).flat_map(|leaf| [(leaf, leaf), (leaf, self.leaves + leaf)]).collect();
        active_params(&self.combine, [of_leaves, of_leaves, of_captured].concat(), &feeds)
    }
}

impl OpRules for AssociativeScan {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let (leaves, params, results) = (self.leaves, self.combine.inputs().len(), self.combine.outputs().len());
        let fix =
            "give `combine` the leaves of both elements and its captured values, and return the leaves of one element";
        if leaves == 0 {
            return Err(at.mismatch("the list of leaves", "one leaf or more", "none", "scan over a tensor"));
        }
        if inputs.len() < leaves || params != inputs.len() + leaves {
            let expected = format!("{} parameters of `combine`, for {} operands", inputs.len() + leaves, inputs.len());
            return Err(at.mismatch("the operand list", expected, format!("{params} parameters"), fix));
        }
        if results != leaves {
            let (expected, found) = (format!("{leaves} values"), format!("{results} values"));
            return Err(at.mismatch("the result list of `combine`", expected, found, fix));
        }
        for (index, ty) in inputs[..leaves].iter().enumerate() {
            let name = format!("leaf {index}");
            let Some(row) = ty.row() else {
                let fix = "capture a value that all combinations share";
                return Err(at.mismatch(name, "rank 1 or more, to have elements", ty, fix));
            };
            // associative-c1
            let (rows, first) = (&ty.shape[0], &inputs[0].shape[0]);
            if rows != first {
                let expected = format!("{first} elements, like leaf 0");
                let fix = "slice the longer leaf, or give both one symbol";
                return Err(at.mismatch(name, expected, format!("{rows} elements, in {ty}"), fix));
            }
            // associative-c2
            let found = [
                ("the first element's parameter", self.combine.input_type(index)),
                ("the second element's parameter", self.combine.input_type(leaves + index)),
                ("the result of `combine`", self.combine.output_type(index)),
            ];
            for (what, found) in found {
                if *found != row {
                    let fix = "make the types equal, by a cast, a reshape or a broadcast";
                    return Err(at.mismatch(format!("{what} for {name}"), &row, found, fix));
                }
            }
        }
        let component = |index| format!("the parameter for captured value {index}");
        let (captured, fix) =
            (input_types(&self.combine).skip(2 * leaves), "give the parameter the type of the operand");
        check_types(at, &inputs[leaves..], captured, component, fix)?;
        Ok(inputs[..leaves].to_vec())
    }

    /// Combines the elements one by one, in the order of the scan.
    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let (xs, captured) = inputs.split_at(self.leaves);
        let count = xs[0].shape()[0];
        let mut elements: Vec<Vec<HostTensor>> = Vec::with_capacity(count);
        for step in 0..count {
            let t = if self.reverse { count - 1 - step } else { step };
            let element: Vec<HostTensor> = xs.iter().map(|leaf| leaf.row(t)).collect();
            let next = match elements.last() {
                None => element,
                Some(last) => {
                    let arguments = [last.as_slice(), &element, captured].concat();
                    let combined = evaluate_in(&self.combine, arguments, context.sizes);
                    combined.map_err(|error| error.in_step(&context.at, step))?
                }
            };
            elements.push(next);
        }
        if self.reverse {
            elements.reverse();
        }
        let leaf = |index: usize| {
            let rows: Vec<HostTensor> = elements.iter().map(|element| element[index].clone()).collect();
            stack_rows(context, self.combine.output_type(index), &rows)
        };
        (0..self.leaves).map(leaf).collect()
    }

    rules_of_modules!(batch, grad, grad);
}

#[cfg(test)]
mod tests {
    use crate::{Error, Graph, HostTensor, evaluate};

    /// Parses a reverse scan over two leaves. `combine` adds the two elements of leaf `a`, and returns the second
    /// element of leaf `b`.
    fn parse(a: &str, b: &str, row: &str) -> Result<Graph, Error> {
        Graph::parse(&format!(
            "fn @f(%a: {a}, %b: {b}) {{
               %y: {a}, %z: {b} = associative_scan %a, %b {{order=down}} {{
                 combine (%a_0: {row}, %b_0: {row}, %a_1: {row}, %b_1: {row}) {{
                   %0: {row} = add %a_0, %a_1
                   give %0, %b_1
                 }}
               }}
               return y=%y, z=%z
             }}"
        ))
    }

    #[track_caller]
    fn rejects(a: &str, b: &str, row: &str, expected: &str) {
        let error = parse(a, b, row).expect_err("the text is rejected").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn c1_leaves_have_the_same_number_of_rows() {
        rejects("f32[T]", "f32[T+1]", "f32[]", "T elements, like leaf 0");
        rejects("f32[]", "f32[]", "f32[]", "rank 1 or more");
    }

    #[test]
    fn c2_elements_have_one_type() {
        rejects("f32[T]", "f32[T]", "f32[2]", "the first element's parameter for leaf 0");
    }

    #[test]
    fn downward_begins_at_the_last_element() {
        let graph = parse("f32[T]", "f32[T]", "f32[]").unwrap();
        let text = graph.to_string();
        assert_eq!(Graph::parse(&text).unwrap().to_string(), text);
        assert!(crate::to_dot(&graph).contains("label=\"combine\""));
        let xs = HostTensor::from([1f32, 2., 3.]);
        let results = evaluate(&graph, &[xs.clone(), xs.clone()]).unwrap();
        assert_eq!(results, [HostTensor::from([6f32, 5., 3.]), xs]);
    }
}
