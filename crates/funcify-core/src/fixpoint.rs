//! Computes the fixpoint of a function by applying it repeatedly.

/// Applies `next` repeatedly, starting with `start`, until the value no longer changes, and returns that value.
/// Terminates if `next` only ever adds elements of a finite set to its argument.
pub(crate) fn fixpoint<T: PartialEq>(start: T, mut next: impl FnMut(&T) -> T) -> T {
    let mut now = start;
    loop {
        let then = next(&now);
        if then == now {
            return now;
        }
        now = then;
    }
}

/// Returns the elementwise OR of two lists of flags.
pub(crate) fn or_flags(one: &[bool], other: impl IntoIterator<Item = bool>) -> Vec<bool> {
    one.iter().zip(other).map(|(one, other)| *one || other).collect()
}
