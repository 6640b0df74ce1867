//! Tests edge cases of loops: NaN, numbers that a narrower type cannot represent, indices out of range, axes of size 0,
//! and operands in unusual layouts. The results must agree with the reference evaluator, whether the loops run
//! undivided, in parts or as machine code.

use funcify::dispatch::{Function, LoopStrategy};
use funcify::ops::ScatterMode;
use funcify::prelude::*;
use funcify_cpu::{Cpu, take_fired};

mod numbers;
use numbers::{built, traced};

fn backends() -> Vec<Cpu> {
    let mut backends = vec![Cpu::default(), Cpu::dividing_all()];
    if cfg!(feature = "jit") {
        backends.push(Cpu::translating_all());
    }
    backends
}

/// Asserts that the loops of a graph are compiled, and that the results agree with the reference evaluator.
#[track_caller]
fn agrees(graph: Graph, inputs: &[HostTensor]) {
    for cpu in backends() {
        let function = Function::compile(&graph, &cpu).unwrap();
        let found = function.call_host(inputs).unwrap();
        let report = function.report();
        assert!(!report.loops.is_empty());
        assert!(report.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{report}");
        near(&graph, inputs, &found);
    }
}

/// Asserts that the results of a graph agree with the reference evaluator, even if the loops are not compiled.
#[track_caller]
fn agrees_somehow(graph: Graph, inputs: &[HostTensor]) {
    for cpu in backends() {
        let found = Function::compile(&graph, &cpu).unwrap().call_host(inputs).unwrap();
        near(&graph, inputs, &found);
    }
}

#[track_caller]
fn near(graph: &Graph, inputs: &[HostTensor], found: &[HostTensor]) {
    let expected = funcify::evaluate(graph, inputs).unwrap();
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found.ty(), expected.ty());
        let pairs = found.to_f64_vec().into_iter().zip(expected.to_f64_vec());
        for (found, expected) in pairs {
            let is_near = expected.is_finite() && (found - expected).abs() <= 1e-6 * expected.abs();
            let is_same = found == expected && found.is_sign_negative() == expected.is_sign_negative();
            let agrees = is_same || is_near && expected != 0.0 || found.is_nan() && expected.is_nan();
            assert!(agrees, "result {at}: {found}, not {expected}");
        }
    }
}

/// Returns a tensor of small integers, whose sums are exact in any order.
fn whole(dtype: DType, shape: &[usize]) -> HostTensor {
    let mut number = 3u64;
    HostTensor::from_fn(dtype, shape, |_| {
        number = number * 5 % 17;
        Scalar::Float(number as f64 - 8.0)
    })
}

#[test]
fn functions_of_nan_are_nan() {
    let graph = built("functions", |g| {
        scan(g.input("c", "f32[3]"), g.input("xs", "f32[T,3]"), |c, x| {
            let is_nan = x.ne(x);
            let functions =
                [x.exp(), x.tanh(), x.sigmoid(), x.expm1(), x.sin(), select(is_nan, c, x), is_nan.cast(DType::F32)];
            (select(is_nan, c, c + x), concat(&functions, 0))
        })
    });
    let xs = HostTensor::from([[1f32, f32::NAN, -2.0], [f32::NAN, 0.5, f32::NAN], [2.0, -0.25, f32::INFINITY]]);
    agrees(graph, &[HostTensor::from([0.5f32, 0.25, 1.0]), xs]);
}

/// Tests a loop that processes a single number per step, for which the machine code uses scalar instructions.
#[test]
fn functions_of_one_nan_are_nan() {
    let graph = built("functions", |g| {
        scan(g.input("c", "f32[]"), g.input("xs", "f32[T]"), |c, x| {
            let differs = x.ne(c);
            let functions = (x.exp(), x.tanh(), x.sigmoid(), x.expm1());
            let next = select(x.ne(x), c * 0.5, x * 0.25 + c);
            (next, (functions, differs.cast(DType::F32), x.eq(c).cast(DType::F32), x.maximum(c), x.minimum(c)))
        })
    });
    let xs = [1f32, f32::NAN, -2.0, f32::NEG_INFINITY, f32::NAN, 0.5, f32::INFINITY, f32::NAN];
    agrees(graph, &[HostTensor::from(0.5f32), HostTensor::from(xs)]);
}

