//! Lowers `argmax` to a kernel of this crate, because Candle's kernel ignores NaN and returns indices of type `U32`.

use super::prelude::*;
use crate::cpu::{is_nan, map_rows, with_element};

funcify!(Candle, ops::ArgMax, |call, [x]| argmax(&call, &x));

fn argmax(call: &Call<'_, ops::ArgMax>, x: &Tensor) -> Outcome {
    if x.dim(call.op.axis)? == 0 {
        let expected = "a non-empty axis";
        let error = call.place().mismatch("the operand", expected, format!("{:?}", x.dims()), "guard the empty case");
        return Err(Box::new(error));
    }
    if x.elem_count() == 0 {
        return call.backend.zeros(&output_shape(call)?, DType::I64);
    }
    with_element!(call, x, E => map_rows(call, x, &[call.op.axis], |row: &[E]| largest_at(row)))
}

/// Returns the index of the first NaN, or of the first maximum if there is no NaN.
fn largest_at<E: Copy + PartialOrd>(row: &[E]) -> i64 {
    let mut best = 0;
    for (position, element) in row.iter().enumerate() {
        if !is_nan(row[best]) && (*element > row[best] || is_nan(*element)) {
            best = position;
        }
    }
    best as i64
}
