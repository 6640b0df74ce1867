//! Measures the cost of each op, in nanoseconds per instruction and per element, by timing a loop that repeats one
//! instruction on cached data.

use funcify_cpu::kernels::{Binary, Fold, Ternary, Unary, packed_len};
use funcify_cpu::plan::{Node, Op, Operand, Plan, repeat};
use funcify_cpu::{Element, Executor, Machine};

use crate::time;

const REPETITIONS: usize = 2000;

/// Times several runs of a loop that repeats one instruction. Returns the minimum time per instruction, in nanoseconds.
/// The loop's data has `elements` elements, which are set to `fill` first.
fn cost<T: Element>(machine: Machine, elements: usize, fill: f64, make: impl Fn(Operand) -> Node) -> f64 {
    let mut plan = Plan::default();
    let registers = Operand::of(plan.registers(1, elements));
    let fill = Op::Fill(fill).over([1, elements], registers, &[]);
    plan.once(vec![fill, repeat(REPETITIONS, vec![make(registers)])]);
    let mut executor = match Executor::<T>::new(plan, machine) {
        Ok(executor) => executor,
        Err(error) => panic!("{error}"),
    };
    let [low, _] = time(|| executor.call(&[], &mut []).unwrap_or_default(), 30);
    low * 1e6 / REPETITIONS as f64
}

/// Prints the cost of each op for several sizes.
pub(crate) fn print<T: Element>(machine: Machine) {
    println!("{} {}", std::any::type_name::<T>(), machine.name());
    println!("ns per instruction with 16, 64, 256, 1024 lanes; ns per element with 1024 lanes");
    let row = |name: &str, make: &dyn Fn(usize, Operand) -> Node| {
        let costs = [16, 64, 256, 1024].map(|lanes| cost::<T>(machine, 4 * lanes, 0.5, |at| make(lanes, at)));
        println!("{name:<16}{:8.1}{:8.1}{:8.1}{:8.1}{:8.3}", costs[0], costs[1], costs[2], costs[3], costs[3] / 1024.0);
    };
    for op in Unary::ALL {
        row(&format!("{op:?}"), &|lanes, at| Op::Unary(*op).over([1, lanes], at.at(lanes), &[at]));
    }
    for op in Binary::ALL {
        row(&format!("{op:?}"), &|lanes, at| Op::Binary(*op).over([1, lanes], at.at(lanes), &[at, at.at(2 * lanes)]));
    }
    for op in Ternary::ALL {
        let from = |lanes, at: Operand| [at, at.at(2 * lanes), at.at(3 * lanes)];
        row(&format!("{op:?}"), &|lanes, at| Op::Ternary(*op).over([1, lanes], at.at(lanes), &from(lanes, at)));
    }
    for fold in Fold::ALL {
        row(&format!("FoldLanes {fold:?}"), &|lanes, at| {
            let op = Op::FoldLanes { fold, accumulate: false };
            op.over([1, lanes], at.at(lanes).element(), &[at])
        });
    }
    tile::<T>(machine);
    println!("{:<16}{:>8}{:>8}", "", "ns", "Gflop/s");
    for [m, k, n] in [[1, 32, 32], [1, 32, 128], [16, 128, 128], [32, 128, 128], [64, 256, 256], [1000, 32, 32]] {
        let packed = packed_len::<T>(k, n);
        let ns = cost::<T>(machine, m * k + packed + m * n, 0.001, |at| {
            let op = Op::Product { inner: vec![k], init: false, then: None };
            op.over([m, n], at.at(m * k + packed).rows(n), &[at.rows(k), at.at(m * k)])
        });
        println!("{:<16}{ns:8.0}{:8.0}", format!("[{m},{k}][{k},{n}]"), (2 * m * k * n) as f64 / ns);
    }
    for [rows, m, n] in [[200, 32, 32], [256, 128, 128], [256, 256, 256]] {
        let ns = cost::<T>(machine, rows * (m + n) + m * n, 0.001, |at| {
            let op = Op::Sink { blocks: 1, block_rows: rows, block_steps: [0, 0] };
            op.over([m, n], at.at(rows * (m + n)).rows(n), &[at.rows(m), at.at(rows * m).rows(n)])
        });
        println!("{:<16}{ns:8.0}{:8.0}", format!("sink {rows}x{m}x{n}"), (2 * rows * m * n) as f64 / ns);
    }
}

/// Prints the cost of ops on a tile of 16 rows and 128 lanes, including ops that broadcast one row or one element per
/// row.
fn tile<T: Element>(machine: Machine) {
    const LEN: usize = 16 * 128;
    println!("{:<40}{:>8}{:>12}", "16 rows of 128 lanes", "ns", "ns per element");
    let row = |name: &str, make: &dyn Fn(Operand) -> Node| {
        let ns = cost::<T>(machine, 3 * LEN, 0.5, make);
        println!("{name:<40}{ns:8.1}{:12.3}", ns / LEN as f64);
    };
    let (shape, all) = ([16, 128], [1, LEN]);
    let other = |at: Operand| at.at(LEN).rows(128);
    let element = |at: Operand| at.at(2 * LEN).rows(1).element();
    let (mul, mul_add) = (Op::Binary(Binary::Mul), Op::Ternary(Ternary::MulAdd));
    let sum = Op::FoldRows { fold: Fold::Sum, accumulate: false };
    let dot = Op::FoldLanes { fold: Fold::Sum, accumulate: false };
    row("exp(row * tile)", &|at| {
        Op::Binary(Binary::ExpOfProduct).over(shape, other(at), &[at.at(2 * LEN), at.rows(128)])
    });
    row("tile * tile, in place", &|at| mul.clone().over(all, at, &[at, at.at(LEN)]));
    row("row * element + tile, in place", &|at| {
        mul_add.clone().over(shape, at.rows(128), &[at.at(LEN), element(at), at.rows(128)])
    });
    row("tile * row + tile, in place", &|at| {
        mul_add.clone().over(shape, at.rows(128), &[other(at), at.at(2 * LEN), at.rows(128)])
    });
    row("sum over rows of tile * element", &|at| sum.clone().over(shape, at.at(LEN), &[at.rows(128), element(at)]));
    row("sum over rows of tile * tile", &|at| sum.clone().over(shape, at.at(2 * LEN), &[at.rows(128), other(at)]));
    row("sum over lanes of tile * row", &|at| dot.clone().over(shape, element(at), &[at.rows(128), at.at(LEN)]));
}

/// Runs loops that repeat one small addition, so that a profiler shows the overhead per instruction.
pub(crate) fn dispatch(machine: Machine) {
    let lanes = 16;
    for _ in 0..400 {
        cost::<f32>(machine, 4 * lanes, 0.5, |at| {
            Op::Binary(Binary::Add).over([1, lanes], at.at(lanes), &[at, at.at(2 * lanes)])
        });
    }
}
