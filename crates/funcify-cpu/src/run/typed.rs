//! Runs fused bodies, ops that are computed as a whole, and instructions that move or fold integers.

use std::sync::Arc;

use funcify_body::integer::Integer;
use funcify_body::{Fused, IntBinary, Item, Streams, Type, with_tiles};
use funcify_core::error::{Place, Site};
use funcify_core::ops::{EvalContext, OpRules};
use funcify_core::types::Sizes;
use funcify_core::{DType, HostTensor};
use pulp::bytemuck::{Pod, cast_slice, cast_slice_mut};
use pulp::{Scalar, Simd};
use smallvec::SmallVec;

use super::pieces::{self, Pieces, Places};
use super::positions::{Index, Movement};
use crate::body::Setting;
use crate::kernels::math::MathTable;
use crate::kernels::table::Elementwise;
use crate::kernels::whole::{WholeKernel, elements, elements_mut};
use crate::kernels::{Fold, Recurrence};
use crate::plan::{Across, DEPTH, Evaluation, FusedNode, Instruction, Op};
use crate::threads::{Estimate, are_threads_at_hand};
use crate::views::{Range, Start, Unwritten, View, borrow};
use funcify_body::float::Float;

/// The estimated time per lane of an op in a fused body, in nanoseconds.
const NS_PER_LANE: f64 = 1.0;
/// The estimated time per element of an op in the reference evaluator, in nanoseconds.
const NS_PER_EVALUATION: f64 = 50.0;

/// A fused body, an op that is computed as a whole, or an instruction on integers, in executable form.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    kind: Kind,
    /// The location of each operand in the first iteration of the enclosing loops, and its strides.
    starts: SmallVec<[Start; 4]>,
    /// The type of each operand's elements.
    types: SmallVec<[Type; 4]>,
    /// The estimated run time, in nanoseconds.
    pub(crate) nanoseconds: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    Instruction(Instruction),
    /// A fused body, and its pieces if it may run on several threads.
    Fused(Arc<Fused>, Option<Arc<Pieces>>),
    Evaluation(Evaluation),
}

impl Typed {
    /// Converts an instruction to executable form.
    pub(crate) fn instruction<T: Float>(setting: &Setting<'_>, instruction: &Instruction) -> Self {
        let spans = instruction.spans::<T>().expect("the plan was checked: every operand has a span");
        let operands = || std::iter::once(&instruction.to).chain(&instruction.from);
        let starts = operands().zip(spans).map(|(operand, span)| Start::of(&setting.layouts, operand, span, 0));
        Typed {
            starts: starts.collect(),
            types: operands().map(|operand| setting.regions[operand.region].ty).collect(),
            nanoseconds: instruction.nanoseconds() as u64,
            kind: Kind::Instruction(instruction.clone()),
        }
    }

    /// Converts a fused body to executable form, and divides a large body into pieces if the stage has a single part.
    pub(crate) fn fused(setting: &Setting<'_>, FusedNode { fused, streams }: &FusedNode) -> Self {
        let start = |(stream, operand)| Start::of(&setting.layouts, operand, fused.span(stream), 0);
        let ops = fused.body().nodes().len() as f64;
        let pieces = if setting.is_one_part { Pieces::of(fused) } else { None };
        Typed {
            starts: streams.iter().enumerate().map(start).collect(),
            types: (0..streams.len()).map(|stream| fused.ty(stream)).collect(),
            nanoseconds: (NS_PER_LANE * ops * fused.lanes() as f64) as u64,
            kind: Kind::Fused(fused.clone(), pieces.map(Arc::new)),
        }
    }

    /// Converts an op that is computed as a whole to executable form.
    pub(crate) fn evaluation(setting: &Setting<'_>, evaluation: &Evaluation) -> Self {
        let operands = || evaluation.inputs.iter().chain(&evaluation.outputs);
        let elements =
            |ty: &funcify_core::TensorType| ty.shape.value(&Sizes::new()).unwrap_or_default().iter().product::<usize>();
        let starts = operands().map(|(operand, ty)| Start::of(&setting.layouts, operand, elements(ty), 0));
        let all: usize = operands().map(|(_, ty)| elements(ty)).sum();
        Typed {
            starts: starts.collect(),
            types: operands().map(|(operand, _)| setting.regions[operand.region].ty).collect(),
            nanoseconds: match &evaluation.kernel {
                Some(kernel) => kernel.nanoseconds(all) as u64,
                None => (NS_PER_EVALUATION * all as f64) as u64,
            },
            kind: Kind::Evaluation(evaluation.clone()),
        }
    }

