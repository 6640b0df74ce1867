//! Tests the property checks of random programs: the checks must detect an op whose error exceeds the tolerance of a
//! property, and must accept smaller errors.

use std::collections::BTreeSet;

use funcify::derivative::{Cotangents, Dual, VjpContext, jvp_with};
use funcify::error::Place;
use funcify::ops::{Attributes, Custom, CustomOp, EvalContext, Failed, batch_elementwise};
use funcify::prelude::*;
use funcify::vmap::Batched;
use funcify::{Sizes, Symbol, apply, custom_op};
use funcify_conformance::arbitrary::{Rules, TestProgram};
use funcify_conformance::properties::{check, check_backend};

use super::fake::Fake;

/// The part of [`Square`] that has an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Forward,
    Reverse,
    BothModes,
    Lanes,
    GradientOfLanes,
    Text,
}

const WRONG: [Wrong; 6] =
    [Wrong::Forward, Wrong::Reverse, Wrong::BothModes, Wrong::Lanes, Wrong::GradientOfLanes, Wrong::Text];

/// A square op with an error of `parts * 1e-12` in the part that `wrong` selects.
#[derive(Clone, Copy, Debug)]
struct Square {
    wrong: Wrong,
    parts: usize,
}

custom_op!(Square, "wrong_square", |attributes| {
    let wrong = WRONG[attributes.take_usize("wrong")?.min(WRONG.len() - 1)];
    Ok(Square { wrong, parts: attributes.take_usize("parts")? })
});

impl Square {
    fn of(self, x: Value) -> Value {
        apply(Custom::new(self), &[x])[0]
    }

    fn off(&self, wrong: &[Wrong]) -> f64 {
        if wrong.contains(&self.wrong) { self.parts as f64 * 1e-12 } else { 0.0 }
    }
}

impl CustomOp for Square {
    fn infer(&self, _: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        Ok(inputs.to_vec())
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let off = self.off(&[Wrong::Text]);
        let square = |index: &[usize]| Scalar::Float(inputs[0].at(index).as_f64().powi(2) + off);
        Ok(vec![HostTensor::from_fn(inputs[0].dtype(), inputs[0].shape(), square)])
    }

    fn attributes(&self) -> Attributes {
        let parts = if self.wrong == Wrong::Text { 0 } else { self.parts };
        Attributes::new().with("wrong", self.wrong as usize).with("parts", parts)
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let op = match self.wrong {
            Wrong::GradientOfLanes => Square { wrong: Wrong::BothModes, ..*self },
            _ => *self,
        };
        let mut squares = batch_elementwise(Custom::new(op), size, operands)?;
        let off = self.off(&[Wrong::Lanes]);
        squares.iter_mut().for_each(|square| *square = Batched::mapped(square.value + off));
        Ok(squares)
    }

    fn jvp(&self, operands: &[Dual]) -> Result<Option<Vec<Dual>>, Failed> {
        let slope = operands[0].primal * (2.0 * (1.0 + self.off(&[Wrong::Forward, Wrong::BothModes])));
        let tangent = operands[0].tangent.map(|tangent| tangent * slope);
        jvp_with(Custom::new(*self), operands, |_, _| vec![tangent]).map(Some)
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Option<Cotangents>, Failed> {
        let slope = context.operands[0] * (2.0 * (1.0 + self.off(&[Wrong::Reverse, Wrong::BothModes])));
        Ok(Some(vec![cotangents[0].map(|cotangent| cotangent * slope)]))
    }
}

/// Builds a program that applies the op with error `off`, outside or inside a loop. The seed selects one of these two
/// forms, and determines the program's arguments.
fn program(wrong: Wrong, off: f64, is_exact: bool, seed: u64) -> TestProgram {
    let op = Square { wrong, parts: (off * 1e12).round() as usize };
    let graph = Graph::build("squares", |g| {
        let x = g.input("x", "f64[T]");
        match seed % 2 {
            0 => op.of(x),
            _ => scan(x.zeros_like().sum(0), x, |sum, x| (sum, op.of(x))).1,
        }
    });
    let mut sizes = Sizes::new();
    // With a single element, the derivative's terms cannot cancel.
    sizes.set(&Symbol::new("T"), 1);
    TestProgram { graph: graph.unwrap(), sizes, seed, is_exact, rules: Rules::Derivatives }
}

/// Checks several programs that apply the op with error `off`. Returns the properties that these programs violate, plus
/// `none` if some program violates no property.
fn failed_properties_of(wrong: Wrong, off: f64, is_exact: bool) -> BTreeSet<&'static str> {
    let properties = (0..12).map(|seed| match check(&program(wrong, off, is_exact, seed)) {
        Ok(_) => "none",
        Err(disagreement) => disagreement.property,
    });
    properties.collect()
}

