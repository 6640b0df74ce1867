//! Category `scan`: a carry, sequences, stacked outputs.

use funcify::scan;

use super::{Inputs, Outputs, Program, outputs};

pub(super) const PROGRAMS: &[(&str, Program)] = &[("cumsum", cumsum), ("cumsum_f64", cumsum)];

fn cumsum(g: &Inputs<'_>) -> Outputs {
    let [init, xs] = g.get(["init", "xs"]);
    let (carry, ys) = scan(init, xs, |c, x| (c + x, c + x));
    outputs! { carry, ys }
}
