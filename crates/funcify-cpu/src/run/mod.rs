//! The executor: runs a checked plan, with its own scratch memory, on the caller's slices.

mod arena;
mod pieces;
mod positions;
mod program;
mod typed;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use funcify_body::{Item, Type};
use ndarray::ArrayViewMut2;
use pulp::Simd;
use smallvec::SmallVec;

use crate::body::{Setting, Translatable};
use crate::kernels::math::MathTable;
use crate::plan::{Nodes, Part, Plan, PlanError, Region, Split, Stage, Storage};
use crate::threads;
use crate::views::{Layout, UnsplitView, View};
use arena::Arena;
use funcify_body::machine::{Machine, Work};
use program::{Prepared, Stop};

/// The regions before they are split among parts. The list is stored inline unless a plan has many regions.
type Regions<'a, T> = SmallVec<[UnsplitView<'a, T>; 32]>;
/// The regions as one part sees them.
type Views<'a, T> = SmallVec<[View<'a, T>; 64]>;
/// The caller's slices for the outputs. When a region takes its slice, an empty slice is left in the list.
type Outputs<'a, T> = SmallVec<[&'a mut [T]; 8]>;

/// A checked plan, together with its scratch memory.
#[derive(Debug)]
pub struct Executor<T> {
    plan: Plan,
    programs: Programs<T>,
    arena: Arena<T>,
    /// The scratch memory for integers.
    bytes: Arena<u8>,
}

/// The caller's slice for an input of a plan.
#[derive(Debug)]
pub enum Slice<'a, T> {
    /// Floats.
    Float(&'a [T]),
    /// The bytes of integers.
    Bytes(&'a [u8]),
}

/// The caller's slice for an output of a plan.
#[derive(Debug)]
pub enum SliceMut<'a, T> {
    /// Floats.
    Float(&'a mut [T]),
    /// The bytes of integers.
    Bytes(&'a mut [u8]),
}

impl<T> Slice<'_, T> {
    /// Returns the length of the slice in elements of type `ty`, or `None` if `ty` is a float type and the slice
    /// contains integers, or vice versa.
    fn elements(&self, ty: Type) -> Option<usize> {
        match (self, ty) {
            (Slice::Float(floats), Type::Float) => Some(floats.len()),
            (Slice::Bytes(bytes), ty) if ty != Type::Float => Some(bytes.len() / ty.size(1)),
            _ => None,
        }
    }
}

impl<T> SliceMut<'_, T> {
    fn elements(&self, ty: Type) -> Option<usize> {
        match self {
            SliceMut::Float(floats) => Slice::Float(floats).elements(ty),
            SliceMut::Bytes(bytes) => Slice::<T>::Bytes(bytes).elements(ty),
        }
    }
}

/// The executable programs of a plan's stages. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Programs<T> {
    stages: Arc<[Vec<Prepared<T>>]>,
    /// For each stage, `true` if it runs on the thread pool even though it has a single part.
    is_pooled: Arc<[bool]>,
    machine: Machine,
}

