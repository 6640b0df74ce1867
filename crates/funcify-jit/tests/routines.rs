//! Tests that a routine performs the operations that were added to its builder, and accesses no memory outside its
//! buffers.

use funcify_jit::{Buffer, Builder, Comparison, Error, Functions, Matrix, Number, RegisterRow, Routine, Span, Value};
use ndarray::{Array2, s};

/// Returns the span of a stream that starts at element `at` of a buffer in every iteration.
fn at(buffer: usize, at: usize) -> Span {
    Span { buffer, unit: 0, at, step: 0 }
}

/// Builds a routine, runs one iteration of it on the vectors `x` and `y`, and returns the vector that the routine
/// stores. `build` adds the operations that compute this vector from the two loaded ones.
fn once<T: Number + Default>(
    lanes: usize,
    x: &[T],
    y: &[T],
    build: impl FnOnce(&mut Builder<'_, T>, Value, Value) -> Value,
) -> Vec<T> {
    let routine = Routine::new(lanes, Functions::NONE, |builder| {
        let [xs, ys, to] = [builder.stream(), builder.stream(), builder.stream()];
        builder.begin();
        let (x, y) = (builder.load(xs, 0, lanes), builder.load(ys, 0, lanes));
        let value = build(builder, x, y);
        builder.store(value, to, 0, lanes);
    });
    let mut to = vec![T::default(); lanes];
    let mut buffers = [Buffer::Read(x), Buffer::Read(y), Buffer::Write(&mut to)];
    assert_eq!(routine.unwrap().run(&mut buffers, &[at(0, 0), at(1, 0), at(2, 0)], 1).unwrap(), 1);
    to
}

macro_rules! operations {
    ($number:ident: $($name:ident($x:ident, $y:ident) = |$b:ident, $v:ident, $w:ident| $told:expr, $expected:expr;)*) => {$(
        #[test]
        fn $name() {
            let [nan, inf] = [$number::NAN, $number::INFINITY];
            let xs = [1.5, -2.25, 0.0, -0.0, nan, inf, 3.0, -7.5];
            let ys = [0.5, -2.25, -0.0, 0.0, 1.0, nan, -inf, 2.0];
            for lanes in [1, <$number as Number>::LANES] {
                for (x, y) in xs.chunks(lanes).zip(ys.chunks(lanes)) {
                    let expected: Vec<$number> = x.iter().zip(y).map(|(x, y)| { let ($x, $y) = (*x, *y); $expected }).collect();
                    let given = once(lanes, x, y, |$b, $v, $w| $told);
                    let bits = |all: &[$number]| all.iter().map(|x| if x.is_nan() { None } else { Some(x.to_bits()) }).collect::<Vec<_>>();
                    assert_eq!(bits(&given), bits(&expected), "of {x:?} and {y:?}");
                }
            }
        }
    )*};
}

fn truth<T: Number>(holds: bool) -> T {
    T::from(u8::from(holds))
}

/// Declares the given tests for both element types, `f32` and `f64`.
macro_rules! of_both_types {
    ($($rows:tt)*) => {
        mod f32s {
            use super::*;
            operations! { f32: $($rows)* }
        }

        mod f64s {
            use super::*;
            operations! { f64: $($rows)* }
        }
    };
}

of_both_types! {
    neg(x, y) = |b, v, _w| b.neg(v), { let _ = y; -x };
    abs(x, y) = |b, v, _w| b.abs(v), { let _ = y; x.abs() };
    sqrt(x, y) = |b, v, _w| b.sqrt(v), { let _ = y; x.sqrt() };
    add(x, y) = |b, v, w| b.add(v, w), x + y;
    sub(x, y) = |b, v, w| b.sub(v, w), x - y;
    mul(x, y) = |b, v, w| b.mul(v, w), x * y;
    div(x, y) = |b, v, w| b.div(v, w), x / y;
    mul_add(x, y) = |b, v, w| b.mul_add(v, w, v), x.mul_add(y, x);
    less(x, y) = |b, v, w| b.compare(Comparison::Less, v, w), truth(x < y);
    less_equal(x, y) = |b, v, w| b.compare(Comparison::LessEqual, v, w), truth(x <= y);
    equal(x, y) = |b, v, w| b.compare(Comparison::Equal, v, w), truth(x == y);
    not_equal(x, y) = |b, v, w| b.compare(Comparison::NotEqual, v, w), truth(x != y);
    select(x, y) = |b, v, w| { let one = b.number(1.0); b.select(v, w, one) }, if x == 0.0 { 1.0 } else { y };
    max(x, y) = |b, v, w| b.max(v, w), if x.is_nan() || x > y || (x == y && x.is_sign_positive()) { x } else { y };
    min(x, y) = |b, v, w| b.min(v, w), if x.is_nan() || x < y || (x == y && x.is_sign_negative()) { x } else { y };
}

extern "C" fn unary(which: u32, x: f32) -> f32 {
    x + which as f32
}

extern "C" fn binary(which: u32, x: f32, y: f32) -> f32 {
    x * 10.0 + y + which as f32
}

extern "C" fn unary_vector(which: u32, x: &mut [f32; 4]) {
    *x = x.map(|x| unary(which, x));
}

extern "C" fn binary_vector(which: u32, x: &mut [f32; 4], y: &[f32; 4]) {
    *x = std::array::from_fn(|lane| binary(which, x[lane], y[lane]));
}

#[test]
fn functions_are_called_with_which_and_operands() {
    for lanes in [1, 4] {
        let routine = Routine::new(lanes, Functions { unary, binary, unary_vector, binary_vector }, |builder| {
            let [xs, to] = [builder.stream(), builder.stream()];
            builder.begin();
            let x = builder.load(xs, 0, lanes);
            let y = builder.call_unary(7, x);
            let z = builder.call_binary(100, x, y);
            builder.store(z, to, 0, lanes);
        });
        let (x, mut to) = ([1.0, 2.0, 3.0, 4.0], [0.0; 4]);
        let mut buffers = [Buffer::Read(&x), Buffer::Write(&mut to)];
        let spans = [0, 1].map(|buffer| Span { step: lanes as isize, ..at(buffer, 0) });
        assert_eq!(routine.unwrap().run(&mut buffers, &spans, 4 / lanes).unwrap(), 4 / lanes);
        assert_eq!(to, [118.0, 129.0, 140.0, 151.0]);
    }
}

/// Builds a routine that reads five elements per iteration, and adds the first three to running sums. In each
/// iteration, it stores the three sums, followed by two equal elements: the third sum plus the fifth element.
fn sums() -> Routine<f32> {
    let routine = Routine::new(4, Functions::NONE, |builder| {
        let [state, xs, sums] = [builder.stream(), builder.stream(), builder.stream()];
        let first = builder.load(state, 0, 3);
        let sum = builder.register(first);
        builder.begin();
        let (last, x, one) = (builder.get(sum), builder.load(xs, 0, 3), builder.load(xs, 4, 1));
        let next = builder.add(last, x);
        builder.set(sum, next);
        let lane = builder.lane(next, 2);
        let all = builder.add(lane, one);
        builder.store(next, sums, 0, 3);
        builder.store(all, sums, 3, 2);
        builder.store_after_loop(sum, state, 0, 3);
    });
    routine.unwrap()
}

#[test]
fn parts_of_vectors_leave_their_neighbours_alone() {
    let xs: Vec<f32> = (0..10).map(|x| x as f32).collect();
    let (mut state, mut to) = ([1.0, 1.0, 1.0, -9.0], [-9.0; 12]);
    let mut buffers = [Buffer::Write(&mut state), Buffer::Read(&xs), Buffer::Write(&mut to)];
    let spans = [at(0, 0), Span { step: 5, ..at(1, 0) }, Span { step: 6, ..at(2, 1) }];
    assert_eq!(sums().run(&mut buffers, &spans, 2).unwrap(), 2);
    assert_eq!(state, [6.0, 8.0, 10.0, -9.0]);
    assert_eq!(to, [-9.0, 1.0, 2.0, 3.0, 7.0, 7.0, -9.0, 6.0, 8.0, 10.0, 19.0, 19.0]);
}

#[test]
fn columns_are_walked_backward_unit_by_unit() {
    let xs = Array2::from_shape_fn((3, 7), |(unit, column)| (10 * unit + column) as f32);
    let (mut state, mut to) = ([0.0; 3], Array2::from_elem((3, 8), -9.0));
    let mut parts = xs.clone();
    let mut buffers = [
        Buffer::Write(&mut state),
        Buffer::Columns(parts.slice_mut(s![.., 2..])),
        Buffer::Columns(to.slice_mut(s![.., 1..7])),
    ];
    let spans = [at(0, 0), Span { unit: 2, step: -1, ..at(1, 0) }, Span { unit: 2, step: -1, ..at(2, 1) }];
    assert_eq!(sums().run(&mut buffers, &spans, 3).unwrap(), 3);
    assert_eq!(state, [36.0, 39.0, 42.0]);
    assert_eq!(to.row(0).to_vec(), [-9.0, -9.0, 36.0, 39.0, 42.0, 48.0, 48.0, -9.0]);
    assert_eq!(to.row(2).to_vec(), [-9.0, -9.0, 22.0, 23.0, 24.0, 50.0, 50.0, -9.0]);
}

#[test]
fn a_loop_ends_itself_in_the_middle_of_an_iteration() {
    // Halve a number until it is less than 1. Increment one counter before the condition is tested, and another one
    // afterwards.
    let routine = Routine::new(1, Functions::NONE, |builder| {
        let numbers = builder.stream();
        let [x, before, behind] = [0, 1, 2].map(|index| {
            let first = builder.load(numbers, index, 1);
            let register = builder.register(first);
            builder.store_after_loop(register, numbers, index, 1);
            register
        });
        let (one, half) = (builder.number(1.0), builder.number(0.5));
        builder.begin();
        let count = |builder: &mut Builder<'_, f64>, register| {
            let last = builder.get(register);
            let next = builder.add(last, one);
            builder.set(register, next);
        };
        count(builder, before);
        let now = builder.get(x);
        let goes_on = builder.compare(Comparison::LessEqual, one, now);
        builder.end_unless(goes_on);
        count(builder, behind);
        let next = builder.mul(now, half);
        builder.set(x, next);
    });
    let (routine, mut numbers) = (routine.unwrap(), [100.0, 0.0, 0.0]);
    assert_eq!(routine.run(&mut [Buffer::Write(&mut numbers)], &[at(0, 0)], 3).unwrap(), 3);
    assert_eq!(numbers, [12.5, 3.0, 3.0]);
    assert_eq!(routine.run(&mut [Buffer::Write(&mut numbers)], &[at(0, 0)], 1000).unwrap(), 4);
    assert_eq!(numbers, [0.78125, 8.0, 7.0]);
}

