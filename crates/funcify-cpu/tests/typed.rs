//! Tests that programs on integers compile, and that their results are bit-identical to those of the reference
//! evaluator.

use funcify::dispatch::{CompileOptions, Function};
use funcify::ops::{self, Op, ScatterMode};
use funcify::prelude::*;
use funcify::types::Sizes;
use funcify::{cond, while_loop};
use funcify_cpu::plan::Node;
use funcify_cpu::{Cpu, Division, plan_graph};

const INTEGERS: [DType; 4] = [DType::U8, DType::U32, DType::I32, DType::I64];

/// Small integers, and integers at the limits of the dtypes.
const EDGES: [i64; 15] = [0, 1, 2, 3, 5, 7, 31, 32, 63, 255, -1, -2, i32::MIN as i64, i32::MAX as i64, i64::MIN];

/// Returns all pairs of elements of [`EDGES`] as two tensors: the first elements of the pairs, and the second ones.
fn pairs(dtype: DType) -> [HostTensor; 2] {
    let all = EDGES.len() * EDGES.len();
    let of = |which: fn(usize) -> usize| {
        HostTensor::from_fn(dtype, &[all], |index| HostTensor::scalar(EDGES[which(index[0])]).cast(dtype).get(0))
    };
    [of(|index| index / EDGES.len()), of(|index| index % EDGES.len())]
}

/// Asserts that a graph is compiled as a whole, and that it computes the same values as the reference evaluator.
#[track_caller]
fn check(graph: &Graph, inputs: &[HostTensor]) {
    let expected = funcify::evaluate(graph, inputs).unwrap();
    let planned = plan_graph(graph, &Sizes::new(), Division::Worthwhile, false);
    planned.unwrap_or_else(|declined| panic!("{}: {}\n{graph}", declined.op, declined.reason));
    for cpu in [Cpu::default(), Cpu::dividing_all()] {
        for rewrites in [CompileOptions::default().rewrites, None] {
            let options = CompileOptions { rewrites, ..CompileOptions::default() };
            let function = Function::compile_with(graph, &cpu, options).unwrap();
            // Compare the debug output, because NaN does not equal itself.
            assert_eq!(format!("{:?}", function.call_host(inputs).unwrap()), format!("{expected:?}"), "{graph}");
        }
    }
}

fn op_graph(op: impl Into<Op>, inputs: &[HostTensor]) -> Option<Graph> {
    let op = op.into();
    let graph = Graph::build("op", |g| {
        let operands: Vec<Value> =
            inputs.iter().enumerate().map(|(index, x)| g.input(&format!("x{index}"), x.ty())).collect();
        funcify::apply(op.clone(), &operands)
    });
    graph.ok()
}

#[test]
fn every_elementwise_op_has_the_values_of_the_reference() {
    let mut count = 0;
    for dtype in INTEGERS {
        let inputs = pairs(dtype);
        let unary = ops::Unary::ALL.iter().map(|op| (Op::from(*op), 1));
        let binary = ops::Binary::ALL.iter().map(|op| (Op::from(*op), 2));
        let bits = ops::Bits::ALL.iter().map(|op| (Op::from(*op), 2));
        let compare = ops::Compare::ALL.iter().map(|op| (Op::from(*op), 2));
        for (op, operands) in unary.chain(binary).chain(bits).chain(compare) {
            for operands in [operands, 1] {
                if let Some(graph) = op_graph(op.clone(), &inputs[..operands]) {
                    check(&graph, &inputs[..operands]);
                    count += 1;
                }
            }
        }
    }
    assert!(count > 4 * 20, "{count} ops");
}

#[test]
fn casts_wrap_and_saturate() {
    let floats = HostTensor::from([0.0f32, -0.0, 0.5, -1.7, 300.9, -300.9, 3e9, -3e9, 1e30, f32::NAN, f32::INFINITY]);
    for to in DType::ALL {
        for from in INTEGERS {
            check(&op_graph(ops::Cast { dtype: to }, &[pairs(from)[0].clone()]).unwrap(), &[pairs(from)[0].clone()]);
        }
        check(
            &op_graph(ops::Cast { dtype: to }, std::slice::from_ref(&floats)).unwrap(),
            std::slice::from_ref(&floats),
        );
    }
}

