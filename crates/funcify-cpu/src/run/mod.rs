//! The executor: a checked plan with its memory, run on slices of the caller.

mod arena;
mod program;
mod start;
mod step;
pub(crate) mod view;

use std::fmt;
use std::sync::Arc;

use ndarray::ArrayViewMut2;
use pulp::Simd;
use smallvec::SmallVec;

use crate::kernels::math::MathTable;
use crate::machine::{Machine, Work};
use crate::plan::{Part, Place, Plan, PlanError, Program, Split, Stage};
use arena::Arena;
use program::{Preparation, Prepared, Stop};
use start::Layout;
use view::{View, Wide};

/// All regions, on the stack unless a plan has many.
type Regions<'a, T> = SmallVec<[Wide<'a, T>; 32]>;

/// A plan that passed its check, with its scratch memory.
#[derive(Debug)]
pub struct Executor<T> {
    plan: Plan,
    programs: Programs<T>,
    arena: Arena<T>,
}

/// The programs of a plan's stages as they run on a machine. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Programs<T> {
    stages: Arc<[Vec<Prepared<T>>]>,
    machine: Machine,
}

/// A slice that does not fit its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallError {
    /// Input or output, and which.
    pub place: Place,
    /// How many elements the plan has there.
    pub expected: usize,
    /// How many the slice has; `None` if there is no such slice.
    pub found: Option<usize>,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} has {} elements in the plan, and {:?} in the call", self.place, self.expected, self.found)
    }
}

impl std::error::Error for CallError {}

impl<T: Element> Executor<T> {
    /// Checks the plan and allocates its scratch memory.
    pub fn new(plan: Plan, machine: Machine) -> Result<Self, PlanError> {
        plan.check::<T>()?;
        let prepare = |stage: &Stage| {
            let is_one_part = stage.parts.len() == 1;
            let layouts = plan.regions.iter().map(|region| Layout::of(region, is_one_part)).collect();
            let preparation = Preparation { regions: &plan.regions, layouts, machine };
            stage.programs.iter().map(|program: &Program| preparation.prepared(program, &mut Vec::new())).collect()
        };
        let stages = plan.stages.iter().map(prepare).collect();
        Ok(Executor::of(plan, Programs { stages, machine }))
    }

    /// A further executor of the same plan, with scratch memory of its own.
    pub(crate) fn of(plan: Plan, programs: Programs<T>) -> Self {
        let sizes = plan.regions.iter().map(|region| match (region.place, region.split) {
            (Place::Scratch, Split::Parts(parts)) => parts * region.units * region.pitch,
            (Place::Scratch, _) => region.units * region.pitch,
            _ => 0,
        });
        let arena = Arena::new(sizes);
        Executor { plan, programs, arena }
    }