#[test]
fn what_does_not_lie_in_a_buffer_is_refused_before_it_runs() {
    let routine = sums();
    let xs = [1.0; 10];
    let good = [at(0, 0), Span { step: 5, ..at(1, 0) }, Span { step: 5, ..at(2, 0) }];
    let run = |spans: &[Span], times, len| {
        let (mut state, mut to) = ([0.0; 3], vec![0.0; len]);
        let mut buffers = [Buffer::Write(&mut state), Buffer::Read(&xs), Buffer::Write(&mut to)];
        let ran = routine.run(&mut buffers, spans, times);
        if ran.is_err() {
            assert_eq!((state, to), ([0.0; 3], vec![0.0; len]));
        }
        ran.map_err(|error| matches!(error, Error::Bounds(_)))
    };
    assert_eq!(run(&good, 2, 10), Ok(2));
    assert_eq!(run(&good, 0, 10), Ok(0));
    assert_eq!(run(&good, 3, 15), Err(true), "xs end");
    assert_eq!(run(&good, 2, 9), Err(true), "sums end");
    assert_eq!(run(&good[..2], 2, 10), Err(true), "a span is missing");
    let wrong = |index: usize, span| {
        let mut spans = good;
        spans[index] = span;
        run(&spans, 2, 10)
    };
    assert_eq!(wrong(0, at(0, 1)), Err(true), "the state ends");
    assert_eq!(wrong(0, at(1, 0)), Err(true), "xs are only read");
    assert_eq!(wrong(0, at(3, 0)), Err(true), "no such buffer");
    assert_eq!(wrong(1, Span { step: -5, ..at(1, 0) }), Err(true), "before the first");
    assert_eq!(wrong(1, Span { step: isize::MAX, ..at(1, 0) }), Err(true), "overflow");
    assert_eq!(wrong(1, at(1, usize::MAX)), Err(true), "overflow");
    let (mut state, mut to, mut narrow) = ([0.0; 3], [0.0; 10], Array2::zeros((2, 6)));
    for (columns, unit, is_good) in [(6, 0, true), (4, 0, false), (6, 1, false)] {
        let mut buffers =
            [Buffer::Write(&mut state), Buffer::Columns(narrow.slice_mut(s![.., ..columns])), Buffer::Write(&mut to)];
        let spans = [at(0, 0), Span { unit, step: 1, ..at(1, 0) }, Span { step: 5, ..at(2, 0) }];
        assert_eq!(routine.run(&mut buffers, &spans, 2).is_ok(), is_good, "{columns} columns from unit {unit}");
    }
    assert!(matches!(Routine::<f32>::new(3, Functions::NONE, |_| {}), Err(Error::Lanes(3))));
}