#[test]
fn the_largest_element_is_nan() {
    let graph = built("largest", |g| {
        scan(constant(0f32), g.input("xs", "f32[T,4]"), |c, x| {
            (c + x.argmax(0).cast(DType::F32), (x.argmax(0).cast(DType::F32), x.max(0)))
        })
    });
    agrees(graph, &[HostTensor::from([[1f32, f32::NAN, 7.0, 2.0], [1.0, 3.0, 3.0, 2.0]])]);
}

#[test]
fn a_large_number_beside_small_ones_has_its_own_sine() {
    for large in [1e7f32, 1e20, -3e6] {
        let graph = built("sines", |g| map(g.input("xs", "f32[T,16]"), |x| (x.sin(), x.cos())));
        let xs = HostTensor::from_fn(DType::F32, &[3, 16], |index| {
            Scalar::Float(if index[1] == 5 { f64::from(large) } else { index[1] as f64 * 0.1 })
        });
        agrees(graph, &[xs]);
    }
}

/// The number 1 + 2^-11 + 2^-40 is slightly above the midpoint of two adjacent f16 numbers. If it were first rounded to
/// f32, it would be exactly the midpoint.
#[test]
fn floats_are_rounded_once() {
    for dtype in [DType::F16, DType::BF16] {
        let graph = built("casts", |g| map(g.input("xs", "f64[T,3]"), |x| x.cast(dtype).cast(DType::F64) * 2.0));
        let above = |bits: i32| 1.0 + 2f64.powi(-bits) + 2f64.powi(-40);
        agrees(graph, &[HostTensor::from([[above(11), above(8), 1.0 + 2f64.powi(-11)]])]);
    }
}

#[test]
fn products_over_halves_are_infinite_where_a_half_is() {
    let graph = built("products", |g| map(g.input("xs", "f16[T,5]"), |x| x.prod(0) * 0.001));
    let xs = HostTensor::from([[300f32, 300.0, 1.0, 1.0, 1.0], [300.0, 2.0, 1.0, 2.0, 1.0]]);
    agrees(graph, &[xs.cast(DType::F16)]);
}

/// A running sum of ones that is rounded in each step stops growing at 2,048 in f16 and at 256 in bf16, but `cumsum`
/// rounds only its results.
#[test]
fn running_sums_of_halves_are_rounded_once() {
    for dtype in [DType::F16, DType::BF16] {
        let shape = format!("{dtype}[T,5000]");
        let graph = built("sums", |g| map(g.input("xs", shape.as_str()), |x| x.cumsum(0, false)));
        agrees_somehow(graph, &[HostTensor::from_fn(dtype, &[2, 5000], |_| Scalar::Float(1.0))]);
    }
}

#[test]
fn of_nothing_none_holds_and_all_hold() {
    let graph = built("nothing", |g| {
        let empty = g.input("empty", "f32[2,0]");
        map(g.input("xs", "f32[T,2]"), |x| {
            let holds = x.unsqueeze(1).gt(empty);
            (holds.any(1).cast(DType::F32) + x, holds.all(1).cast(DType::F32) + x)
        })
    });
    agrees(graph, &[HostTensor::zeros(DType::F32, &[2, 0]), whole(DType::F32, &[3, 2])]);
}

#[test]
fn indices_out_of_range_are_no_places() {
    for mode in [ScatterMode::Add, ScatterMode::Set, ScatterMode::Max] {
        let graph = built("places", |g| {
            let (places, start) = (g.input("places", "i64[4]"), g.input("start", "f32[3]"));
            scan(start, g.input("xs", "f32[T,4]"), move |c, x| {
                let next = c.scatter(0, places, x, mode);
                (next, next * 0.5)
            })
        });
        let places = HostTensor::from([-1i64, 2, 3, -3]);
        agrees_somehow(graph, &[places, HostTensor::from([1f32, 2.0, 3.0]), whole(DType::F32, &[3, 4])]);
    }
}

