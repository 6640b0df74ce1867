//! Typed errors. Each error names the op, its source location, the component at fault, the requirement and the fix.

pub use crate::place::{Place, Site};
pub use crate::progress::Progress;

/// An error reported by a backend's own library.
pub type BackendError = Box<dyn std::error::Error + Send + Sync>;

/// The error type of funcify.
///
/// The message names the op, the component at fault, the requirement, the value found, the fix, and the user's line.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Error, Graph};
///
/// let error = Graph::build("sum", |g| g.input("x", "f32[2]") + g.input("y", "f32[3]")).unwrap_err();
/// assert!(matches!(error, Error::Type { .. }));
/// assert_eq!((error.kind(), error.place().op.as_str()), ("Type", "add"));
/// ```
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// An operand, attribute or leaf has a type, structure or value that the op does not accept.
    #[error("{}", report(at, format!("{component} does not fit"), &[("expected", expected), ("found", found)], fix))]
    Type {
        /// The op and its source location.
        at: Box<Place>,
        /// The operand, attribute or leaf at fault.
        component: String,
        /// The type, structure or attribute that the op requires.
        expected: String,
        /// The type, structure or attribute found.
        found: String,
        /// The suggested fix.
        fix: String,
    },

    /// A sequence, state or buffer of a loop has a tap that the loop does not allow.
    #[error("{}", report(at, format!("{component} has a tap that is not allowed"), &[("tap", &tap.to_string()), ("rule", rule)], fix))]
    Tap {
        /// The op and its source location.
        at: Box<Place>,
        /// The sequence, state or buffer at fault.
        component: String,
        /// The offending tap.
        tap: i64,
        /// The rule that the tap violates.
        rule: String,
        /// The suggested fix.
        fix: String,
    },

    /// The number of steps of a loop is missing, negative or inconsistent.
    #[error("{}", report(at, "the number of steps is missing or invalid".into(), &[("reason", reason)], fix))]
    StepCount {
        /// The op and its source location.
        at: Box<Place>,
        /// The problem, such as two different numbers of steps.
        reason: String,
        /// The suggested fix.
        fix: String,
    },

    /// A step of a loop would read or write a row that its sequence or buffer does not have.
    #[error("{}", report(at, format!("{component} has too few rows"), &[("needed", needed), ("found", found)], fix))]
    Rows {
        /// The op and its source location.
        at: Box<Place>,
        /// The sequence or buffer at fault.
        component: String,
        /// The number of rows that the steps access.
        needed: String,
        /// The number of rows of the sequence or buffer.
        found: String,
        /// The suggested fix.
        fix: String,
    },

    /// A value was used outside the graph or body that created it.
    #[error("{}", report(at, format!("{component} belongs to another body"), &[("made in", body)], fix))]
    Escaped {
        /// The op and its source location.
        at: Box<Place>,
        /// The operand at fault.
        component: String,
        /// The body in which the value was created.
        body: String,
        /// The suggested fix.
        fix: String,
    },

    /// A name is not an identifier, or is used twice.
    #[error("{}", report(at, format!("{component} has an invalid name"), &[("name", name), ("rule", rule)], fix))]
    Name {
        /// The op and its source location.
        at: Box<Place>,
        /// The input, output or value with the invalid name.
        component: String,
        /// The invalid name.
        name: String,
        /// The rule that the name violates.
        rule: String,
        /// The suggested fix.
        fix: String,
    },

    /// The text of a `.fir` program or of a type does not follow the grammar.
    #[error("{}", report(at, "the text does not parse".into(), &[("expected", expected), ("found", found)], fix))]
    Parse {
        /// The location in the text.
        at: Box<Place>,
        /// The tokens that the grammar allows at this location.
        expected: String,
        /// The token found.
        found: String,
        /// The likely intended spelling, or an empty string if no known word is similar.
        fix: String,
    },

    /// A graph violates one of the invariants that the checker lists.
    #[error("{}", report(at, format!("{component} violates an invariant of the graph"), &[("invariant", invariant), ("found", found)], "rebuild the graph with the builder or the parser, which maintain the invariants"))]
    Invalid {
        /// The op and its source location.
        at: Box<Place>,
        /// The label of the violated invariant, such as `scan-c1`.
        invariant: String,
        /// The value, node or attribute at fault.
        component: String,
        /// The offending type, value or attribute.
        found: String,
    },

    /// The requested derivative passes through an op that has no rule for it.
    #[error("{}", report(at, format!("{component} has no derivative"), &[("reason", reason)], fix))]
    NoDerivative {
        /// The op and its source location.
        at: Box<Place>,
        /// The operand or result at fault.
        component: String,
        /// The reason why the component has no derivative.
        reason: String,
        /// The suggested alternative.
        fix: String,
    },

    /// A gradient was requested for an input that the result does not depend on.
    #[error("{}", report(at, format!("{component} is disconnected from the result"), &[("reason", reason)], fix))]
    Disconnected {
        /// The called function and the source location of the call.
        at: Box<Place>,
        /// The disconnected input.
        component: String,
        /// The reason: the result does not depend on the input, or ops block the derivative on every path between them.
        reason: String,
        /// The suggested fix.
        fix: String,
    },

    /// A part of the program needs data from later steps, so the program cannot run one step at a time.
    #[error("{}", report(at, format!("{component} cannot be computed one step at a time"), &[("reason", reason)], fix))]
    NotSteppable {
        /// The op and its source location.
        at: Box<Place>,
        /// The result, operand, input or output at fault.
        component: String,
        /// The reason: the data from later steps that the component needs.
        reason: String,
        /// The suggested fix.
        fix: String,
    },

    /// No linked crate provides the op's lowering rule for the backend.
    #[error("{}", report(at, format!("backend `{backend}` has no lowering rule for `{}`", at.op), &[], fix))]
    NoLoweringRule {
        /// The op and its source location.
        at: Box<Place>,
        /// The name of the backend.
        backend: String,
        /// The suggested fix.
        fix: String,
    },

    /// The backend would have to unroll a loop whose number of steps is not static.
    #[error("{}", report(at, format!("backend `{backend}` unrolls loops, but this one has no static number of steps"), &[("reason", reason)], fix))]
    StepCountNotStatic {
        /// The op and its source location.
        at: Box<Place>,
        /// The name of the backend.
        backend: String,
        /// The reason why the number of steps is not static.
        reason: String,
        /// The suggested fix.
        fix: String,
    },

    /// Unrolling would produce a program with more kernels than the limit allows.
    #[error("{}", report(at, format!("unrolling for backend `{backend}` exceeds the limit"), &[("kernels", &kernels.to_string()), ("limit", &limit.to_string())], fix))]
    ProgramTooLarge {
        /// The op and its source location.
        at: Box<Place>,
        /// The name of the backend.
        backend: String,
        /// The number of kernels counted when the limit was exceeded.
        kernels: usize,
        /// The maximum number of kernels.
        limit: usize,
        /// The suggested fix.
        fix: String,
    },

    /// Allocating tensors would exceed the memory budget. No memory was allocated for them.
    #[error("{}", report(at, format!("{what} would exceed the memory budget"), &[("needed", &format_needed_bytes(*needed, *held)), ("budget", &format_bytes(*budget))], "use smaller sizes or fewer steps, or raise `CompileOptions::memory_budget` or FUNCIFY_MEMORY_BUDGET"))]
    OverBudget {
        /// The op and its source location.
        at: Box<Place>,
        /// The tensors that would be allocated.
        what: String,
        /// The minimum number of bytes that these tensors need.
        needed: u64,
        /// The number of bytes that the program already holds.
        held: u64,
        /// The budget, in bytes.
        budget: u64,
    },

    /// The backend or its device does not support a feature that the program uses.
    #[error("{}", report(at, format!("backend `{backend}` does not support {what}"), &[("reason", reason)], fix))]
    Unsupported {
        /// The op and its source location.
        at: Box<Place>,
        /// The name of the backend.
        backend: String,
        /// The unsupported feature, such as a dtype, a rank, or a mode of an op.
        what: String,
        /// The reason why the feature is not supported.
        reason: String,
        /// The suggested fix.
        fix: String,
    },

    /// The registry of backends and lowering rules is inconsistent, or does not contain the requested backend.
    #[error("{}", report(at, format!("the registry cannot serve backend `{backend}`"), &[("problem", problem)], fix))]
    Registry {
        /// The called function and the source location of the call.
        at: Box<Place>,
        /// The name of the backend.
        backend: String,
        /// The problem: duplicate entries, an empty registry, or an unknown name.
        problem: String,
        /// The suggested fix.
        fix: String,
    },

    /// The backend is linked, but its device is not available.
    #[error("{}", report(at, format!("backend `{backend}` is not available on this machine"), &[("reason", reason)], fix))]
    Unavailable {
        /// The called function and the source location of the call.
        at: Box<Place>,
        /// The name of the backend.
        backend: String,
        /// The missing device or library.
        reason: String,
        /// The suggested installation step.
        fix: String,
    },

    /// The arguments of a call do not match the program's inputs.
    #[error("{}", report(at, format!("{component} does not fit the program"), &[("expected", expected), ("found", found)], fix))]
    Call {
        /// The called program and the source location of the call.
        at: Box<Place>,
        /// The argument at fault.
        component: String,
        /// The types that the program accepts.
        expected: String,
        /// The types of the arguments that were passed.
        found: String,
        /// The suggested fix.
        fix: String,
    },

    /// A kernel of the backend failed at run time.
    #[error("{}", report(at, format!("backend `{backend}` failed while running `{}`", at.op), &[("message", &source.to_string())], ""))]
    Execution {
        /// The op and its source location.
        at: Box<Place>,
        /// The name of the backend.
        backend: String,
        /// The error reported by the backend's library.
        source: BackendError,
    },

    /// A check found that the compiled program computes a different result than the graph. The program was not run.
    /// This is a bug in funcify or in the backend.
    #[error("{}", report(at, format!("internal error: backend `{backend}` compiled `{}` incorrectly", at.op), &[("fault", fault)], fix))]
    Internal {
        /// The program or loop and its source location.
        at: Box<Place>,
        /// The name of the backend.
        backend: String,
        /// The difference that the check found, and the instructions that cause it.
        fault: String,
        /// The suggested action.
        fix: String,
    },

    /// A [`Cancellation`](crate::Cancellation) handle cancelled the call.
    #[error("{}", report(at, format!("stopped after {progress}"), &[("reason", reason), ("within", &within.join(", "))], ""))]
    Cancelled {
        /// The innermost running loop, or the next op if no loop was running.
        at: Box<Place>,
        /// The progress made before the cancellation.
        progress: Progress,
        /// The enclosing loops with their current steps, innermost first.
        within: Vec<String>,
        /// The reason: an explicit cancellation or a deadline.
        reason: String,
    },

    /// A file could not be read or written, or has unexpected content.
    #[error("{}", report(at, format!("file `{path}` cannot be used"), &[("reason", reason)], fix))]
    File {
        /// The called function and the source location of the call.
        at: Box<Place>,
        /// The path of the file.
        path: String,
        /// The reason why the file was rejected or could not be accessed.
        reason: String,
        /// The suggested action, or an empty string if the reason implies it.
        fix: String,
    },
}

