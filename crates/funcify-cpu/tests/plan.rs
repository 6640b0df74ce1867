//! Tests that [`Plan::check`] rejects invalid plans, and that results do not depend on the number of threads.

#[allow(unreachable_pub, dead_code, unused_imports, reason = "loops and benches share these files")]
mod plans;

use std::sync::Arc;

use funcify_body::{Body, Fused, Op as BodyOp, Type};
use funcify_cpu::kernels::{Binary, Fold, Recurrence, Unary};
use funcify_cpu::plan::{FusedNode, Node, Op, Operand, Part, Plan, PlanError, Split, Stage, Storage, repeat};
use funcify_cpu::{CallError, Executor, Machine};
use plans::{Channels, Sizes};

/// Declares an input and an output, each with ten units of four elements, and scratch memory.
fn regions() -> (Plan, [Operand; 3]) {
    let mut plan = Plan::default();
    let x = Operand::of(plan.region(Storage::Input(0), 10, 4, Split::Columns(1)));
    let y = Operand::of(plan.region(Storage::Output(0), 10, 4, Split::Columns(1)));
    let scratch = Operand::of(plan.shared(300));
    (plan, [x, y, scratch])
}

/// Returns the error of [`Plan::check`] for a plan that runs a program in a single part.
fn refused(program: impl Fn([Operand; 3]) -> Vec<Node>) -> PlanError {
    let (mut plan, operands) = regions();
    plan.once(program(operands));
    plan.check::<f32>().expect_err("the check rejects the program")
}

/// Asserts that [`Plan::check`] rejects a program with a message that contains `words`.
fn refuses(words: &str, program: impl Fn([Operand; 3]) -> Vec<Node>) {
    let error = refused(program);
    assert!(error.reason.contains(words), "{error}");
}

const COPY: Op = Op::Unary(Unary::Copy);

#[test]
fn units_stay_within_the_region() {
    let passes = |times| {
        let (mut plan, [x, y, _]) = regions();
        plan.once(vec![repeat(times, vec![COPY.over([1, 4], y.step(0, 1), &[x.step(0, 1)])])]);
        plan.check::<f32>()
    };
    assert_eq!(passes(10), Ok(()));
    let error = passes(11).expect_err("the eleventh unit does not exist");
    assert_eq!(error.place, "stage 0, part 0, node [0, 0]");
    refuses("are outside the region", |[x, y, _]| vec![COPY.over([1, 5], y.at(9), &[x])]);
    refuses("are outside the region", |[x, y, _]| vec![COPY.over([1, 4], y, &[x.at(9).offset(1)])]);
    refuses("are outside the region", |[x, y, _]| vec![COPY.over([3, 4], y.rows(4), &[x.at(8).rows(4)])]);
    refuses("units -1 to 3", |[x, y, _]| vec![repeat(5, vec![COPY.over([1, 4], y, &[x.at(3).step(0, -1)])])]);
    let pack =
        |column| move |[x, _, scratch]: [Operand; 3]| vec![Op::Pack { column }.over([2, 10], scratch, &[x.rows(1)])];
    let (mut plan, operands) = regions();
    plan.once(pack(4)(operands));
    assert_eq!(plan.check::<f32>(), Ok(()));
    refuses("are outside the region", pack(5));
    refuses("no region 7", |[_, y, _]| vec![COPY.over([1, 4], y, &[Operand::of(7)])]);
}

/// A body may load the elements that it stores, unless it declares that they are apart.
#[test]
fn streams_that_are_declared_to_be_apart_are_apart() {
    let check = |first: usize, declares: bool| {
        let mut body = Body::default();
        let x = body.load(0, Type::Float);
        let twice = body.push(BodyOp::Binary(Binary::Add), Type::Float, &[x, x]);
        body.store(twice, 1);
        let fused = Fused::with_apart(body, &[4], vec![vec![1], vec![1]], |_, _| declares);
        let (mut plan, [_, y, _]) = regions();
        plan.once(vec![Node::Fused(FusedNode { fused: Arc::new(fused), streams: vec![y.at(first), y.at(3)] })]);
        plan.check::<f32>().map_err(|error| error.reason)
    };
    assert_eq!(check(3, false), Ok(()));
    assert_eq!(check(2, true), Ok(()));
    assert_eq!(check(3, true), Err("stream 0: overlaps the destination".to_string()));
}

