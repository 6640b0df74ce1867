//! Tests that a body of a single lane, which runs op by op on single elements, returns the same bits as the same body on
//! tiles, where a step may compute two ops.

mod common;

use common::{Memory, Random};
use funcify_body::kernels::{Binary, Ternary, Unary};
use funcify_body::{Body, Compare, Fused, IntBinary, IntUnary, Machine, Op, Tiles, Type, Value};

const LANES: usize = 96;
const INTEGERS: [Type; 4] = [Type::I64, Type::I32, Type::U32, Type::U8];

/// The lanes of an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lanes {
    /// Each lane has its own element.
    Own,
    /// All lanes load the same element.
    Shared,
    /// The operand is a constant.
    Constant,
}

const KINDS: [Lanes; 3] = [Lanes::Own, Lanes::Shared, Lanes::Constant];

/// A body, and the operands that it loads: for each stream, its type, and whether all lanes load the same element.
#[derive(Default)]
struct Program {
    body: Body,
    streams: Vec<(Type, bool)>,
}

impl Program {
    fn operand(&mut self, ty: Type, lanes: Lanes, random: &mut Random) -> Value {
        match (lanes, ty) {
            (Lanes::Constant, Type::Float) => self.body.number(f64::from(random.below(9) as f32) / 4.0 - 1.0),
            (Lanes::Constant, Type::Mask) => self.body.integer((random.bits() & 1) as i64, ty),
            (Lanes::Constant, _) => self.body.integer(random.below(40) as i64 - 4, ty),
            _ => {
                self.streams.push((ty, lanes == Lanes::Shared));
                self.body.load(self.streams.len() - 1, ty)
            }
        }
    }

    /// Stores `result`, runs the body on all lanes at once and on each lane alone, with all instruction sets, and
    /// compares the results.
    fn check(mut self, result: Value, ty: Type, random: &mut Random) {
        let to = self.streams.len();
        self.body.store(result, to);
        let mut strides: Vec<Vec<isize>> = self.streams.iter().map(|(_, shared)| vec![isize::from(!shared)]).collect();
        strides.push(vec![1]);
        let [all, one] = [LANES, 1].map(|lanes| Fused::new(self.body.clone(), &[lanes], strides.clone()));
        let mut memory = Memory(self.streams.iter().map(|(ty, _)| numbers(*ty, random)).collect());
        memory.0.push(vec![0; LANES]);
        for machine in Machine::all() {
            Tiles::default().run_on::<f32>(machine, &all, &mut memory);
            for lane in 0..LANES {
                let element = |stream: usize, ty: Type, lane: usize| bits(&memory, stream, ty.size(4), lane);
                let loaded = self.streams.iter().enumerate();
                let loaded =
                    loaded.map(|(stream, (ty, shared))| vec![element(stream, *ty, if *shared { 0 } else { lane })]);
                let mut single = Memory(loaded.chain([vec![0]]).collect());
                Tiles::default().run_on::<f32>(machine, &one, &mut single);
                let (found, expected) = (bits(&single, to, ty.size(4), 0), element(to, ty, lane));
                let are_nan =
                    ty == Type::Float && [found, expected].iter().all(|bits| f32::from_bits(*bits as u32).is_nan());
                assert!(found == expected || are_nan, "{:?} with {}: {found:x}", self.body, machine.name());
            }
        }
    }
}

/// Checks an op for all combinations of kinds of operands.
fn check(op: Op, ty: Type, operands: &[Type], random: &mut Random) {
    for kinds in 0..KINDS.len().pow(operands.len() as u32) {
        let mut program = Program::default();
        let kind = |operand: usize| KINDS[kinds / KINDS.len().pow(operand as u32) % KINDS.len()];
        let from: Vec<Value> =
            operands.iter().enumerate().map(|(operand, ty)| program.operand(*ty, kind(operand), random)).collect();
        let result = program.body.push(op, ty, &from);
        program.check(result, ty, random);
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

/// Checks bodies of two ops, of which one uses the result of the other.
#[test]
fn pairs_of_ops() {
    let mut random = Random(4);
    for _ in 0..3000 {
        let mut kinds = || KINDS[[0, 0, 0, 1, 2][random.below(5)]];
        let kinds: [Lanes; 4] = std::array::from_fn(|_| kinds());
        let mut program = Program::default();
        let types = [&INTEGERS[..], &[Type::Float, Type::Float, Type::Mask]].concat();
        let ty = types[random.below(types.len())];
        let binary = |random: &mut Random| match ty {
            Type::Float => Op::Binary([Binary::Add, Binary::Sub, Binary::Mul, Binary::Max][random.below(4)]),
            Type::Mask => Op::Int([IntBinary::And, IntBinary::Or, IntBinary::Xor][random.below(3)]),
            _ => Op::Int(IntBinary::ALL[random.below(IntBinary::ALL.len())]),
        };
        let [x, y] = [0, 1].map(|operand| program.operand(ty, kinds[operand], &mut random));
        let (result, ty) = if random.below(3) == 0 {
            let holds = program.body.push(Op::Compare(Compare::ALL[random.below(4)]), Type::Mask, &[x, y]);
            let ty = types[random.below(types.len())];
            let [yes, no] = [2, 3].map(|operand| program.operand(ty, kinds[operand], &mut random));
            (program.body.push(Op::Select, ty, &[holds, yes, no]), ty)
        } else {
            let first = program.body.push(binary(&mut random), ty, &[x, y]);
            let z = program.operand(ty, kinds[2], &mut random);
            let from = if random.below(2) == 0 { [first, z] } else { [z, first] };
            (program.body.push(binary(&mut random), ty, &from), ty)
        };
        program.check(result, ty, &mut random);
    }
}
