//! Errors: which op, where in the user's program, which component, what was found, what to do.

use std::fmt;
use std::panic::Location;

/// A place in the user's program: the call that made an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Site {
    /// A line of Rust, recorded by `#[track_caller]`.
    Rust(&'static Location<'static>),
    /// A line of a `.fir` text, counted from 1.
    Text {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// There is no place: the op was made by a transformation.
    #[default]
    Unknown,
}

impl Site {
    /// The place of the caller.
    #[track_caller]
    pub fn caller() -> Self {
        Site::Rust(Location::caller())
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Rust(location) => write!(f, "{location}"),
            Site::Text { line, column } => write!(f, "line {line}, column {column}"),
            Site::Unknown => f.write_str("an unknown place"),
        }
    }
}

/// What an error is about: an op, the user's line that made it, and the graph around it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Place {
    /// The op's name, or the function's for errors outside an op.
    pub op: String,
    /// The user's line.
    pub site: Site,
    /// The last lines of the graph before the op, and the op itself, in the text form. Of a text that does not parse: the
    /// line, and a line with a caret below the place.
    pub excerpt: Vec<String>,
    /// The file of a text, if it was read from one.
    pub file: Option<String>,
}

impl Place {
    /// The place of `op` at `site`, without an excerpt.
    pub fn new(op: impl Into<String>, site: Site) -> Self {
        Place { op: op.into(), site, excerpt: Vec::new(), file: None }
    }

    /// A component whose type is not what the op needs.
    pub fn mismatch(
        &self,
        component: impl Into<String>,
        expected: impl fmt::Display,
        found: impl fmt::Display,
        fix: impl Into<String>,
    ) -> Error {
        Error::Type {
            at: self.boxed(),
            component: component.into(),
            expected: expected.to_string(),
            found: found.to_string(),
            fix: fix.into(),
        }
    }

    /// A copy on the heap, as the errors hold it.
    pub fn boxed(&self) -> Box<Place> {
        Box::new(self.clone())
    }

    /// Makes the error of a number of steps that cannot be used.
    pub(crate) fn step_count(&self, reason: impl Into<String>, fix: impl Into<String>) -> Error {
        Error::StepCount { at: self.boxed(), reason: reason.into(), fix: fix.into() }
    }
}

/// What a backend's own library reports.
pub type BackendError = Box<dyn std::error::Error + Send + Sync>;

