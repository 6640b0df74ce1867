//! Types for compiling a program or a loop as a whole, and for running the compiled code.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use funcify_core::error::{BackendError, Error, Place, Result};
use funcify_core::graph::Graph;
use funcify_core::types::Sizes;

/// The parts of a program that a backend compiles as a whole.
///
/// ```
/// use funcify::dispatch::{Backend, Compiles, Reference};
///
/// assert_eq!(Backend::compiles(&Reference), Compiles::Nothing);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compiles {
    /// The backend compiles nothing as a whole.
    Nothing,
    /// Loops, and entire programs that contain loops but no matrix products outside of them. In all other programs,
    /// only the loops are compiled, and the remaining ops run one by one.
    Loops,
    /// Entire programs. If the backend declines an entire program, it is asked to compile the program's loops one by
    /// one, and the ops between them in groups.
    Programs,
}

/// A request to compile a program, a loop or a group of ops, passed to
/// [`Backend::compile_whole`](super::Backend::compile_whole). See [`Compiled`] for an example.
#[derive(Clone, Copy, Debug)]
pub struct WholeRequest<'a> {
    /// A program, a graph around one loop, or a group of ops. The inputs of such a graph are the operands of the loop or of
    /// the group, and its outputs are the used results.
    pub graph: &'a Graph,
    /// The sizes for which the graph is compiled.
    pub sizes: &'a Sizes,
    /// `true` if `graph` is an entire program rather than a loop or a group of ops.
    pub is_program: bool,
    /// The maximum number of bytes that the compiled code may allocate in addition to arguments and results.
    pub memory_budget: u64,
    /// `true` if the compiled code may [reject](Outcome::Refused) its operands at run time, because the caller has
    /// another way to run the graph.
    pub may_refuse: bool,
}

