//! Tests that conversions and integer ops return the same results as scalar Rust code, with all instruction sets.

mod common;

use std::fmt::Debug;

use common::{Memory, Random};
use funcify_body::{Body, Fused, IntBinary, Item, Machine, Op, Tiles, Type};
use pulp::bytemuck::Pod;

/// Runs an op on dense streams, with all instruction sets, and compares the results with `expected`.
#[track_caller]
fn check<T: Item + funcify_body::kernels::math::MathTable, E: Pod + Debug + PartialEq>(
    op: Op,
    ty: Type,
    operands: &[(Type, Vec<u64>)],
    expected: &[E],
) {
    let mut body = Body::default();
    let from: Vec<_> = operands.iter().enumerate().map(|(stream, (ty, _))| body.load(stream, *ty)).collect();
    let result = body.push(op, ty, &from);
    body.store(result, from.len());
    let fused = Fused::new(body, &[expected.len()], vec![vec![1]; from.len() + 1]);
    for machine in Machine::all() {
        let mut streams: Vec<Vec<u64>> = operands.iter().map(|(_, stream)| stream.clone()).collect();
        streams.push(vec![0; size_of_val(expected).div_ceil(8)]);
        let mut memory = Memory(streams);
        Tiles::default().run_on::<T>(machine, &fused, &mut memory);
        let results = &memory.elements::<E>(from.len())[..expected.len()];
        if let Some(lane) = (0..expected.len()).find(|lane| results[*lane] != expected[*lane]) {
            let (result, expected) = (results[lane], expected[lane]);
            panic!("{op:?} to {ty:?} with {}: lane {lane} is {result:?}, not {expected:?}", machine.name());
        }
    }
}

/// Returns floats around powers of two and around integers, and random floats. The first 2048 floats have magnitudes of
/// less than 2^20.
fn floats() -> Vec<f64> {
    let mut random = Random(1);
    let mut small: Vec<f64> = (0..2048).map(|_| random.below(1 << 30) as f64 / 1024.0 - 524_288.0).collect();
    small[..8].copy_from_slice(&[0.0, -0.0, 0.5, -0.5, 0.999_999_9, -0.999_999_9, 255.9, -1.0]);
    let powers = (-2..70).flat_map(|exponent| {
        let power = 2f64.powi(exponent);
        [power, power.next_up(), power.next_down(), power + 0.5, power - 0.5, power + 1.0, power - 1.0, power * 1.7]
    });
    let special = [f64::NAN, -f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX, 0.0];
    let large: Vec<f64> = powers.chain(special).flat_map(|x| [x, -x]).collect();
    let any: Vec<f64> = (0..4096).map(|_| f64::from_bits(random.bits())).collect();
    let wide =
        (0..4096).map(|_| 2f64.powi(random.below(72) as i32 - 4) * (random.bits() as i64 as f64 / 2f64.powi(63)));
    let wide: Vec<f64> = wide.collect();
    small.into_iter().chain(large).chain(any).chain(wide).collect()
}

macro_rules! check_casts {
    ($float:ident, $floats:expr) => {
        let floats: Vec<$float> = $floats;
        for op in [Op::Cast, Op::Hold] {
            let from = [(Type::Float, Memory::stream(&floats))];
            check::<$float, i64>(op, Type::I64, &from, &floats.iter().map(|x| *x as i64).collect::<Vec<_>>());
            check::<$float, i32>(op, Type::I32, &from, &floats.iter().map(|x| *x as i32).collect::<Vec<_>>());
            check::<$float, u32>(op, Type::U32, &from, &floats.iter().map(|x| *x as u32).collect::<Vec<_>>());
            check::<$float, u8>(op, Type::U8, &from, &floats.iter().map(|x| *x as u8).collect::<Vec<_>>());
        }
    };
}

#[test]
fn floats_saturate_when_they_become_integers() {
    check_casts!(f64, floats());
    let mut random = Random(2);
    let any = (0..1 << 16).map(|_| f32::from_bits(random.bits() as u32));
    check_casts!(f32, floats().into_iter().map(|x| x as f32).chain(any).collect());
    // For each chunk, the conversion checks whether all floats are small. A single large float changes the code path
    // only for its own chunk.
    let mut few: Vec<f32> = (0..5000).map(|x| x as f32 - 2500.0).collect();
    (few[700], few[2047], few[4999]) = (f32::NAN, 3e9, -1e30);
    check_casts!(f32, few);
}

