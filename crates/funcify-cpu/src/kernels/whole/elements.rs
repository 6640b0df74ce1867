//! Kernels for elementwise ops that fused bodies do not support, for bitcasts, and for `iota`.

use funcify_body::integer::Element;
use funcify_core::ops::{next_after, special};
use funcify_core::types::round_integer_to_odd;

use super::*;

/// A kernel that reinterprets the bits of elements of one type as elements of another.
#[derive(Clone, Debug)]
pub(crate) struct Bitcast {
    pub(super) from: ElementType,
    pub(super) to: ElementType,
}

impl Bitcast {
    pub(super) fn run(&self, to: &mut [u8], x: &[u8]) {
        use ElementType::{F64, I32, U32};
        match (self.from, self.to) {
            // In these two cases, the plan holds f32 values as f64.
            (F64, I32 | U32) => {
                let (to, x): (&mut [u32], &[f64]) = (elements_mut(to), elements(x));
                to.iter_mut().zip(x).for_each(|(to, x)| *to = (*x as f32).to_bits());
            }
            (I32 | U32, F64) => {
                let (to, x): (&mut [f64], &[u32]) = (elements_mut(to), elements(x));
                to.iter_mut().zip(x).for_each(|(to, x)| *to = f32::from_bits(*x).into());
            }
            _ => to.copy_from_slice(x),
        }
    }
}

/// A kernel that writes the numbers 0, 1, 2, and so on.
#[derive(Clone, Debug)]
pub(crate) struct Iota {
    pub(super) ty: ElementType,
    pub(super) rounding: Rounding,
}

impl Iota {
    pub(super) fn run(&self, to: &mut [u8]) {
        with_element!(self.ty, E => {
            let to: &mut [E] = elements_mut(to);
            match self.rounding {
                Rounding::None => to.iter_mut().enumerate().for_each(|(at, to)| *to = at as E),
                rounding => to.iter_mut().enumerate().for_each(|(at, to)| *to = rounding.round(at as f64) as E),
            }
        });
    }
}

/// A kernel that returns the neighbour of each float in the direction of another float.
#[derive(Clone, Debug)]
pub(crate) struct Neighbor {
    pub(super) ty: ElementType,
    /// The float type that determines the neighbour. This type may be narrower than `ty`.
    pub(super) dtype: DType,
}

impl Neighbor {
    pub(super) fn run(&self, to: &mut [u8], x: &[u8], toward: &[u8]) {
        with_element!(float self.ty, E => {
            let (to, x, toward): (&mut [E], &[E], &[E]) = (elements_mut(to), elements(x), elements(toward));
            for ((to, x), toward) in to.iter_mut().zip(x).zip(toward) {
                *to = next_after(x.to_float(), toward.to_float(), self.dtype) as E;
            }
        });
    }
}

/// A kernel that computes the `order`-th derivative of the digamma function.
#[derive(Clone, Debug)]
pub(crate) struct Polygamma {
    pub(super) order: usize,
    pub(super) ty: ElementType,
    pub(super) rounding: Rounding,
}

impl Polygamma {
    pub(super) fn run(&self, to: &mut [u8], x: &[u8]) {
        with_element!(float self.ty, E => {
            let (to, x): (&mut [E], &[E]) = (elements_mut(to), elements(x));
            let value = |x: E| self.rounding.round(special::polygamma(self.order, x.to_float())) as E;
            to.iter_mut().zip(x).for_each(|(to, x)| *to = value(*x));
        });
    }
}

/// A kernel that converts integers to f16, bf16 or f32, and rounds only once.
#[derive(Clone, Debug)]
pub(crate) struct NarrowingCast {
    pub(super) from: ElementType,
    pub(super) to: ElementType,
    pub(super) rounding: Rounding,
}

impl NarrowingCast {
    pub(super) fn run(&self, to: &mut [u8], x: &[u8]) {
        with_element!(float self.to, F => with_element!(integer self.from, E => {
            let (to, x): (&mut [F], &[E]) = (elements_mut(to), elements(x));
            for (to, x) in to.iter_mut().zip(x) {
                *to = self.rounding.round(round_integer_to_odd(x.to_i64())) as F;
            }
        }));
    }
}
