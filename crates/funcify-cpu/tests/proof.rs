//! Tests the plan checker on pairs of plans, one correct and one with a planted error. The checker must accept the
//! correct plan. It must reject the other plan, and name the faulty instructions.

use funcify::Graph;
use funcify_cpu::kernels::{Binary, Fold, Unary};
use funcify_cpu::plan::{Across, Node, Op, Operand, Part, Plan, Split, Stage, Storage, repeat};
use funcify_cpu::prove_plan;

/// Proves that a plan computes the same values as a graph without symbols, or returns the error of `prove_plan`.
fn verdict(graph: &str, plan: &Plan) -> Result<(), String> {
    let graph = Graph::parse(graph).unwrap_or_else(|error| panic!("{error}"));
    plan.check::<f32>().unwrap_or_else(|error| panic!("{error}"));
    prove_plan(&graph, plan)
}

/// Asserts that the correct plan is proved, and that the plan with a planted error is rejected with a message that
/// contains `words`.
fn rejects(graph: &str, [right, planted]: [Plan; 2], words: &[&str]) {
    assert_eq!(verdict(graph, &right), Ok(()));
    rejected(verdict(graph, &planted), words);
}

fn rejected(verdict: Result<(), String>, words: &[&str]) {
    let message = verdict.expect_err("the checker finds the planted error");
    println!("{message}");
    for word in words {
        assert!(message.contains(word), "no `{word}` in: {message}");
    }
}

/// Adds an input or output region with `units` units of `pitch` elements.
fn given(plan: &mut Plan, place: Storage, units: usize, pitch: usize) -> Operand {
    Operand::of(plan.region(place, units, pitch, Split::Whole))
}

fn copy(lanes: usize, to: Operand, from: Operand) -> Node {
    Op::Unary(Unary::Copy).over([1, lanes], to, &[from])
}

fn binary(op: Binary, lanes: usize, to: Operand, x: Operand, y: Operand) -> Node {
    Op::Binary(op).over([1, lanes], to, &[x, y])
}

/// The operands of a plan with a single part: two inputs, two outputs and three registers.
struct Places {
    xs: Operand,
    state: Operand,
    ys: Operand,
    last: Operand,
    registers: [Operand; 3],
}

/// Builds a plan from each of the two programs that `programs` returns. The first plan is correct, and the second one
/// has a planted error.
fn plans([steps, lanes]: [usize; 2], programs: impl Fn(Places) -> [Vec<Node>; 2]) -> [Plan; 2] {
    [0, 1].map(|which| {
        let mut plan = Plan::default();
        let places = Places {
            xs: given(&mut plan, Storage::Input(0), steps, lanes),
            state: given(&mut plan, Storage::Input(1), 1, lanes),
            ys: given(&mut plan, Storage::Output(0), steps, lanes),
            last: given(&mut plan, Storage::Output(1), 1, lanes),
            registers: [(); 3].map(|()| Operand::of(plan.shared(lanes))),
        };
        let mut programs = programs(places);
        plan.once(std::mem::take(&mut programs[which]));
        plan
    })
}

/// A graph that computes a running sum and the squares of its elements. Each step reads the sum of the previous step.
const RUNNING_SUM: &str = "fn @f(%xs: f32[4,2], %s: f32[2]) {
  %ys: f32[4,2], %last: f32[2] = scan @body {steps=4} {
    seq %x: f32[2] = %xs[t]
    nit-sot %ys
    carry %c: f32[2] = %last from %s
    %n: f32[2] = add %c, %x
    %y: f32[2] = mul %n, %n
    %ys[t] = %y
    %last = %n
  }
  return ys=%ys, last=%last
}";

#[test]
fn a_sum_that_is_deferred_past_its_reader() {
    let plans = plans([4, 2], |Places { xs, state, ys, last, registers: [sum, ..] }| {
        let square = |ys| binary(Binary::Mul, 2, ys, sum, sum);
        let in_time = repeat(4, vec![binary(Binary::Add, 2, sum, sum, xs.step(0, 1)), square(ys.step(0, 1))]);
        let fold = Op::FoldRows { fold: Fold::Sum, accumulate: true };
        let squares = repeat(2, vec![square(ys.step(0, 2).step(1, 1))]);
        let deferred = repeat(2, vec![squares, fold.over([2, 2], sum, &[xs.step(0, 2).rows(2)])]);
        [in_time, deferred].map(|steps| vec![copy(2, sum, state), steps, copy(2, last, sum)])
    });
    rejects(RUNNING_SUM, plans, &["output 0", "`Binary(Mul)`", "last written by", "`Unary(Copy)`"]);
}

