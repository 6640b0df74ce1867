//! The rows of a small value by name.

use funcify::Value;

/// The first `N` rows: `let [a, b] = rows(w)`.
#[track_caller]
pub(super) fn rows<const N: usize>(value: Value) -> [Value; N] {
    std::array::from_fn(|row| value.index(0, row as i64))
}