    /// Returns the estimated run time, and how much of it may run on several threads.
    pub(crate) fn estimate(&self) -> Estimate {
        match &self.kind {
            Kind::Fused(fused, None) => Estimate { all: pieces::nanoseconds(fused), on_threads: 0.0 },
            Kind::Fused(fused, Some(_)) => {
                let all = pieces::nanoseconds(fused);
                Estimate { all, on_threads: all }
            }
            Kind::Instruction(_) | Kind::Evaluation(_) => Estimate { all: self.nanoseconds as f64, on_threads: 0.0 },
        }
    }

    /// Runs the node in the current iteration of each enclosing loop. `ranges` is memory for the ranges of its
    /// operands.
    pub(crate) fn run<'a, T: MathTable + Item, S: Simd>(
        &self,
        simd: S,
        views: &mut [View<'a, T>],
        integers: &mut [View<'a, u8>],
        ranges: &mut Vec<(usize, Range)>,
        (counters, level): (&[isize; DEPTH], usize),
    ) {
        ranges.clear();
        // A loop of `push` takes less time than `extend` for a few elements.
        for start in &self.starts {
            ranges.push((start.region, start.inside(counters, level).range));
        }
        match &self.kind {
            Kind::Fused(fused, pieces) => {
                let places = Places { ranges, types: &self.types };
                if let Some(pieces) = pieces
                    && are_threads_at_hand()
                    && pieces.run::<T, S>(simd, views, integers, places)
                {
                    return;
                }
                let mut memory = Memory { views, integers, ranges, types: &self.types };
                with_tiles(|tiles| tiles.run::<T, S>(simd, fused, &mut memory));
            }
            Kind::Evaluation(evaluation) => {
                let mut memory = Memory { views, integers, ranges, types: &self.types };
                match &evaluation.kernel {
                    Some(kernel) => memory.run_kernel(simd, kernel, evaluation.inputs.len()),
                    None => evaluate(evaluation, &mut memory),
                }
            }
            Kind::Instruction(instruction) => {
                run_instruction(instruction, views, integers, ranges, &self.types);
            }
        }
    }
}

/// The memory of a node's operands, as bytes.
struct Memory<'m, 'a, T> {
    views: &'m mut [View<'a, T>],
    integers: &'m mut [View<'a, u8>],
    ranges: &'m [(usize, Range)],
    types: &'m [Type],
}

impl<T: Pod> Streams for Memory<'_, '_, T> {
    #[inline]
    fn read(&self, stream: usize) -> &[u8] {
        let (region, range) = self.ranges[stream];
        match self.types[stream] {
            Type::Float => cast_slice(self.views[region].read(range)),
            _ => self.integers[region].read(range),
        }
    }

    fn write(&mut self, stream: usize) -> &mut [u8] {
        let (region, range) = self.ranges[stream];
        match self.types[stream] {
            Type::Float => cast_slice_mut(self.views[region].write(range)),
            _ => self.integers[region].write(range),
        }
    }

    #[inline]
    fn write_beside(&mut self, stream: usize, read: [Option<usize>; 4], run: impl FnOnce(&mut [u8], &[&[u8]; 4])) {
        self.with_others(stream, |to, others| {
            let mut beside: [&[u8]; 4] = [&[]; 4];
            for (bytes, stream) in beside.iter_mut().zip(read) {
                if let Some(stream) = stream {
                    *bytes = others.read(stream).expect(BESIDE);
                }
            }
            run(to, &beside);
        });
    }
}

/// The `expect` message for reading a stream while another one is written.
const BESIDE: &str = "a step writes to a stream only if it is apart from the streams that the step reads";

