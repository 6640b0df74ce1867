//! Compares two graphs node by node, including all fields of their ops.

use std::fmt::Debug;
use std::sync::Arc;

use super::*;

/// The result of a comparison: `Ok`, or a description of the first difference.
type Comparison = Result<(), String>;

impl Graph {
    /// Describes the first difference between two graphs, or returns `None` if they are equal as programs. Does not
    /// compare the indices of values, the names of values other than the program's inputs and outputs, or the sites of
    /// ops.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, Value};
    ///
    /// let apply = |f: fn(Value) -> Value| Graph::build("f", |g| f(g.input("x", "f32[]")));
    /// assert!(apply(Value::exp)?.difference(&apply(Value::exp)?).is_none());
    /// assert!(apply(Value::exp)?.difference(&apply(Value::log)?).is_some());
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn difference(&self, other: &Graph) -> Option<String> {
        same_graph(self, other, false).err()
    }
}

fn check_equal<T: PartialEq + Debug>(what: &str, left: T, right: T) -> Comparison {
    if left == right { Ok(()) } else { Err(format!("{what}: {left:?} and {right:?}")) }
}

fn same_graph(left: &Graph, right: &Graph, is_body: bool) -> Comparison {
    let counts = |graph: &Graph| (graph.inputs.len(), graph.nodes.len(), graph.outputs.len());
    check_equal("the name", left.name(), right.name())?;
    check_equal("the numbers of inputs, nodes and outputs", counts(left), counts(right))?;
    for (index, (a, b)) in left.inputs.iter().zip(&right.inputs).enumerate() {
        check_equal(&format!("the type of input {index}"), left.ty(a.value), right.ty(b.value))?;
        check_equal(&format!("whether input {index} is static"), a.is_static, b.is_static)?;
        if !is_body {
            check_equal(&format!("the name of input {index}"), left.input_name(index), right.input_name(index))?;
        }
    }
    for (index, (a, b)) in left.nodes.iter().zip(&right.nodes).enumerate() {
        let inside = |reason| format!("node {index} ({}): {reason}", a.op.name());
        same_node((left, a), (right, b)).map_err(inside)?;
    }
    for (index, (a, b)) in left.outputs.iter().zip(&right.outputs).enumerate() {
        check_equal(&format!("output {index}"), left.source(a.value), right.source(b.value))?;
        if !is_body {
            check_equal(&format!("the name of output {index}"), &a.name, &b.name)?;
        }
    }
    Ok(())
}

fn same_node((left, a): (&Graph, &Node), (right, b): (&Graph, &Node)) -> Comparison {
    let sources = |graph: &Graph, values: &[ValueId]| -> Vec<Source> {
        values.iter().map(|value| graph.source(*value)).collect()
    };
    check_equal("the operands", sources(left, &a.inputs), sources(right, &b.inputs))?;
    check_equal("the types of the results", left.types(&a.outputs), right.types(&b.outputs))?;
    same_op(&a.op, &b.op)
}

/// Compares two ops: first all fields other than bodies, through their debug format, and then the bodies.
fn same_op(left: &Op, right: &Op) -> Comparison {
    let (of_left, of_right) = (left.bodies(), right.bodies());
    let nothing = Arc::new(Graph::default());
    let without = |op: &Op, count: usize| format!("{:?}", op.with_bodies(vec![nothing.clone(); count]));
    check_equal("the op", without(left, of_left.len()), without(right, of_right.len()))?;
    for (number, (a, b)) in of_left.into_iter().zip(of_right).enumerate() {
        same_graph(a, b, true).map_err(|reason| format!("{}: {reason}", left.body_name(number)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::same_op;
    use crate::ops::scan::{CheckpointPolicy, Returned, Start};
    use crate::ops::{Op, Scan, While};
    use crate::{Dim, Graph, Symbol, scan, while_loop};

    fn first_op(graph: &Graph) -> Op {
        graph.nodes()[0].op.clone()
    }

    /// Checks that a change to any single field of a `Scan` or `While` op is detected.
    #[test]
    fn every_field_makes_a_difference() {
        let graph = Graph::build("f", |g| {
            let (x, w) = (g.input("x", "f32[T]"), g.input("w", "f32[]"));
            scan(w, x, |c, x| (c * w, c + x))
        });
        let Op::Scan(op) = first_op(&graph.unwrap()) else { panic!("a loop") };
        let other = Graph::parse("fn @body() {\n  return\n}").unwrap();
        let changes: [fn(&mut Scan); 11] = [
            |scan| scan.steps = Dim::from(3),
            |scan| scan.steps_operand = true,
            |scan| scan.until = Some(Symbol::new("$1")),
            |scan| scan.reverse = true,
            |scan| scan.sequences[0].reads[0] += 1,
            |scan| scan.buffers[0].returned = Returned::Last(1),
            |scan| scan.buffers[0].start = Start::Full,
            |scan| scan.carries += 1,
            |scan| scan.unroll += 1,
            |scan| scan.policy = Some(CheckpointPolicy::SaveAll),
            |scan| scan.truncate = Some(3),
        ];
        let differs = |changed: Scan| assert!(same_op(&op.clone().into(), &changed.into()).is_err());
        for change in changes {
            let mut changed = op.clone();
            change(&mut changed);
            differs(changed);
        }
        differs(Scan { body: Arc::new(other.clone()), ..op.clone() });
        differs(Scan { invariants: op.invariants + 1, ..op.clone() });
        assert_eq!(same_op(&op.clone().into(), &op.clone().into()), Ok(()));

        let graph = Graph::build("f", |g| while_loop(g.input("x", "f32[]"), |x| x.lt(2.0), |x| x + x));
        let Op::While(op) = first_op(&graph.unwrap()) else { panic!("a conditional loop") };
        let changes = [
            While { bound: Some(Dim::from(3)), ..op.clone() },
            While { condition: Arc::new(other.clone()), ..op.clone() },
            While { body: Arc::new(other), ..op.clone() },
        ];
        for changed in changes {
            assert!(same_op(&op.clone().into(), &changed.into()).is_err());
        }
    }

    #[test]
    fn the_place_of_a_difference_is_named() {
        let text = |op: &str, name: &str| {
            format!(
                "fn @f(%p: bool[], %x: f32[2]) {{
  %y: f32[2] = switch %p {{
    case 0 with %x {{
      give %x
    }}
    case 1 with %x {{
      %0: f32[2] = {op} %x
      give %0
    }}
  }}
  return {name}=%y
}}
"
            )
        };
        let of = |op: &str, name: &str| Graph::parse(&text(op, name)).unwrap();
        let one = of("sin", "y");
        assert_eq!(one.difference(&of("sin", "y")), None);
        let difference = one.difference(&of("cos", "y")).unwrap();
        assert!(difference.starts_with("node 0 (switch): case 1: node 0 (sin): the op:"), "{difference}");
        assert_eq!(one.difference(&of("sin", "z")).unwrap(), "the name of output 0: \"y\" and \"z\"");
    }
}