#[test]
fn a_routine_runs_in_several_threads_at_once() {
    let routine = sums();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let routine = &routine;
            scope.spawn(move || {
                let (mut state, xs, mut to) = ([0.0; 3], vec![thread as f32; 5000], vec![0.0; 5000]);
                let mut buffers = [Buffer::Write(&mut state), Buffer::Read(&xs), Buffer::Write(&mut to)];
                let spans = [at(0, 0), Span { step: 5, ..at(1, 0) }, Span { step: 5, ..at(2, 0) }];
                assert_eq!(routine.run(&mut buffers, &spans, 1000).unwrap(), 1000);
                assert_eq!(state, [1000.0 * thread as f32; 3]);
            });
        }
    });
}

/// The number of columns of the matrix in [`product`].
const WIDTH: usize = 12;

/// Builds a routine that multiplies a row of `rows` elements by the first four and the last four columns of a matrix in
/// each iteration. For each of these columns, it adds the terms from even rows of the matrix and those from odd rows
/// separately, and stores the first sum minus the second.
fn product(rows: usize) -> Routine<f32> {
    let routine = Routine::new(4, Functions::NONE, |builder| {
        let [xs, matrix, to] = [builder.stream(), builder.stream(), builder.stream()];
        builder.begin();
        let row = (0..rows).step_by(4).map(|first| builder.load(xs, first, 4.min(rows - first))).collect();
        let (mut row, one) = (RegisterRow::new(row), builder.number(1.0));
        let mut sums = [[one; 2]; 2];
        let matrix = Matrix { stream: matrix, rows, pitch: WIDTH, columns: &[0, WIDTH - 4] };
        builder.add_products(&mut sums, &mut row, matrix);
        let sums = sums.map(|[even, odd]| builder.sub(even, odd));
        builder.compute(&sums);
        builder.store(sums[0], to, 0, 4);
        builder.store(sums[1], to, 4, 4);
    });
    routine.unwrap()
}

