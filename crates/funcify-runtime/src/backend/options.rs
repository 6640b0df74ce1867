//! How a graph is compiled: the strategy of its loops, its limits, its rewrites.

use funcify_core::derivative::GradOptions;
use funcify_core::memory::memory_budget;
use funcify_core::ops::scan::CheckpointPolicy;
use funcify_rewrite::RewriteOptions;

use super::{Backend, Compiles};

/// How the loops of a program run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LoopStrategy {
    /// Each loop compiled, if the [backend](Backend::compiles) does that and can compile it; else as the backend's lowering
    /// rule of `scan` says. Where that unrolls, loops with a static number of steps are unrolled, and the others run
    /// from the host.
    #[default]
    Auto,
    /// One body after the other in a straight line, compiled for the sizes of a call.
    Unroll,
    /// One program for the body, run by a loop; any sizes.
    Native,
    /// The whole loop compiled by the backend for the sizes of a call, where it can; else native.
    Compiled,
}

impl LoopStrategy {
    /// The strategy, if it is one that all loops must take.
    pub(crate) fn forced(self) -> Option<LoopStrategy> {
        (self != LoopStrategy::Auto).then_some(self)
    }

    /// Returns what is compiled as a whole of what a backend [compiles](Backend::compiles).
    pub(crate) fn restrict(self, own: Compiles) -> Compiles {
        match self {
            LoopStrategy::Auto | LoopStrategy::Compiled => own,
            LoopStrategy::Unroll | LoopStrategy::Native => Compiles::Nothing,
        }
    }

    /// The name in tables: `auto`, `unroll`, `native`, `compiled`.
    pub fn name(self) -> &'static str {
        match self {
            LoopStrategy::Auto => "auto",
            LoopStrategy::Unroll => "unroll",
            LoopStrategy::Native => "native",
            LoopStrategy::Compiled => "compiled",
        }
    }
}

/// How a graph is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The strategy of all loops, left to the backend by default. Forced to be unrolled, a loop whose number of steps is not
    /// static (does not follow from sizes, constants and static inputs) is an error, `StepCountNotStatic`; one that ends early,
    /// by an `until` or a condition, needs a static largest number. Forced to be compiled, a loop that the backend cannot compile runs natively, and
    /// [`Function::report`](crate::Function::report) says why.
    pub strategy: LoopStrategy,
    /// How many instructions an unrolled program may have before it is an error.
    pub max_kernels: usize,
    /// How many specialised programs are cached; the one unused for longest goes first.
    pub max_programs: usize,
    /// How many bytes of tensors a call may hold at once before it is an error, `OverBudget`; without a number, as many as
    /// [`memory_budget`](funcify_core::memory::memory_budget) says.
    pub memory_budget: Option<u64>,
    /// How the graph is [rewritten](funcify_rewrite) before it is compiled, by default by all rules. Where loops are compiled as a
    /// whole, `hoisting`, `sums_over_steps` and `cumulative` are left out: that does their work for some steps at a time, which
    /// stay in the processor's caches. Where they [tolerate](RewriteOptions::tolerance) reassociation and the [device prefers depth](Backend::parallel),
    /// loops that are affine in their states become associative scans. `None` compiles the graph as it is.
    pub rewrites: Option<RewriteOptions>,
    /// Whether a backend that compiles loops as a whole is to compile all of the program, if it can: products of matrices
    /// outside of loops, which are the library's otherwise, and what has no loop. For programs that are small and called
    /// often, as a step that is served.
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
    /// How gradients are best taken of what is compiled like this for a backend, for plug-ins: where loops are compiled,
    /// [step by step](GradOptions::stepwise), and what is not [costly](CheckpointPolicy::SaveCostly) is computed again; else all is saved
    /// that they need. What loops are to save may be given.
    pub fn grad_options<B: Backend>(&self, backend: &B, policy: Option<CheckpointPolicy>) -> GradOptions {
        let is_compiled = self.compiles_loops_on(backend);
        let own = if is_compiled { CheckpointPolicy::SaveCostly } else { CheckpointPolicy::SaveAll };
        GradOptions::new().policy(policy.unwrap_or(own)).stepwise(is_compiled)
    }

    /// Whether what is compiled like this for a backend has compiled loops, where they can be.
    pub fn compiles_loops_on<B: Backend>(&self, backend: &B) -> bool {
        self.strategy.restrict(backend.compiles()) != Compiles::Nothing
    }

    /// The memory budget, in bytes.
    pub(crate) fn budget(&self) -> u64 {
        self.memory_budget.unwrap_or_else(memory_budget)
    }
}
