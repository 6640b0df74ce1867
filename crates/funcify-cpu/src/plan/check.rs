//! Checks that a plan is valid.
//!
//! The unit that an operand accesses is linear in the loop counters, so its minimum and maximum follow from the first
//! and last iteration of each loop. A source operand in the destination's region must either coincide exactly with the
//! destination in every iteration, or never overlap it.

use std::fmt;

use funcify_core::types::Sizes;

use super::{
    Across, DEPTH, Evaluation, FusedNode, Instruction, Node, Op, Operand, Part, Plan, Region, Split, Stage, Storage,
    UNBOUNDED_ITERATIONS,
};
use funcify_body::float::Float;

/// A reason why a plan is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// The location of the fault: the regions, a stage, or an instruction (its stage, its part, and its index in each
    /// nested list of nodes).
    pub place: String,
    /// A description of the problem.
    pub reason: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Checks that the plan is valid for elements of type `T`.
    pub fn check<T: Float>(&self) -> Result<(), PlanError> {
        let in_regions = |reason| PlanError { place: "regions".to_string(), reason };
        self.check_regions().map_err(in_regions)?;
        for (number, stage) in self.stages.iter().enumerate() {
            let at = |what: &str, reason| PlanError { place: format!("stage {number}{what}"), reason };
            self.check_stage(stage).map_err(|reason| at("", reason))?;
            for (part_number, part) in stage.parts.iter().enumerate() {
                let in_part = Checker { plan: self, stage, part: *part };
                let mut path = Vec::new();
                in_part
                    .nodes::<T>(&stage.programs[part.program], &mut Vec::new(), &mut path)
                    .map_err(|reason| at(&format!(", part {part_number}, node {path:?}"), reason))?;
            }
        }
        Ok(())
    }

    fn check_regions(&self) -> Result<(), String> {
        for (index, region) in self.regions.iter().enumerate() {
            let same = self.regions[..index].iter().any(|other| other.place == region.place);
            match (region.place, region.split) {
                (Storage::Output(output), _) if same => return Err(format!("output {output} has two regions")),
                (Storage::Input(_) | Storage::Output(_), Split::Parts(_)) => {
                    return Err(format!("region {index} is an input or output, which cannot have a copy per part"));
                }
                (_, Split::Columns(width)) if width == 0 || region.pitch % width != 0 => {
                    return Err(format!(
                        "region {index}: units of {} elements cannot be divided into columns of {width}",
                        region.pitch
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_stage(&self, stage: &Stage) -> Result<(), String> {
        if stage.parts.is_empty() {
            return Err("the stage has no parts".to_string());
        }
        match stage.parts.iter().find(|part| part.program >= stage.programs.len()) {
            Some(part) => Err(format!("the stage has no program {}", part.program)),
            None => Ok(()),
        }
    }
}

/// The checker for the instructions of one part.
struct Checker<'a> {
    plan: &'a Plan,
    stage: &'a Stage,
    part: Part,
}

/// The elements that an operand accesses: the minimum and maximum unit, and the range of elements within a unit.
#[derive(Clone, Copy)]
struct Touched {
    units: [isize; 2],
    offset: usize,
    span: usize,
}

impl Checker<'_> {
    /// Checks nodes that are nested in loops with the trip counts `times`. On failure, `path` holds the indices that
    /// lead to the faulty node, outermost first.
    fn nodes<T: Float>(&self, nodes: &[Node], times: &mut Vec<usize>, path: &mut Vec<usize>) -> Result<(), String> {
        for (index, node) in nodes.iter().enumerate() {
            path.push(index);
            match node {
                Node::Do(instruction) => self.check_instruction::<T>(instruction, times)?,
                Node::Fused(node) => self.check_fused(node, times)?,
                Node::Evaluate(node) => self.check_evaluation(node, times)?,
                Node::Loop { .. } | Node::While { .. } if times.len() == DEPTH => {
                    return Err(format!("more than {DEPTH} loops deep"));
                }
                Node::While { bound: Some(0), .. } => {}
                Node::While { test, holds, body, bound } => {
                    times.push(bound.unwrap_or(UNBOUNDED_ITERATIONS));
                    self.nodes::<T>(test, times, path)?;
                    self.check_condition(holds, times)?;
                    self.nodes::<T>(body, times, path)?;
                    times.pop();
                }
                Node::Choice { holds, branches } => {
                    self.check_condition(holds, times)?;
                    branches.iter().try_for_each(|nodes| self.nodes::<T>(nodes, times, path))?;
                }
                Node::Loop { times: 0, .. } => {}
                Node::Loop { times: count, body } => {
                    times.push(*count);
                    self.nodes::<T>(body, times, path)?;
                    times.pop();
                }
            }
            path.pop();
        }
        Ok(())
    }

    /// Checks that the element that holds a condition is within its region.
    fn check_condition(&self, holds: &Operand, times: &[usize]) -> Result<(), String> {
        let touched = self.touched_units(holds, 1, times, (1, 0))?;
        self.check_bounds(holds, touched).map_err(|reason| format!("condition: {reason}"))
    }

    /// Checks a fused body. A stored stream must not overlap any other stream of the same region, unless the two
    /// streams coincide exactly, have the same strides, and are not declared to be apart.
    fn check_fused(&self, FusedNode { fused, streams }: &FusedNode, times: &[usize]) -> Result<(), String> {
        if streams.len() != fused.streams() {
            return Err(format!("{} streams instead of {}", streams.len(), fused.streams()));
        }
        let mut all = Vec::new();
        for (stream, operand) in streams.iter().enumerate() {
            let touched = self.touched_units(operand, fused.span(stream), times, (1, 0))?;
            self.check_bounds(operand, touched).map_err(|reason| format!("stream {stream}: {reason}"))?;
            let (ty, expected) = (self.region(operand).ty, fused.ty(stream));
            if ty != expected {
                return Err(format!("stream {stream}: elements of {ty:?} instead of {expected:?}"));
            }
            all.push(touched);
        }
        for (_, stored) in fused.body().stores() {
            if !fused.is_injective(*stored) {
                return Err(format!("stream {stored}: several lanes are stored in one element"));
            }
            self.check_writable(&streams[*stored])?;
            for other in (0..streams.len()).filter(|other| other != stored) {
                if streams[other].region == streams[*stored].region {
                    let (to, from) = ((&streams[*stored], all[*stored]), (&streams[other], all[other]));
                    let may_coincide = fused.is_parallel(*stored, other) && !fused.are_apart(*stored, other);
                    self.check_apart(may_coincide, to, from, times).map_err(|why| format!("stream {other}: {why}"))?;
                }
            }
        }
        Ok(())
    }

    /// Checks an op that is computed as a whole: its operands and results must be within their regions, and no result
    /// may overlap an operand.
    fn check_evaluation(&self, Evaluation { inputs, outputs, .. }: &Evaluation, times: &[usize]) -> Result<(), String> {
        let mut all = Vec::new();
        for (index, (operand, ty)) in inputs.iter().chain(outputs).enumerate() {
            let shape = ty.shape.value(&Sizes::new()).map_err(|_| format!("operand {index}: an unknown size"))?;
            let touched = self.touched_units(operand, shape.iter().product(), times, (1, 0))?;
            if !shape.contains(&0) {
                self.check_bounds(operand, touched).map_err(|reason| format!("operand {index}: {reason}"))?;
            }
            all.push((operand, touched));
        }
        let (from, to) = all.split_at(inputs.len());
        for to in to {
            self.check_writable(to.0)?;
            for from in from.iter().filter(|from| from.0.region == to.0.region) {
                self.check_apart(false, *to, *from, times)?;
            }
        }
        Ok(())
    }

    fn check_instruction<T: Float>(&self, instruction: &Instruction, times: &[usize]) -> Result<(), String> {
        let Instruction { op, to, from, .. } = instruction;
        let spans = instruction.spans::<T>()?;
        if spans.len() != from.len() + 1 {
            return Err(format!("{} operands instead of {}", from.len(), spans.len() - 1));
        }
        let steps = |index: usize| match (op, index) {
            (Op::Sink { blocks, block_steps, .. }, 1 | 2) => (*blocks, block_steps[index - 1]),
            _ => (1, 0),
        };
        let mut all = Vec::new();
        for (index, operand) in std::iter::once(to).chain(from).enumerate() {
            let touched = self.touched_units(operand, spans[index], times, steps(index))?;
            self.check_bounds(operand, touched).map_err(|reason| format!("operand {index}: {reason}"))?;
            all.push(touched);
        }
        self.check_writable(to)?;
        for (index, operand) in from.iter().enumerate() {
            if operand.region == to.region {
                let here = (operand, all[index + 1]);
                let in_place = match op {
                    Op::Unary(_) | Op::Binary(_) | Op::Ternary(_) => true,
                    Op::Product { init, .. } => *init && index == 0,
                    Op::Recur { .. } => index == 1,
                    _ => false,
                };
                self.check_apart(in_place, (to, all[0]), here, times)
                    .map_err(|why| format!("operand {}: {why}", index + 1))?;
            }
        }
        Ok(())
    }

    /// Returns the elements that an operand accesses over all iterations. An operand of [`Op::Sink`] has `blocks`
    /// blocks, which are `block_step` units apart; other operands have one block.
    fn touched_units(
        &self,
        operand: &Operand,
        span: usize,
        times: &[usize],
        (blocks, block_step): (usize, isize),
    ) -> Result<Touched, String> {
        if operand.region >= self.plan.regions.len() {
            return Err(format!("no region {}", operand.region));
        }
        let mut units = [operand.unit as isize; 2];
        let moves = operand.steps.iter().copied().zip(times.iter().copied());
        for (step, times) in moves.chain([(block_step, blocks)]) {
            let furthest = step * (times as isize - 1);
            units[usize::from(furthest > 0)] += furthest;
        }
        Ok(Touched { units, offset: operand.offset, span })
    }

    fn region(&self, operand: &Operand) -> Region {
        self.plan.regions[operand.region]
    }

    /// Returns `true` if each part sees only its columns of the region. Each unit is then a separate slice.
    fn in_columns(&self, region: Region) -> bool {
        matches!(region.split, Split::Columns(_)) && self.stage.parts.len() > 1
    }

    fn check_bounds(&self, operand: &Operand, touched: Touched) -> Result<(), String> {
        let region = self.region(operand);
        let parts = self.stage.parts.len();
        let units = match region.split {
            Split::Parts(count) if parts == 1 => region.units * count,
            Split::Parts(count) if parts != count => {
                return Err(format!("a region for {count} parts in a stage of {parts}"));
            }
            _ => region.units,
        };
        if let Split::Columns(width) = region.split {
            let axis: usize = self.stage.parts.iter().map(|part| part.len).sum();
            if parts > 1 && axis * width != region.pitch {
                return Err(format!("{axis} columns of {width} elements in units of {}", region.pitch));
            }
            if parts > 1 && touched.offset + touched.span > self.part.len * width {
                return Err("reaches beyond the part's columns".to_string());
            }
        }
        let [first, last] = touched.units;
        let end = last * region.pitch as isize + (touched.offset + touched.span) as isize;
        let beyond =
            if self.in_columns(region) { last >= units as isize } else { end > (units * region.pitch) as isize };
        if first < 0 || beyond {
            return Err(format!(
                "units {first} to {last}, or the elements after them, are outside the region of {units} units"
            ));
        }
        Ok(())
    }

    fn check_writable(&self, to: &Operand) -> Result<(), String> {
        let region = self.region(to);
        match (region.place, region.split) {
            (Storage::Input(input), _) => Err(format!("writes to input {input}")),
            (_, Split::Whole) if self.stage.parts.len() > 1 => {
                Err(format!("region {} is written by several parts", to.region))
            }
            _ => Ok(()),
        }
    }

    /// Checks that an operand in the destination's region does not overlap the destination in any iteration. With
    /// `in_place`, the operand may coincide exactly with the destination.
    fn check_apart(
        &self,
        in_place: bool,
        (to, to_touched): (&Operand, Touched),
        (from, from_touched): (&Operand, Touched),
        times: &[usize],
    ) -> Result<(), String> {
        let pitch = self.region(to).pitch as isize;
        let columns = self.in_columns(self.region(to));
        let moves_alike = to.steps[..times.len()] == from.steps[..times.len()]
            && to_touched.units[1] - to_touched.units[0] == from_touched.units[1] - from_touched.units[0];
        let start = |operand: &Operand, unit: isize| unit * pitch + operand.offset as isize;
        let (to_span, from_span) = (to_touched.span as isize, from_touched.span as isize);
        if moves_alike {
            let (a, b) = (start(to, to.unit as isize), start(from, from.unit as isize));
            let same = a == b && to.row == from.row && to_span == from_span && from.across == Across::Lanes;
            if same && in_place {
                return Ok(());
            }
            let apart = a + to_span <= b || b + from_span <= a;
            let units_apart = columns && to.unit != from.unit;
            if apart || units_apart {
                return Ok(());
            }
        }
        let [to_first, to_last] = to_touched.units;
        let [from_first, from_last] = from_touched.units;
        let never = start(to, to_last) + to_span <= start(from, from_first)
            || start(from, from_last) + from_span <= start(to, to_first);
        if never { Ok(()) } else { Err("overlaps the destination".to_string()) }
    }
}
