//! Converts ops on tensors to instructions over rows and lanes.
//!
//! Each instruction is added at the level of the innermost loop that it depends on. Level 0 runs once, before the
//! parts. Level 1 is the program of a part, and level 2 is the body of its outermost loops. Adjacent axes are merged if
//! a single stride describes both of them in every operand. One of the resulting axes becomes the lanes, and the
//! longest of the others becomes the rows. Further axes become loops, or are unrolled into separate instructions.

mod axes;
mod folds;
mod fused;
mod positions;
mod shares;
mod units;

pub(super) use axes::order_of;
use axes::{Axis, across, axes_except, is_side_by_side, longest_axis, merge_axes, with_axis_order};

use super::blocks::Blocks;
use super::copies::Copied;
use super::memory::Memory;
use super::view::View;
use super::*;
use crate::fired::Fired;
use crate::kernels::packed_len;
use crate::plan::repeat;

/// The maximum number of instructions in a plan.
const MAX_INSTRUCTIONS: usize = 1 << 18;

/// The minimum sizes at which an axis becomes a loop instead of being unrolled. The first size applies to outermost
/// loops. The second applies to nested loops; it is larger because their addresses are recomputed each time they start.
const MIN_LOOP_SIZES: [usize; 2] = [4, 33];

/// The maximum number of lanes in a short row. For a kernel that executes about twenty instructions per vector, the
/// fixed overhead of a short row exceeds the cost of its elements.
const MAX_SHORT_ROW: usize = 64;

/// A program under construction.
#[derive(Default)]
pub(super) struct Emitter {
    pub(super) plan: Plan,
    pub(super) blocks: Blocks,
    /// The scratch memory that all parts share, and the scratch memory of one part.
    memory: [Memory; 2],
    /// The indices of the regions for the two elements of `memory`.
    registers: [usize; 2],
    /// The scratch memories of integers. Each entry holds the element type, a flag that is `true` if each part has its
    /// own memory, the memory, and the index of its region.
    integers: Vec<(Type, bool, Memory, usize)>,
    /// The size of a float of the plan, in bytes.
    element: usize,
    instructions: usize,
    /// The registers that hold constant numbers, keyed by the bits of the number.
    numbers: Vec<(u64, View)>,
    /// The transformations that the planner has applied so far.
    pub(super) fired: Fired,
    /// The version of the contents of each register and region.
    pub(super) contents: Contents,
    /// The cached packed matrices. Only matrices that are packed outside of all loops are cached.
    packs: Vec<Copied>,
    /// The cached copies of tensors in another layout. Only copies that are made outside of all loops are cached.
    copies: Vec<Copied>,
    /// The memory to which bodies copy results, because they load it, too.
    pub(super) copying: HashSet<funcify_analysis::Memory>,
    /// Registers for partial sums that start from an initial value in the first part, each with its initial value.
    initial_shares: Vec<(View, View)>,
    /// Results that are sums over all parts, each with the register for a part's partial sum.
    sums: Vec<(View, View)>,
}

impl Emitter {
    pub(super) fn new(element: usize) -> Self {
        let mut emitter = Emitter { element, ..Emitter::default() };
        emitter.registers =
            [Split::Whole, Split::Parts(1)].map(|split| emitter.plan.region(Storage::Scratch, 0, 1, split));
        emitter
    }

    /// Builds the plan. It runs the program on `parts` parts of `len` indices each.
    pub(super) fn finish(mut self, parts: usize, len: usize) -> Result<Plan> {
        let sums = self.emit_share_sums(parts)?;
        for (region, memory) in self.registers.into_iter().zip(&self.memory) {
            self.plan.regions[region].units = memory.len();
        }
        self.plan.regions[self.registers[1]].split = Split::Parts(parts);
        for (_, is_own, memory, region) in &self.integers {
            self.plan.regions[*region].units = memory.len();
            if *is_own {
                self.plan.regions[*region].split = Split::Parts(parts);
            }
        }
        let [shared, program] = self.blocks.into_programs();
        let mut plan = self.plan;
        if parts == 1 {
            plan.once([shared, program, sums].concat());
            return Ok(plan);
        }
        if !shared.is_empty() {
            plan.once(shared);
        }
        if !program.is_empty() {
            plan.parts(parts, len, program);
        }
        if !sums.is_empty() {
            plan.once(sums);
        }
        Ok(plan)
    }

