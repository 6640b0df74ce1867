//! Every op of the core has a case for every element type that its type rule takes.

use std::collections::BTreeSet;

use funcify::error::{Place, Site};
use funcify::ops::*;
use funcify::{DType, Graph, TensorType};
use funcify_conformance::{Case, all_cases};

/// An application of an op: the beginning of its cases' names, the op, and its operands' types.
type Example = (String, Op, Vec<TensorType>);

/// Ops without cases of this kind: a constant has no type rule to ask, and loops have categories of their own.
const WITHOUT: [&str; 2] = ["constant", "scan"];

const BINARY: [Binary; 13] = {
    use Binary::*;
    [Add, Sub, Mul, Div, Rem, Max, Min, Pow, Atan2, Copysign, And, Or, Xor]
};
const SHIFTS: [Bits; 3] = [Bits::ShiftLeft, Bits::ShiftRightArithmetic, Bits::ShiftRightLogical];
const COUNTS: [Bits; 2] = [Bits::Popcount, Bits::CountLeadingZeros];
const PREDICATES: [Predicate; 2] = [Predicate::IsNan, Predicate::IsFinite];
const COMPARE: [Compare; 6] = {
    use Compare::*;
    [Eq, Ne, Lt, Le, Gt, Ge]
};

#[test]
fn every_op_has_a_case_for_every_dtype_of_its_domain() {
    let cases: Vec<Case> = all_cases().unwrap().into_iter().filter(|case| case.category == "op").collect();
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
            let wanted = format!("op/{prefix}_{dtype}");
            let case = cases.iter().find(|case| case.name == wanted);
            let case = case.unwrap_or_else(|| panic!("there is no case `{wanted}`"));
            assert!(applies(&case.graph, name, dtype), "`{wanted}` has no `{name}` of {dtype}");
        }
        assert!(!domain.is_empty(), "`{name}` has a type for no dtype");
    }
    assert!(pairs > 400, "{pairs} pairs of an op and a dtype");
}

#[test]
fn names_are_unique() {
    let cases = all_cases().unwrap();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len());
}

/// Whether a graph applies an op of that name to or with a result of that dtype.
fn applies(graph: &Graph, name: &str, dtype: DType) -> bool {
    graph.nodes().iter().filter(|node| node.op.name() == name).any(|node| {
        let values = node.inputs.iter().chain(&node.outputs);
        values.into_iter().any(|value| graph.ty(*value).dtype == dtype)
    })
}

/// The applications of an op whose type rule says whether it takes that dtype.
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
                (
                    prefix.to_string(),
                    Threefry { shape: [3usize].into(), words }.into(),
                    vec![matrix.clone(), matrix.clone()],
                )
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
            let unary = Unary::ALL.iter().copied().find(|op| op.name() == name).map(|op| one(op.into(), &[&matrix]));
            let binary = BINARY.into_iter().find(|op| op.name() == name).map(|op| one(op.into(), &[&matrix, &matrix]));
            let compare =
                COMPARE.into_iter().find(|op| op.name() == name).map(|op| one(op.into(), &[&matrix, &matrix]));
            let shift = SHIFTS.into_iter().find(|op| op.name() == name).map(|op| one(op.into(), &[&matrix, &matrix]));
            let count = COUNTS.into_iter().find(|op| op.name() == name).map(|op| one(op.into(), &[&matrix]));
            let predicate = PREDICATES.into_iter().find(|op| op.name() == name).map(|op| one(op.into(), &[&matrix]));
            let found = unary.or(binary).or(compare).or(shift).or(count).or(predicate);
            found.unwrap_or_else(|| panic!("there is no example of `{name}`: add one, and cases"))
        }
    }
}