#[test]
fn a_cellular_automaton() {
    let grid = HostTensor::from_fn(DType::I32, &[12, 17], |i| Scalar::Int(((i[0] * 7 + i[1] * 5) % 3 == 0).into()));
    let roll = |x: Value, axis: i64, by: i64| {
        let end = if axis == 0 { 12 } else { 17 };
        let cut = if by > 0 { end - by } else { -by };
        funcify::concat(&[x.slice(axis, cut..end), x.slice(axis, 0..cut)], axis)
    };
    let graph = Graph::build("life", |g| {
        let start = g.input("grid", grid.ty());
        funcify::fori_loop(0, 9, start, |_, x| {
            let rows = roll(x, 0, 1) + x + roll(x, 0, -1);
            let around = roll(rows, 1, 1) + rows + roll(rows, 1, -1) - x;
            (around.eq(3) | (around.eq(2) & x.eq(1))).cast(DType::I32)
        })
    });
    check(&graph.unwrap(), &[grid]);
}

/// Tests integers that floats represent exactly, but that are too large for other ranges of the plan check: each plan
/// of a debug build is checked. The integers count down from the limits of their dtypes and of floats.
#[test]
fn integers_near_the_limits_of_floats_and_dtypes() {
    const FLOATS: i64 = (1 << 53) - 1;
    // Kernels compute casts to narrower floats, so that a plan with such a cast has no proof.
    const CASTS: [DType; 6] = [DType::Bool, DType::U8, DType::U32, DType::I32, DType::I64, DType::F64];
    let starts = [FLOATS, FLOATS - 1, (1 << 40) + 12_345, 1 << 29, (1 << 24) - 1];
    let cases = [
        (DType::I64, starts.iter().flat_map(|x| [*x, -*x]).chain([i64::MAX, i64::MIN + 9]).collect()),
        (DType::I32, vec![i64::from(i32::MAX), i64::from(i32::MIN) + 9, (1 << 29) + 1]),
        (DType::U32, vec![i64::from(u32::MAX), (1 << 31) + 1, (1 << 24) + 9]),
        (DType::U8, vec![i64::from(u8::MAX), 9]),
    ];
    let xs = HostTensor::from([0.5f64, -2.0, 3.0]);
    for (dtype, starts) in cases {
        for (start, other) in starts.iter().flat_map(|start| [3, (1 << 46) + 1, -7].map(|other| (*start, other))) {
            let number = |number: i64| funcify::constant(HostTensor::scalar(number).cast(dtype));
            let quotients = vec![Op::from(ops::Binary::Div), ops::Binary::Rem.into()];
            let binary = ops::Binary::ALL.iter().filter(|op| !matches!(op, ops::Binary::Atan2 | ops::Binary::Copysign));
            let shifts = [ops::Bits::ShiftLeft, ops::Bits::ShiftRightArithmetic, ops::Bits::ShiftRightLogical];
            let compared = ops::Compare::ALL.iter().map(|op| Op::from(*op));
            let others = binary.map(|op| Op::from(*op)).chain(shifts.map(Op::from)).chain(compared).collect();
            let all: [Vec<Op>; 2] = [quotients, others];
            for ops in all {
                let graph = Graph::build("limits", |g| {
                    let xs = g.input("xs", xs.ty());
                    scan(number(start), xs, |count, x| {
                        let results: Vec<Value> =
                            ops.iter().map(|op| funcify::apply(op.clone(), &[count, number(other)])[0]).collect();
                        let casts = results.iter().flat_map(|result| CASTS.map(|dtype| result.cast(dtype)));
                        let sum = casts.into_iter().fold(x, |sum, cast| sum.maximum(cast.cast(DType::F64)));
                        let narrow: Vec<Value> = results.iter().map(|result| result.cast(DType::U8)).collect();
                        (count - 1, (sum, results, narrow))
                    })
                });
                check(&graph.unwrap(), std::slice::from_ref(&xs));
            }
        }
    }
}

#[test]
fn a_table_of_integers() {
    let weights = HostTensor::from([3i32, 5, 2, 9, 4]);
    let graph = Graph::build("knapsack", |g| {
        let weights = g.input("weights", weights.ty());
        let capacity = funcify::iota(40, DType::I32);
        let start = funcify::full([40usize], DType::I32, 0.0);
        scan(start, weights, |best, weight| {
            let rest = capacity - weight;
            let taken = best.take(0, rest) + weight * 3;
            let best = funcify::select(rest.ge(0), taken.maximum(best), best);
            (best, best)
        })
    });
    check(&graph.unwrap(), &[weights]);
}