#[test]
fn what_is_written_meets_nothing_that_is_read() {
    let before = |from: fn(Operand) -> Operand| {
        let (mut plan, [_, y, _]) = regions();
        plan.once(vec![repeat(8, vec![COPY.over([1, 4], y.at(1).step(0, 1), &[from(y)])])]);
        plan.check::<f32>().map_err(|error| error.reason)
    };
    let meets = || Err("operand 1: overlaps the destination".to_string());
    assert_eq!(before(|y| y.step(0, 1)), Ok(()), "the unit before");
    assert_eq!(before(|y| y.at(1).step(0, 1)), Ok(()), "the place itself");
    assert_eq!(before(|y| y), Ok(()), "a unit that is never written");
    assert_eq!(before(|y| y.at(1)), meets(), "a unit that is written in the first iteration");
    assert_eq!(before(|y| y.at(1).step(0, 1).offset(1)), meets(), "the place, one element off");
    assert_eq!(before(|y| y.at(1).step(0, 1).offset(3)), meets(), "the last element of the place");
    assert_eq!(before(|y| y.at(1).step(0, 1).offset(4)), Ok(()), "the elements after the place");
    assert_eq!(before(|y| y.step(0, 1).offset(1)), meets(), "the first elements of the place");
    assert_eq!(before(|y| y.at(9).step(0, -1)), meets(), "in the other direction");
    refuses("overlaps the destination", |[_, _, scratch]| {
        let product = Op::Product { inner: vec![4], init: false, then: None };
        vec![product.over([1, 4], scratch, &[scratch, scratch.offset(8)])]
    });
    refuses("overlaps the destination", |[_, _, scratch]| {
        let fold = Op::FoldRows { fold: Fold::Sum, accumulate: false };
        vec![fold.over([2, 4], scratch, &[scratch.rows(4)])]
    });
    let recurrence = |x: usize, factor: usize| {
        let (mut plan, [_, _, scratch]) = regions();
        let op = Op::Recur { recurrence: Recurrence::Linear, down: false };
        let rows = |offset: usize| scratch.offset(offset).rows(4);
        plan.once(vec![op.over([2, 4], rows(0), &[scratch.offset(100), rows(x), rows(factor)])]);
        plan.check::<f32>().map_err(|error| error.reason)
    };
    assert_eq!(recurrence(0, 20), Ok(()), "in place of what is added");
    assert_eq!(recurrence(20, 0), Err("operand 3: overlaps the destination".to_string()), "in place of the factor");
}

#[test]
fn ops_have_their_operands_and_shapes() {
    refuses("1 operands instead of 2", |[x, y, _]| vec![Op::Binary(Binary::Add).over([1, 4], y, &[x])]);
    refuses("2 operands instead of 1", |[x, y, _]| vec![COPY.over([1, 4], y, &[x, x])]);
    refuses("nothing to write", |[x, y, _]| vec![COPY.over([0, 4], y, &[x])]);
    refuses("rows of the destination overlap", |[x, y, _]| vec![COPY.over([2, 4], y.rows(3), &[x])]);
    refuses("writes to input 0", |[x, y, _]| vec![COPY.over([1, 4], x, &[y])]);
    refuses("a product of 0 factors", |[x, y, _]| {
        vec![Op::Product { inner: vec![], init: true, then: None }.over([1, 4], y, &[x])]
    });
    refuses("only a sum can fold products", |[x, y, _]| {
        vec![Op::FoldRows { fold: Fold::Max, accumulate: false }.over([2, 4], y, &[x, x])]
    });
    refuses("the destination must have lanes", |[x, y, _]| {
        vec![Op::FoldLanes { fold: Fold::Sum, accumulate: false }.over([2, 4], y, &[x])]
    });
    refuses("must have lanes", |[x, y, _]| {
        vec![Op::FoldRows { fold: Fold::Sum, accumulate: false }.over([2, 4], y, &[x.element()])]
    });
    refuses("0 blocks", |[x, y, _]| {
        vec![Op::Sink { blocks: 0, block_rows: 1, block_steps: [0, 0] }.over([4, 4], y.rows(4), &[x, x])]
    });
    refuses("2 operands instead of 3", |[x, y, _]| {
        vec![Op::Recur { recurrence: Recurrence::Linear, down: false }.over([2, 4], y.rows(4), &[x, x])]
    });
    refuses("more than 5 loops deep", |[x, y, _]| {
        let copy = COPY.over([1, 4], y, &[x]);
        (0..6).fold(vec![copy], |body, _| vec![repeat(2, body)])
    });
}

