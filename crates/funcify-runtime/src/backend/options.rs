//! Compile options: the strategy of loops, the limits, and the rewrites.

use funcify_core::derivative::GradOptions;
use funcify_core::memory::memory_budget;
use funcify_core::ops::scan::CheckpointPolicy;
use funcify_rewrite::RewriteOptions;

use super::{Backend, Compiles};

/// The way in which the loops of a program run.
///
/// ```
/// use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
/// use funcify::{Graph, HostTensor, scan};
///
/// let sum = Graph::build("sum", |g| {
///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[3]")];
///     scan(start, xs, |sum, x| (sum + x, ())).0
/// })?;
/// let options = CompileOptions { strategy: LoopStrategy::Unroll, ..CompileOptions::default() };
/// let sum = Function::compile_with(&sum, &Reference, options)?;
/// assert_eq!(sum.report().loops[0].strategy.name(), "unroll");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LoopStrategy {
    /// Compiles each loop if the [backend](Backend::compiles) supports it; other loops run as the backend's lowering
    /// rule of `scan` says. If that rule unrolls, loops with a static number of steps are unrolled, and the others
    /// run from the host.
    #[default]
    Auto,
    /// Unrolls the steps into a straight line, compiled for the sizes of a call.
    Unroll,
    /// Compiles the body once and runs it in a loop, for any sizes.
    Native,
    /// Lets the backend compile the whole loop for the sizes of a call where it can; otherwise the loop runs
    /// natively.
    Compiled,
}

impl LoopStrategy {
    /// Returns the strategy if it applies to all loops.
    pub(crate) fn unless_auto(self) -> Option<LoopStrategy> {
        (self != LoopStrategy::Auto).then_some(self)
    }

    /// Restricts the parts that a backend [compiles](Backend::compiles) to those that this strategy allows.
    pub(crate) fn restrict(self, own: Compiles) -> Compiles {
        match self {
            LoopStrategy::Auto | LoopStrategy::Compiled => own,
            LoopStrategy::Unroll | LoopStrategy::Native => Compiles::Nothing,
        }
    }

    /// Returns the name in tables: `auto`, `unroll`, `native`, `compiled`.
    pub fn name(self) -> &'static str {
        match self {
            LoopStrategy::Auto => "auto",
            LoopStrategy::Unroll => "unroll",
            LoopStrategy::Native => "native",
            LoopStrategy::Compiled => "compiled",
        }
    }
}

/// Options for compiling a graph.
///
/// ```
/// use funcify::dispatch::{CompileOptions, Function, Reference};
/// use funcify::{Error, Graph, HostTensor};
///
/// let twice = Graph::build("twice", |g| g.input("x", "f32[N]") * 2.0)?;
/// let options = CompileOptions { memory_budget: Some(1000), ..CompileOptions::default() };
/// let twice = Function::compile_with(&twice, &Reference, options)?;
/// let error = twice.call_host(&[HostTensor::zeros(funcify::DType::F32, &[1000])]);
/// assert!(matches!(error, Err(Error::OverBudget { .. })));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The strategy of all loops, left to the backend by default. If unrolling is forced, a loop whose number of steps
    /// is not static (does not follow from sizes, constants and static inputs) is an error, `StepCountNotStatic`; a
    /// loop that ends early, by an `until` or a condition, needs a static maximum number of steps. If compilation is
    /// forced, a loop that the backend cannot compile runs natively, and [`Function::report`](crate::Function::report)
    /// says why.
    pub strategy: LoopStrategy,
    /// The maximum number of instructions in an unrolled program. A larger program is an error.
    pub max_kernels: usize,
    /// The number of specialised programs to cache; the least recently used one is evicted first.
    pub max_programs: usize,
    /// The number of bytes of tensors that a call may hold at once. A call that needs more returns the error
    /// `OverBudget`. `None` uses [`memory_budget`](funcify_core::memory::memory_budget).
    pub memory_budget: Option<u64>,
    /// The [rewrites](funcify_rewrite) to apply before the graph is compiled, by default all rules. Where loops are
    /// compiled as a whole, `hoisting`, `sums_over_steps` and `cumulative` are left out: compiled loops do that work
    /// for a few steps at a time, so that the data stays in the processor's caches. If the rewrites
    /// [tolerate](RewriteOptions::tolerance) reassociation and the [device prefers depth](Backend::parallel), loops
    /// that are affine in their states become associative scans. `None` compiles the graph unchanged.
    pub rewrites: Option<RewriteOptions>,
    /// `true` to let a backend that compiles loops as a whole compile all of the program, if it can. By default,
    /// matrix products outside of loops, and programs without a loop, are left to the library. Use it for small
    /// programs that are called often, such as a served step.
    pub whole: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            strategy: LoopStrategy::Auto,
            max_kernels: 1 << 20,
            max_programs: 32,
            memory_budget: None,
            rewrites: Some(RewriteOptions::from_environment()),
            whole: false,
        }
    }
}

impl CompileOptions {
    /// Returns the best gradient options for a graph that is compiled with these options for a backend. Plug-ins use
    /// this method. If loops are compiled, gradients are taken [step by step](GradOptions::stepwise), and values that
    /// are not [costly](CheckpointPolicy::SaveCostly) are recomputed; otherwise all needed values are saved. `policy`
    /// overrides the choice of the values that loops save.
    ///
    /// ```
    /// use funcify::dispatch::{CompileOptions, Reference};
    /// use funcify::{Graph, HostTensor, evaluate};
    ///
    /// let square = Graph::build("square", |g| g.input("x", "f32[]").square())?;
    /// let slope = square.grad(["x"], CompileOptions::default().grad_options(&Reference, None))?;
    /// assert_eq!(evaluate(&slope, &[HostTensor::scalar(3f32)])?, [HostTensor::scalar(6f32)]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn grad_options<B: Backend>(&self, backend: &B, policy: Option<CheckpointPolicy>) -> GradOptions {
        let is_compiled = self.compiles_loops_on(backend);
        let own = if is_compiled { CheckpointPolicy::SaveCostly } else { CheckpointPolicy::SaveAll };
        GradOptions::new().policy(policy.unwrap_or(own)).stepwise(is_compiled)
    }

    /// Returns whether loops are compiled for this backend where possible.
    ///
    /// ```
    /// use funcify::dispatch::{CompileOptions, Reference};
    ///
    /// assert!(!CompileOptions::default().compiles_loops_on(&Reference));
    /// ```
    pub fn compiles_loops_on<B: Backend>(&self, backend: &B) -> bool {
        self.strategy.restrict(backend.compiles()) != Compiles::Nothing
    }

    /// Returns the memory budget in bytes.
    pub(crate) fn budget(&self) -> u64 {
        self.memory_budget.unwrap_or_else(memory_budget)
    }
}
