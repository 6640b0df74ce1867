//! Ops on words: 32-bit integer arithmetic on the bits of elements, for both element types.

use funcify_cpu::kernels::WordOp;
use funcify_cpu::plan::Op;
use funcify_cpu::{Element, Machine};

use super::run;

/// Test words: the ends of the range, and the bits of f32 zeros of both signs and of NaNs with a payload.
const WORDS: [u32; 9] = [0, 1, 31, 32, 0x7fff_ffff, 0x8000_0000, 0x7fa0_0001, 0xffc1_2345, u32::MAX];

fn expected(op: WordOp, x: u32, y: u32) -> u32 {
    match op {
        WordOp::And => x & y,
        WordOp::Or => x | y,
        WordOp::Xor => x ^ y,
        WordOp::Add => x.wrapping_add(y),
        WordOp::Sub => x.wrapping_sub(y),
        WordOp::Mul => x.wrapping_mul(y),
        WordOp::ShiftLeft => ((u64::from(x)) << y.min(32)) as u32,
        WordOp::ShiftRight => ((u64::from(x)) >> y.min(32)) as u32,
        WordOp::OfNumber | WordOp::ToNumber => x,
    }
}

fn check<T: Element>() {
    for machine in Machine::all() {
        for op in WordOp::ALL.into_iter().filter(|op| op.operands() == 2) {
            for other in WORDS {
                let (x, y) = (WORDS.map(T::from_word), [T::from_word(other); WORDS.len()]);
                let mut z = [T::ZERO; WORDS.len()];
                run(machine, &[&x, &y], &mut z, |from, to| vec![Op::Word(op).over([1, WORDS.len()], to, from)]);
                for (word, found) in WORDS.into_iter().zip(z) {
                    assert_eq!(found.to_word(), expected(op, word, other), "{op:?}({word:#x}, {other:#x})");
                }
            }
        }
    }
}

#[test]
fn words_are_integers_of_32_bits() {
    check::<f32>();
    check::<f64>();
}

#[test]
fn numbers_become_words_and_words_numbers() {
    let once = |op: WordOp, x: f64| {
        let mut y = [0f64];
        let apply = |from: &[_], to| vec![Op::Word(op).over([1, 1], to, from)];
        run(Machine::detect(), &[&[x]], &mut y, apply);
        y[0]
    };
    for (number, word) in [(0.0, 0), (-1.0, u32::MAX), (4_294_967_295.0, u32::MAX), (4_294_967_298.0, 2)] {
        assert_eq!(once(WordOp::OfNumber, number), f64::from_bits(word.into()));
        assert_eq!(once(WordOp::ToNumber, f64::from_bits(word.into())), f64::from(word));
    }
}