/// Every way in which funcify refuses. Its text names the op, the component, what was expected and found,
/// the fix, and the user's line.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A component has a type, a structure or an attribute that the op does not allow.
    #[error("{}", report(at, format!("{component} does not fit"), &[("expected", expected), ("found", found)], fix))]
    Type {
        /// The op and its place.
        at: Box<Place>,
        /// Which operand, attribute or leaf.
        component: String,
        /// What the op needs.
        expected: String,
        /// What it got.
        found: String,
        /// What to change.
        fix: String,
    },

    /// A tap that the loop does not allow.
    #[error("{}", report(at, format!("{component} has a tap that is not allowed"), &[("tap", &tap.to_string()), ("rule", rule)], fix))]
    Tap {
        /// The op and its place.
        at: Box<Place>,
        /// Which sequence, state or buffer.
        component: String,
        /// The tap.
        tap: i64,
        /// The rule that it breaks.
        rule: String,
        /// What to change.
        fix: String,
    },

    /// The number of steps is missing, negative, or two parts of the loop disagree about it.
    #[error("{}", report(at, "there is no usable number of steps".into(), &[("reason", reason)], fix))]
    StepCount {
        /// The op and its place.
        at: Box<Place>,
        /// What is missing or disagrees, with both numbers.
        reason: String,
        /// What to change.
        fix: String,
    },

    /// A step would touch a row outside its tensor.
    #[error("{}", report(at, format!("{component} has too few rows"), &[("needed", needed), ("found", found)], fix))]
    Rows {
        /// The op and its place.
        at: Box<Place>,
        /// Which sequence or buffer.
        component: String,
        /// How many rows the steps touch.
        needed: String,
        /// How many there are.
        found: String,
        /// What to change.
        fix: String,
    },

    /// A value was used outside the graph or the loop body in which it was made.
    #[error("{}", report(at, format!("{component} belongs to another body"), &[("made in", home)], fix))]
    Escaped {
        /// The op and its place.
        at: Box<Place>,
        /// Which operand.
        component: String,
        /// The body in which the value was made.
        home: String,
        /// What to change.
        fix: String,
    },

    /// A name that is not an identifier, or is used twice.
    #[error("{}", report(at, format!("{component} has a name that cannot be used"), &[("name", name), ("rule", rule)], fix))]
    Name {
        /// The op and its place.
        at: Box<Place>,
        /// What has the name.
        component: String,
        /// The name.
        name: String,
        /// The rule that it breaks.
        rule: String,
        /// What to change.
        fix: String,
    },

    /// A `.fir` text, or a type, that does not follow the grammar.
    #[error("{}", report(at, "the text does not parse".into(), &[("expected", expected), ("found", found)], fix))]
    Parse {
        /// The place in the text.
        at: Box<Place>,
        /// What the grammar allows there.
        expected: String,
        /// What stands there.
        found: String,
        /// What may have been meant; empty if nothing is near.
        fix: String,
    },

    /// A graph breaks one of the invariants that the checker lists.
    #[error("{}", report(at, format!("{component} breaks an invariant of the graph"), &[("invariant", invariant), ("found", found)], "rebuild the graph with the builder or the parser, which keep it"))]
    Invalid {
        /// The op and its place.
        at: Box<Place>,
        /// The invariant, by number.
        invariant: String,
        /// Which value, node or attribute.
        component: String,
        /// What was found.
        found: String,
    },

    /// A derivative is asked for where there is no rule for it.
    #[error("{}", report(at, format!("{component} has no derivative"), &[("reason", reason)], fix))]
    NoDerivative {
        /// The op and its place.
        at: Box<Place>,
        /// Which operand or result.
        component: String,
        /// Why there is none.
        reason: String,
        /// What to use in its place.
        fix: String,
    },

    /// A gradient is asked for where no path leads to the input.
    #[error("{}", report(at, format!("{component} is disconnected from the result"), &[("reason", reason)], fix))]
    Disconnected {
        /// The function that was asked.
        at: Box<Place>,
        /// Which input.
        component: String,
        /// Where the paths from the input end.
        reason: String,
        /// What to change.
        fix: String,
    },

    /// A part of a program needs more than the steps so far, so the program is not one step at a time.
    #[error("{}", report(at, format!("{component} cannot be computed one step at a time"), &[("reason", reason)], fix))]
    NotSteppable {
        /// The op and its place.
        at: Box<Place>,
        /// Which result, operand, input or output.
        component: String,
        /// What it needs.
        reason: String,
        /// What to change.
        fix: String,
    },

    /// No crate that is linked has a lowering rule of the op for the backend.
    #[error("{}", report(at, format!("backend `{backend}` has no lowering rule for `{}`", at.op), &[], fix))]
    NoLoweringRule {
        /// The op and its place.
        at: Box<Place>,
        /// The backend.
        backend: String,
        /// What to change.
        fix: String,
    },

    /// A loop must be unrolled, and its number of steps is not static.
    #[error("{}", report(at, format!("backend `{backend}` unrolls loops, and this one has no static number of steps"), &[("reason", reason)], fix))]
    StepCountNotStatic {
        /// The op and its place.
        at: Box<Place>,
        /// The backend.
        backend: String,
        /// Where the number of steps comes from.
        reason: String,
        /// What to change.
        fix: String,
    },

    /// Unrolling would give a program with more kernels than the limit.
    #[error("{}", report(at, format!("unrolling for backend `{backend}` passes the limit"), &[("kernels", &kernels.to_string()), ("limit", &limit.to_string())], fix))]
    ProgramTooLarge {
        /// The op and its place.
        at: Box<Place>,
        /// The backend.
        backend: String,
        /// How many kernels the program has where the limit is passed.
        kernels: usize,
        /// The limit.
        limit: usize,
        /// What to change.
        fix: String,
    },

    /// Tensors would take more than the memory budget. Nothing was allocated for them.
    #[error("{}", report(at, format!("{what} would pass the memory budget"), &[("needed", &budget_facts(*needed, *held)), ("budget", &shown_bytes(*budget))], "use smaller sizes or fewer steps, or raise `CompileOptions::memory_budget` or FUNCIFY_MEMORY_BUDGET"))]
    OverBudget {
        /// The op and its place.
        at: Box<Place>,
        /// The tensors.
        what: String,
        /// How many bytes they take, at least.
        needed: u64,
        /// How many bytes the program holds beside them.
        held: u64,
        /// The budget, in bytes.
        budget: u64,
    },

    /// The backend's device cannot hold or compute this.
    #[error("{}", report(at, format!("backend `{backend}` does not support {what}"), &[("reason", reason)], fix))]
    Unsupported {
        /// The op and its place.
        at: Box<Place>,
        /// The backend.
        backend: String,
        /// What it does not support: a dtype, a rank, a mode of an op.
        what: String,
        /// Why.
        reason: String,
        /// What to change.
        fix: String,
    },

    /// The registered lowering rules or backends are inconsistent.
    #[error("{}", report(at, format!("the registry cannot serve backend `{backend}`"), &[("problem", problem)], fix))]
    Registry {
        /// The function that asked.
        at: Box<Place>,
        /// The backend.
        backend: String,
        /// Duplicates, emptiness, or an unknown name.
        problem: String,
        /// What to change.
        fix: String,
    },

    /// The backend is linked, and its device is not there.
    #[error("{}", report(at, format!("backend `{backend}` is absent on this machine"), &[("reason", reason)], fix))]
    Absent {
        /// The function that asked.
        at: Box<Place>,
        /// The backend.
        backend: String,
        /// What is missing.
        reason: String,
        /// What to install.
        fix: String,
    },

    /// The arguments of a call do not fit the program's inputs.
    #[error("{}", report(at, format!("{component} does not fit the program"), &[("expected", expected), ("found", found)], fix))]
    Call {
        /// The program.
        at: Box<Place>,
        /// Which argument.
        component: String,
        /// What the program takes.
        expected: String,
        /// What the call gave.
        found: String,
        /// What to change.
        fix: String,
    },

    /// A kernel of the backend failed while running.
    #[error("{}", report(at, format!("backend `{backend}` failed while running `{}`", at.op), &[("message", &source.to_string())], ""))]
    Execution {
        /// The op and its place.
        at: Box<Place>,
        /// The backend.
        backend: String,
        /// What the backend's library reported.
        source: BackendError,
    },

    /// What the backend made of a program does not compute what the program means: a fault of funcify or of the backend. Nothing
    /// was computed with it.
    #[error("{}", report(at, format!("internal error: what backend `{backend}` made of `{}` is wrong", at.op), &[("fault", fault)], fix))]
    Internal {
        /// The program or loop and its place.
        at: Box<Place>,
        /// The backend.
        backend: String,
        /// What is wrong, and the instructions that make it so.
        fault: String,
        /// What to do.
        fix: String,
    },

    /// What ran was stopped, by a [`Cancellation`](crate::Cancellation).
    #[error("{}", report(at, format!("stopped after {ran}"), &[("reason", reason), ("within", &within.join(", "))], ""))]
    Cancelled {
        /// The innermost loop that ran, or the next op of a straight line.
        at: Box<Place>,
        /// How far it was.
        ran: Ran,
        /// The loops around it, with their steps, from the innermost.
        within: Vec<String>,
        /// Who stopped it.
        reason: String,
    },

    /// A file could not be read or written, or holds something else.
    #[error("{}", report(at, format!("file `{path}` cannot be used"), &[("reason", reason)], fix))]
    File {
        /// The function.
        at: Box<Place>,
        /// The file.
        path: String,
        /// Why.
        reason: String,
        /// What to do; empty if the reason says it.
        fix: String,
    },
}

