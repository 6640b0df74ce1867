//! Where plans write: traces where they are joined to other rows, and what comes next of a state over it.

use funcify::dispatch::Declined;
use funcify::types::Sizes;
use funcify::{Graph, concat, scan};
use funcify_cpu::{Division, GraphPlan, plan_graph};

fn plan(graph: &Graph) -> Result<GraphPlan, Declined> {
    plan_graph(graph, &Sizes::new(), Division::Worthwhile, false)
}

/// How many instructions of a plan copy.
fn copies(plan: &GraphPlan) -> usize {
    format!("{plan:?}").matches("op: Unary(Copy)").count()
}

#[test]
fn a_trace_is_written_where_it_is_joined_to_the_first_state() {
    let graph = Graph::build("states", |g| {
        let (first, xs) = (g.input("first", "f32[40]"), g.input("xs", "f32[100,40]"));
        let (_, states) = scan(first, xs, |y, x| {
            let next = (y + x).sin();
            (next, next)
        });
        concat(&[first.unsqueeze(0), states], 0).square()
    });
    let plan = plan(&graph.unwrap()).unwrap();
    let trace = 101 * 40;
    assert!(plan.plan.scratch_elements() < trace + trace / 2, "{} elements", plan.plan.scratch_elements());
    assert_eq!(copies(&plan), 1, "the first state alone");
}

#[test]
fn what_comes_next_of_a_state_that_nothing_reads_any_more_takes_its_place() {
    let graph = Graph::build("states", |g| {
        let (first, u, xs) = (g.input("first", "f32[1,40]"), g.input("u", "f32[40,40]"), g.input("xs", "f32[9,1,40]"));
        scan(first, xs, |state, x| {
            let y = (state + x).sin();
            (y.matmul(u), y)
        })
    });
    assert_eq!(copies(&plan(&graph.unwrap()).unwrap()), 2, "the first state and the last");
}
