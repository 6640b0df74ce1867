//! Kernels for running folds along one axis, and for folds over any set of axes.
//!
//! Floats are combined in f64, one after another, and each result is rounded once. Integers wrap around.

use funcify_core::ops::special::Extrema;
use funcify_core::ops::{Reduce, ReduceKind};
use smallvec::SmallVec;

use super::*;

/// An element type that can be folded.
pub(super) trait Foldable: Pod {
    /// The type of partial results.
    type Sum: Pod;

    fn identity(kind: ReduceKind) -> Self::Sum;
    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum, rounding: Rounding) -> Self;
    fn sum(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn product(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn larger(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn smaller(a: Self::Sum, b: Self::Sum) -> Self::Sum;
}

macro_rules! integers {
    ($($integer:ident)*) => {$(
        impl Foldable for $integer {
            type Sum = $integer;

            fn identity(kind: ReduceKind) -> $integer {
                match kind {
                    ReduceKind::Sum | ReduceKind::Any => 0,
                    ReduceKind::Prod | ReduceKind::All => 1,
                    ReduceKind::Max => <$integer>::MIN,
                    ReduceKind::Min => <$integer>::MAX,
                }
            }
            #[inline(always)]
            fn widen(self) -> $integer {
                self
            }
            #[inline(always)]
            fn narrow(sum: $integer, _: Rounding) -> $integer {
                sum
            }
            #[inline(always)]
            fn sum(a: $integer, b: $integer) -> $integer {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn product(a: $integer, b: $integer) -> $integer {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn larger(a: $integer, b: $integer) -> $integer {
                a.max(b)
            }
            #[inline(always)]
            fn smaller(a: $integer, b: $integer) -> $integer {
                a.min(b)
            }
        }
    )*};
}

integers! { i64 i32 u32 u8 }

macro_rules! floats {
    ($($float:ident)*) => {$(
        impl Foldable for $float {
            type Sum = f64;

            fn identity(kind: ReduceKind) -> f64 {
                match kind {
                    ReduceKind::Sum | ReduceKind::Any => 0.0,
                    ReduceKind::Prod | ReduceKind::All => 1.0,
                    ReduceKind::Max => f64::NEG_INFINITY,
                    ReduceKind::Min => f64::INFINITY,
                }
            }
            #[inline(always)]
            fn widen(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn narrow(sum: f64, rounding: Rounding) -> $float {
                rounding.round(sum) as $float
            }
            #[inline(always)]
            fn sum(a: f64, b: f64) -> f64 {
                a + b
            }
            #[inline(always)]
            fn product(a: f64, b: f64) -> f64 {
                a * b
            }
            #[inline(always)]
            fn larger(a: f64, b: f64) -> f64 {
                Extrema::larger(a, b)
            }
            #[inline(always)]
            fn smaller(a: f64, b: f64) -> f64 {
                Extrema::smaller(a, b)
            }
        }
    )*};
}

floats! { f32 f64 }

/// Evaluates `$run` with `$combine` bound to the function that combines two elements of type `$E`. Booleans are
/// represented as 0 and 1, so `Any` is a maximum and `All` is a minimum.
macro_rules! with_monoid {
    ($kind:expr, $E:ident, $combine:ident => $run:expr) => {
        match $kind {
            ReduceKind::Sum => with_monoid!(@ $E, sum, $combine => $run),
            ReduceKind::Prod => with_monoid!(@ $E, product, $combine => $run),
            ReduceKind::Max | ReduceKind::Any => with_monoid!(@ $E, larger, $combine => $run),
            ReduceKind::Min | ReduceKind::All => with_monoid!(@ $E, smaller, $combine => $run),
        }
    };
    (@ $E:ident, $function:ident, $combine:ident => $run:expr) => {{
        let $combine = <$E as Foldable>::$function;
        $run
    }};
}

/// A kernel for running folds, such as cumulative sums, along an axis of a tensor.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(super) lines: Lines,
    pub(super) kind: ReduceKind,
    pub(super) reverse: bool,
    pub(super) ty: ElementType,
    pub(super) rounding: Rounding,
}

/// The number of lines that are folded at once.
const LANES: usize = 32;

impl Running {
    pub(super) fn run<S: Simd>(&self, simd: S, to: &mut [u8], x: &[u8]) {
        with_element!(self.ty, E => with_monoid!(self.kind, E, combine => {
            let (to, x): (&mut [E], &[E]) = (elements_mut(to), elements(x));
            simd.vectorize(LoopCall(self, (to, x, combine)));
        }));
    }
}

impl<E: Foldable, C: Fn(E::Sum, E::Sum) -> E::Sum> InnerLoop<(&mut [E], &[E], C)> for Running {
    #[inline(always)]
    fn run_loop(&self, (to, x, combine): (&mut [E], &[E], C)) {
        let Lines { size, stride, .. } = self.lines;
        let steps = (0..size).map(|step| if self.reverse { size - 1 - step } else { step });
        for block in self.lines.blocks() {
            if stride == 1 {
                let (to, x) = (&mut to[block..][..size], &x[block..][..size]);
                let mut running = E::identity(self.kind);
                for position in steps.clone() {
                    running = combine(running, x[position].widen());
                    to[position] = E::narrow(running, self.rounding);
                }
                continue;
            }
            for first in (0..stride).step_by(LANES) {
                let lanes = LANES.min(stride - first);
                let mut running = [E::identity(self.kind); LANES];
                for position in steps.clone() {
                    let at = block + position * stride + first;
                    let (to, x) = (&mut to[at..][..lanes], &x[at..][..lanes]);
                    for ((to, x), running) in to.iter_mut().zip(x).zip(&mut running) {
                        *running = combine(*running, x.widen());
                        *to = E::narrow(*running, self.rounding);
                    }
                }
            }
        }
    }
}

/// A kernel for folds over any set of axes.
#[derive(Clone, Debug)]
pub(crate) struct Reduction {
    kind: ReduceKind,
    /// The size of each axis of the operand, and the stride of that axis in the result. The stride of a folded axis
    /// is 0.
    axes: Vec<(usize, usize)>,
    ty: ElementType,
    rounding: Rounding,
}

impl Reduction {
    pub(super) fn new(op: &Reduce, shape: &[usize], ty: ElementType, rounding: Rounding) -> Self {
        let mut stride = 1;
        let mut axes: Vec<(usize, usize)> = Vec::with_capacity(shape.len());
        for (axis, size) in shape.iter().enumerate().rev() {
            let is_kept = !op.axes.contains(&axis);
            axes.push((*size, if is_kept { stride } else { 0 }));
            stride *= if is_kept { *size } else { 1 };
        }
        axes.reverse();
        Reduction { kind: op.kind, axes, ty, rounding }
    }

    pub(super) fn run<S: Simd>(&self, simd: S, to: &mut [u8], x: &[u8]) {
        with_element!(self.ty, E => with_monoid!(self.kind, E, combine => {
            let (to, x): (&mut [E], &[E]) = (elements_mut(to), elements(x));
            with_scratch(to.len(), |sums: &mut [<E as Foldable>::Sum]| {
                sums.fill(E::identity(self.kind));
                simd.vectorize(LoopCall(self, (&mut *sums, x, combine)));
                to.iter_mut().zip(sums).for_each(|(to, sum)| *to = E::narrow(*sum, self.rounding));
            });
        }));
    }
}

impl<E: Foldable, C: Fn(E::Sum, E::Sum) -> E::Sum> InnerLoop<(&mut [E::Sum], &[E], C)> for Reduction {
    /// Folds the elements in memory order.
    #[inline(always)]
    fn run_loop(&self, (sums, x, combine): (&mut [E::Sum], &[E], C)) {
        let Some(((size, stride), outer)) = self.axes.split_last() else {
            sums[0] = combine(sums[0], x[0].widen());
            return;
        };
        let mut index: SmallVec<[usize; 8]> = SmallVec::from_elem(0, outer.len());
        let mut target = 0;
        for row in x.chunks_exact((*size).max(1)) {
            if *stride == 0 {
                sums[target] = row.iter().fold(sums[target], |sum, x| combine(sum, x.widen()));
            } else {
                let sums = sums[target..][..*size].iter_mut();
                sums.zip(row).for_each(|(sum, x)| *sum = combine(*sum, x.widen()));
            }
            for (index, (size, stride)) in index.iter_mut().zip(outer).rev() {
                (*index, target) = (*index + 1, target + stride);
                if *index < *size {
                    break;
                }
                (*index, target) = (0, target - size * stride);
            }
        }
    }
}
