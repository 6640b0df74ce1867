//! The programs of a function: one for all calls, or one for each of the sizes and static inputs that it met.

use std::time::{Duration, Instant};

use funcify_core::cancel::{Ran, Watch};

use super::*;
use crate::lower::Lowering;
use crate::run::program::Program;
use crate::run::span;

/// The numbers of static inputs, by input.
pub(super) type StaticInputs = Vec<(usize, i64)>;

/// The sizes of a call, and the numbers of its static inputs.
pub(super) type Signature = (Sizes, StaticInputs);

/// A program, and what it is made for.
pub(super) struct Variant<B: Backend> {
    sizes: Sizes,
    /// The numbers of the static inputs that it depends on.
    statics: StaticInputs,
    pub(super) program: Program<B>,
    pub(super) notes: Notes,
    /// How long it took to make.
    pub(super) time: Duration,
    /// The most that its plan holds at once with the sizes of the last call, if the plan gives it.
    peak: Mutex<Option<(Sizes, Option<u64>)>>,
}

impl<B: Backend> Variant<B> {
    /// Returns all of it, if the backend compiled it as a whole.
    pub(super) fn whole(&self) -> Option<&Arc<dyn Compiled<B::Tensor>>> {
        self.program.whole().filter(|_| self.notes.declined.is_none())
    }

    /// Tells whether the program serves calls of these sizes whose static inputs have these numbers.
    fn serves(&self, sizes: &Sizes, statics: &[(usize, i64)]) -> bool {
        self.sizes == *sizes && self.statics.iter().all(|it| statics.contains(it))
    }

    pub(super) fn peak(&self) -> MutexGuard<'_, Option<(Sizes, Option<u64>)>> {
        self.peak.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> Function<B> {
    /// Picks the program for a call of these sizes, made here if no earlier call had one that serves it. `read_statics` gives the
    /// numbers of the static inputs, which are read only if a program may depend on them.
    pub(super) fn pick_program(
        &self,
        at: &Place,
        sizes: &Sizes,
        read_statics: impl FnOnce() -> Result<StaticInputs>,
    ) -> Result<Arc<Variant<B>>> {
        let sizes = if self.specialization.by_sizes { sizes.clone() } else { Sizes::new() };
        if let Some(variant) = self.programs.find(|variant| variant.serves(&sizes, &[])) {
            self.reused.fetch_add(1, Ordering::Relaxed);
            return Ok(variant);
        }
        let (signature, watch) = ((sizes, read_statics()?), Watch::current());
        let (sizes, statics) = &signature;
        let mut is_new = false;
        let variant = self.programs.find_or_make(
            &signature,
            |variant| variant.serves(sizes, statics),
            || watch.check(at, Ran::Ops(0)),
            || {
                is_new = true;
                self.make_program(sizes.clone(), statics).map(Arc::new)
            },
        )?;
        let count = if is_new { &self.made } else { &self.reused };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(variant)
    }

    /// Makes the program for these sizes and these numbers of static inputs.
    pub(super) fn make_program(&self, sizes: Sizes, statics: &[(usize, i64)]) -> Result<Variant<B>> {
        let _span = span::of_compilation(self.graph.name());
        let start = Instant::now();
        let lowering = Lowering::new(Settings::new(&self.backend, &self.options), sizes.clone());
        let lowered = lowering.lower_graph(&self.runnable, statics);
        let (program, notes) = lowered.map_err(|error| self.graph.explain(error))?;
        let is_needed = |(input, _): &&(usize, i64)| notes.statics.contains(input);
        let statics = statics.iter().filter(is_needed).copied().collect();
        Ok(Variant { sizes, statics, program, notes, time: start.elapsed(), peak: Mutex::new(None) })
    }
}