    /// Returns the number of entries in each cache: the packed matrices, and the copies in another layout.
    pub(super) fn cached(&self) -> [usize; 2] {
        [self.packs.len(), self.copies.len()]
    }

    /// Drops the cache entries of a branch: those that were added since [`cached`](Emitter::cached) returned the counts
    /// in `cached`. Other code must not use these entries, because the branch might not run. Keeps the entries at level
    /// 0, because instructions at level 0 always run.
    pub(super) fn forget(&mut self, cached: [usize; 2]) {
        for (all, cached) in [&mut self.packs, &mut self.copies].into_iter().zip(cached) {
            let since = all.split_off(cached);
            all.extend(since.into_iter().filter(|copied| copied.copy.level == 0));
        }
    }

    /// Returns an operand for the element that holds a condition.
    pub(super) fn condition(&self, holds: &View) -> Operand {
        self.operand(holds, 0, &[], 0, Across::Element)
    }

    /// Reserves memory for a tensor of floats that instructions at `level` write.
    pub(super) fn reserve(&mut self, shape: &[usize], level: usize) -> View {
        self.reserve_typed(shape, level, Type::Float)
    }

    /// Reserves memory for a tensor with elements of type `ty` that instructions at `level` write.
    pub(super) fn reserve_typed(&mut self, shape: &[usize], level: usize, ty: Type) -> View {
        let (is_outside, own) = (level < self.blocks.depth(), level > 0);
        let (memory, region) = self.registers_of(ty, own);
        let register = memory.reserve(shape.iter().product(), is_outside);
        let view = View::whole(region, register.start, shape, level);
        let view = View { register: Some(register), ..view };
        if is_outside {
            self.blocks.keep_until_loop_ends(level + 1, view.clone());
        }
        view
    }

    /// Returns the scratch memory for elements of type `ty`, and the index of its region. With `is_own`, each part has
    /// its own memory; otherwise, all parts share the memory.
    fn registers_of(&mut self, ty: Type, is_own: bool) -> (Memory, usize) {
        if ty == Type::Float {
            let own = usize::from(is_own);
            return (self.memory[own].clone(), self.registers[own]);
        }
        let is_same = |(other, own, ..): &&(Type, bool, Memory, usize)| (*other, *own) == (ty, is_own);
        if let Some((_, _, memory, region)) = self.integers.iter().find(is_same) {
            return (memory.clone(), *region);
        }
        let split = if is_own { Split::Parts(1) } else { Split::Whole };
        let region = self.plan.typed_region(Storage::Scratch, 0, 1, split, ty);
        self.integers.push((ty, is_own, Memory::default(), region));
        (self.integers[self.integers.len() - 1].2.clone(), region)
    }

    /// Returns the type of a view's elements.
    pub(super) fn ty(&self, view: &View) -> Type {
        self.plan.regions[view.region].ty
    }

    /// Reserves memory for a tensor with elements of type `ty`. The axis `innermost` is innermost in memory; with
    /// `None`, the tensor is in row-major order.
    pub(super) fn reserve_as(&mut self, shape: &[usize], level: usize, innermost: Option<usize>, ty: Type) -> View {
        let Some(innermost) = innermost else { return self.reserve_typed(shape, level, ty) };
        let order: Vec<usize> = (0..shape.len()).filter(|axis| *axis != innermost).chain([innermost]).collect();
        self.reserve_ordered(shape, level, &order, ty)
    }

    /// Reserves memory for a tensor with elements of type `ty`. `order` lists the axes in memory order, outermost
    /// first.
    pub(super) fn reserve_ordered(&mut self, shape: &[usize], level: usize, order: &[usize], ty: Type) -> View {
        with_axis_order(self.reserve_typed(shape, level, ty), order, |_| true)
    }