#[test]
fn a_second_name_that_is_read_after_its_register_is_overwritten() {
    let graph = "fn @f(%xs: f32[4,1], %s: f32[1]) {
      %ys: f32[4,1], %last: f32[1] = scan @body {steps=4} {
        seq %x: f32[1] = %xs[t]
        nit-sot %ys
        carry %c: f32[1] = %last from %s
        %r: f32[1] = stop_gradient %c
        %n: f32[1] = add %r, %x
        %y: f32[1] = mul %r, %x
        %ys[t] = %y
        %last = %n
      }
      return ys=%ys, last=%last
    }";
    let plans = plans([4, 1], |Places { xs, state, ys, last, registers: [c, ..] }| {
        let (x, y) = (xs.step(0, 1), ys.step(0, 1));
        let (add, mul) = (binary(Binary::Add, 1, c, c, x), binary(Binary::Mul, 1, y, c, x));
        let body = [vec![mul.clone(), add.clone()], vec![add, mul]];
        body.map(|body| vec![copy(1, c, state), repeat(4, body), copy(1, last, c)])
    });
    rejects(graph, plans, &["`Binary(Mul)`", "last written by `Binary(Add)`"]);
}

#[test]
fn a_copy_for_a_strip_of_a_register_that_was_rewritten() {
    let graph = "fn @f(%xs: f32[2,2], %h: f32[2]) {
      %k: f32[] = constant 0.0
      %z: f32[2,2] = broadcast %k {shape=[2,2]}
      %h1: f32[2], %p1: f32[2,2], %q1: f32[2,2] = scan @body {steps=2} {
        seq %x: f32[2] = %xs[t]
        carry %c: f32[2] = %h1 from %h
        carry %a: f32[2,2] = %p1 from %z
        carry %b: f32[2,2] = %q1 from %z
        %row: f32[1,2] = reshape %x {shape=[1,2]}
        %before: f32[2,1] = reshape %c {shape=[2,1]}
        %o: f32[2,2] = matmul %before, %row
        %a1: f32[2,2] = add %a, %o
        %m: f32[2] = add %c, %x
        %n: f32[2] = neg %m
        %after: f32[2,1] = reshape %n {shape=[2,1]}
        %o1: f32[2,2] = matmul %after, %row
        %b1: f32[2,2] = add %b, %o1
        %h1 = %n
        %p1 = %a1
        %q1 = %b1
      }
      return p=%p1, q=%q1
    }";
    let plan = |planted: bool| {
        let mut plan = Plan::default();
        let [xs, h] = [(0, 2), (1, 1)].map(|(input, units)| given(&mut plan, Storage::Input(input), units, 2));
        let [p, q] = [0, 1].map(|output| given(&mut plan, Storage::Output(output), 2, 2).rows(2));
        let state = Operand::of(plan.shared(2));
        let [before, after] = [(); 2].map(|()| given(&mut plan, Storage::Scratch, 2, 2));
        let sink = Op::Sink { blocks: 1, block_rows: 2, block_steps: [0, 0] };
        let x = xs.step(0, 1);
        plan.once(vec![
            copy(2, state, h),
            Op::Fill(0.0).over([2, 2], p, &[]),
            Op::Fill(0.0).over([2, 2], q, &[]),
            repeat(
                2,
                vec![
                    copy(2, before.step(0, 1), state),
                    binary(Binary::Add, 2, state, state, x),
                    Op::Unary(Unary::Neg).over([1, 2], state, &[state]),
                    copy(2, after.step(0, 1), state),
                ],
            ),
            sink.clone().over([2, 2], p, &[before.rows(2), xs.rows(2)]),
            sink.over([2, 2], q, &[if planted { before } else { after }.rows(2), xs.rows(2)]),
        ]);
        plan
    };
    rejects(graph, [plan(false), plan(true)], &["output 1", "`Sink", "last written by `Unary(Copy)`"]);
}

