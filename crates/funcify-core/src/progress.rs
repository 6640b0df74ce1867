//! The progress that a call made before it was cancelled.

use std::fmt;

/// The progress that a call made before it was cancelled.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::error::Progress;
///
/// assert_eq!(Progress::Steps(3).to_string(), "3 steps");
/// assert_eq!(Progress::Uncounted.count(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The number of completed steps of a loop.
    Steps(usize),
    /// The number of completed ops of straight-line code: a program without loops, or an unrolled loop.
    Ops(usize),
    /// An unknown number of steps, because the loop does not count them while it runs.
    Uncounted,
}

impl Progress {
    /// Returns the number of completed steps or ops, or 0 if they are not counted.
    pub fn count(self) -> usize {
        match self {
            Progress::Steps(count) | Progress::Ops(count) => count,
            Progress::Uncounted => 0,
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = match self {
            Progress::Steps(count) => (count, "step"),
            Progress::Ops(count) => (count, "op"),
            Progress::Uncounted => return f.write_str("some of its steps"),
        };
        write!(f, "{count} {unit}{}", if *count == 1 { "" } else { "s" })
    }
}
