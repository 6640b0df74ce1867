//! Methods of a value that access the representation of floats: bits, signs, neighbours, fractions and exponents.

use super::*;
use crate::ops::{Bitcast, NextAfter};

impl Value {
    /// Reinterprets the bits of each element as an element of another type of the same width. `f32`, `i32` and `u32`
    /// can be reinterpreted as each other, and so can `f64` and `i64`. The shape is unchanged. Every bit is preserved,
    /// including the payload of NaN. Returns the value itself if its dtype is already `dtype`. No derivative passes
    /// through a bitcast to a different dtype. Corresponds to JAX's `lax.bitcast_convert_type`.
    ///
    /// For any other pair of types, building the graph returns an [`Error::Type`](crate::Error::Type) that lists the
    /// supported types. No integer type has 16 bits, so cast a 16-bit float to `f32` first.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{DType, Graph, evaluate};
    /// // Maps random bits to floats in [1, 2); those whose highest bit is 1 land in the upper half.
    /// let graph = Graph::build("unit", |g| ((g.input("bits", "u32[N]") >> 9) | 0x3f80_0000).bitcast(DType::F32))?;
    /// assert_eq!(evaluate(&graph, &[[0u32, 1 << 31].into()])?, [[1f32, 1.5].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn bitcast(self, dtype: DType) -> Value {
        if self.dtype() == dtype && !self.is_failed() { self } else { self.emit(Bitcast { dtype }) }
    }

    /// Returns `true` for each element whose sign bit is set, including -0 and negative NaN. For integers, returns
    /// `true` for each negative element. The result has no derivative. Corresponds to JAX's `jnp.signbit`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").signbit())?;
    /// assert_eq!(evaluate(&graph, &[[-1f32, -0.0, 2.0].into()])?, [[true, true, false].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn signbit(self) -> Value {
        if !self.dtype().is_float() || self.is_failed() {
            return self.lt(0);
        }
        let layout = Layout::of(self.dtype());
        self.cast(layout.float).bitcast(layout.bits).lt(0)
    }

    /// Returns the next float after each element in the direction of the matching element of `right`. Returns `right`
    /// where the two are equal, and NaN where either is NaN. Both operands must be floats of the same dtype, and are
    /// broadcast to a common shape. Corresponds to JAX's `jnp.nextafter`. As in JAX, the op has no derivative:
    /// differentiating it reports [`Error::NoDerivative`](crate::Error::NoDerivative). Define a derivative with
    /// [`custom_jvp`](crate::custom_jvp), or use [`stop_gradient`](Value::stop_gradient).
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[]").nextafter(2.0))?;
    /// assert_eq!(evaluate(&graph, &[1f32.into()])?, [(1.0 + f32::EPSILON).into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn nextafter(self, right: impl Into<Operand>) -> Value {
        Operand::elementwise(NextAfter, self.into(), right.into())
    }

    /// Splits each float x into a fraction and an exponent: `x = fraction * 2^exponent`, with |fraction| in [0.5, 1).
    /// The fraction has the type of x, and the exponent is `i32`. For zeros, infinities and NaN, the fraction is x and
    /// the exponent is 0. The derivative of the fraction is `2^-exponent`. No derivative passes through the exponent.
    /// Corresponds to JAX's `jnp.frexp`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    /// let graph = Graph::build("parts", |g| g.input("x", "f32[3]").frexp())?;
    /// let parts = evaluate(&graph, &[[8f32, -0.75, 0.0].into()])?;
    /// assert_eq!(parts, [[0.5f32, -0.75, 0.0].into(), [4i32, 0, 0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn frexp(self) -> (Value, Value) {
        let dtype = self.dtype();
        if !dtype.is_float() && !self.is_failed() {
            let refused = self.not_floats("frexp");
            return (refused, refused);
        }
        let layout = Layout::of(dtype);
        let x = self.cast(layout.float);
        let magnitude = x.bitcast(layout.bits) & layout.largest();
        let biased = magnitude >> layout.fraction;
        // A subnormal number has no implicit leading 1, so the position of its highest bit determines its exponent.
        let width = 8 * layout.bits.size() as i64;
        let subnormal = -magnitude.count_leading_zeros() + (width + 1 - layout.bias - layout.fraction);
        let exponent = select(biased.eq(0), subnormal, biased - (layout.bias - 1));
        let has_none = magnitude.eq(0) | biased.eq(2 * layout.bias + 1);
        let exponent = select(has_none, 0, exponent);
        // 2^-exponent may be outside the range of normal numbers, so apply it as two factors. Neither product is
        // rounded.
        let first = (-exponent).clamp(1 - layout.bias, layout.bias);
        let fraction = x * layout.power(first) * layout.power(-exponent - first);
        (fraction.cast(dtype), exponent.cast(DType::I32))
    }

    /// Computes `x * 2^exponent` for each element x of this value. A subnormal result is rounded only once, and a
    /// result that is too large is infinite. The value must have a float type. The exponent is a Rust integer, or a
    /// value of any integer type. Both operands are broadcast to a common shape. The function is linear in x, and no
    /// gradient flows through the exponent. Corresponds to C's `ldexp` and to JAX's `jnp.ldexp`, except that in JAX
    /// the power of 2 itself may overflow.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").ldexp(3))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, -0.5].into()])?, [[8f32, -4.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn ldexp(self, exponent: impl Into<Operand>) -> Value {
        let dtype = self.dtype();
        if self.is_failed() {
            return self;
        }
        if !dtype.is_float() {
            return self.not_floats("ldexp");
        }
        let layout = Layout::of(dtype);
        let x = self.cast(layout.float);
        let scaled = match exponent.into() {
            Operand::Int(exponent) => layout.steps(exponent).into_iter().fold(x, |x, step| x * layout.constant(step)),
            Operand::Value(exponent) if exponent.is_failed() => return exponent,
            Operand::Value(exponent) if exponent.dtype().is_int() => {
                layout.powers(exponent).into_iter().fold(x, |x, power| x * power)
            }
            other => {
                let found = match other {
                    Operand::Value(exponent) => exponent.ty().to_string(),
                    Operand::Float(number) => format!("the number {number:?}"),
                    other => format!("{other:?}"),
                };
                return fail_value("ldexp", Site::caller(), &[self], |at| {
                    let fix = "cast the exponents to an integer type";
                    at.mismatch("the exponent", "an integer, or integers of any type", found, fix)
                });
            }
        };
        scaled.cast(dtype)
    }

    #[track_caller]
    fn not_floats(self, op: &str) -> Value {
        fail_value(op, Site::caller(), &[self], |at| {
            at.mismatch("the operand", "a float type", self.ty(), "cast the operand to a float type")
        })
    }
}