#[test]
fn a_bitwise_not_as_that_of_booleans() {
    let graph = "fn @f(%x: i32[3], %y: f32[3]) {
      %n: i32[3] = not %x
      %f: f32[3] = cast %n {dtype=f32}
      %z: f32[3] = add %f, %y
      return z=%z, n=%n
    }";
    let plan = |not: fn(Operand, Operand, Operand) -> Vec<Node>| {
        let mut plan = Plan::default();
        let [x, y] = [0, 1].map(|input| given(&mut plan, Storage::Input(input), 1, 3));
        let [z, n] = [0, 1].map(|output| given(&mut plan, Storage::Output(output), 1, 3));
        let one = Operand::of(plan.shared(1)).element();
        plan.once([not(n, x, one), vec![binary(Binary::Add, 3, z, n, y)]].concat());
        plan
    };
    let right = plan(|n, x, one| {
        let one_row = Operand { across: Across::Lanes, ..one };
        vec![
            Op::Fill(1.0).over([1, 1], one_row, &[]),
            Op::Unary(Unary::Neg).over([1, 3], n, &[x]),
            binary(Binary::Sub, 3, n, n, one),
        ]
    });
    let planted = plan(|n, x, _| vec![Op::Unary(Unary::Not).over([1, 3], n, &[x])]);
    rejects(graph, [right, planted], &["output 0", "from region", "an input"]);
}

#[test]
fn a_cast_of_a_share_as_a_share_of_the_cast() {
    let graph = "fn @f(%x: f32[4], %y: f32[]) {
      %q: f32[] = reduce %x {kind=sum, axes=[0]}
      %b: bool[] = cast %q {dtype=bool}
      %f: f32[] = cast %b {dtype=f32}
      %z: f32[] = add %f, %y
      return z=%z
    }";
    let plan = |planted: bool| {
        let mut plan = Plan::default();
        let x = Operand::of(plan.region(Storage::Input(0), 1, 4, Split::Columns(1)));
        let [y, z] = [Storage::Input(1), Storage::Output(0)].map(|place| given(&mut plan, place, 1, 1));
        let zero = Operand::of(plan.shared(1));
        let share = Operand::of(plan.registers(2, 1));
        let sum = Op::FoldLanes { fold: Fold::Sum, accumulate: false };
        let cast = |to, from| binary(Binary::NotEqual, 1, to, from, zero);
        plan.once(vec![Op::Fill(0.0).over([1, 1], zero, &[])]);
        let own = vec![sum.clone().over([1, 2], share.element(), &[x])];
        plan.parts(2, 2, if planted { [own, vec![cast(share, share)]].concat() } else { own });
        let total = sum.over([1, 2], z.element(), &[share]);
        let cast = if planted { Vec::new() } else { vec![cast(z, z)] };
        plan.once([vec![total], cast, vec![binary(Binary::Add, 1, z, z, y)]].concat());
        plan
    };
    rejects(graph, [plan(false), plan(true)], &["`FoldLanes", "last written by `Binary(NotEqual)`"]);
}

/// A graph that computes the sum of two inputs.
const SUM: &str = "fn @f(%x: f32[2], %y: f32[2]) {
  %z: f32[2] = add %x, %y
  return z=%z
}";

#[test]
fn scratch_that_nothing_wrote() {
    let plan = |writes: bool| {
        let mut plan = Plan::default();
        let [x, y] = [0, 1].map(|input| given(&mut plan, Storage::Input(input), 1, 2));
        let z = given(&mut plan, Storage::Output(0), 1, 2);
        let scratch = Operand::of(plan.shared(2));
        let lanes = if writes { 2 } else { 1 };
        plan.once(vec![copy(lanes, scratch, y), binary(Binary::Add, 2, z, x, scratch)]);
        plan
    };
    rejects(SUM, [plan(true), plan(false)], &["element 1", "`Binary(Add)`", "which nothing wrote"]);
}

/// `Plan::check` also rejects this plan, so the test calls the checker directly.
#[test]
fn parts_whose_order_matters() {
    let plan = |planted: bool| {
        let mut plan = Plan::default();
        let [x, y] = [0, 1].map(|input| Operand::of(plan.region(Storage::Input(input), 1, 2, Split::Columns(1))));
        let z = Operand::of(plan.region(Storage::Output(0), 1, 2, Split::Columns(1)));
        let own = vec![binary(Binary::Add, 1, z, x, y)];
        let beyond = [own.clone(), vec![copy(1, z.offset(1), x)]].concat();
        let parts = [0, 1].map(|program| Part { len: 1, program }).to_vec();
        let first = if planted { beyond } else { own.clone() };
        plan.stages.push(Stage { parts, programs: vec![first, own], concurrent: false });
        plan
    };
    let graph = Graph::parse(SUM).expect("the text is a valid graph");
    assert_eq!(prove_plan(&graph, &plan(false)), Ok(()));
    assert!(plan(true).check::<f32>().is_err());
    rejected(prove_plan(&graph, &plan(true)), &["element 1", "`Unary(Copy)`", "part 0"]);
}

