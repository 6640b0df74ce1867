//! Tests derivative rules that call their own function (call-c7).

use super::{assert_rejected, build, check};
use funcify::prelude::*;
use funcify::{custom_jvp, custom_vjp};

/// Computes x^2, with the custom derivative 10 x. The rule calls the function itself, as is idiomatic in JAX.
fn square(x: Value) -> Value {
    custom_vjp(x, |x| x * x, |x| (square(x), x), |x, ct| ct * x * 10.0)
}

/// Computes exp(x). Its custom derivative is three times the function itself.
fn tripled(x: Value) -> Value {
    custom_jvp(x, |x| x.exp(), |x, _, tangent| tangent * tripled(x) * 3.0)
}

/// Computes `scale` x^3. Its custom derivative is twice the function itself. Since `backward` calls the function, the
/// rule also applies to derivatives of higher order.
fn power(x: Value, scale: f64) -> Value {
    custom_vjp(x, move |x| x * x * x * scale, |x| (power(x, scale), x), |x, ct| ct * power(x, scale) * 2.0)
}

/// The loss is y^2 for y = `square(x)`. Its gradient is 2 y * 10 x, in which y is again a call to `square`. The second
/// derivative is therefore 200 x^2 + 20 y, and the third is 400 x + 200 x.
#[test]
fn its_derivative_is_the_rule_again() {
    let loss = |x: Value| square(x).square();
    let second = |x: Value| grad(x, |x| grad(x, loss));
    check(|x| (grad(x, loss), second(x), hvp(x, x.ones_like(), loss)), 3.0, &[&[540.], &[1980.], &[1980.]]);
    check(|x| grad(x, second), 3.0, &[&[1800.]]);
}

#[test]
fn rules_for_tangents_may_call_their_function() {
    let forward = |x: Value| jvp(x, x.ones_like(), tripled).1;
    let second = |x: Value| hvp(x, x.ones_like(), tripled);
    let program = |x: Value| (grad(x, tripled), forward(x), grad(x, forward), second(x), grad(x, second));
    check(program, 0.0, &[&[3.], &[3.], &[9.], &[9.], &[27.]]);
}

/// Closures that capture Rust data count as the same rule if the captured data is equal.
#[test]
fn backward_may_call_its_function() {
    let f = |x: Value| power(x, 2.0);
    check(|x| (f(x), grad(x, f)), 3.0, &[&[54.], &[108.]]);
    check(|x| (grad(x, |x| grad(x, f)), hvp(x, x.ones_like(), f)), 3.0, &[&[216.], &[216.]]);
}

/// Two steps compute y = n^2 for n = x^2, so the custom rule gives the gradient 10 n * 10 x.
#[test]
fn in_a_loop_as_outside() {
    let looped = |x: Value| scan_with(ScanOptions::new().length(2), x, (), |c, ()| (square(c), ())).0;
    let outside = |x: Value| square(square(x));
    for f in [looped as fn(Value) -> Value, outside] {
        check(|x| (grad(x, f), grad(x, |x| grad(x, f)), hvp(x, x.ones_like(), f)), 2.0, &[&[800.], &[4400.], &[4400.]]);
    }
}

#[test]
fn on_lanes() {
    let second = |x: Value| grad(x, |x| grad(x, |x| square(x).square()));
    check(|xs| vmap(xs, second), [1.0, 2.0], &[&[220., 880.]]);
    let of_lanes = |xs: Value| vmap(xs, |x| square(x).square()).sum(0);
    check(|xs| grad(xs, |xs| grad(xs, of_lanes).sum(0)), [1.0, 2.0], &[&[220., 880.]]);
    // In `on_lanes`, only the argument `x` of `product` has lanes. The rule of `product` swaps the arguments, so in the
    // rule's own calls, only the argument `w` has lanes.
    fn product(x: Value, w: Value) -> Value {
        let forward = |(x, w): (Value, Value)| (product(w, x), (x, w));
        custom_vjp((x, w), |(x, w)| x * w, forward, |(x, w), ct| (ct * w * 2.0, ct * x * 3.0))
    }
    let on_lanes = |xs: Value| {
        let w = xs.sum(0);
        grad(w, |w| grad(w, |w| vmap(xs, |x| product(x, w).square()).sum(0)))
    };
    let one_by_one = |xs: Value| {
        let w = xs.sum(0);
        let of = |row: i64| grad(w, |w| grad(w, |w| product(xs.index(0, row), w).square()));
        of(0) + of(1)
    };
    let xs = [HostTensor::from([1.0, 2.0])];
    let of = |f: &dyn Fn(Value) -> Value| evaluate(&build(|g| f(g.input("x", "f64[2]"))), &xs).unwrap();
    assert_eq!(of(&on_lanes), of(&one_by_one));
}

/// The text form contains the rule only once, although the rule calls its own function.
#[test]
fn it_prints_once() {
    let text = build(|g| square(g.input("x", "f64[]"))).to_string();
    assert_eq!((text.matches("= itself %").count(), text.matches("backward").count()), (1, 1), "{text}");
    let gradient = Graph::parse(&text).unwrap().grad("x", GradOptions::new()).unwrap();
    assert_eq!(evaluate(&gradient, &[HostTensor::scalar(3.0)]).unwrap(), [HostTensor::scalar(30.0)]);
    let outside = "fn @f(%x: f64[]) {\n  %y: f64[] = itself %x\n  return y=%y\n}";
    let error = Graph::parse(outside).expect_err("it is rejected");
    assert!(error.to_string().contains("`itself` only in the graphs of a rule"), "{error}");
    let other = text.replace("itself %", "itself %a, %");
    assert!(Graph::parse(&other).is_err());
}

/// A rule may call its function with different data, as long as the resulting chain of distinct rules is finite.
#[test]
fn rules_in_rules_may_differ_if_they_end() {
    fn ending(x: Value, n: i32) -> Value {
        if n == 0 {
            return x.square();
        }
        custom_vjp(x, |x| x * x, |x| (ending(x, n - 1), x), move |x, ct| ct * x * f64::from(n))
    }
    // The gradient of y^2 for y = `ending(x, 1)` is 2 y x. In this gradient, y is the plain square x^2, so the second
    // derivative is 6 x^2.
    check(|x| grad(x, |x| grad(x, |x| ending(x, 1).square())), 3.0, &[&[54.]]);
}

#[test]
fn what_it_may_not_be() {
    fn counted(x: Value, n: i32) -> Value {
        let forward = |x: Value| (counted(x, n + 1), x);
        custom_vjp(x, |x| x * x, forward, move |x, ct| ct * x * f64::from(n))
    }
    assert_rejected(|g| counted(g.input("x", "f64[]"), 0), "Type", "the same rule at each call of the function");
    fn scaled(x: Value, w: Value) -> Value {
        custom_vjp(x, |x| x * 2.0, |x| (scaled(x, w), ()), |(), ct| ct * w)
    }
    assert_rejected(|g| scaled(g.input("x", "f64[]"), g.input("w", "f64[]")), "Type", "no captured values");
    fn deeper(x: Value) -> Value {
        custom_vjp(x, |x| x * 2.0, |x| (deeper(x.unsqueeze(0)).sum(0), ()), |(), ct| ct)
    }
    assert_rejected(|g| deeper(g.input("x", "f64[]")), "Type", "the rule does not fit");
}
