//! Tests that ops without an instruction run as kernels, not in the reference evaluator, and that the kernels return
//! the same results as the reference evaluator.

use funcify::dispatch::Function;
use funcify::ops::{self, ConvOptions, Op};
use funcify::prelude::*;
use funcify_cpu::Cpu;

/// Asserts that a graph is compiled, that no op falls back to the reference evaluator, and that the results equal those
/// of the reference evaluator.
#[track_caller]
fn check(graph: &Graph, inputs: &[HostTensor]) {
    let expected = funcify::evaluate(graph, inputs).unwrap();
    for cpu in [Cpu::default(), Cpu::dividing_all()] {
        let function = Function::compile(graph, &cpu).unwrap();
        // Compare the debug output, because NaN does not equal itself.
        assert_eq!(format!("{:?}", function.call_host(inputs).unwrap()), format!("{expected:?}"), "{graph}");
        let report = function.report();
        assert!(report.fallback.is_empty() && report.declined.is_none(), "{report}");
    }
}

/// Returns a tensor of small integers in the given dtype, so that sums are exact.
fn numbers(dtype: DType, shape: &[usize]) -> HostTensor {
    let mut at = 0;
    HostTensor::from_fn(dtype, shape, |_| {
        at = (at * 31 + 7) % 1009;
        HostTensor::scalar(at % 9 - 4).cast(dtype).get(0)
    })
}

/// Builds a loop over the rows of `x` that applies `step` to the sum of the row and the previous state. Returns the
/// graph and its input.
fn rows(dtype: DType, step: fn(Value) -> Value) -> (Graph, [HostTensor; 1]) {
    let x = numbers(dtype, &[5, 4, 6]);
    let graph = Graph::build("rows", |g| {
        let x = g.input("x", x.ty());
        let start = funcify::full([4usize, 6], dtype, 0.0);
        scan(start, x, |before, row| {
            let y = step(row + before);
            (y, y)
        })
    });
    (graph.unwrap(), [x])
}

#[test]
fn steps_of_loops() {
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
        let steps: [fn(Value) -> Value; 7] = [
            |x| x.sort(0, false).0,
            |x| x.sort(1, true).0,
            |x| x.cumsum(1, false),
            |x| x.cumulative(ops::ReduceKind::Max, 0, true),
            |x| x + x.sort(0, true).1.cast(x.dtype()),
            |x| x + x.argmax(1).unsqueeze(1).broadcast_to([4usize, 6]).cast(x.dtype()),
            |x| x.t().matmul(x).slice(0, 0..4) % 5,
        ];
        for step in steps {
            let (graph, inputs) = rows(dtype, step);
            check(&graph, &inputs);
        }
    }
}

#[test]
fn convolutions_and_their_gradients() {
    let same = ConvOptions { padding: [(1, 1); 2], ..ConvOptions::default() };
    let strided = ConvOptions { strides: [2, 1], padding: [(2, -1), (0, 3)], groups: 2, ..ConvOptions::default() };
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for (options, kernel) in [(same, [4, 4, 3, 3]), (strided, [6, 2, 2, 3])] {
            let inputs = [numbers(dtype, &[2, 4, 5, 6]), numbers(dtype, &kernel)];
            let graph = Graph::build("loss", |g| {
                let (x, kernel) = (g.input("x", inputs[0].ty()), g.input("kernel", inputs[1].ty()));
                (x.conv(kernel, options) * 0.125).sum(..)
            });
            let graph = graph.unwrap();
            check(&graph, &inputs);
            for wrt in ["x", "kernel"] {
                check(&graph.grad(wrt, GradOptions::new()).unwrap(), &inputs);
            }
        }
    }
}

#[test]
fn ops_beside_a_loop_over_independent_columns() {
    let inputs = [numbers(DType::F32, &[7, 4]), numbers(DType::F32, &[1, 3, 8]), numbers(DType::I32, &[5, 9])];
    let graph = Graph::build("beside", |g| {
        let [x, sequence, keys] = [0, 1, 2].map(|index| g.input(&format!("x{index}"), inputs[index].ty()));
        let kernel = funcify::full([2usize, 3, 3], DType::F32, 0.5);
        let (sorted, order) = keys.sort(0, false);
        let sums = scan(funcify::full([4usize], DType::F32, 0.0), x, |sum, x| (sum + x, sum * x));
        (sums, sequence.conv(kernel, ConvOptions::<1>::default()), sorted, order, keys.cumsum(1, true))
    });
    check(&graph.unwrap(), &inputs);
}

#[test]
fn other_ops() {
    let apply = |op: Op, inputs: &[HostTensor]| {
        let graph = Graph::build("op", |g| {
            let operands: Vec<Value> =
                inputs.iter().enumerate().map(|(index, x)| g.input(&format!("x{index}"), x.ty())).collect();
            funcify::apply(op.clone(), &operands)
        });
        check(&graph.unwrap(), inputs);
    };
    let keys = HostTensor::from([[7u32, 9], [0, 1]]);
    for words in [ops::Words::Mixed, ops::Words::Both] {
        apply(ops::Threefry { shape: [50].into(), words }.into(), &[keys.clone(), keys.clone()]);
    }
    for (from, to) in [(DType::F32, DType::U32), (DType::I32, DType::F32), (DType::F64, DType::I64)] {
        apply(ops::Bitcast { dtype: to }.into(), &[numbers(from, &[30])]);
    }
    for dtype in [DType::F32, DType::F64] {
        apply(ops::NextAfter.into(), &[numbers(dtype, &[30]), numbers(dtype, &[30])]);
        apply(ops::Polygamma { order: 2 }.into(), &[numbers(dtype, &[30])]);
    }
    for kind in [ops::ReduceKind::Sum, ops::ReduceKind::Prod, ops::ReduceKind::Max, ops::ReduceKind::Min] {
        apply(ops::Reduce { kind, axes: vec![1] }.into(), &[numbers(DType::I64, &[3, 0, 2])]);
    }
    apply(ops::Cast { dtype: DType::F16 }.into(), &[numbers(DType::I64, &[30])]);
    apply(ops::Iota { size: 3.into(), dtype: DType::I64 }.into(), &[]);
}