#[test]
fn a_row_that_is_off_by_one_behind_the_peel() {
    let graph = "fn @f(%xs: f32[4,2], %s: f32[2]) {
      %ys: f32[4,2], %last: f32[2] = scan @body {steps=4} {
        seq %x: f32[2] = %xs[t]
        nit-sot %ys
        carry %c: f32[2] = %last from %s
        %n: f32[2] = mul %c, %x
        %ys[t] = %n
        %last = %n
      }
      return ys=%ys, last=%last
    }";
    let plans = plans([4, 2], |Places { xs, state, ys, last, .. }| {
        let step = |to, before, x| binary(Binary::Mul, 2, to, before, x);
        [xs.at(1), xs].map(|rest| {
            vec![
                step(ys, state, xs),
                repeat(3, vec![step(ys.at(1).step(0, 1), ys.step(0, 1), rest.step(0, 1))]),
                copy(2, last, ys.at(3)),
            ]
        })
    });
    rejects(graph, plans, &["output 0", "element 2", "`Binary(Mul)`", "iteration [0]"]);
}

#[test]
fn an_early_end_that_runs_one_step_too_many() {
    let graph = "fn @f(%xs: f32[9,1], %s: f32[1]) {
      %last: f32[1] = scan @body {steps=9, until=$1} {
        seq %x: f32[1] = %xs[t]
        carry %c: f32[1] = %last from %s
        %n: f32[1] = add %c, %x
        %h: bool[1] = lt %n, %c
        %e: bool[] = reduce %h {kind=any, axes=[0]}
        %last = %n
        until %e
      }
      return last=%last
    }";
    let plan = |planted: bool| {
        let mut plan = Plan::default();
        let xs = given(&mut plan, Storage::Input(0), 9, 1).step(0, 1);
        let s = given(&mut plan, Storage::Input(1), 1, 1);
        let last = given(&mut plan, Storage::Output(0), 1, 1);
        let [c, n, goes, before] = [(); 4].map(|()| Operand::of(plan.shared(1)));
        let compare = binary(Binary::LessEqual, 1, before, c, n);
        let next = vec![binary(Binary::Add, 1, n, c, xs), compare, copy(1, c, n)];
        // The faulty loop tests the condition of the previous step.
        let body = match planted {
            true => [vec![copy(1, goes, before)], next].concat(),
            false => [next, vec![copy(1, goes, before)]].concat(),
        };
        let run = Node::While { test: Vec::new(), holds: goes, body, bound: Some(9) };
        let starts = [before, goes].map(|flag| Op::Fill(1.0).over([1, 1], flag, &[])).to_vec();
        plan.once([starts, vec![copy(1, c, s), run, copy(1, last, c)]].concat());
        plan
    };
    rejects(graph, [plan(false), plan(true)], &["output 0", "`Binary(Add)`", "iteration"]);
}

#[test]
fn carries_that_are_swapped_without_a_copy() {
    let graph = "fn @f(%xs: f32[3,2], %s: f32[2]) {
      %a1: f32[2], %b1: f32[2] = scan @body {steps=3} {
        seq %x: f32[2] = %xs[t]
        carry %a: f32[2] = %a1 from %s
        carry %b: f32[2] = %b1 from %s
        %n: f32[2] = mul %a, %x
        %a1 = %b
        %b1 = %n
      }
      return a=%a1, b=%b1
    }";
    let plan = |planted: bool| {
        let mut plan = Plan::default();
        let xs = given(&mut plan, Storage::Input(0), 3, 2).step(0, 1);
        let s = given(&mut plan, Storage::Input(1), 1, 2);
        let outputs = [0, 1].map(|output| given(&mut plan, Storage::Output(output), 1, 2));
        let [a, b, aside] = [(); 3].map(|()| Operand::of(plan.shared(2)));
        let mul = |from| binary(Binary::Mul, 2, b, from, xs);
        let body = match planted {
            true => vec![copy(2, a, b), mul(a)],
            false => vec![copy(2, aside, a), copy(2, a, b), mul(aside)],
        };
        let starts = [a, b].map(|carry| copy(2, carry, s)).to_vec();
        let ends = [copy(2, outputs[0], a), copy(2, outputs[1], b)].to_vec();
        plan.once([starts, vec![repeat(3, body)], ends].concat());
        plan
    };
    rejects(graph, [plan(false), plan(true)], &["`Binary(Mul)`", "last written by `Unary(Copy)`"]);
}
