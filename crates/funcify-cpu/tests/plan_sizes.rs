//! Tests that the number of instructions in a plan does not depend on the sizes of tensors: it is the same for a
//! thousand elements as for ten million. This holds for an op outside of loops and for an op in the body of a loop.

use funcify::types::{Sizes, Symbol};
use funcify::{DType, Dim, Graph, Value, concat, iota, random, scan, select};
use funcify_cpu::{Division, plan_graph};

/// The operands of an op, of types `f32[N]`, `f32[N,3]`, `f32[3,N]` and `f32[4,N,3]`.
type Operands = [Value; 4];

/// A function that applies an op to the operands.
type ProgramFn = fn(Operands) -> Value;

const OPS: &[(&str, ProgramFn)] = &[
    ("elementwise", |[x, ..]| (x * 0.5 + 1.0).tanh()),
    ("select", |[x, ..]| select(x.gt(0.5), x, x.square())),
    ("broadcast", |[x, m, ..]| m * x.unsqueeze(1)),
    ("broadcast of a row", |[x, _, k, _]| k * x),
    ("reverse", |[x, ..]| x.reverse(0)),
    ("reverse of rows", |[_, m, ..]| m.reverse(0)),
    ("reverse of lanes", |[_, _, k, _]| k.reverse(1)),
    ("reverse of both axes", |[_, m, ..]| m.reverse(0).reverse(1) * 2.0),
    ("reverse in the middle", |[.., b]| b.reverse(1) + b),
    ("reverse and transpose", |[_, m, k, _]| m.transpose([1, 0]).reverse(1) + k),
    ("sum of a reversal", |[_, m, ..]| m.reverse(0).sum(1)),
    ("product with a reversal", |[_, m, k, _]| k.reverse(1).matmul(m)),
    ("transpose", |[_, m, k, _]| m.transpose([1, 0]) + k),
    ("transpose of three axes", |[.., b]| b.transpose([2, 0, 1]).exp()),
    ("reshape", |[_, _, k, _]| k.transpose([1, 0]).reshape([Dim::symbol(&Symbol::new("N")) * 3])),
    ("slice", |[x, ..]| x.slice(0, 1..).exp()),
    ("concat", |[x, ..]| concat(&[x, x.exp(), x], 0)),
    ("rotation", |[x, ..]| concat(&[x.slice(0, 1..), x.slice(0, ..1)], 0).exp()),
    ("sum", |[_, m, ..]| m.sum(0)),
    ("sum of rows", |[_, m, ..]| m.sum(1)),
    ("greatest", |[_, _, k, _]| k.max(1)),
    ("sum of three axes", |[.., b]| b.sum([0, 2])),
    ("position of the greatest", |[_, _, k, _]| k.argmax(1).cast(DType::F32)),
    ("running sum", |[x, ..]| scan(x.index(0, 0), x, |sum, x| (sum + x, sum)).1),
    ("product", |[_, m, k, _]| k.matmul(m)),
    ("product of rows", |[_, m, ..]| m.matmul(m.slice(0, ..3))),
    ("products of many vectors", |[_, m, ..]| m.unsqueeze(1).matmul(m.unsqueeze(2))),
    ("product with a vector", |[x, _, k, _]| k.matmul(x.unsqueeze(1))),
    ("take", |[x, ..]| x.take(0, x.slice(0, ..5).argmax(0))),
    ("dynamic slice", |[x, ..]| x.dynamic_slice(0, x.slice(0, ..5).argmax(0), 7)),
    ("dynamic update", |[x, ..]| x.dynamic_update(0, x.slice(0, ..3), x.slice(0, ..5).argmax(0))),
    ("positions", |[x, ..]| iota("N", DType::F32) * x),
];

/// Programs that need an instruction for each index of an axis. The planner rejects them beyond a certain size.
const GROWING_PROGRAMS: &[(&str, ProgramFn)] = &[("products of many matrices", |[_, m, ..]| {
    let pairs = concat(&[m.unsqueeze(1), m.unsqueeze(1)], 1);
    pairs.matmul(pairs.transpose([0, 2, 1]))
})];

/// The maximum number of instructions in a plan.
const MAX_INSTRUCTIONS: usize = 1 << 14;

fn operands(g: &funcify::Builder) -> Operands {
    [("x", "f32[N]"), ("m", "f32[N,3]"), ("k", "f32[3,N]"), ("b", "f32[4,N,3]")].map(|(name, ty)| g.input(name, ty))
}

/// Builds two programs: one that consists of the op, and one with the op in the body of a loop, where it depends on the
/// state.
fn programs(op: ProgramFn) -> [Graph; 2] {
    let alone = Graph::build("alone", |g| op(operands(g)));
    let looped = Graph::build("looped", |g| {
        let operands = operands(g);
        scan(g.input("s", "f32[]"), g.input("t", "f32[9]"), |s, t| {
            let y = op(operands.map(|x| x * s));
            ((s + t).sin(), y.max(..))
        })
        .1
    });
    [alone.unwrap(), looped.unwrap()]
}

fn instructions(graph: &Graph, n: usize) -> Result<usize, String> {
    let mut sizes = Sizes::new();
    sizes.set(&Symbol::new("N"), n);
    let plan = plan_graph(graph, &sizes, Division::Worthwhile, false);
    plan.map(|plan| plan.plan.instructions()).map_err(|declined| declined.to_string())
}

#[test]
fn plans_do_not_grow_with_their_tensors() {
    let mut wrong = Vec::new();
    for (name, op) in OPS {
        for graph in programs(*op) {
            let counts = [1_000, 10_000, 100_000, 1_000_000, 10_000_000].map(|n| instructions(&graph, n));
            // Large plans are divided into parts, which changes the number of instructions slightly.
            let known: Vec<usize> = counts.iter().flatten().copied().collect();
            let (least, most) = (known.iter().min().copied().unwrap_or(0), known.iter().max().copied().unwrap_or(0));
            if known.len() < counts.len() || most > least + 12 {
                wrong.push(format!("{name}, {}: {counts:?}", graph.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_grows_is_bounded() {
    for (name, op) in GROWING_PROGRAMS {
        for graph in programs(*op) {
            let counts = [10, 1_000, 10_000_000].map(|n| instructions(&graph, n));
            assert!(counts[0].is_ok() && counts[1].is_ok(), "{name}: {counts:?}\n{graph}");
            assert!(counts.iter().flatten().all(|count| *count <= MAX_INSTRUCTIONS), "{name}: {counts:?}");
            // If an op would require too many instructions, the reference evaluator computes it where possible.
            let is_bounded = counts[2].as_ref().map_or_else(|declined| declined.contains("instructions"), |_| true);
            assert!(is_bounded, "{name}: {counts:?}\n{graph}");
        }
    }
}

/// A single instruction generates all random numbers of a tensor. (A second instruction fills constants of more than a
/// million elements.)
#[test]
fn random_numbers_are_one_instruction() {
    let graph = Graph::build("noise", |g| {
        let key = g.input("key", "u32[2]");
        random::uniform(key, [Dim::symbol(&Symbol::new("N"))], DType::F32, 0.0, 1.0) * g.input("x", "f32[N]")
    });
    let graph = graph.unwrap();
    let counts = [1_000, 1_000_000, 10_000_000].map(|n| instructions(&graph, n).unwrap());
    assert!(counts[0] == counts[1] && counts[2] <= counts[0] + 1, "{counts:?}");
}
