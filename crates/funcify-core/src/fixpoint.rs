//! Rounds until nothing changes.

/// What a round of `next` gives again, from `start` on. It ends if rounds only add to something that is bounded.
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

/// The flags that are set in either.
pub(crate) fn union(one: &[bool], other: impl IntoIterator<Item = bool>) -> Vec<bool> {
    one.iter().zip(other).map(|(one, other)| *one || other).collect()
}
