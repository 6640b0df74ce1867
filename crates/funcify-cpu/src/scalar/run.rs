//! The loop over words.

use pulp::{Simd, WithSimd};

use super::{Code, REGISTERS, Verb};
use crate::kernels::math::MathTable;
use crate::kernels::{binary, unary};
use crate::run::view::View;

/// Where an element is now, and how far it moves with each iteration: of columns in units, else in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) region: usize,
    /// Of columns the unit, else the element.
    pub(crate) at: usize,
    /// Of columns the element of the unit.
    pub(crate) offset: usize,
    pub(crate) step: isize,
}

/// Runs code so often that `more` gives 0: it says for how many iterations to go on. `addresses` are those of
/// [`Code::elements`].
pub(crate) fn run<T: MathTable, S: Simd>(
    simd: S,
    code: &Code<T>,
    views: &mut [View<'_, T>],
    addresses: &mut [Address],
    mut more: impl FnMut() -> usize,
) {
    let mut registers = [T::ZERO; REGISTERS];
    let (kept, streams) = addresses.split_at_mut(code.loads.len() + code.stores.len());
    let (loads, stores) = kept.split_at(code.loads.len());
    for ((register, _), address) in code.loads.iter().zip(loads) {
        registers[usize::from(*register)] = load(views, address);
    }
    for (register, number) in &code.numbers {
        registers[usize::from(*register)] = *number;
    }
    loop {
        let times = more();
        if times == 0 {
            break;
        }
        simd.vectorize(Iterations {
            code,
            views: &mut *views,
            streams: &mut *streams,
            registers: &mut registers,
            times,
        });
    }
    for ((register, _), address) in code.stores.iter().zip(stores) {
        store(views, address, registers[usize::from(*register)]);
    }
}

#[inline(always)]
fn load<T: Copy + Default>(views: &[View<'_, T>], address: &Address) -> T {
    match &views[address.region] {
        View::Read(data) => data[address.at],
        View::Own(data) => data[address.at],
        View::Columns(array) => array[[address.at, address.offset]],
        View::None => T::default(),
    }
}

#[inline(always)]
fn store<T>(views: &mut [View<'_, T>], address: &Address, value: T) {
    match &mut views[address.region] {
        View::Own(data) => data[address.at] = value,
        View::Columns(array) => array[[address.at, address.offset]] = value,
        // A checked plan writes only what is its own.
        View::Read(_) | View::None => {}
    }
}

/// Some iterations.
struct Iterations<'c, 'v, 'a, T> {
    code: &'c Code<T>,
    views: &'c mut [View<'a, T>],
    streams: &'c mut [Address],
    registers: &'v mut [T; REGISTERS],
    times: usize,
}

impl<T: MathTable> WithSimd for Iterations<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Iterations { code, views, streams, registers, times } = self;
        for _ in 0..times {
            for word in &code.words {
                let [a, b, c] = word.from.map(usize::from);
                let value = match word.verb {
                    Verb::Load => load(views, &streams[a]),
                    Verb::Store => {
                        store(views, &streams[usize::from(word.to)], registers[a]);
                        continue;
                    }
                    Verb::Copy => registers[a],
                    Verb::Neg => registers[a].negated(),
                    Verb::Square => registers[a].times(registers[a]),
                    Verb::Add => registers[a].plus(registers[b]),
                    Verb::Sub => registers[a].minus(registers[b]),
                    Verb::Mul => registers[a].times(registers[b]),
                    Verb::Div => registers[a].over(registers[b]),
                    Verb::Less => truth(registers[a] < registers[b]),
                    Verb::LessEqual => truth(registers[a] <= registers[b]),
                    Verb::MulAdd => T::mul_add_element::<S>(registers[a], registers[b], registers[c]),
                    Verb::MulSub => T::mul_add_element::<S>(registers[a], registers[b], registers[c].negated()),
                    Verb::NegMulAdd => T::mul_add_element::<S>(registers[a].negated(), registers[b], registers[c]),
                    Verb::Select => registers[if registers[a] == T::ZERO { c } else { b }],
                    Verb::Unary(op) => unary::of_element(simd, op, registers[a]),
                    Verb::Binary(op) => binary::of_elements(simd, op, registers[a], registers[b]),
                };
                registers[usize::from(word.to)] = value;
            }
            for stream in &mut *streams {
                stream.at = stream.at.wrapping_add_signed(stream.step);
            }
        }
    }
}

fn truth<T: MathTable>(is_true: bool) -> T {
    if is_true { T::ONE } else { T::ZERO }
}