impl<T: MathTable> Memory<'_, '_, T> {
    /// Runs a kernel that computes a whole op with `inputs` operands. Computes the results from the last to the first.
    fn run_kernel<S: Simd>(&mut self, simd: S, kernel: &WholeKernel, inputs: usize) {
        for stream in (inputs..self.ranges.len()).rev() {
            self.with_slices(stream, |to, from| kernel.run::<T, S>(simd, stream - inputs, to, from));
        }
    }

    /// Calls `run` with the bytes of the stream to write, and the bytes of all streams. The list of all streams has an
    /// empty slice in place of the stream to write.
    fn with_slices(&mut self, written: usize, run: impl FnOnce(&mut [u8], &[&[u8]])) {
        let streams = 0..self.ranges.len();
        self.with_others(written, |to, others| {
            let read = |stream| others.read(stream).unwrap_or_default();
            run(to, &streams.map(read).collect::<SmallVec<[&[u8]; 4]>>());
        });
    }
}

impl<'a, T: Pod> Memory<'_, 'a, T> {
    /// Calls `run` with the bytes of the stream to write, and the other streams.
    #[inline(always)]
    fn with_others(&mut self, written: usize, run: impl FnOnce(&mut [u8], &Others<'_, 'a, T>)) {
        let Memory { ref mut views, ref mut integers, ranges, types } = *self;
        let (region, range) = ranges[written];
        if types[written] == Type::Float {
            let mut columns = None;
            let (to, views) = borrow(views, region, range, &mut columns);
            run(cast_slice_mut(to), &Others { regions: OtherRegions::OfFloats(views, integers), ranges, types });
        } else {
            let mut columns = None;
            let (to, integers) = borrow(integers, region, range, &mut columns);
            run(to, &Others { regions: OtherRegions::OfIntegers(views, integers), ranges, types });
        }
    }
}

/// The memory of a node's operands, except the stream that is being written.
struct Others<'v, 'a, T> {
    regions: OtherRegions<'v, 'a, T>,
    ranges: &'v [(usize, Range)],
    types: &'v [Type],
}

/// The elements of all regions, except those of a stream in a region of floats or of integers.
enum OtherRegions<'v, 'a, T> {
    OfFloats(Unwritten<'v, 'a, T>, &'v [View<'a, u8>]),
    OfIntegers(&'v [View<'a, T>], Unwritten<'v, 'a, u8>),
}

impl<'v, T: Pod> Others<'v, '_, T> {
    /// Returns the bytes of a stream, or `None` if it is being written.
    #[inline(always)]
    fn read(&self, stream: usize) -> Option<&'v [u8]> {
        let (region, range) = self.ranges[stream];
        match (&self.regions, self.types[stream]) {
            (OtherRegions::OfFloats(views, _), Type::Float) => views.read(region, range).map(cast_slice),
            (OtherRegions::OfFloats(_, integers), _) => Some(integers[region].read(range)),
            (OtherRegions::OfIntegers(views, _), Type::Float) => Some(cast_slice(views[region].read(range))),
            (OtherRegions::OfIntegers(_, integers), _) => integers.read(region, range),
        }
    }
}