/// The result type of most functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Implements `place`, `place_mut` and `kind` for the listed variants of [`Error`].
macro_rules! variant_accessors {
    ($($variant:ident),* $(,)?) => {
        impl Error {
            /// Returns the place of the error: the op, the user's line, and an excerpt of the graph.
            pub fn place(&self) -> &Place {
                match self { $(Error::$variant { at, .. } => at,)* }
            }

            fn place_mut(&mut self) -> &mut Place {
                match self { $(Error::$variant { at, .. } => at,)* }
            }

            /// Returns the name of the variant. A backend's declared gaps refer to the expected error by this name.
            pub fn kind(&self) -> &'static str {
                match self { $(Error::$variant { .. } => stringify!($variant),)* }
            }
        }
    };
}

variant_accessors! {
    Type, Tap, StepCount, Rows, Escaped, Name, Parse, Invalid, NoDerivative, Disconnected, NotSteppable,
    NoLoweringRule, StepCountNotStatic, ProgramTooLarge, OverBudget, Unsupported, Registry, Unavailable, Call,
    Execution, Internal, Cancelled, File,
}

impl Error {
    /// Sets the error's site to `site` if its own site is unknown.
    pub(crate) fn with_site(mut self, site: Site) -> Self {
        let place = self.place_mut();
        if place.site == Site::Unknown {
            place.site = site;
        }
        self
    }