    /// The programs, for further executors of the plan.
    pub(crate) fn programs(&self) -> Programs<T> {
        self.programs.clone()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Runs the plan. Concurrent stages use rayon's threads, those of the pool that the caller is in.
    pub fn call(&mut self, inputs: &[&[T]], outputs: &mut [&mut [T]]) -> Result<(), CallError> {
        self.call_until(inputs, outputs, &|| false).map(|_| ())
    }

    /// Runs the plan until `stop` says true, which it is asked every thousand iterations or so. Whether all of it ran.
    pub fn call_until(
        &mut self,
        inputs: &[&[T]],
        outputs: &mut [&mut [T]],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, CallError> {
        for region in &self.plan.regions {
            let expected = region.units * region.pitch;
            let found = match region.place {
                Place::Input(index) => inputs.get(index).map(|slice| slice.len()),
                Place::Output(index) => outputs.get(index).map(|slice| slice.len()),
                Place::Scratch => Some(expected),
            };
            if found != Some(expected) {
                return Err(CallError { place: region.place, expected, found });
            }
        }
        let Executor { plan, programs: Programs { stages, machine }, arena } = self;
        for (stage, programs) in plan.stages.iter().zip(stages.iter()) {
            let mut regions = regions_of(plan, stage, arena, inputs, outputs);
            let threads = stage.concurrent && stage.parts.len() > 1 && rayon::current_num_threads() > 1;
            let regions = regions.as_mut_slice();
            T::run_parts(*machine, RunParts { programs, parts: &stage.parts, regions, threads, stop });
            if stop() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The element types of the engine. All code that depends on them is compiled here, and not in the crates that use it.
pub trait Element: MathTable + sealed::Sealed {}

impl Element for f32 {}
impl Element for f64 {}

mod sealed {
    use super::{Machine, RunParts};
    #[cfg(feature = "jit")]
    use crate::narrow::{Code, Routine, Slicer};

    /// What an element type brings along for the executor.
    pub trait Sealed: Sized {
        /// Runs the parts of a stage.
        fn run_parts(machine: Machine, parts: RunParts<'_, '_, Self>);

        /// Code for registers as machine code.
        #[cfg(feature = "jit")]
        fn routine(code: &Code<Self>, slicer: Slicer<'_>) -> Option<Routine<Self>>;
    }

    impl Sealed for f32 {
        fn run_parts(machine: Machine, parts: RunParts<'_, '_, f32>) {
            machine.run(parts);
        }

        #[cfg(feature = "jit")]
        fn routine(code: &Code<f32>, slicer: Slicer<'_>) -> Option<Routine<f32>> {
            Routine::of(code, slicer)
        }
    }

    impl Sealed for f64 {
        fn run_parts(machine: Machine, parts: RunParts<'_, '_, f64>) {
            machine.run(parts);
        }

        #[cfg(feature = "jit")]
        fn routine(code: &Code<f64>, slicer: Slicer<'_>) -> Option<Routine<f64>> {
            Routine::of(code, slicer)
        }
    }
}

/// The regions as a stage sees them.
fn regions_of<'a, T>(
    plan: &Plan,
    stage: &Stage,
    arena: &'a mut Arena<T>,
    inputs: &[&'a [T]],
    outputs: &'a mut [&mut [T]],
) -> Regions<'a, T> {
    let one_part = stage.parts.len() == 1;
    let mut scratch = arena.slices();
    let mut regions: Regions<'a, T> = plan.regions.iter().map(|_| Wide::None).collect();
    let width = |split| match split {
        Split::Columns(width) => width,
        Split::Whole | Split::Parts(_) => 0,
    };
    let wide = |data: &'a mut [T], units: usize, pitch: usize, split| match split {
        _ if one_part => Wide::Own(data),
        Split::Parts(_) => Wide::Parts(data, units * pitch),
        Split::Whole => Wide::Read(data, 0),
        Split::Columns(width) => match ArrayViewMut2::from_shape((units, pitch), data) {
            Ok(array) => Wide::Columns(array, width),
            Err(_) => Wide::None,
        },
    };
    for (region, place) in plan.regions.iter().zip(&mut regions) {
        let own = scratch.next().unwrap_or_default();
        match region.place {
            Place::Input(index) => *place = Wide::Read(inputs[index], width(region.split)),
            Place::Scratch => *place = wide(own, region.units, region.pitch, region.split),
            Place::Output(_) => {}
        }
    }
    for (index, data) in outputs.iter_mut().enumerate() {
        if let Some(at) = plan.regions.iter().position(|region| region.place == Place::Output(index)) {
            let region = plan.regions[at];
            regions[at] = wide(data, region.units, region.pitch, region.split);
        }
    }
    regions
}

/// The parts of a stage, halved until one is left. The regions are taken.
pub struct RunParts<'p, 'a, T> {
    programs: &'p [Prepared<T>],
    parts: &'p [Part],
    regions: &'p mut [Wide<'a, T>],
    threads: bool,
    stop: Stop<'p>,
}

impl<T: MathTable> Work for RunParts<'_, '_, T> {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        let RunParts { programs, parts, regions, threads, stop } = self;
        let regions = regions.iter_mut().map(std::mem::take);
        if let [part] = parts {
            let mut views: SmallVec<[View<'_, T>; 32]> = SmallVec::new();
            views.extend(regions.map(Wide::into_view));
            return program::run(simd, &programs[part.program], &mut views, stop);
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