/// The bit layout used to decompose floats. `f64` uses its own layout. Narrower types are converted to `f32` first, and
/// use the layout of `f32`.
#[derive(Clone, Copy)]
struct Layout {
    float: DType,
    /// The integer type of the same width as `float`.
    bits: DType,
    /// The number of fraction bits.
    fraction: i64,
    /// The exponent bias, which equals the largest exponent of a finite number. The smallest exponent of a normal
    /// number is `1 - bias`.
    bias: i64,
}

impl Layout {
    fn of(dtype: DType) -> Self {
        match dtype {
            DType::F64 => Layout { float: DType::F64, bits: DType::I64, fraction: 52, bias: 1023 },
            _ => Layout { float: DType::F32, bits: DType::I32, fraction: 23, bias: 127 },
        }
    }

    /// Returns the mask of all bits except the sign bit.
    fn largest(self) -> i64 {
        i64::MAX >> (64 - 8 * self.bits.size())
    }

    /// Computes `2^exponent` in the open graph. The result must be a normal number.
    #[track_caller]
    fn power(self, exponent: Value) -> Value {
        ((exponent + self.bias) << self.fraction).bitcast(self.float)
    }

    /// Returns `2^exponent` as a constant. The result must be a normal number.
    #[track_caller]
    fn constant(self, exponent: i64) -> Value {
        let power = f64::from_bits(((1023 + exponent) as u64) << 52);
        constant(HostTensor::scalar(power).cast(self.float))
    }