    /// Returns a copy of a tensor in the memory layout of `like`, which has the same shape. Reuses a cached copy if
    /// possible. Axes along which the tensor is broadcast stay broadcast.
    fn copy_in_layout_of(&mut self, view: &View, like: &View) -> Result<View> {
        let is_outside = view.level <= 1;
        let has_order = |copy: &View| {
            (0..copy.shape.len())
                .all(|axis| copy.strides[axis] == 0 || like.strides[axis] != 1 || copy.strides[axis] == 1)
        };
        let is_cached = |copied: &&Copied| is_outside && copied.is_of(&self.contents, view) && has_order(&copied.copy);
        if let Some(copied) = self.copies.iter().find(is_cached) {
            self.fired.note(Transformation::LaidOnce);
            return Ok(copied.copy.clone());
        }
        let order = order_of(like);
        let is_own = |axis: usize| view.strides[axis] != 0;
        let own: Vec<usize> =
            (0..view.shape.len()).map(|axis| if is_own(axis) { view.shape[axis] } else { 1 }).collect();
        let register = self.reserve_typed(&own, view.level, self.ty(view));
        let own_elements = with_axis_order(register.clone(), &order, is_own);
        let from = view.with_axes(own, view.strides.clone());
        self.copy(&own_elements, &from)?;
        let copy = own_elements.with_axes(view.shape.clone(), own_elements.strides.clone());
        if is_outside {
            self.copies.push(Copied::new(&self.contents, view, &copy));
        }
        Ok(copy)
    }

    /// Returns a rank-0 tensor that holds the constant `number`.
    pub(super) fn number(&mut self, number: f64) -> Result<View> {
        if let Some((_, view)) = self.numbers.iter().find(|(bits, _)| *bits == number.to_bits()) {
            return Ok(view.clone());
        }
        let view = self.reserve(&[], 0);
        self.fill(&view, number)?;
        self.numbers.push((number.to_bits(), view.clone()));
        Ok(view)
    }

    /// Returns a tensor of the numbers 0, 1, ..., `count` - 1. A single instruction computes them as a running sum.
    pub(super) fn iota(&mut self, count: usize) -> Result<View> {
        let [one, before] = [self.number(1.0)?, self.number(-1.0)?];
        let to = self.reserve(&[count], 0);
        let op = Op::Recur { recurrence: Recurrence::Running(Fold::Sum), down: false };
        self.push(0, &op, [count, 1], &[&to, &before, &one], (&[1, 0, 0], &[Across::Lanes; 3]), &[])?;
        Ok(to)
    }

    /// Sets all elements of a tensor to `number`.
    pub(super) fn fill(&mut self, to: &View, number: f64) -> Result<()> {
        if self.ty(to) != Type::Float {
            return self.fill_integers(to, number as i64);
        }
        self.map(Op::Fill(number), to, &[])
    }

    /// Returns an operand that starts `start` elements after the start of the view. `along` lists the loops that will
    /// enclose only this instruction, each with the number of elements that the operand moves per iteration.
    fn operand(&self, view: &View, start: isize, along: &[(usize, isize)], row: isize, across: Across) -> Operand {
        let (start, mut steps) = (view.start.wrapping_add_signed(start), view.steps);
        for (index, stride) in along {
            steps[*index] += stride;
        }
        let row = usize::try_from(row).expect("the planner puts rows along axes that are not reversed");
        let region = self.plan.regions[view.region];
        let (unit, offset) = match region.split {
            Split::Columns(_) => {
                steps.iter_mut().for_each(|step| *step /= region.pitch as isize);
                (start / region.pitch, start % region.pitch)
            }
            Split::Whole | Split::Parts(_) => (start, 0),
        };
        Operand { region: view.region, unit, steps, offset, row, across }
    }

    /// Adds instructions to the block at `level`. The longest axes in `rest` become loops around each instruction. The
    /// other axes in `rest` are unrolled: each combination of their indices gets its own instruction. `row` holds the
    /// row stride of each operand, and `across` the kind of its rows.
    fn push(
        &mut self,
        level: usize,
        op: &Op,
        [rows, lanes]: [usize; 2],
        views: &[&View],
        (row, across): (&[isize], &[Across]),
        rest: &[&Axis],
    ) -> Result<()> {
        let first = vec![0; views.len()];
        let node = |operands: &[Operand]| op.clone().over([rows, lanes], operands[0], &operands[1..]);
        self.push_nodes(level, node, views, first, (row, across), rest)
    }