/// How far something was when it was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    /// The steps of a loop that were done.
    Steps(usize),
    /// The ops of a straight line that were done: of a program without loops, or of loops that are unrolled.
    Ops(usize),
    /// Part of what runs as a whole, which does not count its steps.
    Part,
}

impl Ran {
    /// The number; 0 of what does not count.
    pub fn count(self) -> usize {
        match self {
            Ran::Steps(count) | Ran::Ops(count) => count,
            Ran::Part => 0,
        }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = match self {
            Ran::Steps(count) => (count, "step"),
            Ran::Ops(count) => (count, "op"),
            Ran::Part => return f.write_str("some of its steps"),
        };
        write!(f, "{count} {unit}{}", if *count == 1 { "" } else { "s" })
    }
}

/// What most functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is asked of every error.
macro_rules! of_each_variant {
    ($($variant:ident),* $(,)?) => {
        impl Error {
            /// The op, the user's line and the excerpt.
            pub fn place(&self) -> &Place {
                match self { $(Error::$variant { at, .. } => at,)* }
            }

            fn place_mut(&mut self) -> &mut Place {
                match self { $(Error::$variant { at, .. } => at,)* }
            }

            /// The name of the variant, as declared expectations state it.
            pub fn kind(&self) -> &'static str {
                match self { $(Error::$variant { .. } => stringify!($variant),)* }
            }
        }
    };
}

of_each_variant! {
    Type, Tap, StepCount, Rows, Escaped, Name, Parse, Invalid, NoDerivative, Disconnected, NotSteppable,
    NoLoweringRule, StepCountNotStatic, ProgramTooLarge, OverBudget, Unsupported, Registry, Absent, Call, Execution, Internal, Cancelled, File,
}