/// A program or a loop that a backend compiled as a whole. The backend can downcast the trait object to its own type.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::dispatch::{
///     Backend, Compiled, Compiles, Declined, Function, Outcome, Reference, WholeRequest, tensors_of,
/// };
/// use funcify::error::BackendError;
/// use funcify::ops::OpRules;
/// use funcify::{Graph, HostTensor, evaluate};
///
/// /// A backend that "compiles" programs without loops by keeping them.
/// #[derive(Clone)]
/// struct Mine;
///
/// impl Backend for Mine {
///     tensors_of!(Reference);
///
///     fn name(&self) -> &'static str {
///         "mine"
///     }
///
///     fn compiles(&self) -> Compiles {
///         Compiles::Programs
///     }
///
///     fn compile_whole(&self, whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
///         match whole.graph.nodes().iter().find(|node| !node.op.bodies().is_empty()) {
///             Some(node) => Err(Declined::new(node.op.name(), "it has a body")),
///             None => Ok(Arc::new(Kept(whole.graph.clone()))),
///         }
///     }
/// #
/// #     fn fallback(&self) -> Option<funcify::dispatch::Kernel<Self>> {
/// #         Some(funcify::dispatch::evaluate_kernel)
/// #     }
/// }
///
/// struct Kept(Graph);
///
/// impl Compiled<Arc<HostTensor>> for Kept {
///     fn run(
///         &self,
///         operands: &[Arc<HostTensor>],
///         _stop: &(dyn Fn() -> bool + Sync),
///     ) -> Result<Outcome<Arc<HostTensor>>, BackendError> {
///         let operands: Vec<HostTensor> = operands.iter().map(|tensor| (**tensor).clone()).collect();
///         Ok(Outcome::Done(evaluate(&self.0, &operands)?.into_iter().map(Arc::new).collect()))
///     }
/// }
///
/// let exp = Graph::build("exp", |g| g.input("x", "f32[N]").exp().sqrt())?;
/// let exp = Function::compile(&exp, &Mine)?;
/// assert_eq!(exp.call_host(&[HostTensor::from([0f32])])?, [HostTensor::from([1f32])]);
/// assert_eq!(exp.instructions(), 1);
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Compiled<T>: Any + Send + Sync {
    /// Runs the compiled graph on its inputs and returns its outputs. Calls `stop` occasionally between steps, and ends
    /// early if `stop` returns `true`.
    fn run(&self, operands: &[T], stop: &(dyn Fn() -> bool + Sync)) -> Result<Outcome<T>, BackendError>;

    /// Returns the names of the ops that the code computes with the reference evaluator, for the report. The default is
    /// an empty list.
    fn evaluated_ops(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the number of bytes that a run needs in addition to its operands and results. These bytes count towards
    /// the memory budget and [`Report::peak_bytes`](crate::Report::peak_bytes). The default is 0.
    fn working_bytes(&self) -> usize {
        0
    }
}

/// The compiled code of a program or a loop, or the reason why the backend declined to compile it.
pub(crate) type CompileResult<T> = std::result::Result<Arc<dyn Compiled<T>>, Declined>;

/// The outcome of running compiled code.
///
/// ```
/// use funcify::dispatch::Outcome;
///
/// let halves = Outcome::Done(vec![2f32, 4.0]).try_map(|results| Ok(results.iter().map(|x| x / 2.0).collect()))?;
/// assert!(matches!(halves, Outcome::Done(halves) if halves == [1.0, 2.0]));
/// # Ok::<(), funcify::error::BackendError>(())
/// ```
#[derive(Debug)]
pub enum Outcome<T> {
    /// The run completed and returned these results. They are in a `Vec`, which is cheap to move.
    Done(Vec<T>),
    /// The run ended early because `stop` returned `true`.
    Stopped,
    /// The code rejected these operands and returned no results.
    Refused,
}

impl<T> Outcome<T> {
    /// Applies `f` to the results of a completed run. Returns the other outcomes unchanged.
    pub fn try_map<U>(
        self,
        f: impl FnOnce(Vec<T>) -> Result<Vec<U>, BackendError>,
    ) -> Result<Outcome<U>, BackendError> {
        Ok(match self {
            Outcome::Done(results) => Outcome::Done(f(results)?),
            Outcome::Stopped => Outcome::Stopped,
            Outcome::Refused => Outcome::Refused,
        })
    }
}

/// The reason why a program or a loop was not compiled as a whole.
///
/// ```
/// use funcify::dispatch::Declined;
///
/// let declined = Declined::new("sort", "it needs all rows at once");
/// assert_eq!(declined.to_string(), "`sort`: it needs all rows at once");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declined {
    /// The op that prevents compilation.
    pub op: String,
    /// The reason why the op prevents compilation.
    pub reason: String,
    /// `true` if the compiled code itself is faulty. A fault is reported as an error, even if the program could run
    /// without the compiled code.
    is_fault: bool,
}

impl Declined {
    /// Creates a `Declined` for the op that prevents compilation, with the reason.
    pub fn new(op: impl Into<String>, reason: impl Into<String>) -> Self {
        Declined { op: op.into(), reason: reason.into(), is_fault: false }
    }

    /// Creates a `Declined` for compiled code that does not compute the program's results. It is reported as
    /// [`Error::Internal`], even if the program could run without the compiled code.
    pub fn fault(reason: impl Into<String>) -> Self {
        Declined { op: "plan".into(), reason: reason.into(), is_fault: true }
    }

    /// Returns [`Error::Internal`] if `self` is a fault, and `self` otherwise.
    pub(crate) fn unless_fault(self, at: &Place, backend: &str) -> Result<Self> {
        if !self.is_fault {
            return Ok(self);
        }
        let fix = "please report it together with the program; `LoopStrategy::Native` runs without the compiled code";
        let (backend, fix) = (backend.to_string(), fix.to_string());
        Err(Error::Internal { at: at.boxed(), backend, fault: self.reason, fix })
    }
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.op, self.reason)
    }
}

impl std::error::Error for Declined {}