#[test]
fn parts_write_their_own_columns() {
    let parts = |len: usize, lanes: usize, to: usize| {
        let (mut plan, operands) = regions();
        plan.parts(2, len, vec![COPY.over([1, lanes], operands[to], &[operands[0]])]);
        plan.check::<f32>().map_err(|error| error.reason)
    };
    assert_eq!(parts(2, 2, 1), Ok(()));
    assert!(parts(2, 3, 1).is_err_and(|reason| reason.contains("beyond the part's columns")));
    assert!(parts(1, 1, 1).is_err_and(|reason| reason.contains("2 columns")));
    assert!(parts(2, 2, 2).is_err_and(|reason| reason.contains("by several parts")));
    let (mut plan, [x, _, _]) = regions();
    let own = Operand::of(plan.registers(3, 4));
    plan.parts(2, 2, vec![COPY.over([1, 2], own, &[x])]);
    assert!(plan.check::<f32>().is_err_and(|error| error.reason.contains("for 3 parts in a stage of 2")));
    let mut empty = regions().0;
    empty.stages.push(Stage { parts: vec![Part { len: 1, program: 1 }], programs: vec![vec![]], concurrent: false });
    assert!(empty.check::<f32>().is_err_and(|error| error.reason.contains("no program 1")));
}

#[test]
fn slices_must_fit() {
    let (plan, _) = regions();
    let mut executor = Executor::<f32>::new(plan, Machine::detect()).unwrap();
    let (x, mut y) = ([0f32; 40], [0f32; 40]);
    assert_eq!(executor.call(&[&x], &mut [&mut y]), Ok(()));
    let short = CallError { place: Storage::Input(0), expected: 40, found: Some(39) };
    assert_eq!(executor.call(&[&x[..39]], &mut [&mut y]), Err(short));
    let none = CallError { place: Storage::Output(0), expected: 40, found: None };
    assert_eq!(executor.call(&[&x], &mut []), Err(none));
}

/// An instruction that writes columns of a unit may read other columns of that unit, and other units.
#[test]
fn columns_around_what_is_written() {
    let mut plan = Plan::default();
    let x = Operand::of(plan.region(Storage::Input(0), 3, 8, Split::Columns(4)));
    let y = Operand::of(plan.region(Storage::Output(0), 3, 8, Split::Columns(4)));
    let add = |to: Operand, a, b| Op::Binary(Binary::Add).over([1, 1], to, &[a, b]);
    plan.parts(
        2,
        1,
        vec![
            COPY.over([1, 4], y.at(0), &[x.at(0)]),
            COPY.over([1, 4], y.at(1), &[x.at(1)]),
            COPY.over([1, 4], y.at(2), &[x.at(2)]),
            add(y.at(1).offset(1), y.at(1), y.at(1).offset(2)),
            add(y.at(1).offset(2), y.at(0).offset(2), y.at(2).offset(2)),
            add(y.at(1).offset(3), y.at(1).offset(3), y.at(1)),
        ],
    );
    let x: Vec<f64> = (0..24).map(f64::from).collect();
    let mut y = vec![0.0; 24];
    Executor::new(plan, Machine::detect()).unwrap().call(&[&x], &mut [&mut y]).unwrap();
    let mut expected = x;
    for part in [8, 12] {
        expected[part + 1] = expected[part] + expected[part + 2];
        expected[part + 2] = expected[part - 6] + expected[part + 10];
        expected[part + 3] += expected[part];
    }
    assert_eq!(y, expected);
}

#[test]
fn threads_change_nothing() {
    let sizes = Sizes { steps: 12, batch: 48, width: 33, rows: 8, strip: 4 };
    let channels = Channels { steps: 9, channels: 39, states: 5, tile: 13, segment: 3 };
    for workload in [plans::rnn(sizes), plans::rnn_training(sizes), plans::lstm(sizes), plans::ssm_training(channels)] {
        let mut answers = Vec::new();
        for threads in [1, 2, 3, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut ready = workload.ready::<f32>(Machine::detect());
            pool.install(|| ready.call()).unwrap();
            answers.push(ready.outputs().to_vec());
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{}", workload.name);
    }
}