#[test]
fn tables_are_updated_in_place() {
    let keys = HostTensor::from([3i32, 1, 3, 0, 2, 3, 9, -1]);
    let graph = Graph::build("counts", |g| {
        let keys = g.input("keys", keys.ty());
        let start = funcify::full([5usize], DType::I64, 0.0);
        scan(start, keys, |counts, key| {
            let one = funcify::full([1usize], DType::I64, 4e9);
            let counts = counts.scatter(0, key.unsqueeze(0), one, ScatterMode::Add);
            (counts, counts.dynamic_index(0, key))
        })
    });
    check(&graph.unwrap(), &[keys]);
}

#[test]
fn loops_that_end_by_a_condition() {
    let start = HostTensor::from([27i64, 1, 97, 871, 6171]);
    let graph = Graph::build("collatz", |g| {
        let start = g.input("start", start.ty());
        let state = (start, funcify::full([5usize], DType::I64, 0.0));
        while_loop(
            state,
            |(x, _)| x.ne(1).any(..),
            |(x, count)| {
                let odd = (x % 2).eq(1);
                let next = funcify::select(odd, x * 3 + 1, x / 2);
                let is_done = x.eq(1);
                (funcify::select(is_done, x, next), count + (!is_done).cast(DType::I64))
            },
        )
    });
    check(&graph.unwrap(), &[start]);
}

#[test]
fn branches_on_integers() {
    let xs = HostTensor::from_fn(DType::U32, &[20], |i| Scalar::Int((i[0] as i64 * 2_654_435_761) & 0xffff_ffff));
    let graph = Graph::build("branches", |g| {
        let xs = g.input("xs", xs.ty());
        scan(funcify::constant(1u32), xs, |hash, x| {
            let mixed = (hash ^ x) * 16_777_619;
            let hash = cond((x % 3).eq(0), || mixed ^ (mixed >> 15), || mixed);
            (hash, hash)
        })
    });
    check(&graph.unwrap(), &[xs]);
}

#[test]
fn sorts_and_running_sums_run_inside_a_loop() {
    let xs = HostTensor::from_fn(DType::I32, &[6, 7], |i| Scalar::Int((i[0] as i64 * 31 + i[1] as i64 * 17) % 23 - 11));
    let graph = Graph::build("order", |g| {
        let xs = g.input("xs", xs.ty());
        scan(funcify::full([7usize], DType::I32, 0.0), xs, |sum, x| {
            let (sorted, order) = (sum + x).sort(0, false);
            (sorted.cumsum(0, false), (order, sorted.argmax(0), sorted.sum(0), sorted.max(0)))
        })
    });
    check(&graph.unwrap(), &[xs]);
}

/// Tests fused bodies that run in several blocks. The bodies read operands that are broadcast, transposed or reversed.
#[test]
fn bodies_of_several_blocks() {
    let of = |shape: &[usize]| {
        HostTensor::from_fn(DType::I32, shape, |i| Scalar::Int(i.iter().fold(7, |sum, i| sum * 31 + *i as i64) % 1013))
    };
    let inputs = [of(&[50, 70]), of(&[70, 50]), of(&[70]), of(&[50, 1])];
    let graph = Graph::build("blocks", |g| {
        let [x, turned, row, column] = [0, 1, 2, 3].map(|index| g.input(&format!("x{index}"), inputs[index].ty()));
        let step = |x: Value| (x * 3 + turned.t() - row.reverse(0).unsqueeze(0)) ^ (column << 2);
        funcify::fori_loop(0, 3, x, |_, x| step(x).reverse(1))
    });
    check(&graph.unwrap(), &inputs);
}

/// Plans a graph, and returns the nodes in the body of the plan's only loop.
fn step_of(graph: &Graph) -> Vec<Node> {
    let planned = plan_graph(graph, &Sizes::new(), Division::Worthwhile, false).unwrap();
    let nodes = planned.plan.stages.iter().flat_map(|stage| &stage.programs).flatten();
    let bodies = nodes.filter_map(|node| if let Node::Loop { body, .. } = node { Some(body) } else { None });
    let [body] = bodies.collect::<Vec<_>>()[..] else { panic!("not one loop") };
    body.clone()
}

