//! `bind_size` binds a size symbol to an integer that the program computes. It is the inverse of `size`.
//!
//! Invariants, cited where they are enforced and tested:
//!
//! - **bind-c1** the symbol is unbound before the op, and bound in all later nodes and their bodies (graph-c7). In a
//!   loop's body, each step binds the symbol again, and no result of the body has the symbol in its type.
//! - **bind-c2** a negative number is a run-time error, returned before any tensor of that size is allocated. If the
//!   symbol is unused, the op is dead code and does not run.
//! - **bind-c3** the op runs on the host, which reads the number from the device. If the number is known when the
//!   program is built, the symbol is bound at that time.

use crate::graph::tracer::{SizeByLane, add_size_by_lane};
use crate::graph::{emit, fresh_symbol};
use crate::ops::rules::*;
use crate::types::Symbol;
use crate::vmap::ragged;

/// The op that binds a symbol to the value of an integer scalar. It has no results.
#[derive(Clone, PartialEq, Debug)]
pub struct BindSize {
    /// The symbol that the op binds.
    pub size: Symbol,
}

op_text!("bind_size" => BindSize { size });

impl BindSize {
    /// Converts a number to a size, or returns an error if it is negative (bind-c2).
    #[doc(hidden)]
    pub fn checked(&self, at: &Place, number: i64) -> Result<usize> {
        usize::try_from(number).map_err(|_| {
            let fix = "give a number that is 0 or more, such as `n.maximum(0)`";
            at.mismatch(format!("the size `{}`", self.size), "0 or more", number, fix)
        })
    }
}

impl OpRules for BindSize {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [number] = arity(at, inputs)?;
        if !number.dtype.is_int() || number.rank() != 0 {
            let fix = "pass an integer scalar: cast it, or reduce it to one number";
            return Err(at.mismatch("the size", "an integer scalar", &number, fix));
        }
        Ok(Vec::new())
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let size = self.checked(&context.at, inputs[0].get(0).as_i64())?;
        context.sizes.set(&self.size, size);
        Ok(Vec::new())
    }

    /// Binds a fresh symbol to the largest size of any lane, and records the sizes of all lanes for `vmap::ragged`.
    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let counts = ragged::counts_of_running_lanes(operands[0].value.cast(DType::I64));
        let fresh = fresh_symbol();
        emit(BindSize { size: fresh.clone() }, &[ragged::largest(counts)])?;
        let (symbol, largest) = (self.size.clone(), Dim::symbol(&fresh));
        add_size_by_lane(SizeByLane { symbol, counts, largest, at_most: None, at_least: 0 });
        Ok(Vec::new())
    }

    no_derivative_rules!();
}

#[cfg(test)]
mod tests {
    use crate::Graph;
    use crate::ops::testing::rejects;

    #[test]
    fn takes_an_integer_scalar() {
        rejects("bind_size {size=$1}", &["f32[]"], "an integer scalar");
        rejects("bind_size {size=$1}", &["i64[1]"], "an integer scalar");
        rejects("bind_size {size=$1}", &["i64[]", "i64[]"], "1 operands");
        let text = |size: &str| format!("fn @f(%n: i64[]) {{\n  bind_size %n {{size={size}}}\n  return\n}}");
        assert!(Graph::parse(&text("$1")).is_ok());
        for size in ["3", "$1+1"] {
            let error = Graph::parse(&text(size)).unwrap_err().to_string();
            assert!(error.contains("`size` as a symbol such as `$1`"), "{error}");
        }
    }
}