    /// Adds nodes in the same way as [`push`](Emitter::push), but calls `make` to create each node from its operands.
    /// `first` holds the offset of each operand from the start of its view.
    fn push_nodes(
        &mut self,
        level: usize,
        make: impl Fn(&[Operand]) -> Node,
        views: &[&View],
        first: Vec<isize>,
        (row, across): (&[isize], &[Across]),
        rest: &[&Axis],
    ) -> Result<()> {
        let moves_within = |view: &&View| {
            self.unit(view).is_some_and(|unit| view.steps.iter().any(|step| !step.unsigned_abs().is_multiple_of(unit)))
        };
        if views.iter().any(moves_within) {
            return Err(Declined::new("scan", "rows that are not whole units apart"));
        }
        let index = level.saturating_sub(1);
        let can_loop = |axis: &Axis| {
            let moves_by_units = |(view, stride): (&&View, &isize)| {
                self.unit(view).is_none_or(|unit| stride.unsigned_abs().is_multiple_of(unit))
            };
            axis.size >= MIN_LOOP_SIZES[usize::from(level > 1)] && views.iter().zip(&axis.strides).all(moves_by_units)
        };
        let mut looped: Vec<usize> = (0..rest.len()).filter(|axis| can_loop(rest[*axis])).collect();
        looped.sort_by_key(|axis| std::cmp::Reverse(rest[*axis].size));
        looped.truncate(DEPTH.saturating_sub(index));
        // The addresses of a nested loop are recomputed each time it starts, so nesting pays off only for long axes.
        let is_worth = |(depth, axis): (usize, &usize)| depth == 0 || rest[*axis].size >= MIN_LOOP_SIZES[1];
        let nested = looped.iter().enumerate().take_while(|looped| is_worth(*looped)).count();
        looped.truncate(nested);
        if nested > 1 {
            self.fired.note(Transformation::NestedAxes);
        }
        let mut starts = vec![first];
        for (_, axis) in rest.iter().enumerate().filter(|(axis, _)| !looped.contains(axis)) {
            self.check_instructions(starts.len().saturating_mul(axis.size))?;
            let along = |starts: &Vec<isize>| -> Vec<Vec<isize>> {
                let at = |index: usize| -> Vec<isize> {
                    starts.iter().zip(&axis.strides).map(|(start, stride)| start + index as isize * stride).collect()
                };
                (0..axis.size).map(at).collect()
            };
            starts = starts.iter().flat_map(along).collect();
        }
        self.check_instructions(starts.len())?;
        self.instructions += starts.len();
        self.contents.record_write(views[0].memory());
        for start in starts {
            let operands: Vec<Operand> = (0..views.len())
                .map(|at| {
                    let along: Vec<(usize, isize)> = looped
                        .iter()
                        .enumerate()
                        .map(|(depth, axis)| (index + depth, rest[*axis].strides[at]))
                        .collect();
                    self.operand(views[at], start[at], &along, row[at], across[at])
                })
                .collect();
            let node = make(&operands);
            if self.leaves_units(&node) {
                return Err(Declined::new("scan", "rows that cross the parallel axis"));
            }
            let looped = looped.iter().rev();
            self.blocks.push(level, looped.fold(node, |node, axis| repeat(rest[*axis].size, vec![node])));
        }
        Ok(())
    }

    /// Returns an error if `more` additional instructions would make the plan too large.
    pub(super) fn check_instructions(&self, more: usize) -> Result<()> {
        match self.instructions.saturating_add(more) > MAX_INSTRUCTIONS {
            true => Err(Declined::new("scan", format!("more than {MAX_INSTRUCTIONS} instructions"))),
            false => Ok(()),
        }
    }

