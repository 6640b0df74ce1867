//! Special values: the signs of zeros (visible only through a division), NaN, infinities, and functions at extreme
//! arguments.

use funcify::TensorType;

use super::*;

pub(super) fn cases() -> Cases {
    all([
        signs_of_zeros("f32", DType::F32),
        signs_of_zeros("f64", DType::F64),
        // Each step checks if a number is finite and if it is NaN. The carry counts the finite numbers.
        case("predicates_in_a_loop", |g| {
            let xs = g.input("xs", "f32[5]");
            let step = |count: Value, x: Value| {
                let is_finite = x.is_finite();
                (count + is_finite.cast(DType::F32), (is_finite, x.is_nan()))
            };
            let (count, (finite, nan)) = scan(funcify::constant(0f32), xs, step);
            outputs! { count: count, finite: finite, nan: nan }
        })
        .on([row([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MAX])])
        .gives([
            ("count", super::scalar(2f32)),
            ("finite", row([false, false, false, true, true])),
            ("nan", row([true, false, false, false, false])),
        ]),
        // Each step reduces a tensor without elements: its product is 1, and its sum is 0.
        case_on("reductions_of_nothing_in_a_loop", [("xs: f32[3]", row([1f32, 2.0, 4.0]))])
            .runs(|[xs]| {
                let step = |state: Value, x: Value| {
                    let nothing = (state * x).broadcast_to([0usize]);
                    let next = state * nothing.prod(0) + x + nothing.sum(0);
                    (next, nothing.prod(0) * x)
                };
                let (last, products) = scan(funcify::constant(0f32), xs, step);
                outputs! { last: last, products: products }
            })
            .gives([("last", super::scalar(7f32)), ("products", row([1f32, 2.0, 4.0]))]),
        // `clamp` returns NaN for NaN. If the lower bound exceeds the upper bound, the result is the upper bound.
        case("clamps_to_numbers_and_values", |g| {
            let (x, low) = (g.input("x", "f32[4]"), g.input("low", "f32[]"));
            outputs! { numbers: x.clamp(-1, 1.5), values: x.clamp(low, low + 1.0), crossed: x.clamp(2, 1) }
        })
        .on([row([f32::NEG_INFINITY, 0.5, 3.0, f32::NAN]), super::scalar(0.75f32)])
        .gives([
            ("crossed", row([1f32, 1.0, 1.0, f32::NAN])),
            ("numbers", row([-1f32, 0.5, 1.5, f32::NAN])),
            ("values", row([0.75f32, 0.75, 1.75, f32::NAN])),
        ]),
        // Activation functions and `hypot` must not overflow if the true result is finite.
        case("activations_at_their_edges", |g| {
            let (x, y) = (g.input("x", "f32[5]"), g.input("y", "f32[5]"));
            outputs! { gelu: x.gelu(), hypot: x.hypot(y), relu: x.relu(), silu: x.silu(), softplus: x.softplus() }
        })
        .on([row([-3e29f32, 1e30, 1.0, f32::INFINITY, f32::NAN]), row([4e29f32, 1e30, 0.0, f32::INFINITY, 1.0])])
        .gives([
            ("gelu", row([0f32, 1e30, 0.841_344_8, f32::INFINITY, f32::NAN])),
            ("hypot", row([5e29f32, 1.414_213_6e30, 1.0, f32::INFINITY, f32::NAN])),
            ("relu", row([0f32, 1e30, 1.0, f32::INFINITY, f32::NAN])),
            ("silu", row([0f32, 1e30, 0.731_058_6, f32::INFINITY, f32::NAN])),
            ("softplus", row([0f32, 1e30, 1.313_261_7, f32::INFINITY, f32::NAN])),
        ]),
        // `>>` is an arithmetic shift for signed integers, and a logical shift for unsigned ones.
        case("right_shifts_by_operators", |g| {
            let (signed, unsigned, by) =
                (g.input("signed", "i32[2]"), g.input("unsigned", "u8[2]"), g.input("by", "u8[]"));
            outputs! { left: signed << 2, signed: signed >> 1, unsigned: unsigned >> by }
        })
        .on([row([-5i32, 6]), row([250u8, 16]), super::scalar(4u8)])
        .gives([("left", row([-20i32, 24])), ("signed", row([-3i32, 3])), ("unsigned", row([15u8, 1]))]),
    ])
}

/// Builds a case that applies odd functions and rounding functions to zeros, and rounding functions to small numbers.
/// Zeros, and numbers that are rounded to zero, must keep their signs.
fn signs_of_zeros(name: &str, dtype: DType) -> OneCase {
    let tensor = |elements: HostTensor| elements.cast(dtype);
    let signs = [f64::NEG_INFINITY, f64::INFINITY];
    case(format!("signs_of_zeros_{name}"), |g| {
        let zeros = g.input("zeros", TensorType::new(dtype, [2usize]));
        let small = g.input("small", TensorType::new(dtype, [2usize]));
        outputs! {
            odd: funcify::stack(
                &[
                    zeros.tan(), zeros.asin(), zeros.atan(), zeros.sinh(), zeros.asinh(), zeros.atanh(), zeros.erf(),
                    zeros.erf_inv(), zeros.cbrt(), zeros.floor(), zeros.round(), zeros.trunc(), zeros.ceil(),
                ],
                0,
            ).recip(),
            rounded: funcify::stack(&[small.round(), small.trunc()], 0).recip(),
            up: small.ceil().recip(),
            down: small.floor().recip(),
        }
    })
    .on([tensor(row([-0.0, 0.0])), tensor(row([-0.5, 0.5]))])
    .gives([
        ("odd", tensor([signs; 13].into())),
        ("rounded", tensor([signs; 2].into())),
        ("up", tensor(row([f64::NEG_INFINITY, 1.0]))),
        ("down", tensor(row([-1.0, f64::INFINITY]))),
    ])
}
