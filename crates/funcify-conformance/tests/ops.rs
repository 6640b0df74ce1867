//! Checks that every op has a case for every element type that its type rule accepts.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use funcify::error::{Place, Site};
use funcify::ops::*;
use funcify::{DType, Graph, TensorType};
use funcify_conformance::{Case, all_cases};

/// An example of an op: the prefix of its cases' names, the op, and the types of its operands.
type Example = (String, Op, Vec<TensorType>);

/// The ops that need no case for each dtype: a constant has no operands whose type can be checked, and the cases with
/// loops have their own categories.
const WITHOUT: [&str; 2] = ["constant", "scan"];

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| all_cases().unwrap());

#[test]
fn every_op_has_a_case_for_every_dtype_of_its_domain() {
    let cases: Vec<&Case> = CASES.iter().filter(|case| case.category == "op").collect();
    let mut pairs = 0;
    for name in all_names().into_iter().filter(|name| !WITHOUT.contains(name) && !CONTROL_FLOW.contains(name)) {
        let mut domain = BTreeSet::new();
        for (dtype, (prefix, op, operands)) in
            DType::ALL.into_iter().flat_map(|dtype| examples(name, dtype).into_iter().map(move |one| (dtype, one)))
        {
            assert_eq!(op.name(), name);
            if op.infer(&Place::new(name, Site::caller()), &operands).is_err() {
                continue;
            }
            domain.insert(dtype);
            pairs += 1;
            let name_of_case = format!("op/{prefix}_{dtype}");
            let case = cases.iter().find(|case| case.name == name_of_case);
            let case = case.unwrap_or_else(|| panic!("no case is named `{name_of_case}`: add it in src/cases/ops"));
            assert!(applies(&case.graph, name, dtype), "`{name_of_case}` has no `{name}` of {dtype}");
        }
        assert!(!domain.is_empty(), "`{name}` accepts no dtype: its example is in {}", file!());
    }
    assert!(pairs > 400, "{pairs} pairs of an op and a dtype");
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<&str> = CASES.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), CASES.len());
}

/// Every op must occur in a case, including ops with bodies, whose cases are not in the category `op`.
#[test]
fn every_op_is_in_a_case() {
    let (names, mut used) = (all_names(), BTreeSet::new());
    CASES.iter().for_each(|case| add_ops(&case.graph, &mut used));
    let without: Vec<_> = names.iter().filter(|name| !used.contains(*name)).collect();
    assert!(without.is_empty(), "no case has {without:?}: add one in src/cases");
    let unlisted: Vec<_> = used.iter().filter(|name| !names.contains(name)).collect();
    assert!(unlisted.is_empty(), "`all_names` misses {unlisted:?}: see `CONTROL_FLOW` in funcify/src/ops/mod.rs");
}

/// Collects the names of the ops in a graph and in its nested bodies.
fn add_ops(graph: &Graph, names: &mut BTreeSet<&'static str>) {
    for node in graph.nodes() {
        names.insert(node.op.name());
        node.op.bodies().into_iter().for_each(|body| add_ops(body, names));
    }
}

/// Returns whether a graph contains an op with this name that has an operand or a result of this dtype.
fn applies(graph: &Graph, name: &str, dtype: DType) -> bool {
    graph.nodes().iter().filter(|node| node.op.name() == name).any(|node| {
        let values = node.inputs.iter().chain(&node.outputs);
        values.into_iter().any(|value| graph.ty(*value).dtype == dtype)
    })
}

