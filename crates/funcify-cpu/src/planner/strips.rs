//! Plans strips. A strip is a group of consecutive steps, and one instruction sums the matrix products of all its
//! steps.
//!
//! Some loops add a matrix product to a carry in each step; a backward loop does so for each weight. Without strips,
//! each step reads and writes the whole carry. The planner therefore nests the loop over steps in a loop over strips,
//! and a single instruction after the steps of a strip adds all their products to the carry. Factors in a sequence or a
//! trace stay in place. Other factors are copied to memory that holds them for all steps of the strip. Rows of a full
//! buffer (mit-mot) are also copied, because later steps of the strip may overwrite them.

use funcify_core::ops::scan::Scan;
use funcify_core::ops::{Binary, Op};

use super::copies::Copied;
use super::*;
use crate::plan::MAX_BLOCKS;

/// The `expect` message for accessing the current strip.
const STRIP_IS_OPEN: &str = "a loop over strips is open";

/// The strip being planned, and the sums deferred to its end.
#[derive(Debug)]
pub(super) struct Strip {
    steps: usize,
    /// The level of values that are computed in a step.
    level: usize,
    /// The deferred sums: the state of each sum, and the two operands of the product to add to this state.
    waiting: Vec<(View, [View; 2])>,
    /// The copies of values that are computed in a step. Each copy has one row per step of the strip.
    copies: Vec<Copied>,
    /// The full buffers of the loop, whose rows later steps may overwrite.
    full: Vec<View>,
}

impl Planner {
    /// Returns the number of steps per strip, or `None` if the loop cannot have strips or would not benefit from them.
    pub(super) fn strip_of(&self, scan: &Scan, steps: usize) -> Option<usize> {
        if self.strip.is_some() || self.emitter.blocks.depth() + 1 > DEPTH {
            return None;
        }
        let rows = scan.body.outputs()[scan.results().carries.clone()]
            .iter()
            .zip(scan.params().carries.clone())
            .filter_map(|(next, param)| self.rows_of_sum(&scan.body, scan.body.inputs()[param].value, next.value))
            .max()?;
        let strip = (self.division.rows_of_strip() / rows.max(1)).min(MAX_BLOCKS).min(steps);
        (strip > 1).then_some(strip)
    }

    /// Returns the size of the inner axis of the matrix product that a step adds to a state. Returns `None` if the step
    /// adds no matrix product, or if the sum cannot be deferred.
    fn rows_of_sum(&self, body: &Graph, state: ValueId, next: ValueId) -> Option<usize> {
        let node = |value| match body.source(value) {
            Source::Node(node, _) => Some(body.node(node)),
            Source::Input(_) => None,
        };
        // A sum whose type is narrower than the plan's is rounded in each step, so it cannot be deferred.
        let is_rounded = self.rounding(body.ty(next).dtype).is_some();
        let add = node(next).filter(|add| matches!(add.op, Op::Binary(Binary::Add)) && add.inputs.contains(&state))?;
        let product =
            add.inputs.iter().filter_map(|input| node(*input)).find(|node| matches!(node.op, Op::MatMul(_)))?;
        let shape = self.shape(body, product.inputs[0]).ok()?;
        (shape.len() == 2 && !is_rounded).then(|| shape[1])
    }

    /// Opens the loop over strips of `steps` steps each. `full` holds the full buffers of the loop over steps.
    pub(super) fn open_strips(&mut self, steps: usize, full: Vec<View>) -> Result<()> {
        self.emitter.blocks.open()?;
        let level = self.emitter.blocks.depth() + 1;
        self.strip = Some(Strip { steps, level, waiting: Vec::new(), copies: Vec::new(), full });
        Ok(())
    }

    /// Emits the deferred sums at the end of the strip, and closes the loop over `count` strips.
    pub(super) fn close_strips(&mut self, count: usize) -> Result<()> {
        let Strip { steps, level, waiting, .. } = self.strip.take().expect(STRIP_IS_OPEN);
        for (state, sides) in waiting {
            let [(left, left_step), (right, right_step)] = sides.map(|side| side.strip(level));
            let state = View { level: level - 1, ..state };
            self.emitter.sink(&state, (&left, &right), (steps, [left_step, right_step]))?;
        }
        self.emitter.blocks.close(&self.emitter.plan.regions, count);
        Ok(())
    }

    /// Adds the product AᵀB of a matrix A `[k, m]` and a matrix B `[k, n]` to a state: at the end of the strip if the
    /// sum may be deferred (order-c3), and immediately otherwise.
    pub(super) fn sink(&mut self, state: View, sides: [View; 2], may_wait: bool) -> Result<()> {
        let strip = self.strip.as_ref().filter(|strip| may_wait && state.level == strip.level);
        let Some(Strip { level, full, .. }) = strip else {
            return self.emitter.sink(&state, (&sides[0], &sides[1]), (1, [0, 0]));
        };
        let level = *level;
        let lasts = sides.each_ref().map(|side| {
            let moves = side.steps[level - 2] != 0;
            side.level < level || (moves && !full.iter().any(|buffer| buffer.shares_memory(side)))
        });
        let [left, right] = sides;
        let left = if lasts[0] { left } else { self.copy_for_strip(left)? };
        let right = if lasts[1] { right } else { self.copy_for_strip(right)? };
        self.strip.as_mut().expect(STRIP_IS_OPEN).waiting.push((state, [left, right]));
        self.emitter.fired.note(Transformation::Deferred);
        Ok(())
    }

    /// Copies a value of a step to memory with one row per step of the strip, unless such a copy already exists.
    /// Returns the row of the current step.
    fn copy_for_strip(&mut self, side: View) -> Result<View> {
        let strip = self.strip.as_mut().expect(STRIP_IS_OPEN);
        let contents = &self.emitter.contents;
        if let Some(copied) = strip.copies.iter().find(|copied| copied.is_of(contents, &side)) {
            self.emitter.fired.note(Transformation::SharedStripCopy);
            return Ok(copied.copy.clone());
        }
        let shape = [&[strip.steps], side.shape.as_slice()].concat();
        let row = self.emitter.reserve(&shape, strip.level - 1).row(0, strip.level, 1);
        self.emitter.copy(&row, &side)?;
        self.emitter.fired.note(Transformation::StripCopy);
        strip.copies.push(Copied::new(&self.emitter.contents, &side, &row));
        Ok(row)
    }
}