    /// Emits an elementwise op. All operands must have the shape of the destination.
    pub(super) fn map(&mut self, op: Op, to: &View, from: &[&View]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        if let (Op::Unary(Unary::Copy), [from]) = (&op, from)
            && [self.ty(to), self.ty(from)] != [Type::Float; 2]
        {
            return self.convert(to, from);
        }
        if let Some(copied) = self.copied_where(from, |view| view.interleaves(to))? {
            return self.map(op, to, &copied.iter().collect::<Vec<_>>());
        }
        let views: Vec<&View> = [to].into_iter().chain(from.iter().copied()).collect();
        let axes = merge_axes(&views);
        let lanes = self.lanes(&axes, &views);
        if lanes.is_none() && axes.iter().any(|axis| axis.strides[0] == 1) {
            if let (Op::Unary(Unary::Copy), [from]) = (&op, from) {
                return self.transpose(to, from, &axes);
            }
            // If an operand is contiguous along a different axis than the destination, copy the operand, and give the
            // copy the destination's layout.
            let runs_across = |at: usize| axes.iter().any(|axis| axis.strides[0] == 1 && axis.strides[at].abs() > 1);
            let crossing: Vec<bool> = (1..views.len()).map(runs_across).collect();
            if crossing.contains(&true) {
                let mut laid = Vec::with_capacity(from.len());
                for (view, crosses) in from.iter().zip(&crossing) {
                    laid.push(if *crosses { self.copy_in_layout_of(view, to)? } else { (*view).clone() });
                }
                return self.map(op, to, &laid.iter().collect::<Vec<_>>());
            }
            let ordered = from.iter().map(|view| self.in_lanes(view)).collect::<Result<Vec<View>>>()?;
            let result = self.reserve(&to.shape, to.level);
            self.map(op, &result, &ordered.iter().collect::<Vec<_>>())?;
            return self.copy(to, &result);
        }
        if let (Op::Binary(Binary::ExpOfProduct), Some(lanes)) = (&op, lanes)
            && axes[lanes].strides.contains(&0)
            && axes[lanes].size <= MAX_SHORT_ROW
        {
            // Short rows are slow, so the product and the exponential become separate instructions. The exponential can
            // then process adjacent rows as a single long row.
            self.map(Op::Binary(Binary::Mul), to, from)?;
            return self.map(Op::Unary(Unary::Exp), to, &[to]);
        }
        let rows = self.rows(&axes, &views, lanes);
        self.push_along(&op, &views, &axes, rows, lanes)
    }

    /// Chooses the axis for the lanes of an instruction. Returns `None` if no axis is suitable.
    fn lanes(&self, axes: &[Axis], views: &[&View]) -> Option<usize> {
        axes.iter().rposition(|axis| self.is_within_units(axis, views) && is_side_by_side(axis))
    }

    /// Chooses the axis for the rows of an instruction, which must differ from the axis of its lanes. Returns `None` if
    /// no axis is suitable.
    fn rows(&self, axes: &[Axis], views: &[&View], lanes: Option<usize>) -> Option<usize> {
        longest_axis(axes, |index| {
            self.is_within_units(&axes[index], views) && axes[index].is_upward() && Some(index) != lanes
        })
    }

    /// Adds instructions whose rows extend along the axis with the index `rows`, and whose lanes extend along the axis
    /// with the index `lanes`. With `None` for an index, an instruction has a single row or a single lane,
    /// respectively.
    fn push_along(
        &mut self,
        op: &Op,
        views: &[&View],
        axes: &[Axis],
        rows: Option<usize>,
        lanes: Option<usize>,
    ) -> Result<()> {
        let size = [rows, lanes].map(|axis| axis.map_or(1, |axis| axes[axis].size));
        let row: Vec<isize> = (0..views.len()).map(|at| rows.map_or(0, |rows| axes[rows].strides[at])).collect();
        let across = |at: usize| lanes.map_or(Across::Lanes, |lanes| across(axes[lanes].strides[at]));
        let across: Vec<Across> = (0..views.len()).map(across).collect();
        self.push(views[0].level, op, size, views, (&row, &across), &axes_except(axes, [rows, lanes]))
    }

    /// Returns the view if its last axis with more than one element is contiguous or broadcast, and a copy otherwise.
    pub(super) fn in_lanes(&mut self, view: &View) -> Result<View> {
        let last = (0..view.shape.len()).rev().find(|axis| view.shape[*axis] > 1);
        if last.is_none_or(|axis| matches!(view.strides[axis], 0 | 1)) { Ok(view.clone()) } else { self.copied(view) }
    }

    /// Returns the view if none of its axes is reversed, and a copy otherwise.
    pub(super) fn without_reversed_axes(&mut self, view: &View) -> Result<View> {
        if view.is_reversed() { self.copied(view) } else { Ok(view.clone()) }
    }