    /// Sets the site to `site`, the user's call to a library, if the current site is unknown or lies in the library's
    /// source files. `sources` is the path prefix of these files, in the form that `file!()` returns. Other sites are
    /// kept, because they refer to the code that built the graph.
    #[doc(hidden)]
    pub fn attribute_to_caller(mut self, sources: &str, site: Site) -> Self {
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

    /// Adds an excerpt of the graph to the error if it does not have one yet.
    pub(crate) fn with_excerpt(mut self, excerpt: impl FnOnce() -> Vec<String>) -> Self {
        let place = self.place_mut();
        if place.excerpt.is_empty() {
            place.excerpt = excerpt();
        }
        self
    }

    /// Records that a call was cancelled inside the loop at `loop_at`, after `steps` completed steps of that loop. If
    /// the error names no loop yet, it is attributed to this loop. If it names an inner loop, this loop and its current
    /// step are added to the list of enclosing loops. Errors other than cancellations are returned unchanged.
    #[doc(hidden)]
    pub fn in_step(self, loop_at: &Place, steps: usize) -> Self {
        match self {
            Error::Cancelled { progress: Progress::Ops(_), within, reason, .. } => {
                Error::Cancelled { at: loop_at.boxed(), progress: Progress::Steps(steps), within, reason }
            }
            Error::Cancelled { at, progress, mut within, reason } => {
                within.push(format!("step {steps} of `{}` at {}", loop_at.op, loop_at.site));
                Error::Cancelled { at, progress, within, reason }
            }
            error => error,
        }
    }

    /// Attributes the error to a program that a command read from `file`. The error then names the file instead of a
    /// line in the command's source.
    #[doc(hidden)]
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

    /// Sets the name of the file that contains the program text.
    pub(crate) fn in_file(mut self, file: &std::path::Path) -> Self {
        self.place_mut().file = Some(file.display().to_string());
        self
    }
}

/// Formats the number of bytes needed, followed by the number of bytes already in use unless the latter is 0.
fn format_needed_bytes(needed: u64, held: u64) -> String {
    let beside = if held == 0 { String::new() } else { format!(", in addition to {} in use", format_bytes(held)) };
    format!("{}{beside}", format_bytes(needed))
}

/// Formats a number of bytes in a human-readable unit.
fn format_bytes(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some(_) if bytes == u64::MAX => "2^64 bytes or more".into(),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Formats an error message in the layout that all errors share.
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
    use super::format_bytes;

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_they_fill() {
        assert_eq!(
            (format_bytes(5), format_bytes(u64::MAX)),
            ("5 bytes".to_string(), "2^64 bytes or more".to_string())
        );
        assert_eq!(format_bytes(3 << 29), "1.5 GiB");
    }
}