#[test]
fn products_add_rows_in_order() {
    for rows in [1, 2, 4, 7, 8, 9, 11, 16, 21] {
        let xs: Vec<f32> = (0..2 * rows).map(|x| x as f32 / 7.0 - 1.0).collect();
        let matrix: Vec<f32> = (0..rows * WIDTH).map(|x| (x as f32 * 0.7).sin()).collect();
        let mut to = [0.0; 16];
        let mut buffers = [Buffer::Read(&xs), Buffer::Read(&matrix), Buffer::Write(&mut to)];
        let spans = [Span { step: rows as isize, ..at(0, 0) }, at(1, 0), Span { step: 8, ..at(2, 0) }];
        assert_eq!(product(rows).run(&mut buffers, &spans, 2).unwrap(), 2);
        for (index, to) in to.into_iter().enumerate() {
            let (row, column) = (index / 8 * rows, [0, WIDTH - 4][index % 8 / 4] + index % 4);
            let mut sums = [1.0f32; 2];
            for k in 0..rows {
                sums[k % 2] = xs[row + k].mul_add(matrix[k * WIDTH + column], sums[k % 2]);
            }
            assert_eq!(to, sums[0] - sums[1], "{rows} rows, element {index}");
        }
        let (short, mut to) = (&matrix[..matrix.len() - 1], [0.0; 16]);
        let mut buffers = [Buffer::Read(&xs), Buffer::Read(short), Buffer::Write(&mut to)];
        assert!(matches!(product(rows).run(&mut buffers, &spans, 2), Err(Error::Bounds(1))));
    }
}