/// f32 would round these odd integers to even ones.
#[test]
fn odd_integers_that_floats_have_not_stay_odd() {
    let xs = whole(DType::F32, &[3]);
    let integers = |dtype: DType, shape: &[usize], of: &dyn Fn(&[usize]) -> i64| {
        HostTensor::from_fn(dtype, shape, |at| Scalar::Int(of(at)))
    };
    let graph = built("integers", |g| {
        map((g.input("xs", "f32[T]"), g.input("ns", "i64[T]")), |(x, n)| x + (n % 2).cast(DType::F32))
    });
    for number in [-(1i64 << 25) - 1, -(1 << 25), 1 << 25, (1 << 25) + 1] {
        agrees_somehow(graph.clone(), &[xs.clone(), integers(DType::I64, &[3], &|_| number)]);
    }
    let parts = built("parts", |g| {
        let place = g.input("place", "i64[]");
        map((g.input("xs", "f32[T]"), g.input("ns", "i32[T,1]")), |(x, n)| {
            let updated = full([3], DType::I32, 0.0).dynamic_update(0, n, place) * 3;
            x + (updated % 2).cast(DType::F32).sum(0)
        })
    });
    let ns = integers(DType::I32, &[3, 1], &|_| 8_000_001);
    agrees_somehow(parts, &[HostTensor::scalar(1i64), xs.clone(), ns]);
    let sums = built("sums", |g| {
        map((g.input("xs", "f32[T]"), g.input("tables", "i32[T,64,64]")), |(x, table)| {
            x + ((table % 8191).sum([0, 1]) % 2).cast(DType::F32)
        })
    });
    let tables = integers(DType::I32, &[3, 64, 64], &|at| 8189 + i64::from(at[1..] == [3, 5]));
    agrees_somehow(sums, &[xs, tables]);
}

/// Each step adds one of two numbers to the count. The larger number bounds the growth of the count.
#[test]
fn counts_by_two_addends_are_exact() {
    for takes_large in [false, true] {
        let graph = built("counts", |g| {
            let (small, x) = (g.input("small", "bool[]"), g.input("x", "f32[]"));
            let step = |(count, sum): (Value, Value), ()| {
                let next = select(small, count + 1, count + 1001);
                ((next, sum * 0.5 + x), ())
            };
            let ((count, sum), ()) = scan_with(ScanOptions::new().length(19_999), (constant(0i32), x), (), step);
            ((count % 1000).cast(DType::F32), sum)
        });
        agrees_somehow(graph, &[HostTensor::scalar(!takes_large), HostTensor::scalar(0.25f32)]);
    }
}

#[test]
fn products_of_other_rows_and_columns_are_added() {
    let graph = built("sums", |g| {
        let [b, d] = [g.input("b", "f32[4,3]"), g.input("d", "f32[5,2]")];
        map((g.input("a", "f32[T,2,4]"), g.input("c", "f32[T,3,5]")), |(a, c)| {
            a.matmul(b).reshape([3, 2]) + c.matmul(d)
        })
    });
    let shapes: [&[usize]; 4] = [&[4, 3], &[5, 2], &[3, 2, 4], &[3, 3, 5]];
    agrees(graph, &shapes.map(|shape| whole(DType::F32, shape)));
}

#[test]
fn a_row_is_compared_with_a_fixed_one() {
    for (row, lanes) in [(0, 1), (0, 3), (2, 4)] {
        let graph = built("differences", |g| {
            let xs = g.input("xs", format!("f32[5,{lanes}]").as_str());
            let fixed = xs.index(0, row);
            scan(fixed, xs, |c, x| (c * 0.5 + x, x - fixed))
        });
        agrees(graph, &[whole(DType::F32, &[5, lanes])]);
    }
}