/// The error for a slice that is missing, or whose length or element type does not match its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallError {
    /// The input or output, with its index.
    pub place: Storage,
    /// The number of elements that the plan requires.
    pub expected: usize,
    /// The number of elements in the slice, or `None` if the slice is missing or has another element type.
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
            let setting = Setting { regions: &plan.regions, layouts, machine, is_one_part };
            let prepared = |program: &Nodes| program::prepare(&setting, program, &mut Vec::new());
            stage.programs.iter().map(prepared).collect()
        };
        let stages: Arc<[Vec<Prepared<T>>]> = plan.stages.iter().map(prepare).collect();
        let is_pooled = |(stage, programs): (&Stage, &Vec<Prepared<T>>)| match stage.parts[..] {
            [part] => program::estimate(&programs[part.program]).pays_off(),
            _ => false,
        };
        let is_pooled = plan.stages.iter().zip(stages.iter()).map(is_pooled).collect();
        Ok(Executor::of(plan, Programs { stages, is_pooled, machine }))
    }

    /// Creates an executor with its own scratch memory, for a checked plan whose programs already exist.
    pub(crate) fn of(plan: Plan, programs: Programs<T>) -> Self {
        let size = |region: &Region, is_float: bool| match is_float == (region.ty == Type::Float) {
            true => region.scratch_elements() * region.ty.size(1),
            false => 0,
        };
        let arena = Arena::new(plan.regions.iter().map(|region| size(region, true)));
        let of_integers = if plan.is_float() { &[][..] } else { &plan.regions };
        let bytes = Arena::new(of_integers.iter().map(|region| size(region, false)));
        Executor { plan, programs, arena, bytes }
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
        let inputs: SmallVec<[Slice<'_, T>; 32]> = inputs.iter().copied().map(Slice::Float).collect();
        let mut outputs: SmallVec<[SliceMut<'_, T>; 8]> =
            outputs.iter_mut().map(|output| SliceMut::Float(output)).collect();
        self.call_typed(&inputs, &mut outputs, stop)
    }

    /// Runs the plan like [`call_until`](Executor::call_until), on slices of floats and of integers.
    pub fn call_typed(
        &mut self,
        inputs: &[Slice<'_, T>],
        outputs: &mut [SliceMut<'_, T>],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, CallError> {
        for region in &self.plan.regions {
            let expected = region.units * region.pitch;
            let found = match region.place {
                Storage::Input(index) => inputs.get(index).and_then(|slice| slice.elements(region.ty)),
                Storage::Output(index) => outputs.get(index).and_then(|slice| slice.elements(region.ty)),
                Storage::Scratch => Some(expected),
            };
            if found != Some(expected) {
                return Err(CallError { place: region.place, expected, found });
            }
        }
        let Executor { plan, programs: Programs { stages, is_pooled, machine }, arena, bytes } = self;
        let is_stopped = AtomicBool::new(false);
        let ask = || {
            let stops = stop();
            is_stopped.fetch_or(stops, Ordering::Relaxed);
            stops
        };
        let stop: Stop<'_> = &ask;
        for ((stage, programs), is_pooled) in plan.stages.iter().zip(stages.iter()).zip(is_pooled.iter()) {
            if let [part] = stage.parts[..] {
                let (mut views, mut integers) = (Views::new(), Views::new());
                let (floats, integer_outputs) = reborrow_outputs(outputs);
                push_views(plan, arena, (inputs, floats_of), floats, (true, &mut views));
                push_views(plan, bytes, (inputs, bytes_of), integer_outputs, (false, &mut integers));
                let program = &programs[part.program];
                let part = RunPart { program, views: &mut views, integers: &mut integers, stop };
                match *is_pooled && threads::is_pool_free() {
                    true => threads::with_helpers(|| T::run_part(*machine, part)),
                    false => T::run_part(*machine, part),
                }
            } else {
                let (floats, integer_outputs) = reborrow_outputs(outputs);
                let mut regions = regions_of(plan, arena, (inputs, floats_of), floats, true);
                let mut integers = regions_of(plan, bytes, (inputs, bytes_of), integer_outputs, false);
                let threads = stage.concurrent && rayon::current_num_threads() > 1;
                let (regions, integers) = (regions.as_mut_slice(), integers.as_mut_slice());
                T::run_parts(*machine, RunParts { programs, parts: &stage.parts, regions, integers, threads, stop });
            }
            if is_stopped.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// An element type of the engine. All code that is generic over the element type is compiled in this crate, not in its
/// dependents.
pub trait Element: Translatable + sealed::Sealed {}

impl Element for f32 {}
impl Element for f64 {}

mod sealed {
    use crate::run::{RunPart, RunParts};
    use funcify_body::machine::Machine;

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

/// Appends the views of all regions to `views`, for a stage with a single part. Filling the caller's list avoids a
/// copy. If `is_float` is set, the views of integer regions are empty. Otherwise, the views of float regions are empty.
fn push_views<'a, T, E>(
    plan: &Plan,
    arena: &'a mut Arena<E>,
    inputs: (&[Slice<'a, T>], Items<'a, T, E>),
    mut outputs: Outputs<'a, E>,
    (is_float, views): (bool, &mut Views<'a, E>),
) {
    for (region, own) in plan.regions.iter().zip(arena.slices()) {
        views.push(match region.place {
            _ if is_float != (region.ty == Type::Float) => View::None,
            Storage::Input(index) => View::Read(inputs.1(&inputs.0[index])),
            Storage::Scratch => View::Own(own),
            Storage::Output(index) => View::Own(std::mem::take(&mut outputs[index])),
        });
    }
}

/// Returns the views of all regions for a stage with several parts, before they are split. If `is_float` is set, the
/// views of integer regions are empty. Otherwise, the views of float regions are empty.
fn regions_of<'a, T, E>(
    plan: &Plan,
    arena: &'a mut Arena<E>,
    inputs: (&[Slice<'a, T>], Items<'a, T, E>),
    mut outputs: Outputs<'a, E>,
    is_float: bool,
) -> Regions<'a, E> {
    let regions = plan.regions.iter().zip(arena.slices()).map(|(region, own)| match region.place {
        _ if is_float != (region.ty == Type::Float) => UnsplitView::None,
        Storage::Input(index) => readable(inputs.1(&inputs.0[index]), region, region.ty.size(1)),
        Storage::Scratch => writable(own, region, region.ty.size(1)),
        Storage::Output(index) => writable(std::mem::take(&mut outputs[index]), region, region.ty.size(1)),
    });
    regions.collect()
}

/// A function that returns the items of an input: its elements if they are floats, and its bytes otherwise.
type Items<'a, T, E> = fn(&Slice<'a, T>) -> &'a [E];

/// Returns the view of an input before it is split among parts. `size` is the number of items per element.
fn readable<'a, T>(data: &'a [T], region: &Region, size: usize) -> UnsplitView<'a, T> {
    match region.split {
        Split::Columns(width) => UnsplitView::Read(data, width * size),
        Split::Whole | Split::Parts(_) => UnsplitView::Read(data, 0),
    }
}

/// Returns the view of a writable region before it is split among parts. `size` is the number of items per element.
fn writable<'a, T>(data: &'a mut [T], region: &Region, size: usize) -> UnsplitView<'a, T> {
    match region.split {
        Split::Parts(_) => UnsplitView::Parts(data, region.units * region.pitch * size),
        Split::Whole => UnsplitView::Read(data, 0),
        Split::Columns(width) => {
            let array = ArrayViewMut2::from_shape((region.units, region.pitch * size), data);
            let array = array.expect("checked above: every region has the expected number of elements");
            UnsplitView::Columns(array, width * size)
        }
    }
}

fn floats_of<'a, T>(slice: &Slice<'a, T>) -> &'a [T] {
    match slice {
        Slice::Float(floats) => floats,
        Slice::Bytes(_) => &[],
    }
}

