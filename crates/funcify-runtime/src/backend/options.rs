//! Options for compiling a graph: the loop strategy, the limits and the rewrites.

use funcify_core::derivative::GradOptions;
use funcify_core::memory::memory_budget;
use funcify_core::ops::scan::CheckpointPolicy;
use funcify_rewrite::RewriteOptions;

use super::{Backend, Compiles};

/// The way in which a program runs its loops.
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
    /// Compiles each loop if the [backend](Backend::compiles) supports it. Other loops run with the strategy of the
    /// backend's lowering rule for `scan`. If that rule unrolls, loops with a static number of steps are unrolled, and
    /// all others run natively.
    #[default]
    Auto,
    /// Unrolls each loop into straight-line code, specialised for the sizes of a call.
    Unroll,
    /// Lowers the body of each loop to a program once, for all sizes, and runs that program once per step.
    Native,
    /// Lets the backend compile each loop as a whole, for the sizes of a call. If the backend cannot compile a loop,
    /// the loop runs natively.
    Compiled,
}

impl LoopStrategy {
    /// Returns the strategy that is forced on all loops, or `None` for `Auto`.
    pub(crate) fn unless_auto(self) -> Option<LoopStrategy> {
        (self != LoopStrategy::Auto).then_some(self)
    }

    /// Returns the parts of a program to compile as a whole: those that the backend [compiles](Backend::compiles) and
    /// this strategy allows.
    pub(crate) fn restrict(self, own: Compiles) -> Compiles {
        match self {
            LoopStrategy::Auto | LoopStrategy::Compiled => own,
            LoopStrategy::Unroll | LoopStrategy::Native => Compiles::Nothing,
        }
    }

    /// Returns the strategy's name for tables: `auto`, `unroll`, `native` or `compiled`.
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
    /// The strategy for all loops. By default, the backend chooses one.
    ///
    /// With `Unroll`, a loop whose number of steps does not follow from sizes, constants and static inputs is rejected
    /// with the error `StepCountNotStatic`. A loop with early exit (an `until` or a condition) needs a static maximum
    /// number of steps. With `Compiled`, a loop that the backend cannot compile runs natively;
    /// [`Function::report`](crate::Function::report) states the reason.
    pub strategy: LoopStrategy,
    /// The maximum number of instructions of a program. The instructions of an unrolled loop count once per step. A
    /// program with more instructions is rejected.
    pub max_kernels: usize,
    /// The maximum number of specialised programs to cache. The least recently used one is evicted first.
    pub max_programs: usize,
    /// The maximum number of bytes that the tensors of a call may occupy at once. A call that needs more returns the
    /// error `OverBudget`. `None` uses [`memory_budget`](funcify_core::memory::memory_budget).
    pub memory_budget: Option<u64>,
    /// The [rewrites](funcify_rewrite) to apply before compilation. By default, all rules apply except those that run
    /// only on request. `None` compiles the graph unchanged.
    ///
    /// If loops are compiled as a whole, the rules `hoisting`, `interchanged_loops`, `sums_over_steps` and `cumulative`
    /// are disabled: compiled loops do the same work a few steps at a time, while the data is in the CPU caches. Only
    /// table lookups still move out of loops (`hoisted_lookups`). If the rewrites
    /// [tolerate](RewriteOptions::tolerance) reassociation and the [device prefers low depth](Backend::parallel), loops
    /// that are affine in their states become associative scans.
    pub rewrites: Option<RewriteOptions>,
    /// `true` to let a backend that compiles loops try to compile the entire program. By default, programs without
    /// loops, and matrix products outside of loops, are left to the library. Useful for small programs that are called
    /// often, such as a single step of a served model.
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
    /// Returns the recommended gradient options for a graph compiled for `backend` with these options. Intended for
    /// plug-ins.
    ///
    /// If loops are compiled, gradients are computed [step by step](GradOptions::stepwise), and the backward pass
    /// recomputes all values that are not [costly](CheckpointPolicy::SaveCostly). Otherwise, the forward pass saves all
    /// values that the backward pass needs. A `policy` overrides this choice of saved values.
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

    /// Returns `true` if these options let `backend` compile the loops that it supports.
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