/// The loop has so many steps that its machine code is called several times in one call of the program.
#[test]
fn long_loops_are_continued_where_they_stopped() {
    let steps = 400_000usize;
    let graph = built("long", |g| {
        let start = (g.input("sum", "f64[]"), g.input("count", "f64[]"));
        let step = |(sum, count): (Value, Value), x: Value| {
            let next = (sum + x * count, count + 1.0);
            (next, sum * 0.5 - count)
        };
        let ((sum, count), ys) = scan(start, g.input("xs", "f64[T]"), step);
        (sum, count, ys.index(0, -1), ys.max(0))
    });
    let xs = HostTensor::from_fn(DType::F64, &[steps], |index| Scalar::Float((index[0] % 5) as f64));
    let inputs = [HostTensor::scalar(0f64), HostTensor::scalar(0f64), xs];
    let (mut sum, mut last, mut largest) = (0f64, 0f64, f64::NEG_INFINITY);
    for at in 0..steps {
        last = sum * 0.5 - at as f64;
        largest = largest.max(last);
        sum += (at % 5 * at) as f64;
    }
    for cpu in backends() {
        let found = Function::compile(&graph, &cpu).unwrap().call_host(&inputs).unwrap();
        let found: Vec<f64> = found.iter().map(|each| each.to_f64_vec()[0]).collect();
        assert_eq!(found, [sum, steps as f64, last, largest]);
    }
}

#[test]
fn running_sums_of_rows_that_lie_apart_or_backwards() {
    for steps in [3, 10, 40, 67] {
        let graph = built("sums", |g| {
            let (xs, ys) =
                (g.input("xs", format!("f32[{steps},3]").as_str()), g.input("ys", format!("f32[{steps}]").as_str()));
            let upward = scan(constant(0f32), xs.index(1, 0), |c, x| (c + x, c + x)).1;
            let downward = scan(constant(0f32), ys.reverse(0), |c, y| (c + y, c + y)).1;
            let both = scan(constant(0f32), (xs.index(1, 1), ys.reverse(0)), |c, (x, y)| traced(c * (y * 0.125) + x));
            let columns =
                scan(constant(HostTensor::from([0f32, 0.0])), xs.slice(1, 1..).reverse(0), |c, x| (c + x, c + x)).1;
            (upward, downward, both.1, columns, xs.cumsum(0, false).index(1, 0), xs.index(1, 0).cumsum(0, true))
        });
        agrees(graph, &[whole(DType::F32, &[steps, 3]), whole(DType::F32, &[steps])]);
    }
}

/// Each part computes a partial sum over its rows of the batch, and the total is transposed.
#[test]
fn sums_over_parts_are_given_in_another_order() {
    let graph = built("gradient", |g| {
        let start = g.input("start", "f32[3,4]");
        let pair = (g.input("xs", "f32[T,6,3]"), g.input("ys", "f32[T,6,4]"));
        let (last, rows) = scan(start, pair, |sum, (x, y)| (sum + x.t().matmul(y), x.sum(-1)));
        (last.t(), last.reverse(0), last.t().reshape([12]), rows)
    });
    let shapes: [&[usize]; 3] = [&[3, 4], &[5, 6, 3], &[5, 6, 4]];
    agrees(graph, &shapes.map(|shape| whole(DType::F32, shape)));
}

/// The sum that a nested loop computes is complete when the nested loop ends, before the outer loop ends.
#[test]
fn sums_of_loops_in_loops_are_whole_when_their_loop_ends() {
    let graph = built("sums", |g| {
        let inner = (g.input("us", "f32[9,1,3]"), g.input("vs", "f32[9,1,4]"));
        let (outer_start, inner_start) = (g.input("outer", "f32[3,4]"), g.input("inner", "f32[3,4]"));
        let outer = (g.input("xs", "f32[T,1,3]"), g.input("ys", "f32[T,1,4]"));
        scan(outer_start, outer, |outer_sum, (x, y)| {
            let (inner_sum, ()) = scan(inner_start, inner, |sum, (u, v)| (sum + u.t().matmul(v * x.sum(..)), ()));
            (outer_sum + x.t().matmul(y), inner_sum.matmul(y.t()).index(1, 0) + x.index(0, 0))
        })
    });
    let shapes: [&[usize]; 6] = [&[9, 1, 3], &[9, 1, 4], &[3, 4], &[3, 4], &[20, 1, 3], &[20, 1, 4]];
    agrees(graph, &shapes.map(|shape| whole(DType::F32, shape)));
}