#[test]
fn a_chain_of_ops_is_one_body() {
    let xs = HostTensor::from_fn(DType::U32, &[5, 40], |i| Scalar::Int((i[0] * 977 + i[1] * 3571) as i64));
    let graph = Graph::build("chain", |g| {
        let (seed, xs) = (g.input("seed", "u32[40]"), g.input("xs", xs.ty()));
        scan(seed, xs, |seed, x| {
            let mixed = (seed << 13) ^ x;
            let mixed = mixed ^ (mixed >> 17);
            let mixed = mixed.cast(DType::F32) * 0.5 + mixed.eq(x).cast(DType::F32);
            let next = mixed.cast(DType::U32);
            (next, next & 255)
        })
    });
    let graph = graph.unwrap();
    check(&graph, &[HostTensor::from_fn(DType::U32, &[40], |_| Scalar::Int(7)), xs]);
    let step = step_of(&graph);
    assert!(matches!(step[..], [Node::Fused(_)]), "the step is one body, which also writes the state: {step:?}");
}

/// Tests loops in which the next value of a state depends on other states, or on the elements of the state in reverse
/// order. A step must not overwrite an element that it still has to read.
#[test]
fn bodies_do_not_overwrite_what_they_still_read() {
    let of = |seed: i64| HostTensor::from_fn(DType::I64, &[30], |i| Scalar::Int(seed * (i[0] as i64 + 3) % 101));
    let states = [of(7), of(11), of(13)];
    let start = |g: &funcify::Builder| [0, 1, 2].map(|index| g.input(&format!("s{index}"), "i64[30]"));
    let trading = Graph::build("trading", |g| {
        let [a, b, c] = start(g);
        scan((a, b, c), funcify::iota(6, DType::I64), |(a, b, c), t| ((b * 3 + c, a, c ^ t), (a + b, c - a)))
    });
    let turning = Graph::build("turning", |g| {
        let [a, b, c] = start(g);
        scan((a, b, c), funcify::iota(6, DType::I64), |(a, b, c), t| {
            let next = a.reverse(0) * 5 + b;
            ((next, b - a + t, (c + next).reverse(0)), next.max(0) + a)
        })
    });
    let folding = Graph::build("folding", |g| {
        let [a, b, c] = start(g);
        scan((a, b, c), funcify::iota(6, DType::I64), |(a, b, c), t| {
            let (next, other) = (a * 3 + t, b ^ c);
            let sum = next.sum(0) + a.max(0);
            ((next - sum, other + sum, a & other), (next, sum))
        })
    });
    let joining = Graph::build("joining", |g| {
        let [a, b, c] = start(g);
        scan((a, b, c), funcify::iota(6, DType::I64), |(a, b, c), t| {
            let (left, right) = (a + t, a - b);
            let both = funcify::concat(&[left.slice(0, 0..15), right.slice(0, 15..30)], 0);
            ((both, left * 2, right + c), funcify::concat(&[left, right], 0))
        })
    });
    for graph in [trading, turning, folding, joining] {
        check(&graph.unwrap(), &states);
    }
}

/// Tests that chains of ops on large float tensors are fused, and that the results agree with the reference evaluator.
#[test]
fn chains_of_large_floats_are_bodies() {
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-13), (DType::F16, 4e-3), (DType::BF16, 3e-2)] {
        for (rows, cpu) in [(80, Cpu::default()), (6, Cpu::dividing_all())] {
            check_reaction(dtype, tolerance, rows, &cpu);
        }
    }
}

