//! Checks the memory that plans write to: a trace is written directly into its concatenation with other rows, and the
//! next state overwrites the previous one. Also checks the layout of residuals, which the forward and backward plans of
//! a framework's op share.

use funcify::derivative::Pullback;
use funcify::dispatch::Declined;
use funcify::types::Sizes;
use funcify::{CheckpointPolicy, GradOptions, Graph, concat, scan};
use funcify_cpu::plan::{Node, Op};
use funcify_cpu::{Division, GraphPlan, lay_out_residuals, plan_graph};

mod numbers;
use numbers::traced;

fn plan(graph: &Graph) -> Result<GraphPlan, Declined> {
    plan_graph(graph, &Sizes::new(), Division::Worthwhile, false)
}

/// Counts the copy instructions of a plan.
fn copies(plan: &GraphPlan) -> usize {
    format!("{plan:?}").matches("op: Unary(Copy)").count()
}

#[test]
fn a_trace_is_written_where_it_is_joined_to_the_first_state() {
    let graph = Graph::build("states", |g| {
        let (first, xs) = (g.input("first", "f32[40]"), g.input("xs", "f32[100,40]"));
        let (_, states) = scan(first, xs, |y, x| traced((y + x).sin()));
        concat(&[first.unsqueeze(0), states], 0).square()
    });
    let plan = plan(&graph.unwrap()).unwrap();
    let trace = 101 * 40;
    assert!(plan.plan.scratch_elements() < trace + trace / 2, "{} elements", plan.plan.scratch_elements());
    assert_eq!(copies(&plan), 1, "only the first state is copied");
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
    assert_eq!(copies(&plan(&graph.unwrap()).unwrap()), 2, "the first and the last state are copied");
}

/// A batch with a single sequence is divided along its features, like a sequence without a batch axis.
#[test]
fn an_axis_behind_one_of_size_one_is_divided() {
    let graph = Graph::build("states", |g| {
        let (first, xs) = (g.input("first", "f32[1,512,16]"), g.input("xs", "f32[512,1,512]"));
        scan(first, xs, |h, x| {
            let h = (h * x.unsqueeze(2)).exp();
            (h, h.sum(2))
        })
    });
    let plan = plan(&graph.unwrap()).unwrap();
    let parts = plan.plan.stages.iter().map(|stage| stage.parts.len()).max();
    assert!(parts > Some(1), "{parts:?} parts");
}

/// Counts the transpose instructions inside loops.
fn transposes_in_loops(plan: &GraphPlan) -> usize {
    fn count(nodes: &[Node], is_in_loop: bool) -> usize {
        let of = |node: &Node| match node {
            Node::Do(instruction) => usize::from(is_in_loop && matches!(instruction.op, Op::Transpose)),
            Node::Loop { body, .. } => count(body, true),
            _ => 0,
        };
        nodes.iter().map(of).sum()
    }
    plan.plan.stages.iter().flat_map(|stage| &stage.programs).map(|program| count(program, false)).sum()
}

#[test]
fn what_a_framework_saves_lies_as_both_plans_have_it() {
    // The state has 64 x 16 elements, and its axis of size 64 becomes the lanes.
    let graph = Graph::build("selective", |g| {
        let (first, a) = (g.input("first", "f32[64,16]"), g.input("a", "f32[64,16]"));
        let (xs, bs) = (g.input("xs", "f32[50,64]"), g.input("bs", "f32[50,16]"));
        let (_, ys) = scan(first, (xs, bs), |h, (x, b)| {
            let next = (x.unsqueeze(1) * a).exp() * h + x.unsqueeze(1) * b.unsqueeze(0);
            (next, next.sum(1))
        });
        ys
    });
    let options = GradOptions::new().policy(CheckpointPolicy::SaveCostly).stepwise(true);
    let pullback = graph.unwrap().pullback(["a", "xs"], options).unwrap();
    let sizes = [vec![64, 16], vec![64, 16], vec![50, 64], vec![50, 16]];
    let laid_out = lay_out_residuals(pullback.clone(), 1, &sizes).unwrap();
    assert_eq!(laid_out.forward.output_type(1).to_string(), "f32[50,16,64]");
    let transposes = |programs: &Pullback| {
        [&programs.forward, &programs.backward].map(|graph| transposes_in_loops(&plan(graph).unwrap()))
    };
    let ([forward, backward], as_saved) = (transposes(&laid_out), transposes(&pullback));
    assert!(forward == 0 && as_saved[0] > 0, "the forward loop transposes in each step");
    assert!(backward < as_saved[1], "the backward loop transposes the saved state in each step");
}

#[test]
fn states_that_are_results_are_not_saved_again_nor_joined_to_the_first_one() {
    let graph = Graph::build("rnn", |g| {
        let (first, u, xs) =
            (g.input("first", "f32[8,40]"), g.input("u", "f32[40,40]"), g.input("xs", "f32[100,8,40]"));
        scan(first, xs, |h, x| traced((h.matmul(u) + x).tanh())).1
    });
    let options = GradOptions::new().policy(CheckpointPolicy::SaveCostly).stepwise(true);
    let pullback = graph.unwrap().pullback(["first", "u"], options).unwrap();
    assert_eq!(pullback.forward.outputs().len(), 1);
    assert_eq!(copies(&plan(&pullback.forward).unwrap()), 0);
    let backward = plan(&pullback.backward).unwrap();
    assert!(backward.plan.scratch_elements() < 100 * 8 * 40, "{} elements", backward.plan.scratch_elements());
}

#[test]
fn what_a_result_is_a_reshape_of_is_written_where_the_result_is() {
    let graph = Graph::build("flat", |g| (g.input("x", "f32[4,40]").sin() * 2.0).reshape([160]));
    let plan = plan(&graph.unwrap()).unwrap();
    assert_eq!(copies(&plan), 0);
    // The constant does not need a stage of its own.
    assert_eq!(plan.plan.stages.len(), 1);
}