/// The steps of a nested loop are counted in each outer step, not only in the first one, which is planned separately.
#[test]
fn steps_of_loops_in_steps_are_counted_in_each() {
    let graph = built("counts", |g| {
        scan(g.input("start", "f32[]"), g.input("xs", "f32[T]"), |total, x| {
            let inner = scan_until(constant(0f32), iota_of(6), |sum, _| (sum + x, sum, (sum + x).gt(3.0)));
            let steps = size(inner.1.dim(0), DType::I64).cast(DType::F32);
            (total + steps, total + steps)
        })
    });
    agrees_somehow(graph, &[HostTensor::scalar(0f32), HostTensor::from([1f32, 0.5, 4.0, 2.0, 0.25])]);
}

fn iota_of(count: usize) -> Value {
    funcify::iota(count, DType::F32)
}

/// A loop with early exit reads concatenated rows. The program computes the first of these rows.
#[test]
fn loops_that_end_early_read_joined_rows() {
    let graph = built("joined", |g| {
        let (h, xs, limit) = (g.input("h", "f32[3]"), g.input("xs", "f32[6,3]"), g.input("limit", "f32[]"));
        let first = (h * 0.5).tanh();
        let rows = concat(&[first.unsqueeze(0), xs], 0);
        let step = |sum: Value, row: Value| (sum + row, (), (sum + row).sum(0).gt(limit));
        scan_until(first, rows, step).0
    });
    for limit in [-1f32, 3.0, 6.0, 11.0, 100.0] {
        let (h, xs) = (HostTensor::from([1f32, 0.5, 0.25]), HostTensor::from([[1f32, 0.5, 0.25]; 6]));
        agrees(graph.clone(), &[h, xs, HostTensor::scalar(limit)]);
    }
}

/// Each step selects rows along the axis that the plan divides into parts, at indices that are known only at run time.
#[test]
fn rows_of_the_divided_axis_are_chosen_by_an_input() {
    let graph = built("chosen", |g| {
        let (w, places) = (g.input("w", "f32[8,8]"), g.input("places", "i64[12]"));
        scan(g.input("h", "f32[12,8]"), g.input("xs", "f32[T,12,8]"), |h, x| {
            let next = h.matmul(w) * 0.125 + x;
            (next.take(0, places), next)
        })
    });
    let places = HostTensor::from([3i64, 0, 11, 7, 7, 2, 5, 1, 10, 4, 0, 9]);
    let [w, h, xs] = [&[8, 8][..], &[12, 8], &[4, 12, 8]].map(|shape| whole(DType::F32, shape));
    agrees(graph, &[w, places, h, xs]);
}

/// If a sum is divided into parts, a partial sum may overflow even if the total does not.
#[test]
fn shares_of_a_sum_may_be_larger_than_the_sum() {
    let halves = |dtype: DType, size: usize, number: f64| {
        let xs = HostTensor::from_fn(DType::F64, &[3, size], |at| {
            Scalar::Float(if at[1] < size / 2 { number } else { -number } + if at[1] == 0 { 1.0 } else { 0.0 })
        });
        xs.cast(dtype)
    };
    let scaled = |g: &Builder, f: &dyn Fn(Value, Value) -> Value| {
        let (xs, state, by) = (g.input("xs", "f32[T,N]"), g.input("state", "f32[N]"), g.input("by", "f32[]"));
        scan(state, xs, move |c: Value, x: Value| (c * 0.0 + x, f((c * 0.0 + x).sum(0), by))).1
    };
    for size in [8, 512] {
        let inputs = |by: f32| [halves(DType::F32, size, 250.0), HostTensor::zeros(DType::F32, &[size]), by.into()];
        let quotient = || built("quotient", |g| scaled(g, &|sum, by| sum / by));
        let product = || built("product", |g| scaled(g, &|sum, by| sum * by));
        for by in [0.0, -0.0, 1e-37, 2.0] {
            agrees_somehow(quotient(), &inputs(by));
        }
        for by in [f32::INFINITY, 1e37, 2.0] {
            agrees_somehow(product(), &inputs(by));
        }
        let mean = built("mean", |g| scaled(g, &|sum, _| sum * 0.125));
        agrees(mean, &inputs(0.0));
    }
}

