//! The place of an error: an op, the user's source line that created it, and the surrounding graph.

use std::fmt;
use std::panic::Location;

use crate::error::Error;

/// A source location in the user's program, usually the call that created an op.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
/// use funcify::error::Site;
///
/// let graph = Graph::build("exponential", |g| g.input("x", "f32[]").exp())?;
/// assert!(matches!(graph.nodes()[0].site, Site::Rust(_)));
/// let parsed = Graph::parse(&graph.to_string())?;
/// assert!(matches!(parsed.nodes()[0].site, Site::Text { line: 2, .. }));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Site {
    /// A line of Rust code, recorded by `#[track_caller]`.
    Rust(&'static Location<'static>),
    /// A position in a `.fir` text.
    Text {
        /// The line number, counted from 1.
        line: usize,
        /// The column number, counted from 1.
        column: usize,
    },
    /// An unknown location, such as that of an op created by a transformation.
    #[default]
    Unknown,
}

impl Site {
    /// Returns the location of the caller.
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
            Site::Unknown => f.write_str("an unknown location"),
        }
    }
}

/// The place of an error: an op, the user's source line that created it, and the surrounding graph.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::error::{Place, Site};
///
/// let at = Place::new("my_op", Site::caller());
/// let error = at.mismatch("the operand", "a float tensor", "i64[3]", "cast it to f32");
/// assert_eq!(error.place(), &at);
/// assert!(error.to_string().starts_with("my_op: the operand does not fit"));
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Place {
    /// The name of the op, or the name of the function if the error occurs outside an op.
    pub op: String,
    /// The source location of the user's call.
    pub site: Site,
    /// The text form of the op and of the lines before it in the graph. For a text that does not parse, the excerpt is
    /// the line at fault, followed by a line with a caret that points at the error.
    pub excerpt: Vec<String>,
    /// The path of the file that contains the text, if the text was read from a file.
    pub file: Option<String>,
}

impl Place {
    /// Creates the place of `op` at `site`, without an excerpt.
    pub fn new(op: impl Into<String>, site: Site) -> Self {
        Place { op: op.into(), site, excerpt: Vec::new(), file: None }
    }

    /// Creates an [`Error::Type`] for a component that the op does not accept.
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

    /// Returns a boxed copy, as stored in errors.
    pub fn boxed(&self) -> Box<Place> {
        Box::new(self.clone())
    }

    /// Creates an [`Error::StepCount`] at this place, with the given reason and fix.
    pub(crate) fn step_count(&self, reason: impl Into<String>, fix: impl Into<String>) -> Error {
        Error::StepCount { at: self.boxed(), reason: reason.into(), fix: fix.into() }
    }
}
