//! Interprets fused bodies over the field.

use funcify_body::{Compare, IntBinary, IntUnary, Op, Type};
use funcify_core::{DType, Scalar, ops};

use super::field::signed;
use super::graph::wrap;
use super::interpret::Interpreter;
use super::memory::OutOfBounds;
use super::model::Model;
use super::ops::{bits, cast, integer_binary, integer_unary, of_scalar};
use crate::kernels::{Binary, Ternary};
use crate::plan::FusedNode;

impl Interpreter<'_> {
    /// Computes the results of a fused body for all lanes, and then writes them.
    pub(super) fn fused(&mut self, FusedNode { fused, streams }: &FusedNode) -> Result<(), OutOfBounds> {
        let starts: Vec<usize> =
            streams.iter().map(|operand| self.bases.start(operand, &self.place.counters)).collect();
        let mut written = Vec::new();
        let mut index = vec![0; fused.sizes().len()];
        for _ in 0..fused.lanes() {
            let mut values: Vec<u64> = Vec::with_capacity(fused.body().nodes().len());
            for node in fused.body().nodes() {
                let from: Vec<u64> = node.operands().iter().map(|operand| values[*operand]).collect();
                let of = node.operands().last().map_or(node.ty(), |operand| fused.body().nodes()[*operand].ty());
                values.push(match node.op() {
                    Op::Number(number) => super::field::of_f64((self.rounded)(number)),
                    Op::Load(stream) => {
                        self.memory.read(streams[stream].region, starts[stream] + fused.offset(stream, &index))?
                    }
                    op => value(self.model, op, node.ty(), of, &from),
                });
            }
            for (value, stream) in fused.body().stores() {
                written.push((*stream, starts[*stream] + fused.offset(*stream, &index), values[*value]));
            }
            for (index, size) in index.iter_mut().zip(fused.sizes()).rev() {
                *index += 1;
                if *index < *size {
                    break;
                }
                *index = 0;
            }
        }
        for (stream, at, value) in written {
            self.memory.write(streams[stream].region, at, value)?;
        }
        Ok(())
    }
}

/// Returns the dtype that can represent the same values as a type of a fused body. `Type::Float` may also hold narrower
/// floats, which are rounded separately.
pub(super) fn dtype(ty: Type) -> DType {
    match ty {
        Type::Float => DType::F64,
        Type::I64 => DType::I64,
        Type::I32 => DType::I32,
        Type::U32 => DType::U32,
        Type::U8 => DType::U8,
        Type::Mask => DType::Bool,
    }
}

/// Computes an op with a result of type `ty` on the operands `from`. `of` is the type of the last operand.
fn value(model: Model, op: Op, ty: Type, of: Type, from: &[u64]) -> u64 {
    let (to, of) = (dtype(ty), dtype(of));
    match op {
        Op::Integer(number) => match to {
            DType::Bool => number as u64,
            DType::I64 => of_scalar(Scalar::Int(number)),
            to => wrap(number, to),
        },
        Op::Unary(op) => model.unary(op, from[0]),
        Op::Binary(op) => model.binary(op, from[0], from[1]),
        Op::Ternary(op) => model.ternary(op, from[0], from[1], from[2]),
        Op::Select => model.ternary(Ternary::Select, from[0], from[1], from[2]),
        Op::Cast => cast(model, from[0], of, to),
        Op::Hold => from[0],
        Op::Compare(op) => {
            let op = match op {
                Compare::Equal => Binary::Equal,
                Compare::NotEqual => Binary::NotEqual,
                Compare::Less => Binary::Less,
                Compare::LessEqual => Binary::LessEqual,
            };
            model.binary(op, from[0], from[1])
        }
        Op::OneInt(op) => {
            let op = match op {
                IntUnary::Neg => ops::Unary::Neg,
                IntUnary::Abs => ops::Unary::Abs,
                IntUnary::Sign => ops::Unary::Sign,
                IntUnary::Square => ops::Unary::Square,
                IntUnary::Not => ops::Unary::Not,
                IntUnary::Popcount => return bits_of(ops::Bits::Popcount, &[from[0]; 2], to),
                IntUnary::LeadingZeros => return bits_of(ops::Bits::CountLeadingZeros, &[from[0]; 2], to),
            };
            integer_unary(op, from[0], to, model).expect("the op is defined on integers")
        }
        Op::Int(op) => {
            let op = match op {
                IntBinary::Add => ops::Binary::Add,
                IntBinary::Sub => ops::Binary::Sub,
                IntBinary::Mul => ops::Binary::Mul,
                IntBinary::Div => ops::Binary::Div,
                IntBinary::Rem => ops::Binary::Rem,
                IntBinary::Max => ops::Binary::Max,
                IntBinary::Min => ops::Binary::Min,
                IntBinary::Pow => ops::Binary::Pow,
                IntBinary::And => ops::Binary::And,
                IntBinary::Or => ops::Binary::Or,
                IntBinary::Xor => ops::Binary::Xor,
                IntBinary::ShiftLeft => return bits_of(ops::Bits::ShiftLeft, from, to),
                IntBinary::ShiftRightArithmetic => return bits_of(ops::Bits::ShiftRightArithmetic, from, to),
                IntBinary::ShiftRightLogical => return bits_of(ops::Bits::ShiftRightLogical, from, to),
            };
            integer_binary(op, from[0], from[1], to, model).expect("the op is defined on integers")
        }
        Op::Number(_) | Op::Load(_) => unreachable!("the caller computes floats and loads"),
    }
}

fn bits_of(op: ops::Bits, from: &[u64], dtype: DType) -> u64 {
    wrap(bits(op, signed(from[0]), signed(from[1]), dtype), dtype)
}