fn failed_properties(wrong: Wrong, off: f64) -> Vec<&'static str> {
    failed_properties_of(wrong, off, true).into_iter().collect()
}

#[test]
fn forward_mode_and_reverse_mode_agree() {
    for wrong in [Wrong::Forward, Wrong::Reverse] {
        assert_eq!(failed_properties(wrong, 1e-10), ["none"], "{wrong:?}");
        assert_eq!(failed_properties(wrong, 4e-9), ["vjp"], "{wrong:?}");
        assert_eq!(failed_properties_of(wrong, 1e-2, false), BTreeSet::from(["none"]), "{wrong:?}");
        assert_eq!(failed_properties_of(wrong, 0.15, false), BTreeSet::from(["vjp"]), "{wrong:?}");
    }
}

/// A derivative that is wrong in both forward and reverse mode must not be mistaken for a kink.
#[test]
fn derivatives_agree_with_differences() {
    assert_eq!(failed_properties(Wrong::BothModes, 5e-6), ["none"]);
    assert_eq!(failed_properties(Wrong::BothModes, 8e-5), ["differences"]);
    assert_eq!(failed_properties(Wrong::BothModes, 0.5), ["differences"]);
}

#[test]
fn lanes_agree_with_one_after_the_other() {
    assert_eq!(failed_properties(Wrong::Lanes, 5e-11), ["none"]);
    assert_eq!(failed_properties(Wrong::Lanes, 2e-10), ["lanes"]);
    // Only the gradient of the batched program is wrong, and only some seeds check it.
    assert!(failed_properties(Wrong::GradientOfLanes, 4e-10).contains(&"gradient of lanes"));
    assert_eq!(failed_properties(Wrong::GradientOfLanes, 1e-11), ["none"]);
}

#[test]
fn what_a_text_leaves_out_is_found() {
    assert_eq!(failed_properties(Wrong::Text, 0.0), ["none"]);
    assert_eq!(failed_properties(Wrong::Text, 1e-10), ["text"]);
}

/// Creates a backend that adds `off` to all float results.
fn backend(off: f64) -> Fake {
    Fake::new(move |graph, arguments| {
        let mut results = evaluate(graph, arguments)?;
        for result in &mut results {
            let shape = result.shape().to_vec();
            *result = HostTensor::from_fn(result.dtype(), &shape, |index| match result.at(index) {
                Scalar::Float(value) => Scalar::Float(value + off),
                other => other,
            });
        }
        Ok(results)
    })
}

#[test]
fn backends_agree_with_the_reference_evaluation() {
    let property =
        |fake: Fake| check_backend(&program(Wrong::Text, 0.0, true, 1), &fake).map_err(|wrong| wrong.property);
    let tally = property(backend(5e-9)).unwrap();
    assert_eq!((tally.0["native"], tally.0["unrolled"]), (2, 2));
    assert_eq!(property(backend(4e-8)).unwrap_err(), "unrolled");
    assert_eq!(property(Fake::error("StepCount")).unwrap_err(), "unrolled");
    // The property check accepts two errors: `StepCountNotStatic` when it unrolls loops, and `Unsupported` for a dtype
    // that a device does not support.
    assert_eq!(property(Fake::error("StepCountNotStatic")).unwrap_err(), "native");
    assert_eq!(property(Fake::error("Unsupported")).unwrap().0["not held by the device"], 4);
}
