//! Tests that a body of a single lane, which runs on single elements, returns the same bits as the same body on tiles.

mod common;

use common::{Memory, Random};
use funcify_body::kernels::{Binary, Ternary, Unary};
use funcify_body::{Body, Compare, Fused, IntBinary, IntUnary, Machine, Op, Tiles, Type};

const LANES: usize = 96;
const INTEGERS: [Type; 4] = [Type::I64, Type::I32, Type::U32, Type::U8];

/// Runs an op on all lanes at once, and on each lane alone, with all instruction sets, and compares the results.
fn check(op: Op, ty: Type, operands: &[Type], random: &mut Random) {
    let mut body = Body::default();
    let from: Vec<_> = operands.iter().enumerate().map(|(stream, ty)| body.load(stream, *ty)).collect();
    let result = body.push(op, ty, &from);
    body.store(result, from.len());
    let strides = vec![vec![1]; from.len() + 1];
    let [all, one] = [LANES, 1].map(|lanes| Fused::new(body.clone(), &[lanes], strides.clone()));
    let mut memory = Memory(operands.iter().map(|ty| numbers(*ty, random)).collect());
    memory.0.push(vec![0; LANES]);
    for machine in Machine::all() {
        Tiles::default().run_on::<f32>(machine, &all, &mut memory);
        for lane in 0..LANES {
            let element = |stream: usize, ty: Type| bits(&memory, stream, ty.size(4), lane);
            let streams = operands.iter().enumerate().map(|(stream, ty)| vec![element(stream, *ty)]);
            let mut single = Memory(streams.chain([vec![0]]).collect());
            Tiles::default().run_on::<f32>(machine, &one, &mut single);
            let (found, expected) = (bits(&single, from.len(), ty.size(4), 0), element(from.len(), ty));
            let are_nan =
                ty == Type::Float && [found, expected].iter().all(|bits| f32::from_bits(*bits as u32).is_nan());
            assert!(found == expected || are_nan, "{op:?} of {operands:?} with {}: {found:x}", machine.name());
        }
    }
}

/// Returns the bits of an element of `size` bytes.
fn bits(memory: &Memory, stream: usize, size: usize, lane: usize) -> u64 {
    match size {
        8 => memory.elements::<u64>(stream)[lane],
        4 => memory.elements::<u32>(stream)[lane].into(),
        _ => memory.elements::<u8>(stream)[lane].into(),
    }
}

/// Returns a stream of elements: special values, small integers, and random bits.
fn numbers(ty: Type, random: &mut Random) -> Vec<u64> {
    let floats = [0.0, -0.0, 1.0, -1.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, 1e20, -3e-39];
    let integers = [0, 1, -1, 2, 31, 32, 63, 64, i64::MAX, i64::MIN];
    let pick = |random: &mut Random| match (ty, random.below(3)) {
        (Type::Mask, _) => random.bits() & 1,
        (Type::Float, 0) => floats[random.below(floats.len())].to_bits().into(),
        (Type::Float, 1) => (random.below(2000) as f32 / 100.0 - 10.0).to_bits().into(),
        (_, 0) => integers[random.below(integers.len())] as u64,
        (_, 1) => random.below(7) as u64,
        _ => random.bits(),
    };
    let all: Vec<u64> = (0..LANES).map(|_| pick(random)).collect();
    match ty.size(4) {
        8 => all,
        4 => Memory::stream(&all.iter().map(|bits| *bits as u32).collect::<Vec<_>>()),
        _ => Memory::stream(&all.iter().map(|bits| *bits as u8).collect::<Vec<_>>()),
    }
}

#[test]
fn float_ops() {
    let mut random = Random(1);
    for op in Unary::ALL {
        check(Op::Unary(*op), Type::Float, &[Type::Float], &mut random);
    }
    for op in Binary::ALL {
        check(Op::Binary(*op), Type::Float, &[Type::Float; 2], &mut random);
    }
    for op in Ternary::ALL {
        check(Op::Ternary(*op), Type::Float, &[Type::Float; 3], &mut random);
    }
}

#[test]
fn integer_ops() {
    let mut random = Random(2);
    for ty in INTEGERS {
        for op in IntUnary::ALL {
            check(Op::OneInt(op), ty, &[ty], &mut random);
        }
        for op in IntBinary::ALL {
            check(Op::Int(op), ty, &[ty; 2], &mut random);
        }
    }
    check(Op::OneInt(IntUnary::Not), Type::Mask, &[Type::Mask], &mut random);
    for op in [IntBinary::And, IntBinary::Or, IntBinary::Xor] {
        check(Op::Int(op), Type::Mask, &[Type::Mask; 2], &mut random);
    }
}

#[test]
fn comparisons_selections_and_casts() {
    let mut random = Random(3);
    for ty in [&INTEGERS[..], &[Type::Float, Type::Mask]].concat() {
        for op in Compare::ALL {
            check(Op::Compare(op), Type::Mask, &[ty; 2], &mut random);
        }
        check(Op::Select, ty, &[Type::Mask, ty, ty], &mut random);
        for to in [&INTEGERS[..], &[Type::Float, Type::Mask]].concat() {
            check(Op::Cast, to, &[ty], &mut random);
        }
    }
}
