//! Tests functions near the limits of f64: the result is representable, but a power or a square in the textbook formula
//! overflows or underflows. The expected values were computed with mpmath, with a precision of 80 digits.

use funcify::{Graph, HostTensor, Value, evaluate};

type Function = fn(Value, Value) -> Value;

/// The cases, each with its name, function, x, y, and expected value.
const VALUES: &[(&str, Function, f64, f64, f64)] = &[
    ("erfc", |x, _| x.erfc(), 26.0, 0.0, 5.663192408856143e-296),
    ("erfc", |x, _| x.erfc(), 26.5, 0.0, 2.2109076642637343e-307),
    ("erfc", |x, _| x.erfc(), 26.6, 0.0, 1.088512588544227e-309),
    ("erfc", |x, _| x.erfc(), 27.0, 0.0, 5.23705e-319),
    ("exp", |x, _| x.exp(), -740.0, 0.0, 4.2e-322),
    ("expm1", |x, _| x.expm1(), 709.7, 0.0, 1.6549840276802644e308),
    ("log1p", |x, _| x.log1p(), 1.7e308, 0.0, 709.7268368932282),
    ("tanh", |x, _| x.tanh(), 1.7e308, 0.0, 1.0),
    ("tanh", |x, _| x.tanh(), 5e-324, 0.0, 5e-324),
    ("sigmoid", |x, _| x.sigmoid(), -710.0750664438754, 0.0, 4.152569466837695e-309),
    ("sigmoid", |x, _| x.sigmoid(), -740.0, 0.0, 4.2e-322),
    ("sinh", |x, _| x.sinh(), 710.4, 0.0, 1.6663642832806496e308),
    ("cosh", |x, _| x.cosh(), -710.4, 0.0, 1.6663642832806496e308),
    ("asinh", |x, _| x.asinh(), 1.7e308, 0.0, 710.4199840737882),
    ("acosh", |x, _| x.acosh(), 1.7e308, 0.0, 710.4199840737882),
    ("atanh", |x, _| x.atanh(), 1e-310, 0.0, 1e-310),
    ("rsqrt", |x, _| x.rsqrt(), 5e-324, 0.0, 4.4989137945431964e161),
    ("rsqrt", |x, _| x.rsqrt(), 1.7e308, 0.0, 7.669649888473705e-155),
    ("cbrt", |x, _| x.cbrt(), 5e-324, 0.0, 1.7031839360032603e-108),
    ("erf_inv", |x, _| x.erf_inv(), 1e-310, 0.0, 8.8622692545277e-311),
    ("lgamma", |x, _| x.lgamma(), 2.5e305, 0.0, 1.7555118602376452e308),
    ("lgamma", |x, _| x.lgamma(), 5e-324, 0.0, 744.4400719213812),
    ("digamma", |x, _| x.digamma(), 1e-308, 0.0, -1e308),
    ("digamma", |x, _| x.digamma(), 1.7e308, 0.0, 709.7268368932282),
    ("atan2", |x, y| x.atan2(y), 1e-320, 1e-300, 9.99988867182683e-21),
    ("softplus", |x, _| x.softplus(), -740.0, 0.0, 4.2e-322),
    ("softplus", |x, _| x.softplus(), 1.7e308, 0.0, 1.7e308),
    ("log_sigmoid", |x, _| x.log_sigmoid(), 740.0, 0.0, -4.2e-322),
    ("log_sigmoid", |x, _| x.log_sigmoid(), -1.7e308, 0.0, -1.7e308),
    ("logaddexp", |x, y| x.logaddexp(y), 1.7e308, 1.7e308, 1.7e308),
    ("logaddexp", |x, y| x.logaddexp(y), -1.7e308, 1.7e308, 1.7e308),
    ("hypot", |x, y| x.hypot(y), 1.2e308, -1.2e308, 1.697056274847714e308),
    ("hypot", |x, y| x.hypot(y), 3e-320, 4e-320, 5e-320),
];

#[test]
fn results_that_can_be_represented_are_given() {
    for (name, function, x, y, expected) in VALUES {
        let graph = Graph::build("f", |g| function(g.input("x", "f64[]"), g.input("y", "f64[]")));
        let graph = graph.unwrap_or_else(|error| panic!("{error}"));
        let found = evaluate(&graph, &[*x, *y].map(HostTensor::scalar)).unwrap()[0].to_f64_vec()[0];
        // The absolute tolerance is two ULPs of a subnormal number. One ULP is 5e-324.
        let allowed = 2e-15 * expected.abs() + 1e-323;
        let is_near = found == *expected || (found - expected).abs() <= allowed;
        assert!(is_near, "{name}({x:e}, {y:e}) = {found:e}, not {expected:e}");
    }
}