    /// Copies the views for which `must` returns `true`. Returns all views, with each copied view replaced by its copy,
    /// or `None` if no view was copied.
    fn copied_where(&mut self, views: &[&View], must: impl Fn(&View) -> bool) -> Result<Option<Vec<View>>> {
        if !views.iter().any(|view| must(view)) {
            return Ok(None);
        }
        let copied = |view: &&View| if must(view) { self.copied(view) } else { Ok((*view).clone()) };
        views.iter().map(copied).collect::<Result<_>>().map(Some)
    }

    /// Returns a contiguous copy of a view.
    pub(super) fn copied(&mut self, view: &View) -> Result<View> {
        let copy = self.reserve_typed(&view.shape, view.level, self.ty(view));
        self.copy(&copy, view)?;
        Ok(copy)
    }

    /// Returns the matrices if products can read them in place, and a copy with contiguous rows otherwise.
    pub(super) fn in_rows(&mut self, matrix: &View) -> Result<View> {
        let last = matrix.shape.len() - 1;
        let has_rows = matrix.strides[last] == 1 || matrix.shape[last] == 1;
        let is_within_units = self.lies_within_units(&matrix.split_axes(last - 1).1);
        let is_at_hand = has_rows && !matrix.is_reversed() && is_within_units;
        if is_at_hand { Ok(matrix.clone()) } else { self.copied(matrix) }
    }

    /// Copies the elements of `from` to `to`, which has the same shape.
    pub(super) fn copy(&mut self, to: &View, from: &View) -> Result<()> {
        self.map(Op::Unary(Unary::Copy), to, &[from])
    }

    /// Copies a tensor that is contiguous along a different axis than the destination.
    fn transpose(&mut self, to: &View, from: &View, axes: &[Axis]) -> Result<()> {
        let views = [to, from];
        let along = |operand: usize| {
            axes.iter().position(|axis| self.is_within_units(axis, &views) && axis.strides[operand] == 1)
        };
        match (along(1), along(0)) {
            (Some(rows), Some(lanes)) if axes[rows].is_upward() && axes[lanes].is_upward() => {
                let row = [axes[rows].strides[0], axes[lanes].strides[1]];
                let rest = axes_except(axes, [Some(rows), Some(lanes)]);
                let size = [axes[rows].size, axes[lanes].size];
                self.push(to.level, &Op::Transpose, size, &views, (&row, &[Across::Lanes; 2]), &rest)
            }
            // Copy one element at a time, along the longest axis.
            _ => self.push_along(&Op::Unary(Unary::Copy), &views, axes, self.rows(axes, &views, None), None),
        }
    }

    /// Packs matrices `[.., k, n]` in the order in which products read them. Returns a tensor whose leading axes are
    /// those of the matrices, and whose last axis holds the packed elements of a matrix.
    pub(super) fn pack(&mut self, matrix: &View) -> Result<View> {
        let is_outside = matrix.level <= 1;
        let is_cached = |copied: &&Copied| is_outside && copied.is_of(&self.contents, matrix);
        if let Some(copied) = self.packs.iter().find(is_cached) {
            self.fired.note(Transformation::PackedOnce);
            return Ok(copied.copy.clone());
        }
        let source = self.without_reversed_axes(matrix)?;
        let source = self.within_units(&source)?;
        let axes = matrix.shape.len() - 2;
        let [k, n] = [matrix.shape[axes], matrix.shape[axes + 1]];
        let len = if self.element == size_of::<f32>() { packed_len::<f32>(k, n) } else { packed_len::<f64>(k, n) };
        // A broadcast matrix is packed only once.
        let is_own = |axis: usize| source.strides[axis] != 0;
        let own: Vec<usize> = (0..axes).map(|axis| if is_own(axis) { source.shape[axis] } else { 1 }).collect();
        let packed = self.reserve(&[own.as_slice(), &[len]].concat(), matrix.level);
        let op = Op::Pack { column: source.strides[axes + 1].unsigned_abs() };
        let (row, across) = ([0, source.strides[axes]], [Across::Lanes; 2]);
        let first = source.with_axes(own.clone(), source.strides[..axes].to_vec());
        let rest = batch_axes(&[&packed, &first], &own);
        let rest: Vec<&Axis> = rest.iter().collect();
        self.push(matrix.level, &op, [k, n], &[&packed, &first], (&row, &across), &rest)?;
        let strides = (0..axes).map(|axis| if is_own(axis) { packed.strides[axis] } else { 0 }).chain([1]).collect();
        let to = packed.with_axes([&source.shape[..axes], &[len]].concat(), strides);
        if is_outside {
            self.packs.push(Copied::new(&self.contents, matrix, &to));
        }
        Ok(to)
    }

