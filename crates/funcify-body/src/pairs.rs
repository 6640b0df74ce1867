//! Decides which pairs of ops a single step on tiles computes: the first op's result stays in a register, instead of a tile
//! in memory.
//!
//! Cheap ops take less time than the loads and stores of their tiles, so a merged step takes little more time than one
//! of its ops. Each op of a pair rounds its own result, so merging does not change results.

use crate::ir::{IntBinary, Node, Op, Type};
use crate::kernels::Binary;

/// An op whose operand number `at` is the result of a step's first op.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    pub(crate) op: Op,
    pub(crate) at: usize,
}

/// Returns `true` if a step can compute both ops: `first`, whose last operand has the type `compared`, and `second`,
/// whose operand number `at` is the result of `first`. `ones` holds the numbers of the step's operands that are single elements: those of `first`, followed by
/// the other operands of `second`.
pub(crate) fn can_merge(first: &Node, compared: Type, second: &Node, at: usize, ones: &[usize]) -> bool {
    match (first.op, second.op) {
        (Op::Binary(first), Op::Binary(second)) => float_pair(first, second, at).is_some(),
        (Op::Int(one), Op::Int(other)) => {
            let is_shift = matches!(one, IntBinary::ShiftLeft | IntBinary::ShiftRightLogical);
            let are_supported = if is_shift { ones == [1] } else { ones.is_empty() };
            first.ty == second.ty && are_supported && integer_pair(one, other, at).is_some()
        }
        // The mask of a comparison has one bit per lane in a register, so both ops must have lanes of the same size.
        (Op::Compare(_), Op::Select) => {
            at == 0 && ones.iter().all(|operand| *operand == 1) && has_lanes_of(compared, second.ty)
        }
        _ => false,
    }
}

/// Returns `true` if the lanes of two types have the same size for both float types of a program.
fn has_lanes_of(one: Type, other: Type) -> bool {
    let is_float = |ty: Type| ty == Type::Float;
    is_float(one) == is_float(other) && one.size(4) == other.size(4)
}

/// The ops of pairs. They are numbers, because the kernels are generic over them.
pub(crate) const ADD: usize = 0;
pub(crate) const SUB: usize = 1;
pub(crate) const MUL: usize = 2;
pub(crate) const AND: usize = 3;
pub(crate) const OR: usize = 4;
pub(crate) const XOR: usize = 5;
pub(crate) const SHIFT_LEFT: usize = 6;
pub(crate) const SHIFT_RIGHT: usize = 7;
/// The difference between another operand and the first op's result.
pub(crate) const SUB_FROM: usize = 8;

/// Returns the ops of a pair of float ops that a step can compute.
pub(crate) fn float_pair(first: Binary, second: Binary, at: usize) -> Option<[usize; 2]> {
    let code = |op: Binary| match op {
        Binary::Add => Some(ADD),
        Binary::Sub => Some(SUB),
        Binary::Mul => Some(MUL),
        _ => None,
    };
    let second = code(second)?;
    Some([code(first)?, if second == SUB && at == 1 { SUB_FROM } else { second }])
}

/// Returns the ops of a pair of integer ops that a step can compute.
pub(crate) fn integer_pair(first: IntBinary, second: IntBinary, at: usize) -> Option<[usize; 2]> {
    let code = |op: IntBinary| match op {
        IntBinary::Add => Some(ADD),
        IntBinary::Sub => Some(SUB),
        IntBinary::Mul => Some(MUL),
        IntBinary::And => Some(AND),
        IntBinary::Or => Some(OR),
        IntBinary::Xor => Some(XOR),
        IntBinary::ShiftLeft => Some(SHIFT_LEFT),
        IntBinary::ShiftRightLogical => Some(SHIFT_RIGHT),
        _ => None,
    };
    let (first, second) = (code(first)?, code(second)?);
    let second = if second == SUB && at == 1 { SUB_FROM } else { second };
    let is_sum = |op: usize| matches!(op, ADD | SUB | SUB_FROM);
    let is_bitwise = |op: usize| matches!(op, AND | OR | XOR);
    let is_listed = match first {
        ADD | SUB => is_sum(second),
        MUL => second == ADD,
        AND | OR | XOR => is_bitwise(second),
        _ => second == OR || second == XOR,
    };
    is_listed.then_some([first, second])
}
