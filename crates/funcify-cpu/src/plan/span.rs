//! Computes the span of each operand of an instruction, and checks that the op supports its operands and shapes.

use smallvec::{SmallVec, smallvec};

use super::{Across, Instruction, MAX_BLOCKS, MAX_FACTORS, Op, Operand};
use crate::kernels::{Fold, Recurrence, packed_len};
use funcify_body::float::Float;

/// The span of the destination, followed by the span of each operand. A span is the number of elements from the first
/// to the last element that the instruction accesses, including gaps between rows.
pub(crate) type Spans = SmallVec<[usize; 8]>;

/// Returns the span of an operand with `rows` rows of `lanes` elements, or 0 if the instruction lacks that operand.
fn span(operand: Option<&Operand>, rows: usize, lanes: usize) -> usize {
    operand.map_or(0, |operand| (rows - 1) * operand.row + if operand.across == Across::Lanes { lanes } else { 1 })
}

fn must_have_lanes(operand: Option<&Operand>) -> Result<(), String> {
    match operand {
        Some(operand) if operand.across == Across::Element => {
            Err("an operand that must have lanes has one element per row".to_string())
        }
        _ => Ok(()),
    }
}

impl Instruction {
    /// Returns the span of the destination and of each operand, for floats of type `T`. If the instruction is invalid,
    /// returns an error that describes why.
    pub(crate) fn spans<T: Float>(&self) -> Result<Spans, String> {
        let Instruction { op, rows, lanes, to, from } = self;
        let (rows, lanes) = (*rows, *lanes);
        if rows == 0 || lanes == 0 {
            return Err("nothing to write".to_string());
        }
        let one_element = matches!(op, Op::FoldLanes { .. });
        if one_element == (to.across == Across::Lanes) {
            return Err("the destination must have lanes, or one element per row for a fold of lanes".to_string());
        }
        let may_overlap =
            matches!(op, Op::FoldRows { .. } | Op::FoldLanes { .. } | Op::Pack { .. } | Op::Scatter { .. });
        if to.row < lanes && rows > 1 && !may_overlap {
            return Err("rows of the destination overlap".to_string());
        }
        // Compute the spans of the destination and the first `count` operands, each with `rows` rows of `lanes`
        // elements.
        let all = |count: usize| -> Spans {
            let operands = std::iter::once(Some(to)).chain((0..count).map(|index| from.get(index)));
            operands.map(|operand| span(operand, rows, lanes)).collect()
        };
        match op {
            Op::Fill(_) => Ok(all(0)),
            Op::Unary(_) => Ok(all(1)),
            Op::Binary(_) => Ok(all(2)),
            Op::Ternary(_) => Ok(all(3)),
            Op::FoldRows { fold, .. } | Op::FoldLanes { fold, .. } => {
                must_have_lanes(from.first())?;
                if from.len() == 2 && *fold != Fold::Sum {
                    return Err("only a sum can fold products".to_string());
                }
                let mut spans = all(from.len().clamp(1, 2));
                if matches!(op, Op::FoldRows { .. }) {
                    spans[0] = lanes;
                }
                Ok(spans)
            }
            Op::Product { inner, init, .. } => {
                if inner.is_empty() || inner.len() > MAX_FACTORS {
                    return Err(format!("a product of {} factors; it must have 1 to {MAX_FACTORS}", inner.len()));
                }
                let mut spans = all(usize::from(*init));
                for (index, k) in inner.iter().enumerate() {
                    let left = from.get(usize::from(*init) + 2 * index);
                    must_have_lanes(left)?;
                    spans.push(span(left, rows, *k));
                    spans.push(packed_len::<T>(*k, lanes));
                }
                Ok(spans)
            }
            Op::Sink { blocks, block_rows, .. } => {
                if *blocks == 0 || *blocks > MAX_BLOCKS || *block_rows == 0 {
                    return Err(format!("{blocks} blocks of {block_rows} rows; a sink has 1 to {MAX_BLOCKS} blocks"));
                }
                let mut spans = all(0);
                for (index, width) in [rows, lanes].into_iter().enumerate() {
                    must_have_lanes(from.get(index))?;
                    spans.push(span(from.get(index), *block_rows, width));
                }
                Ok(spans)
            }
            Op::Pack { column } => {
                must_have_lanes(from.first())?;
                let matrix = from.first().map_or(0, |matrix| (rows - 1) * matrix.row + (lanes - 1) * column + 1);
                Ok(smallvec![packed_len::<T>(rows, lanes), matrix])
            }
            Op::Transpose => {
                must_have_lanes(from.first())?;
                let mut spans = all(0);
                spans.push(span(from.first(), lanes, rows));
                Ok(spans)
            }
            Op::Take { count, step } | Op::Put { count, step } | Op::Scatter { count, step, .. } => {
                let Some(last) = count.checked_sub(1) else { return Err("no positions".to_string()) };
                let mut spans = all(2);
                spans[usize::from(matches!(op, Op::Take { .. }))] += last * step;
                Ok(spans)
            }
            Op::Recur { recurrence, .. } => {
                let mut spans = all(if *recurrence == Recurrence::Linear { 3 } else { 2 });
                spans[1] = span(from.first(), 1, lanes);
                Ok(spans)
            }
        }
    }
}
