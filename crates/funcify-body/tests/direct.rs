//! Tests that steps write directly to streams only if no later step reads the memory that they overwrite.

mod common;

use common::{Memory, Random};
use funcify_body::kernels::Binary;
use funcify_body::{Body, Fused, IntBinary, Machine, Op, Streams, Tiles, Type};

/// Streams that may be in the same memory: `of[i]` is the buffer of stream `i`.
struct Shared {
    buffers: Memory,
    of: Vec<usize>,
}

impl Streams for Shared {
    fn read(&self, stream: usize) -> &[u8] {
        self.buffers.read(self.of[stream])
    }

    fn write(&mut self, stream: usize) -> &mut [u8] {
        self.buffers.write(self.of[stream])
    }

    fn write_beside(&mut self, stream: usize, read: [Option<usize>; 4], run: impl FnOnce(&mut [u8], &[&[u8]; 4])) {
        let read = read.map(|read| read.map(|read| self.of[read]));
        self.buffers.write_beside(self.of[stream], read, run);
    }
}

/// The number of streams that a body loads.
const LOADS: usize = 4;

/// Returns a body of random ops, which stores up to three of its values.
fn any_body(random: &mut Random, ty: Type) -> Body {
    let mut body = Body::default();
    let mut values: Vec<_> = (0..LOADS).map(|stream| body.load(stream, ty)).collect();
    for _ in 0..2 + random.below(8) {
        let [x, y] = [0; 2].map(|_| values[random.below(values.len())]);
        let op = match (ty, random.below(3)) {
            (Type::Float, 0) => Op::Binary(Binary::Add),
            (Type::Float, 1) => Op::Binary(Binary::Mul),
            (Type::Float, _) => Op::Binary(Binary::Max),
            (_, 0) => Op::Int(IntBinary::Add),
            (_, 1) => Op::Int(IntBinary::Sub),
            _ => Op::Int(IntBinary::Xor),
        };
        values.push(body.push(op, ty, &[x, y]));
    }
    for stored in 0..1 + random.below(3) {
        let value = values[random.below(values.len())];
        body.store(value, LOADS + stored);
    }
    body
}

/// Runs random bodies, of which some store to the memory of a stream that they load. The results must be the same as
/// those of the same body if all streams may share memory, so that it copies every result.
#[test]
fn results_do_not_depend_on_copies() {
    let mut random = Random(11);
    let (mut direct, mut copied) = (0, 0);
    for round in 0..4000 {
        let ty = [Type::Float, Type::I32, Type::U8][round % 3];
        let body = any_body(&mut random, ty);
        let stores = body.stores().len();
        // A stored stream has its own buffer, or that of a loaded stream, which no other stored stream has.
        let mut of: Vec<usize> = (0..LOADS).collect();
        for stored in 0..stores {
            let buffer = if random.below(2) == 0 { stored } else { LOADS + stored };
            of.push(buffer);
        }
        let lanes = [1, 3, 70, 2500][random.below(4)];
        let strides = vec![vec![1]; LOADS + stores];
        let plain = Fused::new(body.clone(), &[lanes], strides.clone());
        let quick = Fused::with_apart(body, &[lanes], strides, |stored, loaded| of[stored] != of[loaded]);
        direct += stores - quick.copied_stores().count();
        copied += quick.copied_stores().count();
        let buffer = |_| Memory::stream(&(0..lanes.div_ceil(2)).map(|_| number(&mut random, ty)).collect::<Vec<u64>>());
        let buffers: Vec<Vec<u64>> = (0..LOADS + stores).map(buffer).collect();
        let [expected, found] = [&plain, &quick].map(|fused| {
            let mut memory = Shared { buffers: Memory(buffers.clone()), of: of.clone() };
            Tiles::default().run_on::<f32>(Machine::detect(), fused, &mut memory);
            (0..buffers.len()).map(|stream| memory.buffers.elements::<u64>(stream).to_vec()).collect::<Vec<_>>()
        });
        assert!(found == expected, "{:?} in {of:?}", quick.body());
    }
    assert!(direct > 1000 && copied > 1000, "{direct} stores are direct, {copied} are copied");
}

/// Returns a word of two elements. Floats are small whole numbers.
fn number(random: &mut Random, ty: Type) -> u64 {
    if ty != Type::Float {
        return random.bits();
    }
    let [low, high] = [0; 2].map(|_| (random.below(9) as f32 - 4.0).to_bits());
    u64::from(low) | u64::from(high) << 32
}