/// Compares the results of a compiled reaction-diffusion loop over two fields with the reference evaluator. With 64
/// rows or more, also asserts that the step contains fused bodies.
fn check_reaction(dtype: DType, tolerance: f64, rows: usize, cpu: &Cpu) {
    let field = HostTensor::from_fn(dtype, &[rows, 64], |i| Scalar::Float(((i[0] * 7 + i[1] * 3) % 11) as f64 / 8.0));
    let graph = Graph::build("reaction", |g| {
        let [u, v] = ["u", "v"].map(|name| g.input(name, field.ty()));
        let around = |x: Value| {
            let turned = |axis: i64| {
                let (first, last) = (x.slice(axis, 0..1), x.slice(axis, funcify::Dim::from(1)..x.dim(axis)));
                funcify::concat(&[last, first], axis)
            };
            turned(0) + turned(1) - x * 2.0
        };
        funcify::fori_loop(0, 6, (u, v), |_, (u, v)| {
            let rate = u * v.square();
            (u + around(u) * 0.125 - rate * 0.25, v + around(v) * 0.0625 + rate * 0.25 - v * 0.5)
        })
    });
    let graph = graph.unwrap();
    if rows >= 64 {
        let fused = step_of(&graph).iter().filter(|node| matches!(node, Node::Fused(_))).count();
        assert!(fused > 0, "{dtype}");
    }
    let inputs = [field.clone(), field];
    let expected = funcify::evaluate(&graph, &inputs).unwrap();
    let results = Function::compile(&graph, cpu).unwrap().call_host(&inputs).unwrap();
    for (result, expected) in results.iter().zip(&expected) {
        for (result, expected) in result.scalars().zip(expected.scalars()) {
            let (result, expected) = (result.as_f64(), expected.as_f64());
            assert!(
                (result - expected).abs() <= tolerance * expected.abs().max(1.0),
                "{dtype}: {result} and {expected}"
            );
        }
    }
}

/// The planner turns a batched product into a loop over the batch, so the size of the plan does not depend on the batch
/// size.
#[test]
fn batched_products_are_loops() {
    let of = |shape: &[usize]| {
        HostTensor::from_fn(DType::F32, shape, |i| {
            Scalar::Float(i.iter().fold(1, |sum, i| sum * 5 + i) as f64 % 7.0 - 3.0)
        })
    };
    let instructions = |batch: usize, turned: bool| {
        let inputs = [of(&[batch, 6, 9]), of(&[batch, 9, 5]), of(&[9, 5])];
        let graph = Graph::build("batch", |g| {
            let [x, y, shared] = [0, 1, 2].map(|index| g.input(&format!("x{index}"), inputs[index].ty()));
            let steps = funcify::iota(3, DType::F32);
            scan(x, steps, |x, t| {
                let right = if turned { y + t } else { y };
                let next = x.matmul(right).matmul(y.transpose([0, 2, 1])) * 0.01 + x;
                (next, (next.matmul(shared), y.transpose([0, 2, 1]).matmul(next.transpose([0, 2, 1]))))
            })
        });
        let graph = graph.unwrap();
        let expected = funcify::evaluate(&graph, &inputs).unwrap();
        for cpu in [Cpu::default(), Cpu::dividing_all()] {
            let results = Function::compile(&graph, &cpu).unwrap().call_host(&inputs).unwrap();
            for (result, expected) in results.iter().zip(&expected) {
                for (result, expected) in result.scalars().zip(expected.scalars()) {
                    let (result, expected) = (result.as_f64(), expected.as_f64());
                    assert!((result - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{result} and {expected}");
                }
            }
        }
        plan_graph(&graph, &Sizes::new(), Division::Worthwhile, false).unwrap().plan.instructions()
    };
    for turned in [false, true] {
        assert_eq!(instructions(80, turned), instructions(160, turned));
    }
}

/// If a plan divides the summed axis into parts, it must add up the partial sums before it casts the total to a wider
/// type, because the total must wrap in the original type.
#[test]
fn sums_wrap_before_they_are_cast() {
    type Read = fn(Value) -> Value;
    let reads: [Read; 5] = [|y| -y, |y| y.cast(DType::F64), |y| y.cast(DType::I64), |y| y.cast(DType::U8), |y| y + y];
    for dtype in INTEGERS {
        let number = |i: &[usize]| Scalar::Int(90 + i[0] as i64 * 1_000_000_007 + i[1] as i64);
        let x = HostTensor::from_fn(DType::I64, &[6, 7], number).cast(dtype);
        for read in reads {
            let graph = Graph::build("sums", |g| {
                let steps = ScanOptions::new().length(3);
                let (last, sums) = scan_with(steps, g.input("x", x.ty()), (), |x, ()| (x + x * 3, x.sum(0)));
                (last, read(sums))
            });
            check(&graph.unwrap(), std::slice::from_ref(&x));
        }
    }
}