/// Runs an op in the reference evaluator.
fn evaluate<T: MathTable + Item>(evaluation: &Evaluation, memory: &mut Memory<'_, '_, T>) {
    let Evaluation { op, inputs, outputs, sizes, .. } = evaluation;
    let shape = |ty: &funcify_core::TensorType| ty.shape.value(&Sizes::new()).expect("the planner knows all sizes");
    let tensor = |(stream, (_, ty)): (usize, &(_, funcify_core::TensorType))| {
        let bytes = memory.read(stream);
        let tensor = match memory.types[stream] {
            Type::Float if size_of::<T>() == 8 => HostTensor::from_vec(elements::<f64>(bytes).to_vec(), shape(ty)),
            Type::Float => HostTensor::from_vec(elements::<f32>(bytes).to_vec(), shape(ty)),
            Type::I64 => HostTensor::from_vec(elements::<i64>(bytes).to_vec(), shape(ty)),
            Type::I32 => HostTensor::from_vec(elements::<i32>(bytes).to_vec(), shape(ty)),
            Type::U32 => HostTensor::from_vec(elements::<u32>(bytes).to_vec(), shape(ty)),
            Type::U8 => HostTensor::from_vec(bytes.to_vec(), shape(ty)),
            Type::Mask => HostTensor::from_vec(bytes.iter().map(|byte| *byte != 0).collect(), shape(ty)),
        };
        let tensor = tensor.expect("an operand has as many elements as its shape");
        if tensor.dtype() == ty.dtype { tensor } else { tensor.cast(ty.dtype) }
    };
    let operands: Vec<HostTensor> = inputs.iter().enumerate().map(tensor).collect();
    let types: Vec<funcify_core::TensorType> = outputs.iter().map(|(_, ty)| ty.clone()).collect();
    let (at, mut sizes) = (Place::new(op.name(), Site::Unknown), sizes.clone());
    let results = op.eval(&mut EvalContext { at, sizes: &mut sizes }, &operands, &types);
    let results = results.expect("the planner evaluates only ops that cannot fail");
    for (index, result) in results.iter().enumerate() {
        let stream = inputs.len() + index;
        let ty = memory.types[stream];
        let to = memory.write(stream);
        match ty {
            Type::Float => {
                for (to, scalar) in elements_mut::<T>(to).iter_mut().zip(result.scalars()) {
                    *to = T::from_f64(scalar.as_f64());
                }
            }
            Type::I64 => copy_integers::<i64>(to, result),
            Type::I32 => copy_integers::<i32>(to, result),
            Type::U32 => copy_integers::<u32>(to, result),
            Type::U8 => copy_integers::<u8>(to, result),
            Type::Mask => copy_integers::<u8>(to, &result.cast(DType::U8)),
        }
    }
}

fn copy_integers<I: Integer>(to: &mut [u8], result: &HostTensor) {
    for (to, scalar) in elements_mut::<I>(to).iter_mut().zip(result.scalars()) {
        *to = I::of(scalar.as_i64());
    }
}