/// Returns examples of an op on operands of this dtype. The op's type rule may reject an example.
fn examples(name: &str, dtype: DType) -> Vec<Example> {
    let of = |dtype, shape: &[usize]| TensorType::new(dtype, shape);
    let matrix = of(dtype, &[2, 2]);
    let index = |shape| of(DType::I64, shape);
    let one = |op: Op, operands: &[&TensorType]| {
        vec![(name.to_string(), op, operands.iter().map(|ty| (*ty).clone()).collect())]
    };
    match name {
        "select" => one(Select.into(), &[&of(DType::Bool, &[2, 2]), &matrix, &matrix]),
        "cast" => {
            let from = |from: DType| (format!("cast_{from}"), Cast { dtype }.into(), vec![of(from, &[2])]);
            DType::ALL.map(from).to_vec()
        }
        "bitcast" => {
            let from = |from: DType| (format!("bitcast_{from}"), Bitcast { dtype }.into(), vec![of(from, &[2])]);
            DType::ALL.map(from).to_vec()
        }
        "nextafter" => one(NextAfter.into(), &[&matrix, &matrix]),
        "matmul" => one(MatMul.into(), &[&matrix, &matrix]),
        "reduce" => {
            use ReduceKind::*;
            let kinds = [Sum, Prod, Max, Min, Any, All];
            let of_kind = |kind: ReduceKind| {
                (format!("reduce_{}", kind.name()), Reduce { kind, axes: vec![0] }.into(), vec![matrix.clone()])
            };
            kinds.map(of_kind).to_vec()
        }
        "argmax" => one(ArgMax { axis: 0 }.into(), &[&matrix]),
        "broadcast" => one(Broadcast { shape: [3usize, 2, 2].into() }.into(), &[&matrix]),
        "reshape" => one(Reshape { shape: [4usize].into() }.into(), &[&matrix]),
        "transpose" => one(Transpose { axes: vec![1, 0] }.into(), &[&matrix]),
        "slice" => one(Slice { axis: 0, start: 0.into(), limit: 1.into(), step: 1 }.into(), &[&matrix]),
        "reverse" => one(Reverse { axis: 0 }.into(), &[&matrix]),
        "concat" => one(Concat { axis: 0 }.into(), &[&matrix, &matrix]),
        "pad" => one(Pad { axis: 0, low: 1.into(), high: 1.into(), interior: 0 }.into(), &[&matrix, &of(dtype, &[])]),
        "iota" => one(Iota { size: 2.into(), dtype }.into(), &[]),
        "size" => one(Size { dim: 2.into(), dtype }.into(), &[]),
        "dynamic_slice" => one(DynamicSlice { axis: 0, size: 1.into() }.into(), &[&matrix, &index(&[])]),
        "dynamic_update" => one(DynamicUpdate { axis: 0 }.into(), &[&matrix, &matrix, &index(&[])]),
        "take" => one(Take { axis: 0 }.into(), &[&matrix, &index(&[3])]),
        "gather" => one(Gather { axis: 0 }.into(), &[&matrix, &index(&[2, 2])]),
        "threefry" => {
            let both = |(prefix, words): (&str, Words)| {
                let op = Threefry { shape: [3usize].into(), words };
                (prefix.to_string(), op.into(), vec![matrix.clone(), matrix.clone()])
            };
            [("threefry_mixed", Words::Mixed), ("threefry_both", Words::Both)].map(both).to_vec()
        }
        "scatter" => {
            let operands = vec![matrix.clone(), index(&[2, 2]), matrix.clone()];
            let of_mode = |mode: ScatterMode| {
                (format!("scatter_{}", mode.name()), Scatter { axis: 0, mode }.into(), operands.clone())
            };
            ScatterMode::ALL.map(of_mode).to_vec()
        }
        "cumulative" => {
            use ReduceKind::*;
            let of_kind = |kind: ReduceKind| {
                let op = Cumulative { kind, axis: 0, reverse: false };
                (format!("cumulative_{}", kind.name()), op.into(), vec![matrix.clone()])
            };
            [Sum, Prod, Max, Min, Any, All].map(of_kind).to_vec()
        }
        "polygamma" => one(Polygamma { order: 1 }.into(), &[&matrix]),
        "sort" => one(Sort { axis: 0, descending: false }.into(), &[&matrix]),
        "conv" => {
            let operands = [of(dtype, &[1, 2, 3]), of(dtype, &[4, 2, 2])];
            one(Conv::from(ConvOptions::<1>::default()).into(), &[&operands[0], &operands[1]])
        }
        _ => {
            let op = elementwise(name);
            let op = op.unwrap_or_else(|| panic!("`{name}` has no example: add it to {}", file!()));
            // One of the two examples has the wrong number of operands, so the type rule rejects it.
            [1, 2].map(|operands| (name.to_string(), op.clone(), vec![matrix.clone(); operands])).to_vec()
        }
    }
}

/// Returns the op with this name from the tables of elementwise ops, or `None` if no table lists the op.
fn elementwise(name: &str) -> Option<Op> {
    fn row<T: OpRules + Copy + Into<Op>>(rows: &[T], name: &str) -> Option<Op> {
        rows.iter().find(|op| op.name() == name).map(|op| (*op).into())
    }
    row(Unary::ALL, name)
        .or_else(|| row(Binary::ALL, name))
        .or_else(|| row(Compare::ALL, name))
        .or_else(|| row(Bits::ALL, name))
        .or_else(|| row(Predicate::ALL, name))
}
