//! The programs of a function: one for all calls, or one for each combination of sizes and static inputs seen so far.

use std::time::{Duration, Instant};

use funcify_core::cancel::{ActiveHandles, Progress};

use super::*;
use crate::lower::Lowering;
use crate::run::program::Program;
use crate::run::span;

/// The values of static inputs, each with the index of its input.
pub(super) type StaticInputs = Vec<(usize, i64)>;

/// The sizes and static inputs of a call.
pub(super) type Signature = (Sizes, StaticInputs);

/// A program, with the sizes and static inputs for which it was built.
pub(super) struct Variant<B: Backend> {
    sizes: Sizes,
    /// The values of the static inputs on which the program depends.
    statics: StaticInputs,
    pub(super) program: Program<B>,
    pub(super) notes: Notes,
    /// The time taken to build the program.
    pub(super) time: Duration,
    /// The sizes for which the peak memory of the plan was last computed, and that peak in bytes. The peak is `None` if
    /// it depends on data.
    peak: Mutex<Option<(Sizes, Option<u64>)>>,
}

impl<B: Backend> Variant<B> {
    /// Returns the compiled code, or `None` if the backend did not compile the program as a whole.
    pub(super) fn whole(&self) -> Option<&Arc<dyn Compiled<B::Tensor>>> {
        self.program.whole().filter(|_| self.notes.declined.is_none())
    }

    /// Returns `true` if the program can serve a call with the given sizes and static inputs.
    fn serves(&self, sizes: &Sizes, statics: &[(usize, i64)]) -> bool {
        self.sizes == *sizes && self.statics.iter().all(|it| statics.contains(it))
    }

    pub(super) fn peak(&self) -> MutexGuard<'_, Option<(Sizes, Option<u64>)>> {
        self.peak.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> Function<B> {
    /// Returns the program for a call with the given sizes. Builds the program if it is not cached. `read_statics`
    /// downloads the static inputs. It is not called if a cached program for the given sizes is independent of static
    /// inputs.
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
        let (signature, watch) = ((sizes, read_statics()?), ActiveHandles::current());
        let (sizes, statics) = &signature;
        let mut is_new = false;
        let variant = self.programs.find_or_make(
            &signature,
            |variant| variant.serves(sizes, statics),
            || watch.check(at, Progress::Ops(0)),
            || {
                is_new = true;
                self.make_program(sizes.clone(), statics).map(Arc::new)
            },
        )?;
        let count = if is_new { &self.made } else { &self.reused };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(variant)
    }

    /// Builds the program for the given sizes and static inputs.
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