impl Error {
    /// With the user's line, if it is at none yet.
    pub(crate) fn with_site(mut self, site: Site) -> Self {
        let place = self.place_mut();
        if place.site == Site::Unknown {
            place.site = site;
        }
        self
    }

    /// Names the line of a library's user where the error names a line of the library: `sources` is how the paths of its
    /// sources begin, as `file!()` gives them. Errors of ops keep the lines of the graph's author.
    pub fn for_caller(mut self, sources: &str, site: Site) -> Self {
        let place = self.place_mut();
        let is_own = match place.site {
            Site::Rust(line) => line.file().starts_with(sources),
            Site::Text { .. } => false,
            Site::Unknown => true,
        };
        if is_own {
            place.site = site;
        }
        self
    }

    /// With the lines of the graph around the op, if it has none yet.
    pub(crate) fn with_excerpt(mut self, excerpt: impl FnOnce() -> Vec<String>) -> Self {
        let place = self.place_mut();
        if place.excerpt.is_empty() {
            place.excerpt = excerpt();
        }
        self
    }

    /// The error of a step of a loop: a stop in its middle is the loop's, and one of a loop in it says within which step
    /// it was.
    pub fn in_step(self, loop_at: &Place, steps: usize) -> Self {
        match self {
            Error::Cancelled { ran: Ran::Ops(_), within, reason, .. } => {
                Error::Cancelled { at: loop_at.boxed(), ran: Ran::Steps(steps), within, reason }
            }
            Error::Cancelled { at, ran, mut within, reason } => {
                within.push(format!("step {steps} of `{}` at {}", loop_at.op, loop_at.site));
                Error::Cancelled { at, ran, within, reason }
            }
            error => error,
        }
    }

    /// The error of a program that was read from `file`, for those that run programs by command: it names the file, and no line of
    /// the command's own source.
    #[must_use]
    pub fn in_program(mut self, file: &std::path::Path) -> Self {
        let is_of_another_file = matches!(self, Error::File { .. });
        let place = self.place_mut();
        if !is_of_another_file {
            place.file.get_or_insert_with(|| file.display().to_string());
        }
        if let Site::Rust(_) = place.site {
            place.site = Site::Unknown;
        }
        self
    }

    /// With the file that the text was read from.
    pub(crate) fn in_file(mut self, file: &std::path::Path) -> Self {
        self.place_mut().file = Some(file.display().to_string());
        self
    }
}

/// What is needed, and what is held.
fn budget_facts(needed: u64, held: u64) -> String {
    let beside = if held == 0 { String::new() } else { format!(", beside {} in use", shown_bytes(held)) };
    format!("{}{beside}", shown_bytes(needed))
}

/// A number of bytes as a person reads it.
fn shown_bytes(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some(_) if bytes == u64::MAX => "2^64 bytes or more".into(),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// The one layout of all messages.
fn report(at: &Place, headline: String, facts: &[(&str, &str)], fix: &str) -> String {
    let mut text = format!("{}: {headline}", at.op);
    for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        text.push_str(&format!("\n  {:<9} {fact}", format!("{name}:")));
    }
    if !fix.is_empty() {
        text.push_str(&format!("\n  {:<9} {fix}", "fix:"));
    }
    match (&at.file, at.site) {
        (None, Site::Unknown) => {}
        (Some(file), Site::Unknown) => text.push_str(&format!("\n  {:<9} {file}", "at:")),
        (Some(file), Site::Text { line, column }) => {
            text.push_str(&format!("\n  {:<9} {file}:{line}:{column}", "at:"));
        }
        (_, site) => text.push_str(&format!("\n  {:<9} {site}", "at:")),
    }
    let is_caret = |line: &String| line.trim_start() == "^";
    let last = at.excerpt.len() - usize::from(at.excerpt.last().is_some_and(is_caret));
    for (index, line) in at.excerpt.iter().enumerate() {
        let mark = match (index + 1).cmp(&last) {
            std::cmp::Ordering::Less => '|',
            std::cmp::Ordering::Equal => '>',
            std::cmp::Ordering::Greater => ' ',
        };
        text.push_str(&format!("\n  {mark} {line}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::shown_bytes;

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_they_fill() {
        assert_eq!((shown_bytes(5), shown_bytes(u64::MAX)), ("5 bytes".to_string(), "2^64 bytes or more".to_string()));
        assert_eq!(shown_bytes(3 << 29), "1.5 GiB");
    }
}
