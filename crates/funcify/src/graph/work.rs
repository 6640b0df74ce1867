//! How much the passes do, counted for tests: a node that is added, or gone through, is one unit of work.

#[cfg(test)]
thread_local! {
    static DONE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// One unit of work.
pub(crate) fn count() {
    #[cfg(test)]
    DONE.with(|done| done.set(done.get() + 1));
}

/// How much work `f` is, with its result.
#[cfg(test)]
pub(crate) fn of<R>(f: impl FnOnce() -> R) -> (R, usize) {
    let before = DONE.with(std::cell::Cell::get);
    let result = f();
    (result, DONE.with(std::cell::Cell::get) - before)
}