    /// Emits instructions that write the product AᵀB to `to`. `sides` are the matrices A `[k, m]` and B `[k, n]`.
    pub(super) fn outer(&mut self, to: &View, sides: (&View, &View)) -> Result<()> {
        if !self.lies_within_units(to) {
            let sum = self.reserve(&to.shape, to.level);
            self.outer(&sum, sides)?;
            return self.copy(to, &sum);
        }
        self.fill(to, 0.0)?;
        self.sink(to, sides, (1, [0, 0]))
    }

    /// Emits an instruction that adds `count` products AᵀB to a matrix `[m, n]`, where A is `[k, m]` and B is `[k, n]`.
    /// `apart` holds the strides from one A to the next and from one B to the next, in elements.
    pub(super) fn sink(
        &mut self,
        to: &View,
        (left, right): (&View, &View),
        (count, apart): (usize, [isize; 2]),
    ) -> Result<()> {
        let [m, n, k] = [to.shape[0], to.shape[1], left.shape[0]];
        let units = |view: &View, apart: isize| apart / self.unit(view).unwrap_or(1) as isize;
        let block_steps = [units(left, apart[0]), units(right, apart[1])];
        let op = Op::Sink { blocks: count, block_rows: k, block_steps };
        let views = [to, left, right];
        let row = views.map(|view| view.strides[0]);
        self.push(to.level, &op, [m, n], &views, (&row, &[Across::Lanes; 3]), &[])
    }

    /// Emits instructions that compute a sum of matrix products and write it to `to`, of shape `[.., m, n]`. The
    /// initial value, if any, has the same shape. Each factor is a left operand `[.., m, k]` and a packed right
    /// operand. The function `then`, if any, is applied to each sum.
    pub(super) fn product(
        &mut self,
        to: &View,
        init: Option<&View>,
        factors: &[(View, View)],
        then: Option<Unary>,
    ) -> Result<()> {
        let axes = to.shape.len() - 2;
        let [m, n] = [to.shape[axes], to.shape[axes + 1]];
        if to.is_empty() {
            return Ok(());
        }
        // The destination of a product must have contiguous rows.
        if (n > 1 && to.strides[axes + 1] != 1) || !self.lies_within_units(&to.split_axes(axes).1) {
            let ordered = self.reserve(&to.shape, to.level);
            self.product(&ordered, init, factors, then)?;
            return self.copy(to, &ordered);
        }
        let (mut views, mut row, mut lanes) = (vec![to], vec![to.strides[axes]], vec![Across::Lanes]);
        if let Some(init) = init {
            views.push(init);
            row.push(init.strides[axes]);
            lanes.push(if n > 1 { across(init.strides[axes + 1]) } else { Across::Lanes });
        }
        for (left, right) in factors {
            views.extend([left, right]);
            row.extend([left.strides[axes], 0]);
            lanes.extend([Across::Lanes; 2]);
        }
        let inner = factors.iter().map(|(left, _)| left.shape[axes + 1]).collect();
        let op = Op::Product { inner, init: init.is_some(), then };
        let rest = batch_axes(&views, &to.shape[..axes]);
        self.push(to.level, &op, [m, n], &views, (&row, &lanes), &rest.iter().collect::<Vec<_>>())
    }
}

/// Returns the leading axes of the views, except those of size 1. `sizes` holds the sizes of all leading axes.
fn batch_axes(views: &[&View], sizes: &[usize]) -> Vec<Axis> {
    let axis = |(axis, size): (usize, &usize)| Axis {
        size: *size,
        strides: views.iter().map(|view| view.strides[axis]).collect(),
    };
    sizes.iter().enumerate().filter(|(_, size)| **size != 1).map(axis).collect()
}
