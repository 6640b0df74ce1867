//! Iterates until nothing changes.

/// Applies `next` to `start` repeatedly and returns the first value that `next` leaves unchanged. Terminates if `next`
/// only ever adds elements to a bounded set.
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

/// Returns the elementwise "or" of two lists of flags.
pub(crate) fn or_flags(one: &[bool], other: impl IntoIterator<Item = bool>) -> Vec<bool> {
    one.iter().zip(other).map(|(one, other)| *one || other).collect()
}