macro_rules! check_integers {
    ($int:ident, $ty:expr, $pairs:expr) => {
        let (x, y): (Vec<$int>, Vec<$int>) = $pairs.into_iter().unzip();
        let from = [($ty, Memory::stream(&x)), ($ty, Memory::stream(&y))];
        let each = |function: fn($int, $int) -> $int| -> Vec<$int> {
            x.iter().zip(&y).map(|(x, y)| function(*x, *y)).collect()
        };
        let quotients = each(|x, y| if y == 0 { !0 } else { x.wrapping_div(y) });
        let remainders = each(|x, y| if y == 0 { x } else { x.wrapping_rem(y) });
        #[allow(unused_comparisons, reason = "unsigned exponents are never negative")]
        let powers = each(|x, y| match x {
            _ if y >= 0 => (0..128).rev().fold(1, |power: $int, bit| {
                let is_one = bit < $int::BITS && y >> bit & 1 == 1;
                power.wrapping_mul(power).wrapping_mul(if is_one { x } else { 1 })
            }),
            1 => 1,
            _ if x == !0 => {
                if y & 1 == 1 {
                    x
                } else {
                    1
                }
            }
            _ => 0,
        });
        check::<f32, $int>(Op::Int(IntBinary::Div), $ty, &from, &quotients);
        check::<f32, $int>(Op::Int(IntBinary::Rem), $ty, &from, &remainders);
        check::<f32, $int>(Op::Int(IntBinary::Pow), $ty, &from, &powers);
        let masks: Vec<u8> = (0..x.len()).map(|lane| (lane * lane % 3 == 1) as u8).collect();
        let chosen: Vec<$int> = (0..x.len()).map(|lane| if masks[lane] != 0 { x[lane] } else { y[lane] }).collect();
        let from = [(Type::Mask, Memory::stream(&masks)), from[0].clone(), from[1].clone()];
        check::<f32, $int>(Op::Select, $ty, &from, &chosen);
    };
}

/// Expands to a list of operand pairs: all pairs of edge values; for each of many random divisors, a random multiple
/// and its two neighbours, each paired with the divisor; and pairs of random integers.
macro_rules! pairs {
    ($int:ident) => {{
        let mut random = Random(3);
        let powers = (0..$int::BITS).map(|bit| (1 as $int) << bit);
        let edges: Vec<$int> = powers
            .flat_map(|power| [power, power.wrapping_sub(1), power.wrapping_neg(), !power, power.wrapping_add(1)])
            .chain([0, 3, 7, 10, 100])
            .collect();
        let mut pairs: Vec<($int, $int)> = Vec::new();
        for x in &edges {
            pairs.extend(edges.iter().map(|y| (*x, *y)));
        }
        for _ in 0..20_000 {
            let [quotient, y] =
                [(); 2].map(|_| (random.bits() >> (64 - $int::BITS)) as $int >> random.below($int::BITS as usize));
            let x = quotient.wrapping_mul(y);
            pairs.extend([(x, y), (x.wrapping_sub(1), y), (x.wrapping_add(1), y), (quotient, y)]);
        }
        pairs
    }};
}

#[test]
fn quotients_remainders_powers_and_choices_are_exact() {
    check_integers!(u8, Type::U8, (0..=255).flat_map(|x| (0..=255).map(move |y| (x, y))));
    check_integers!(i32, Type::I32, pairs!(i32));
    check_integers!(u32, Type::U32, pairs!(u32));
    check_integers!(i64, Type::I64, pairs!(i64));
    // The engine uses f64 division for i64 integers whose magnitudes are below 2^50. The magnitude of each dividend is
    // close to the largest multiple of the divisor below this limit.
    let mut random = Random(4);
    let small = (0..50_000).map(|_| {
        let y = (random.bits() >> 14) as i64 >> random.below(50);
        let x = (1i64 << 50) - 1 - random.below(3) as i64 - if y > 0 { ((1i64 << 50) - 1) % y } else { 0 };
        if random.below(2) == 0 { (x, y) } else { (-x, -y) }
    });
    check_integers!(i64, Type::I64, small);
}