/// If the partial sum of a part were rounded to f16, it would be infinite.
#[test]
fn shares_of_a_sum_of_halves_are_not_rounded() {
    for dtype in [DType::F16, DType::BF16] {
        let graph = built("sums", |g| {
            let [state, xs] = [("state", "512"), ("xs", "T,512")]
                .map(|(name, shape)| g.input(name, format!("{dtype}[{shape}]").as_str()));
            scan(state, xs, |c, x| (c * 0.0 + x, (c * 0.0 + x).sum(0))).1
        });
        let of = |at: &[usize]| Scalar::Float(if at[1] < 256 { 300.0 } else { -300.0 } + at[0] as f64);
        let xs = HostTensor::from_fn(dtype, &[3, 512], of);
        agrees_somehow(graph, &[HostTensor::zeros(dtype, &[512]), xs]);
    }
}

/// If a loop multiplied partial sums in each step, cancellation between them would leave no significant digits in the
/// total.
#[test]
fn a_sum_that_grows_from_step_to_step_keeps_its_digits() {
    let graph = built("growth", |g| {
        let (xs, state) = (g.input("xs", "f32[T,512]"), g.input("state", "f32[512]"));
        scan((state, constant(1f32)), xs, |(c, sum): (Value, Value), x: Value| {
            let c = c * 0.0 + x;
            ((c, sum * 1.5 + c.sum(0)), sum)
        })
    });
    let xs = HostTensor::from_fn(DType::F32, &[40, 512], |at| Scalar::Float(if at[1] < 256 { 250.0 } else { -250.0 }));
    agrees_somehow(graph, &[xs, HostTensor::zeros(DType::F32, &[512])]);
}

/// Each part looks up its own indices in a small table: indices that a step carries, that a step reads, and constant
/// ones.
#[test]
fn lookups_of_small_tables_along_the_parallel_axis() {
    let graph = built("lookups", |g| {
        let (xs, table) = (g.input("xs", "f32[9,64]"), g.input("table", "f32[5]"));
        let (rows, start) = (g.input("rows", "i32[9,64]"), g.input("start", "i32[64]"));
        let fixed = constant(HostTensor::from_fn(DType::I32, &[64], |index| Scalar::Int(index[0] as i64 * 7 % 6 - 1)));
        let ((state, at), ys) = scan((xs.index(0, 0), start), (xs, rows), |(state, at), (x, row)| {
            let looked_up = table.take(0, at) + table.take(0, row) * table.take(0, fixed);
            let state = state * 0.5 + x * looked_up;
            ((state, (at + row) % 7), state)
        });
        (state * table.take(0, fixed), at, ys)
    });
    let inputs =
        [whole(DType::F32, &[9, 64]), whole(DType::F32, &[5]), whole(DType::I32, &[9, 64]), whole(DType::I32, &[64])];
    let _ = take_fired();
    Function::compile(&graph, &Cpu::dividing_all()).unwrap().call_host(&inputs).unwrap();
    assert!(take_fired().contains(&"parts of a parallel axis"));
    agrees(graph, &inputs);
}

/// A sum over the parallel axis must be complete before it is used as an index.
#[test]
fn lookups_at_sums_over_the_parallel_axis() {
    let graph = built("lookups", |g| {
        let (rows, table) = (g.input("rows", "i32[9,64]"), g.input("table", "f32[300]"));
        scan(full([64], DType::F32, 1.0), rows, |state, row| {
            let state = state * 0.5 + row.cast(DType::F32);
            (state, table.take(0, (row * row).sum(0)))
        })
    });
    let rows = HostTensor::from_fn(DType::I32, &[9, 64], |index| Scalar::Int(((index[0] * 5 + index[1]) % 3) as i64));
    agrees(graph, &[rows, whole(DType::F32, &[300])]);
}