    /// Returns the part of `exponent` to apply first if 2^exponent is not a normal number, and 0 otherwise. For
    /// negative exponents, the part is chosen so that no result is rounded twice: if the first multiplication rounds to
    /// a subnormal number, the last multiplication turns that number into 0 (as in musl's `scalbn`).
    fn part(self, exponent: i64) -> i64 {
        match exponent {
            _ if exponent > self.bias => self.bias,
            _ if exponent < 1 - self.bias => self.downward(),
            _ => 0,
        }
    }

    fn downward(self) -> i64 {
        2 - self.bias + self.fraction
    }

    /// Returns the magnitude to which exponents are clamped. At this magnitude, scaling already yields zero or
    /// infinity.
    fn max_scale(self) -> i64 {
        4 * self.bias
    }

    /// Splits an exponent into parts, so that `2^part` is a normal number for each part. Returns the parts in the order
    /// in which they are applied.
    fn steps(self, exponent: i64) -> Vec<i64> {
        let mut rest = exponent.clamp(-self.max_scale(), self.max_scale());
        let mut steps = Vec::new();
        for _ in 0..2 {
            let part = self.part(rest);
            rest -= part;
            steps.extend((part != 0).then_some(part));
        }
        steps.push(rest.clamp(1 - self.bias, self.bias));
        steps
    }