fn run_instruction<T: MathTable + Item>(
    instruction: &Instruction,
    views: &mut [View<'_, T>],
    integers: &mut [View<'_, u8>],
    ranges: &[(usize, Range)],
    types: &[Type],
) {
    let float = size_of::<T>();
    // All operands have the type of the destination, except that the index may have another type.
    let last = ranges.len() - 1;
    let of_index = matches!(instruction.op, Op::Take { .. } | Op::Put { .. } | Op::Scatter { .. }).then_some(last);
    if types[0] == Type::Float {
        let mut columns = None;
        let (to, others) = borrow(views, ranges[0].0, ranges[0].1, &mut columns);
        let x = others.read(ranges[1].0, ranges[1].1).expect(APART);
        let index = of_index.map_or(Index::None, |index| {
            let bytes = match types[index] {
                Type::Float => cast_slice(others.read(ranges[index].0, ranges[index].1).expect(APART)),
                _ => integers[ranges[index].0].read(ranges[index].1),
            };
            Index::of(types[index], bytes, float)
        });
        let movement = Movement { instruction, to, x, index };
        return match instruction.op {
            Op::Scatter { then: Some(then), .. } => {
                movement.run(|fold, x, y| then.of_elements(Scalar::new(), [fold_floats::<T>(fold, x, y)]))
            }
            _ => movement.run(fold_floats::<T>),
        };
    }
    let mut columns = None;
    let (to, others) = borrow(integers, ranges[0].0, ranges[0].1, &mut columns);
    let x = others.read(ranges[1].0, ranges[1].1).expect(APART);
    let index = of_index.map_or(Index::None, |index| {
        let bytes = match types[index] {
            Type::Float => cast_slice(views[ranges[index].0].read(ranges[index].1)),
            _ => others.read(ranges[index].0, ranges[index].1).expect(APART),
        };
        Index::of(types[index], bytes, float)
    });
    let initial =
        if let Op::Recur { .. } = instruction.op { Some(others.read(ranges[2].0, ranges[2].1)) } else { None };
    match types[0] {
        Type::I64 => along::<i64>(instruction, to, x, index, initial.flatten()),
        Type::I32 => along::<i32>(instruction, to, x, index, initial.flatten()),
        Type::U32 => along::<u32>(instruction, to, x, index, initial.flatten()),
        Type::Float | Type::U8 | Type::Mask => along::<u8>(instruction, to, x, index, initial.flatten()),
    }
}

/// The `expect` message for reading an operand.
const APART: &str = "the plan was checked: instructions on integers do not read their destination";

fn along<I: Integer>(instruction: &Instruction, to: &mut [u8], x: &[u8], index: Index<'_>, second: Option<&[u8]>) {
    let (to, x): (&mut [I], &[I]) = (cast_slice_mut(to), cast_slice(x));
    match &instruction.op {
        Op::FoldRows { fold, .. } => fold_rows(instruction, *fold, to, x),
        Op::FoldLanes { fold, .. } => fold_lanes(instruction, *fold, to, x),
        Op::Recur { recurrence: Recurrence::Running(fold), down } => {
            let initial = x;
            recur(instruction, *fold, *down, to, initial, cast_slice(second.expect(APART)));
        }
        _ => Movement { instruction, to, x, index }.run(fold_integers::<I>),
    }
}

fn fold_floats<T: Float>(fold: Fold, x: T, y: T) -> T {
    match fold {
        Fold::Sum => x.plus(y),
        Fold::Product => x.times(y),
        Fold::Max => x.larger(y),
        Fold::Min => x.smaller(y),
    }
}

#[inline(always)]
fn fold_integers<I: Integer>(fold: Fold, x: I, y: I) -> I {
    match fold {
        Fold::Sum => I::binary(IntBinary::Add, x, y),
        Fold::Product => I::binary(IntBinary::Mul, x, y),
        Fold::Max => x.max(y),
        Fold::Min => x.min(y),
    }
}

fn identity<I: Integer>(fold: Fold) -> I {
    match fold {
        Fold::Sum => I::of(0),
        Fold::Product => I::of(1),
        Fold::Max => I::LEAST,
        Fold::Min => I::GREATEST,
    }
}

fn fold_rows<I: Integer>(instruction: &Instruction, fold: Fold, to: &mut [I], x: &[I]) {
    let Instruction { rows, lanes, from, .. } = instruction;
    let to = &mut to[..*lanes];
    to.fill(identity(fold));
    for row in 0..*rows {
        let x = &x[row * from[0].row..][..*lanes];
        match fold {
            Fold::Sum => to.iter_mut().zip(x).for_each(|(to, x)| *to = fold_integers(Fold::Sum, *to, *x)),
            Fold::Product => to.iter_mut().zip(x).for_each(|(to, x)| *to = fold_integers(Fold::Product, *to, *x)),
            Fold::Max => to.iter_mut().zip(x).for_each(|(to, x)| *to = (*to).max(*x)),
            Fold::Min => to.iter_mut().zip(x).for_each(|(to, x)| *to = (*to).min(*x)),
        }
    }
}

fn fold_lanes<I: Integer>(instruction: &Instruction, fold: Fold, to: &mut [I], x: &[I]) {
    let Instruction { rows, lanes, to: target, from, .. } = instruction;
    for row in 0..*rows {
        let x = x[row * from[0].row..][..*lanes].iter().copied();
        to[row * target.row] = match fold {
            Fold::Sum => x.fold(I::of(0), |sum, x| fold_integers(Fold::Sum, sum, x)),
            Fold::Product => x.fold(I::of(1), |product, x| fold_integers(Fold::Product, product, x)),
            Fold::Max => x.fold(I::LEAST, Ord::max),
            Fold::Min => x.fold(I::GREATEST, Ord::min),
        };
    }
}

/// Computes running sums, products, maxima or minima of rows, from the last row to the first if `down` is set.
fn recur<I: Integer>(instruction: &Instruction, fold: Fold, down: bool, to: &mut [I], initial: &[I], x: &[I]) {
    let Instruction { rows, lanes, to: target, from, .. } = instruction;
    let lane_of = |operand: usize, lane: usize| if from[operand].across == Across::Lanes { lane } else { 0 };
    for step in 0..*rows {
        let row = if down { rows - 1 - step } else { step };
        for lane in 0..*lanes {
            let before = match step {
                0 => initial[lane_of(0, lane)],
                _ => to[if down { row + 1 } else { row - 1 } * target.row + lane],
            };
            to[row * target.row + lane] = fold_integers(fold, before, x[row * from[1].row + lane_of(1, lane)]);
        }
    }
}