fn bytes_of<'a, T>(slice: &Slice<'a, T>) -> &'a [u8] {
    match slice {
        Slice::Bytes(bytes) => bytes,
        Slice::Float(_) => &[],
    }
}

/// Reborrows the outputs as a list of float slices and a list of byte slices. Both lists have a slice for each output.
/// The slice is empty in the list that does not match the output's type.
fn reborrow_outputs<'a, T>(outputs: &'a mut [SliceMut<'_, T>]) -> (Outputs<'a, T>, Outputs<'a, u8>) {
    let (mut floats, mut integers): (Outputs<'a, T>, Outputs<'a, u8>) = Default::default();
    for output in outputs {
        match output {
            SliceMut::Float(output) => {
                floats.push(output);
                integers.push(&mut []);
            }
            SliceMut::Bytes(output) => {
                floats.push(&mut []);
                integers.push(output);
            }
        }
    }
    (floats, integers)
}

/// A single part of a stage, ready to run.
pub struct RunPart<'p, 'a, T> {
    program: &'p Prepared<T>,
    views: &'p mut [View<'a, T>],
    integers: &'p mut [View<'a, u8>],
    stop: Stop<'p>,
}

impl<T: MathTable + Item> Work for RunPart<'_, '_, T> {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        program::run(simd, self.program, self.views, self.integers, self.stop);
    }
}

/// Several parts of a stage, which are split in half recursively, down to single parts. Running the parts consumes the
/// regions.
pub struct RunParts<'p, 'a, T> {
    programs: &'p [Prepared<T>],
    parts: &'p [Part],
    regions: &'p mut [UnsplitView<'a, T>],
    integers: &'p mut [UnsplitView<'a, u8>],
    threads: bool,
    stop: Stop<'p>,
}

impl<T: MathTable + Item> Work for RunParts<'_, '_, T> {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        let RunParts { programs, parts, regions, integers, threads, stop } = self;
        if let [part] = parts {
            let (mut views, mut integers) = (views_of(regions), views_of(integers));
            let program = &programs[part.program];
            return RunPart { program, views: &mut views, integers: &mut integers, stop }.run(simd);
        }
        let (first, rest) = parts.split_at(parts.len() / 2);
        let indices = first.iter().map(|part| part.len).sum();
        let [mut first_regions, mut rest_regions] = split_regions(regions, first.len(), indices);
        let [mut first_integers, mut rest_integers] = split_regions(integers, first.len(), indices);
        let (regions, integers) = (first_regions.as_mut_slice(), first_integers.as_mut_slice());
        let first = RunParts { programs, parts: first, regions, integers, threads, stop };
        let (regions, integers) = (rest_regions.as_mut_slice(), rest_integers.as_mut_slice());
        let rest = RunParts { programs, parts: rest, regions, integers, threads, stop };
        if threads {
            rayon::join(|| first.run(simd), || rest.run(simd));
        } else {
            first.run(simd);
            rest.run(simd);
        }
    }
}

fn views_of<'a, T>(regions: &mut [UnsplitView<'a, T>]) -> Views<'a, T> {
    regions.iter_mut().map(std::mem::take).map(UnsplitView::into_view).collect()
}

/// Splits each region in two: one for the first `parts` parts, which together have `indices` indices of the parallel
/// axis, and one for the remaining parts.
fn split_regions<'a, T>(regions: &mut [UnsplitView<'a, T>], parts: usize, indices: usize) -> [Regions<'a, T>; 2] {
    let (mut first, mut rest) = (Regions::new(), Regions::new());
    for region in regions.iter_mut().map(std::mem::take) {
        let (left, right) = region.split(parts, indices);
        first.push(left);
        rest.push(right);
    }
    [first, rest]
}
