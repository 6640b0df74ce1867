//! Checks that a program with loops and branches has the same derivatives as its straight-line form, which contains
//! only the ops that run. Covers derivatives of several orders, forward and reverse mode, every checkpoint policy, and
//! custom derivative rules.

use funcify::graph::Node;
use funcify::ops::{Op, OpRules};
use funcify::{Error, Graph};

use super::{
    Checked, Disagreement, REORDERING_TOLERANCE, Subject, Tally, check_derived, check_equal, float_inputs, options,
    policies,
};
use crate::arbitrary::Rules;

/// The maximum number of ops in a straight-line program that is differentiated. The third derivative of a program has
/// about a hundred times as many ops as the program.
const MAX_OPS: usize = 150;

/// Compares the results and derivatives of a program with those of its straight-line form.
pub(super) fn check_straight_line(subject: &Subject<'_>, tally: &mut Tally) -> Checked {
    let (mut subject, arguments) = (subject.clone(), subject.arguments(&subject.graph));
    if arguments.iter().any(|argument| argument.shape().contains(&0)) {
        return Ok(());
    }
    let graph = subject.graph.clone();
    let straight = check_derived("straight", &graph, graph.straight(&arguments))?;
    // The straight-line program keeps `Call` ops, because they have custom derivative rules.
    let stays = |node: &&Node| !node.op.bodies().is_empty() && !matches!(node.op, Op::Call(_));
    if let Some(node) = straight.nodes().iter().find(stays) {
        let reason = format!("`{}` must not occur in a straight-line program\nin\n{straight}", node.op.name());
        return Err(Disagreement { property: "straight", reason });
    }
    let (found, expected) = (subject.run("straight", &straight)?, subject.run("straight", &graph)?);
    check_equal("straight", &graph, &found, &expected, REORDERING_TOLERANCE)?;
    tally.count("straight");
    if straight.nodes().len() > MAX_OPS || !subject.is_differentiable() {
        return Ok(());
    }
    check_derivatives(&mut subject, &graph, &straight, 1, tally)
}

/// Compares the derivatives of a program with those of its straight-line form.
fn check_derivatives(
    subject: &mut Subject<'_>,
    graph: &Graph,
    straight: &Graph,
    level: usize,
    tally: &mut Tally,
) -> Checked {
    let property = ["straight derivative", "second straight derivative", "third straight derivative"][level - 1];
    let is_forward = subject.below(3) == 0;
    let policy = policies()[subject.below(if level == 1 { 6 } else { 3 }) as usize].clone();
    let derive = |graph: &Graph| match is_forward {
        true => graph.jvp(..),
        false => graph.vjp(.., options(&policy)),
    };
    let (of_graph, of_straight) = match (derive(graph), derive(straight)) {
        (Ok(of_graph), Ok(of_straight)) => (of_graph, of_straight),
        // If a nonlinear derivative rule belongs to a branch or a step that does not run, forward mode rejects only the
        // original program.
        (Err(Error::NoDerivative { .. }), _) if is_forward && level == 1 && subject.program.rules == Rules::Any => {
            tally.count("not linear");
            return Ok(());
        }
        (Err(one), Err(other)) if one.kind() == other.kind() => return Ok(()),
        (of_graph, of_straight) => {
            let show = |of: funcify::Result<Graph>| of.map_or_else(|error| error.to_string(), |_| "accepted".into());
            let reason = format!("{}\nand as a straight line\n{}\nin\n{graph}", show(of_graph), show(of_straight));
            return Err(Disagreement { property, reason });
        }
    };
    let of_graph = check_derived(property, graph, Ok(of_graph))?;
    let of_straight = check_derived(property, straight, Ok(of_straight))?;
    let values = subject.run(property, graph)?;
    let names: Vec<String> = match is_forward {
        true => float_inputs(graph),
        false => Vec::new(),
    };
    let like: Vec<_> = match is_forward {
        true => names.iter().map(|name| subject.inputs[name].clone()).collect(),
        false => values.iter().filter(|value| value.dtype().is_float()).cloned().collect(),
    };
    let directions: Vec<_> = like.iter().map(|like| subject.another_like(like)).collect();
    subject.set_added_inputs(&of_graph, graph, directions.iter());
    let (found, expected) = (subject.run(property, &of_graph)?, subject.run(property, &of_straight)?);
    if !expected.iter().all(super::is_finite) {
        tally.count("straight derivative not finite");
        return Ok(());
    }
    let tolerance = if subject.program.is_exact { 10.0 * REORDERING_TOLERANCE } else { 1e-2 };
    check_equal(property, &of_graph, &found, &expected, tolerance)?;
    tally.count(property);
    // If custom rules do not compute true derivatives, always check second derivatives, because no other check covers
    // them.
    let has_rules = subject.program.rules != Rules::Derivatives;
    let is_next = match level {
        1 => subject.below(3) == 0 || has_rules,
        2 => subject.below(6) == 0,
        _ => false,
    };
    if is_next {
        let outputs: Vec<&str> = of_graph.outputs()[values.len()..].iter().map(|output| output.name.as_str()).collect();
        let next = check_derived(property, &of_graph, of_graph.with_only_outputs(&outputs))?;
        let next_straight = check_derived(property, &of_straight, of_straight.with_only_outputs(&outputs))?;
        check_derivatives(subject, &next, &next_straight, level + 1, tally)?;
    }
    Ok(())
}
