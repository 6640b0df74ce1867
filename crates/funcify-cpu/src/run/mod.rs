//! The executor: runs a checked plan, with its own scratch memory, on the caller's slices.

mod arena;
mod program;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::ArrayViewMut2;
use pulp::Simd;
use smallvec::SmallVec;

use crate::body::{Setting, Translatable};
use crate::kernels::math::MathTable;
use crate::machine::{Machine, Work};
use crate::plan::{Nodes, Part, Plan, PlanError, Region, Split, Stage, Storage};
use crate::views::{Layout, UnsplitView, View};
use arena::Arena;
use program::{Prepared, Stop};

/// The regions before they are split among parts (`Regions`), and as one part sees them (`Views`). The lists are stored
/// inline unless a plan has many regions.
type Regions<'a, T> = SmallVec<[UnsplitView<'a, T>; 32]>;
type Views<'a, T> = SmallVec<[View<'a, T>; 64]>;

/// A checked plan, together with its scratch memory.
#[derive(Debug)]
pub struct Executor<T> {
    plan: Plan,
    programs: Programs<T>,
    arena: Arena<T>,
}

/// The executable programs of a plan's stages. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Programs<T> {
    stages: Arc<[Vec<Prepared<T>>]>,
    machine: Machine,
}

/// The error for a slice whose length does not match its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallError {
    /// The input or output, with its index.
    pub place: Storage,
    /// The number of elements that the plan requires.
    pub expected: usize,
    /// The number of elements in the slice, or `None` if the slice is missing.
    pub found: Option<usize>,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} has {} elements in the plan, and {:?} in the call", self.place, self.expected, self.found)
    }
}

impl std::error::Error for CallError {}

impl<T: Element> Executor<T> {
    /// Creates an executor: checks the plan, and allocates its scratch memory.
    pub fn new(plan: Plan, machine: Machine) -> Result<Self, PlanError> {
        plan.check::<T>()?;
        let prepare = |stage: &Stage| {
            let is_one_part = stage.parts.len() == 1;
            let layouts = plan.regions.iter().map(|region| Layout::of(region, is_one_part)).collect();
            let setting = Setting { regions: &plan.regions, layouts, machine };
            let prepared = |program: &Nodes| program::prepare(&setting, program, &mut Vec::new());
            stage.programs.iter().map(prepared).collect()
        };
        let stages = plan.stages.iter().map(prepare).collect();
        Ok(Executor::of(plan, Programs { stages, machine }))
    }

    /// Creates an executor for a checked plan that already has programs, with its own scratch memory.
    pub(crate) fn of(plan: Plan, programs: Programs<T>) -> Self {
        let sizes = plan.regions.iter().map(|region| match (region.place, region.split) {
            (Storage::Scratch, Split::Parts(parts)) => parts * region.units * region.pitch,
            (Storage::Scratch, _) => region.units * region.pitch,
            _ => 0,
        });
        let arena = Arena::new(sizes);
        Executor { plan, programs, arena }
    }

