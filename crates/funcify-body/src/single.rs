//! Runs bodies of only a few lanes one lane at a time, on single elements instead of tiles.
//!
//! A step on tiles has a fixed cost of about 15 ns. An op on single elements takes 2 to 7 ns, so a body that computes a
//! few numbers, such as a table lookup in a loop, runs several times as fast.

use pulp::Simd;
use pulp::bytemuck::{Pod, bytes_of, bytes_of_mut, cast_slice, cast_slice_mut};

use crate::fused::{Fused, Streams};
use crate::integer::{Element, Integer};
use crate::ir::{Compare, IntBinary, IntUnary, Node, Op, Type};
use crate::kernels::Binary;
use crate::kernels::math::MathTable;
use crate::kernels::table::Elementwise;
use crate::placement::Order;

/// The maximum number of lanes that run one at a time.
const MAX_LANES: usize = 2;

/// Returns `true` if the body should run one lane at a time.
pub(crate) fn is_faster(fused: &Fused) -> bool {
    let is_simple = |order: Order| order != Order::Strided;
    fused.lanes() <= MAX_LANES && fused.streams.iter().all(|stream| is_simple(stream.order))
}

/// Runs a body for which [`is_faster`] returns `true`. `values` is memory for the values of a lane. Each word holds an
/// element in its first bytes.
pub(crate) fn run<T: MathTable + Element, S: Simd>(
    simd: S,
    fused: &Fused,
    values: &mut Vec<u64>,
    streams: &mut impl Streams,
) {
    let nodes = fused.body.nodes();
    if values.len() < nodes.len() {
        values.resize(nodes.len(), 0);
    }
    for lane in 0..fused.lanes() {
        let at = |stream: usize| match fused.streams[stream].order {
            Order::Splat => fused.streams[stream].first,
            Order::Dense | Order::Strided => lane,
        };
        for (index, node) in nodes.iter().enumerate() {
            values[index] = match node.op {
                Op::Load(stream) => load(node.ty.size(size_of::<T>()), streams.read(stream), at(stream)),
                _ => value::<T, S>(simd, nodes, node, values),
            };
        }
        for (value, stream) in fused.body.stores() {
            let size = nodes[*value].ty.size(size_of::<T>());
            store(size, values[*value], streams.write(*stream), at(*stream));
        }
    }
}

fn load(size: usize, data: &[u8], at: usize) -> u64 {
    match size {
        8 => cast_slice::<u8, u64>(data)[at],
        4 => word(cast_slice::<u8, u32>(data)[at]),
        _ => word(data[at]),
    }
}

fn store(size: usize, value: u64, data: &mut [u8], at: usize) {
    match size {
        8 => cast_slice_mut::<u8, u64>(data)[at] = value,
        4 => cast_slice_mut::<u8, u32>(data)[at] = element(value),
        _ => data[at] = element(value),
    }
}

/// Returns a word that holds an element.
#[inline(always)]
fn word<E: Pod>(element: E) -> u64 {
    let mut word = 0;
    bytes_of_mut::<u64>(&mut word)[..size_of::<E>()].copy_from_slice(bytes_of(&element));
    word
}

/// Returns the element that a word holds.
#[inline(always)]
fn element<E: Pod>(word: u64) -> E {
    let mut element = E::zeroed();
    bytes_of_mut(&mut element).copy_from_slice(&bytes_of(&word)[..size_of::<E>()]);
    element
}