    /// Like [`steps`](Layout::steps), but for exponents that the graph computes. Returns `2^part` for each part.
    #[track_caller]
    fn powers(self, exponent: Value) -> [Value; 3] {
        let part = |rest: Value| {
            let downward = select(rest.lt(1 - self.bias), self.downward(), rest.zeros_like());
            select(rest.gt(self.bias), self.bias, downward)
        };
        let exponent = match exponent.dtype() {
            DType::U8 => exponent,
            DType::U32 => exponent.minimum(self.max_scale()),
            _ => exponent.clamp(-self.max_scale(), self.max_scale()),
        };
        let exponent = exponent.cast(self.bits);
        let first = part(exponent);
        let second = part(exponent - first);
        let last = (exponent - first - second).clamp(1 - self.bias, self.bias);
        [first, second, last].map(|step| self.power(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GradOptions, Graph, evaluate};

    const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

    /// Builds a graph that applies `f` to its inputs, and evaluates it on `inputs`.
    fn results<const N: usize>(inputs: [HostTensor; N], f: impl Fn([Value; N]) -> Vec<Value>) -> Vec<HostTensor> {
        let graph = Graph::build("f", |g| {
            let mut number = 0;
            f(inputs.each_ref().map(|input| {
                number += 1;
                g.input(&format!("x{number}"), input.ty())
            }))
        });
        evaluate(&graph.unwrap_or_else(|error| panic!("{error}")), &inputs).unwrap()
    }

    fn bits(tensor: &HostTensor) -> Vec<u8> {
        tensor.storage().to_le_bytes()
    }

    /// Returns numbers across the whole range of a type, with both signs, including zeros and non-finite numbers.
    fn spread(dtype: DType) -> HostTensor {
        let numbers = (-1080..1030).flat_map(|exponent: i32| {
            let power = 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
            // When the last number is scaled down to 1.3 ULP, it must round to 1 ULP. If an earlier step also rounded
            // it, the result could be 2 ULP.
            [power, -power * 1.5, power * 1.998046875, power * 1.3]
        });
        let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let all: Vec<f64> = numbers.chain(special).collect();
        let count = all.len();
        HostTensor::from_vec(all, [count]).unwrap().cast(dtype)
    }

    #[test]
    fn fractions_and_exponents_of_every_number() {
        for dtype in FLOATS {
            let x = spread(dtype);
            let [fraction, exponent, back] = &results([x.clone()], |[x]| {
                let (fraction, exponent) = x.frexp();
                vec![fraction, exponent, fraction.ldexp(exponent)]
            })[..] else {
                panic!("three results");
            };
            assert_eq!((fraction.dtype(), exponent.dtype()), (dtype, DType::I32));
            assert_eq!(bits(back), bits(&x), "{dtype}");
            for ((x, fraction), exponent) in
                x.to_f64_vec().into_iter().zip(fraction.to_f64_vec()).zip(exponent.scalars())
            {
                match x != 0.0 && x.is_finite() {
                    true => {
                        assert!((0.5..1.0).contains(&fraction.abs()), "{dtype}: the fraction of {x:e} is {fraction}")
                    }
                    false => assert!(exponent.as_i64() == 0 && fraction.to_bits() == x.to_bits(), "{dtype}: {x}"),
                }
            }
        }
    }

    /// Compares the results of `ldexp` with products that are computed exactly in f64, and then rounded once by a cast.
    #[test]
    fn scaling_is_rounded_once() {
        for dtype in FLOATS.into_iter().filter(|dtype| *dtype != DType::F64) {
            let x = spread(dtype);
            for exponent in (-300..=300).step_by(7).chain([-126, -127, -128, -129, 127, 128, i64::MIN, i64::MAX]) {
                let power = 2f64.powi(exponent.clamp(-600, 600) as i32);
                let expected = HostTensor::from_vec(x.to_f64_vec().iter().map(|x| x * power).collect(), x.shape());
                let expected = bits(&expected.unwrap().cast(dtype));
                let exponents = HostTensor::scalar(exponent);
                let scaled = results([x.clone(), exponents], |[x, e]| vec![x.ldexp(e), x.ldexp(exponent)]);
                assert!(bits(&scaled[0]) == expected, "{dtype} times 2^{exponent}");
                assert!(bits(&scaled[1]) == expected, "{dtype} times 2^{exponent}, a number");
            }
        }
    }

    /// Checks that `ldexp` rounds f64 results once: ties between subnormal numbers round to even, and numbers next to a
    /// tie round to the nearest number.
    #[test]
    fn f64_is_rounded_once_too() {
        let unit = f64::from_bits(1);
        let x = HostTensor::from([1.5, 2.5, 1.5 + f64::EPSILON, 2.5 - 2.0 * f64::EPSILON, 0.5, 0.5 + f64::EPSILON]);
        let expected = HostTensor::from([2.0 * unit, 2.0 * unit, 2.0 * unit, 2.0 * unit, 0.0, unit]);
        let scaled = results([x.clone()], |[x]| vec![x.ldexp(-1074), (x * 2f64.powi(900)).ldexp(-1974)]);
        assert_eq!(scaled, [expected.clone(), expected]);
        let beside_normal = results([HostTensor::from([2.6 * f64::EPSILON])], |[x]| vec![x.ldexp(-1023)]);
        assert_eq!(beside_normal, [HostTensor::from([unit])]);
        let up =
            results([HostTensor::from([unit, -unit])], |[x]| vec![x.ldexp(2097), x.ldexp(2098), x.ldexp(i64::MAX)]);
        let inf = HostTensor::from([f64::INFINITY, f64::NEG_INFINITY]);
        assert_eq!(up, [HostTensor::from([2f64.powi(1023), -2f64.powi(1023)]), inf.clone(), inf]);
    }

    #[test]
    fn exponents_of_every_integer_type() {
        for dtype in [DType::U8, DType::U32, DType::I32, DType::I64] {
            let e = HostTensor::from([0i64, 1, 100, 255]).cast(dtype);
            let x = HostTensor::from([3f32, -3.0, 0.5, 1e-30]);
            let expected = [3f32, -6.0, 2f32.powi(99), f32::INFINITY];
            assert_eq!(results([x, e], |[x, e]| vec![x.ldexp(e)]), [expected.into()], "{dtype}");
        }
        let far = results([[1f32, 1.0].into(), [i32::MIN, i32::MAX].into()], |[x, e]| vec![x.ldexp(e)]);
        assert_eq!(far, [[0f32, f32::INFINITY].into()]);
        let column = results([[[1f32], [2.0]].into(), [0i32, 3].into()], |[x, e]| vec![x.ldexp(e)]);
        assert_eq!(column, [[[1f32, 8.0], [2.0, 16.0]].into()]);
    }

    #[test]
    fn signs_are_those_of_the_bits() {
        for dtype in FLOATS {
            let x = HostTensor::from([1.0, -1.0, 0.0, -0.0, f64::NAN, -f64::NAN, f64::NEG_INFINITY]).cast(dtype);
            let expected = HostTensor::from([false, true, false, true, false, true, true]);
            let one = HostTensor::from([2.0; 7]).cast(dtype);
            let [signs, copied] =
                &results([x.clone(), one], |[x, one]| vec![x.signbit(), one.copysign(x).signbit()])[..]
            else {
                panic!("two results");
            };
            assert_eq!((signs, copied), (&expected, &expected), "{dtype}");
        }
        let ints = results([[0i32, -1].into(), [0u8, 255].into()], |[x, y]| vec![x.signbit(), y.signbit()]);
        assert_eq!(ints, [[false, true].into(), [false, false].into()]);
    }

    /// Checks that derivatives are the same as in JAX: 2^-exponent for the fraction of `frexp`, 2^exponent for `ldexp`,
    /// and the derivative of |x| or -|x| for `copysign`.
    #[test]
    fn derivatives_of_every_order() {
        let slopes = |x: f64, f: &dyn Fn(Value) -> Value| {
            let graph = Graph::build("f", |g| f(g.input("x", "f64[]"))).unwrap();
            let first = graph.grad("x", GradOptions::new()).unwrap();
            let pushed = graph.jvp("x").unwrap();
            let inputs: [HostTensor; 2] = [x.into(), 1f64.into()];
            let [gradient, tangent] = [evaluate(&first, &inputs[..1]).unwrap(), evaluate(&pushed, &inputs).unwrap()]
                .map(|all| all.last().unwrap().to_f64_vec()[0]);
            assert_eq!(gradient.to_bits(), tangent.to_bits(), "the two modes at {x}");
            gradient
        };
        for (x, slope) in [(12.0, 1.0 / 16.0), (-0.75, 1.0), (0.0, 1.0), (f64::INFINITY, 1.0)] {
            assert_eq!(slopes(x, &|x| x.frexp().0), slope, "the fraction of {x}");
        }
        assert_eq!(slopes(3.0, &|x| x.ldexp(5)), 32.0);
        assert_eq!(slopes(3.0, &|x| x.ldexp(constant(-2i32))), 0.25);
        assert_eq!(slopes(3.0, &|x| x.square().ldexp(x.frexp().1)), 24.0);
        for (x, slope) in [(2.0, -1.0), (-2.0, 1.0), (0.0, 0.0), (-0.0, 0.0)] {
            assert_eq!(slopes(x, &|x| x.copysign(-0.0)), slope, "{x} with another sign");
        }
        assert_eq!(slopes(2.0, &|x| constant(3f64).copysign(x) + x * 0.0), 0.0);
        let second = Graph::build("f", |g| {
            crate::grad(g.input("x", "f64[]"), |x| crate::grad(x, |x| (x * x * x).copysign(-1.0).ldexp(1)))
        });
        assert_eq!(evaluate(&second.unwrap(), &[2f64.into()]).unwrap(), [(-24f64).into()]);
    }

    #[test]
    fn refusals() {
        let refused = |f: &dyn Fn(Value) -> Value, ty: &str, message: &str| {
            let error = Graph::build("f", |g| f(g.input("x", ty))).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("floats.rs:"), "{error}\ndoes not say: {message}");
        };
        refused(&|x| x.frexp().0, "i32[2]", "a float type");
        refused(&|x| x.ldexp(1), "i32[2]", "a float type");
        refused(&|x| x.ldexp(1.5), "f32[2]", "an integer, or integers of any type");
        refused(&|x| x.ldexp(x), "f32[2]", "found:    f32[2]");
        refused(&|x| x.signbit(), "bool[2]", "bool");
        refused(&|x| x.copysign(x), "i32[2]", "a float type");
        refused(&|x| x.nextafter(x), "i32[2]", "a float type");
        refused(&|x| x.bitcast(DType::I64), "f32[2]", "f64 or i64, to be read as i64");
    }
}
