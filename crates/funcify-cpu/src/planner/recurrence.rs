//! Replaces a loop with a single instruction if each step only computes a row from the previous row by a fold or a
//! multiply-add.

use crate::kernels::{Binary, Fold, Recurrence, Ternary};
use crate::plan::{Across, Instruction, Node, Op, Operand, Region, Split};

/// Returns a single instruction that is equivalent to `times` iterations of the loop at `level` with the body `nodes`.
/// Returns `None` unless the body consists of one fold or multiply-add that reads the previous row of its destination.
pub(super) fn recurrence(regions: &[Region], nodes: &[Node], times: usize, level: usize) -> Option<Node> {
    let [Node::Do(Instruction { op, rows: 1, lanes, to, from })] = nodes else { return None };
    // The rows of an instruction must be in the same unit. In a region that is split into columns, each step has its
    // own unit.
    let is_in_columns = |operand: &Operand| matches!(regions[operand.region].split, Split::Columns(_));
    if is_in_columns(to) || from.iter().any(is_in_columns) {
        return None;
    }
    let (recurrence, before, x, a) = match (op, from.as_slice()) {
        (Op::Binary(op), [x, y]) => {
            let fold = match op {
                Binary::Add => Fold::Sum,
                Binary::Mul => Fold::Product,
                Binary::Max => Fold::Max,
                Binary::Min => Fold::Min,
                _ => return None,
            };
            let (before, x) = if is_row_before(x, to, level) { (x, y) } else { (y, x) };
            (Recurrence::Running(fold), before, x, None)
        }
        (Op::Ternary(Ternary::MulAdd), [x, y, z]) => {
            let (before, a) = if is_row_before(x, to, level) { (x, y) } else { (y, x) };
            (Recurrence::Linear, before, z, Some(a))
        }
        _ => return None,
    };
    let step = to.steps[level];
    let others = [Some(x), a];
    let fits = |operand: &&Operand| {
        let own = operand.steps[level];
        // An operand in the destination's region might read a row that a later step overwrites.
        own == 0 || (own.signum() == step.signum() && operand.region != to.region)
    };
    let is_one =
        is_row_before(before, to, level) && before.across == Across::Lanes && others.iter().flatten().all(fits);
    if !is_one {
        return None;
    }
    // The steps of the loop become the rows of the instruction. In a reverse loop, the last step becomes row 0.
    let as_rows = |operand: &Operand| {
        let own = operand.steps[level];
        let mut rows = Operand { row: own.unsigned_abs(), ..*operand };
        rows.steps[level] = 0;
        if own < 0 {
            rows.unit -= (times - 1) * own.unsigned_abs();
        }
        rows
    };
    let mut initial = *before;
    initial.steps[level] = 0;
    let operands: Vec<Operand> = [initial].into_iter().chain(others.into_iter().flatten().map(as_rows)).collect();
    Some(Op::Recur { recurrence, down: step < 0 }.over([times, *lanes], as_rows(to), &operands))
}

/// Returns `true` if an operand reads the row that the previous iteration wrote.
fn is_row_before(operand: &Operand, to: &Operand, level: usize) -> bool {
    operand.region == to.region
        && operand.steps == to.steps
        && operand.offset == to.offset
        && to.steps[level] != 0
        && operand.unit as isize == to.unit as isize - to.steps[level]
}