    /// Returns the executable programs, to share them with other executors of the plan.
    pub(crate) fn programs(&self) -> Programs<T> {
        self.programs.clone()
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the plan. Concurrent stages run on the caller's rayon thread pool.
    pub fn call(&mut self, inputs: &[&[T]], outputs: &mut [&mut [T]]) -> Result<(), CallError> {
        self.call_until(inputs, outputs, &|| false).map(|_| ())
    }

    /// Runs the plan until it finishes or `stop` returns `true`. Returns `true` if the plan finished. Polls `stop`
    /// about once per millisecond.
    pub fn call_until(
        &mut self,
        inputs: &[&[T]],
        outputs: &mut [&mut [T]],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, CallError> {
        for region in &self.plan.regions {
            let expected = region.units * region.pitch;
            let found = match region.place {
                Storage::Input(index) => inputs.get(index).map(|slice| slice.len()),
                Storage::Output(index) => outputs.get(index).map(|slice| slice.len()),
                Storage::Scratch => Some(expected),
            };
            if found != Some(expected) {
                return Err(CallError { place: region.place, expected, found });
            }
        }
        let Executor { plan, programs: Programs { stages, machine }, arena } = self;
        let is_stopped = AtomicBool::new(false);
        let ask = || {
            let stops = stop();
            is_stopped.fetch_or(stops, Ordering::Relaxed);
            stops
        };
        let stop: Stop<'_> = &ask;
        for (stage, programs) in plan.stages.iter().zip(stages.iter()) {
            if let [part] = stage.parts[..] {
                let mut views = Views::new();
                push_views(plan, arena, inputs, outputs, &mut views);
                T::run_part(*machine, RunPart { program: &programs[part.program], views: &mut views, stop });
            } else {
                let mut regions = regions_of(plan, arena, inputs, outputs);
                let threads = stage.concurrent && rayon::current_num_threads() > 1;
                let regions = regions.as_mut_slice();
                T::run_parts(*machine, RunParts { programs, parts: &stage.parts, regions, threads, stop });
            }
            if is_stopped.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// An element type of the engine. This crate, not its dependents, compiles all code that is generic over it.
pub trait Element: Translatable + sealed::Sealed {}

impl Element for f32 {}
impl Element for f64 {}

mod sealed {
    use crate::machine::Machine;
    use crate::run::{RunPart, RunParts};

    /// The non-generic entry points of the executor for an element type.
    pub trait Sealed: Sized {
        /// Runs a stage with a single part.
        fn run_part(machine: Machine, part: RunPart<'_, '_, Self>);

        /// Runs a stage with several parts.
        fn run_parts(machine: Machine, parts: RunParts<'_, '_, Self>);
    }

    macro_rules! sealed {
        ($($number:ident),*) => {$(
            impl Sealed for $number {
                fn run_part(machine: Machine, part: RunPart<'_, '_, $number>) {
                    machine.run(part);
                }

                fn run_parts(machine: Machine, parts: RunParts<'_, '_, $number>) {
                    machine.run(parts);
                }
            }
        )*};
    }

    sealed!(f32, f64);
}

/// Appends to `views` the views of all regions, for a stage with a single part. Returning a new list would require a
/// copy.
fn push_views<'a, T>(
    plan: &Plan,
    arena: &'a mut Arena<T>,
    inputs: &[&'a [T]],
    outputs: &'a mut [&mut [T]],
    views: &mut Views<'a, T>,
) {
    let mut outputs = reborrow_outputs(outputs);
    for (region, own) in plan.regions.iter().zip(arena.slices()) {
        views.push(match region.place {
            Storage::Input(index) => View::Read(inputs[index]),
            Storage::Scratch => View::Own(own),
            Storage::Output(index) => View::Own(std::mem::take(&mut outputs[index])),
        });
    }
}

/// Returns the regions for a stage with several parts, before they are split.
fn regions_of<'a, T>(
    plan: &Plan,
    arena: &'a mut Arena<T>,
    inputs: &[&'a [T]],
    outputs: &'a mut [&mut [T]],
) -> Regions<'a, T> {
    let mut outputs = reborrow_outputs(outputs);
    let wide = |data: &'a mut [T], region: &Region| match region.split {
        Split::Parts(_) => UnsplitView::Parts(data, region.units * region.pitch),
        Split::Whole => UnsplitView::Read(data, 0),
        Split::Columns(width) => {
            let array = ArrayViewMut2::from_shape((region.units, region.pitch), data);
            UnsplitView::Columns(array.expect("checked above: every region has the expected number of elements"), width)
        }
    };
    let regions = plan.regions.iter().zip(arena.slices()).map(|(region, own)| match (region.place, region.split) {
        (Storage::Input(index), Split::Columns(width)) => UnsplitView::Read(inputs[index], width),
        (Storage::Input(index), Split::Whole | Split::Parts(_)) => UnsplitView::Read(inputs[index], 0),
        (Storage::Scratch, _) => wide(own, region),
        (Storage::Output(index), _) => wide(std::mem::take(&mut outputs[index]), region),
    });
    regions.collect()
}

/// Reborrows the outputs into a list, so that each region can take its output from the list.
fn reborrow_outputs<'a, T>(outputs: &'a mut [&mut [T]]) -> SmallVec<[&'a mut [T]; 8]> {
    outputs.iter_mut().map(|output| &mut **output).collect()
}

/// A single part of a stage, ready to run.
pub struct RunPart<'p, 'a, T> {
    program: &'p Prepared<T>,
    views: &'p mut [View<'a, T>],
    stop: Stop<'p>,
}

impl<T: MathTable> Work for RunPart<'_, '_, T> {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        program::run(simd, self.program, self.views, self.stop);
    }
}

/// Several parts of a stage, which are split in half recursively, down to single parts. Running the parts consumes the
/// regions.
pub struct RunParts<'p, 'a, T> {
    programs: &'p [Prepared<T>],
    parts: &'p [Part],
    regions: &'p mut [UnsplitView<'a, T>],
    threads: bool,
    stop: Stop<'p>,
}

impl<T: MathTable> Work for RunParts<'_, '_, T> {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        let RunParts { programs, parts, regions, threads, stop } = self;
        let regions = regions.iter_mut().map(std::mem::take);
        if let [part] = parts {
            let mut views: Views<'_, T> = regions.map(UnsplitView::into_view).collect();
            return RunPart { program: &programs[part.program], views: &mut views, stop }.run(simd);
        }
        let (first, rest) = parts.split_at(parts.len() / 2);
        let indices = first.iter().map(|part| part.len).sum();
        let (mut first_regions, mut rest_regions) = (Regions::new(), Regions::new());
        for region in regions {
            let (left, right) = region.split(first.len(), indices);
            first_regions.push(left);
            rest_regions.push(right);
        }
        let first = RunParts { programs, parts: first, regions: &mut first_regions, threads, stop };
        let rest = RunParts { programs, parts: rest, regions: &mut rest_regions, threads, stop };
        if threads {
            rayon::join(|| first.run(simd), || rest.run(simd));
        } else {
            first.run(simd);
            rest.run(simd);
        }
    }
}
