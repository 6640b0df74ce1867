//! Tests where plans write their results: a trace is written directly into its concatenation with other rows, and the
//! next state overwrites the previous one. Also tests the layout of the residuals that forward and backward plans
//! share, concatenated tensors that fused bodies read in place, and fused bodies and instructions that run in pieces.

use funcify::derivative::Pullback;
use funcify::dispatch::{Declined, Function};
use funcify::types::Sizes;
use funcify::{
    CheckpointPolicy, DType, GradOptions, Graph, HostTensor, Scalar, ScanOptions, Value, concat, iota, scan, scan_with,
    select,
};
use funcify_cpu::plan::{Node, Op};
use funcify_cpu::{Cpu, Division, GraphPlan, lay_out_residuals, plan_graph};

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

/// Rotates an axis by one: moves each element to the next index, and the last element to the first index.
fn rotated(x: Value, axis: i64) -> Value {
    concat(&[x.slice(axis, -1..), x.slice(axis, ..-1)], axis)
}

/// Builds a loop that combines rotated, padded and concatenated slices of a state and an input.
fn stencil(dtype: DType) -> Graph {
    let ty = format!("{dtype}[40,120]");
    let graph = Graph::build("stencil", |g| {
        let (x, y) = (g.input("x", ty.as_str()), g.input("y", ty.as_str()));
        scan(x, iota(3, dtype), |x, t| {
            let around = rotated(x, 0) + rotated(x, 1) + rotated(rotated(x, 0), 1);
            let padded = x.slice(0, 2..).pad(0, 1, 1, 3.0).maximum(y.slice(1, ..-5).pad(1, 0, 5, 1.0) + t);
            let joined = concat(&[y.slice(1, ..7), x.slice(1, 7..50), y.slice(1, 50..)], 1);
            (around.maximum(padded) - joined.minimum(y), joined + padded)
        })
    });
    graph.unwrap()
}

fn small_numbers(dtype: DType) -> [HostTensor; 2] {
    [7, 11].map(|factor| {
        let number = |i: &[usize]| Scalar::Int(((i[0] * 31 + i[1] * factor) % 13) as i64);
        HostTensor::from_fn(DType::I64, &[40, 120], number).cast(dtype)
    })
}

#[test]
fn rotations_and_padding_are_read_in_place() {
    for dtype in [DType::F32, DType::F64, DType::I32, DType::U8, DType::I64] {
        let (graph, inputs) = (stencil(dtype), small_numbers(dtype));
        let expected = funcify::evaluate(&graph, &inputs).unwrap();
        for cpu in [Cpu::default(), Cpu::dividing_all()] {
            funcify_cpu::take_fired();
            let found = Function::compile(&graph, &cpu).unwrap().call_host(&inputs).unwrap();
            assert!(funcify_cpu::take_fired().contains(&"tensors side by side, read in place"), "{dtype}");
            assert_eq!(found, expected, "{dtype}");
        }
    }
}

/// Asserts that the results of a graph are the same on one, two and three threads, and returns them.
fn same_on_all_threads(graph: &Graph, inputs: &[HostTensor]) -> Vec<HostTensor> {
    let with_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Function::compile(graph, &Cpu::default()).unwrap().call_host(inputs).unwrap())
    };
    let expected = with_threads(1);
    for threads in [2, 3] {
        assert_eq!(with_threads(threads), expected, "{threads} threads");
    }
    expected
}

/// Large fused bodies run on all threads of the pool. The number of threads does not change the results.
#[test]
fn bodies_in_pieces_have_the_same_results() {
    for dtype in [DType::F32, DType::I32] {
        let graph = Graph::build("pieces", |g| {
            let (x, y) =
                (g.input("x", format!("{dtype}[90,300]").as_str()), g.input("y", format!("{dtype}[300]").as_str()));
            let steps = ScanOptions::new().length(14);
            scan_with(steps, (x, x.transpose([1, 0])), (), |(x, turned), ()| {
                let next = (x * y - rotated(x, 1)).maximum(turned.transpose([1, 0])) * 3 - rotated(x, 0);
                let large = next.gt(1000) | next.lt(-1000);
                let next = select(large, next.maximum(-9).minimum(9), next + y);
                ((next, next.transpose([1, 0]).reverse(0)), next.max(0))
            })
        });
        let graph = graph.unwrap();
        let number = |i: &[usize]| Scalar::Int((i.iter().fold(1, |sum, i| sum * 7 + i) % 11) as i64 - 5);
        let inputs = [&[90, 300][..], &[300]].map(|shape| HostTensor::from_fn(DType::I64, shape, number).cast(dtype));
        let expected = same_on_all_threads(&graph, &inputs);
        let outside = Function::compile(&graph, &Cpu::default()).unwrap().call_host(&inputs).unwrap();
        assert_eq!(outside, expected, "on a thread that is not in the pool");
        assert_eq!(expected, funcify::evaluate(&graph, &inputs).unwrap());
    }
}

/// The gradient of a loop whose steps mix all rows and all columns of its state, so that its plan has a single part.
fn mixing_gradient() -> Graph {
    let loss = Graph::build("mixing", |g| {
        let (x, w) = (g.input("x", "f32[260,130]"), g.input("w", "f32[130,130]"));
        let (last, ()) = scan_with(ScanOptions::new().length(2), x, (), |x, ()| {
            let rows = x.square().sum(1) * 0.01;
            ((x.matmul(w) - x.max(0) - rows.unsqueeze(1)).tanh(), ())
        });
        last.square().sum(..)
    });
    loss.unwrap().value_and_grad(["x", "w"], GradOptions::new()).unwrap()
}

/// Large products, folds and maps of a plan with a single part run on all threads of the pool. The number of threads
/// does not change the results.
#[test]
fn large_instructions_in_pieces_have_the_same_results() {
    let graph = mixing_gradient();
    let planned = plan(&graph).unwrap().plan;
    assert!(planned.stages.iter().all(|stage| stage.parts.len() == 1), "{graph}");
    let number = |i: &[usize]| Scalar::Float(((i[0] * 31 + i[1] * 17) % 23) as f64 / 97.0 - 0.1);
    let inputs = [[260, 130], [130, 130]].map(|shape| HostTensor::from_fn(DType::F32, &shape, number));
    same_on_all_threads(&graph, &inputs);
}