/// Computes the value of a node that is not a load. `values` holds the values of all earlier nodes.
#[inline(always)]
fn value<T: MathTable + Element, S: Simd>(simd: S, nodes: &[Node], node: &Node, values: &[u64]) -> u64 {
    let from = |operand: usize| values[node.from[operand]];
    let float = |operand: usize| element::<T>(from(operand));
    match node.op {
        Op::Unary(op) => word(op.of_elements::<T, S>(simd, [float(0)])),
        // A call to code for the instruction set would take longer than these ops.
        Op::Binary(Binary::Add) => word(float(0).plus(float(1))),
        Op::Binary(Binary::Sub) => word(float(0).minus(float(1))),
        Op::Binary(Binary::Mul) => word(float(0).times(float(1))),
        Op::Binary(Binary::Div) => word(float(0).over(float(1))),
        Op::Binary(op) => word(op.of_elements::<T, S>(simd, [float(0), float(1)])),
        Op::Ternary(op) => word(op.of_elements::<T, S>(simd, [float(0), float(1), float(2)])),
        Op::OneInt(op) => match node.ty {
            Type::Float => unreachable!("an integer op has no float result"),
            Type::I64 => one_integer::<i64>(op, from(0)),
            Type::I32 => one_integer::<i32>(op, from(0)),
            Type::U32 => one_integer::<u32>(op, from(0)),
            Type::U8 => one_integer::<u8>(op, from(0)),
            Type::Mask => from(0) ^ word(1u8),
        },
        Op::Int(op) => match node.ty {
            Type::Float => unreachable!("an integer op has no float result"),
            Type::I64 => two_integers::<i64>(op, from(0), from(1)),
            Type::I32 => two_integers::<i32>(op, from(0), from(1)),
            Type::U32 => two_integers::<u32>(op, from(0), from(1)),
            Type::U8 | Type::Mask => two_integers::<u8>(op, from(0), from(1)),
        },
        Op::Compare(op) => word(match nodes[node.from[0]].ty {
            Type::Float => compare::<T>(op, from(0), from(1)),
            Type::I64 => compare::<i64>(op, from(0), from(1)),
            Type::I32 => compare::<i32>(op, from(0), from(1)),
            Type::U32 => compare::<u32>(op, from(0), from(1)),
            Type::U8 | Type::Mask => compare::<u8>(op, from(0), from(1)),
        }),
        Op::Select => from(if element::<u8>(from(0)) != 0 { 1 } else { 2 }),
        Op::Cast | Op::Hold => match nodes[node.from[0]].ty {
            Type::Float => cast::<T, T>(node.ty, from(0)),
            Type::I64 => cast::<i64, T>(node.ty, from(0)),
            Type::I32 => cast::<i32, T>(node.ty, from(0)),
            Type::U32 => cast::<u32, T>(node.ty, from(0)),
            Type::U8 | Type::Mask => cast::<u8, T>(node.ty, from(0)),
        },
        Op::Number(number) => word(T::from_f64(number)),
        Op::Integer(number) => match node.ty {
            Type::Float => unreachable!("`Op::Number` is the constant of type float"),
            Type::I64 => word(number),
            Type::I32 => word(number as i32),
            Type::U32 => word(number as u32),
            Type::U8 | Type::Mask => word(number as u8),
        },
        Op::Load(_) => unreachable!("`run` loads elements"),
    }
}

fn one_integer<I: Integer>(op: IntUnary, x: u64) -> u64 {
    word(I::unary(op, element(x)))
}

fn two_integers<I: Integer>(op: IntBinary, x: u64, y: u64) -> u64 {
    word(I::binary(op, element(x), element(y)))
}

fn compare<E: Element>(op: Compare, x: u64, y: u64) -> u8 {
    let (x, y): (E, E) = (element(x), element(y));
    u8::from(match op {
        Compare::Equal => x == y,
        Compare::NotEqual => x != y,
        Compare::Less => x < y,
        Compare::LessEqual => x <= y,
    })
}

fn cast<E: Element, T: MathTable>(ty: Type, x: u64) -> u64 {
    let x: E = element(x);
    match ty {
        Type::Float => word(x.to_float::<T>()),
        Type::I64 => word(x.to_i64()),
        Type::I32 => word(x.to_i32()),
        Type::U32 => word(x.to_u32()),
        Type::U8 => word(x.to_u8()),
        Type::Mask => word(u8::from(x.is_nonzero())),
    }
}
