//! Indices out of range: reads clamp the index, writes of single elements are skipped, and slices are shifted into
//! range.

use funcify::DType;
use funcify::ops::ScatterMode;

use super::{Cases, INTEGERS, all, answer_cases, ints};

pub(super) fn cases() -> Cases {
    // Unsigned types have no negative indices, so their second index is 200 instead of -3.
    let far = |d: DType| if d == DType::I32 || d == DType::I64 { [10, -3] } else { [10, 200] };
    let edge = move |d: DType| if far(d)[1] < 0 { 0 } else { 3 };
    let x = || ints(DType::I64, [10, 11, 12, 13]);
    let operands = move |d| [x(), ints(d, [1, far(d)[0], far(d)[1], 3])];
    let of_updates = move |d| [x(), ints(d, [1, far(d)[0], far(d)[1], 1]), ints(DType::I64, [100, 200, 300, 400])];
    let picked = move |d| ints(DType::I64, [11, 13, 10 + edge(d), 13]);
    let starts = move |d| [x(), ints(d, far(d)), ints(DType::I64, [7, 8])];
    all([
        answer_cases("take_out_of_range", &INTEGERS, operands, |[x, indices]| x.take(0, indices), picked),
        answer_cases("gather_out_of_range", &INTEGERS, operands, |[x, indices]| x.gather(0, indices), picked),
        answer_cases(
            "scatter_set_out_of_range",
            &INTEGERS,
            of_updates,
            |[x, indices, updates]| x.scatter(0, indices, updates, ScatterMode::Set),
            |_| ints(DType::I64, [10, 400, 12, 13]),
        ),
        answer_cases(
            "scatter_add_out_of_range",
            &INTEGERS,
            of_updates,
            |[x, indices, updates]| x.scatter(0, indices, updates, ScatterMode::Add),
            |_| ints(DType::I64, [10, 511, 12, 13]),
        ),
        answer_cases(
            "dynamic_slice_past_the_end",
            &INTEGERS,
            starts,
            |[x, starts, _]| x.dynamic_slice(0, starts.index(0, 0), 2),
            |_| ints(DType::I64, [12, 13]),
        ),
        answer_cases(
            "dynamic_slice_before_the_start",
            &INTEGERS,
            starts,
            |[x, starts, _]| x.dynamic_slice(0, starts.index(0, 1), 3),
            move |d| if edge(d) == 0 { ints(DType::I64, [10, 11, 12]) } else { ints(DType::I64, [11, 12, 13]) },
        ),
        answer_cases(
            "dynamic_update_past_the_end",
            &INTEGERS,
            starts,
            |[x, starts, part]| x.dynamic_update(0, part, starts.index(0, 0)),
            |_| ints(DType::I64, [10, 11, 7, 8]),
        ),
    ])
}
