//! Compares the number of allocations in a step of a native loop with that in a step of the same loop written by hand.

use allocation_counter::measure;
use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Shape, Slice};
use candle_core::Tensor;
use funcify::dispatch::{Backend, CompileOptions, Function, LoopStrategy};
use funcify::recurrence::Recurrence;
use funcify::{DType, Graph, HostTensor, Scalar, Value, scan, select};
use funcify_burn::Burn;
use funcify_candle::Candle;

const WIDTH: usize = 8;

/// The library functions that the handwritten loops call.
trait Library: Backend {
    fn read_row(&self, xs: &Self::Tensor, row: usize) -> Self::Tensor;

    fn add(&self, x: Self::Tensor, y: Self::Tensor) -> Self::Tensor;

    fn mul(&self, x: Self::Tensor, y: Self::Tensor) -> Self::Tensor;

    fn tanh(&self, x: Self::Tensor) -> Self::Tensor;

    /// Selects `x` where `mask` is true, and `y` elsewhere.
    fn choose(&self, mask: Self::Tensor, x: Self::Tensor, y: Self::Tensor) -> Self::Tensor;

    fn set_row(&self, trace: Self::Tensor, row: usize, x: Self::Tensor) -> Self::Tensor;
}

impl Library for Candle {
    fn read_row(&self, xs: &Tensor, row: usize) -> Tensor {
        xs.narrow(0, row, 1).unwrap().squeeze(0).unwrap()
    }

    fn add(&self, x: Tensor, y: Tensor) -> Tensor {
        (x + y).unwrap()
    }

    fn mul(&self, x: Tensor, y: Tensor) -> Tensor {
        (x * y).unwrap()
    }

    fn tanh(&self, x: Tensor) -> Tensor {
        x.tanh().unwrap()
    }

    fn choose(&self, mask: Tensor, x: Tensor, y: Tensor) -> Tensor {
        mask.where_cond(&x, &y).unwrap()
    }

    fn set_row(&self, trace: Tensor, row: usize, x: Tensor) -> Tensor {
        trace.slice_set(&x.unsqueeze(0).unwrap(), 0, row).unwrap();
        trace
    }
}

/// Returns slices that select one row of a matrix with `WIDTH` columns.
fn one_row(row: usize) -> [Slice; 2] {
    [Slice::new(row as isize, Some(row as isize + 1), 1), Slice::new(0, Some(WIDTH as isize), 1)]
}

impl Library for Burn {
    fn read_row(&self, xs: &Self::Tensor, row: usize) -> Self::Tensor {
        Dispatch::float_reshape(Dispatch::float_slice(xs.clone(), &one_row(row)), Shape::new([WIDTH]))
    }

    fn add(&self, x: Self::Tensor, y: Self::Tensor) -> Self::Tensor {
        Dispatch::float_add(x, y)
    }

    fn mul(&self, x: Self::Tensor, y: Self::Tensor) -> Self::Tensor {
        Dispatch::float_mul(x, y)
    }

    fn tanh(&self, x: Self::Tensor) -> Self::Tensor {
        Dispatch::float_tanh(x)
    }

    fn choose(&self, mask: Self::Tensor, x: Self::Tensor, y: Self::Tensor) -> Self::Tensor {
        Dispatch::float_mask_where(y, mask, x)
    }

    fn set_row(&self, trace: Self::Tensor, row: usize, x: Self::Tensor) -> Self::Tensor {
        let x = Dispatch::float_reshape(x, Shape::new([1, WIDTH]));
        Dispatch::float_slice_assign(trace, &one_row(row), x)
    }
}

fn numbers(dtype: DType, shape: &[usize]) -> HostTensor {
    HostTensor::from_fn(dtype, shape, |index| {
        let number = (index.iter().sum::<usize>() as f64 * 0.7).sin();
        if dtype == DType::Bool { Scalar::Bool(number > 0.0) } else { Scalar::Float(number) }
    })
}

/// Returns the arguments of a loop with `steps` steps: `h`, `xs`, `a` and a mask.
fn arguments<B: Backend>(backend: &B, steps: usize) -> [B::Tensor; 4] {
    let floats = |shape: &[usize]| backend.upload(&numbers(DType::F32, shape)).unwrap();
    let mask = backend.upload(&numbers(DType::Bool, &[WIDTH])).unwrap();
    [floats(&[WIDTH]), floats(&[steps, WIDTH]), floats(&[WIDTH]), mask]
}

/// Counts the allocations of 100 steps, as the difference between runs of 200 and of 100 steps. This excludes the
/// allocations of the call itself.
fn allocations_of_100_steps<T>(arguments: impl Fn(usize) -> T, run: impl Fn(&T)) -> u64 {
    let [short, long] = [100, 200].map(|steps| {
        let arguments = arguments(steps);
        run(&arguments);
        measure(|| run(&arguments)).count_total
    });
    long - short
}

fn native_allocations<B: Backend>(backend: &B, build: impl FnOnce([Value; 4]) -> Value) -> u64 {
    let graph = Graph::build("loop", |g| {
        let [h, xs, a] = [g.input("h", "f32[8]"), g.input("xs", "f32[T,8]"), g.input("a", "f32[8]")];
        build([h, xs, a, g.input("mask", "bool[8]")])
    });
    let options = CompileOptions { strategy: LoopStrategy::Native, rewrites: None, ..CompileOptions::default() };
    let function = Function::compile_with(&graph.unwrap(), backend, options).unwrap();
    let run = |arguments: &[B::Tensor; 4]| _ = function.call(arguments).unwrap();
    allocations_of_100_steps(|steps| arguments(backend, steps), run)
}

/// Counts the allocations of 100 steps of a handwritten loop. `step` receives the state, the row, `a` and the mask.
fn handwritten_allocations<L: Library>(
    library: &L,
    is_traced: bool,
    step: impl Fn(L::Tensor, L::Tensor, &L::Tensor, &L::Tensor) -> L::Tensor,
) -> u64 {
    let run = |[h, xs, a, mask]: &[L::Tensor; 4]| {
        let steps = library.shape(xs)[0];
        let mut trace = library.upload(&numbers(DType::F32, &[steps, WIDTH])).unwrap();
        let mut h = h.clone();
        for t in 0..steps {
            h = step(h, library.read_row(xs, t), a, mask);
            if is_traced {
                trace = library.set_row(trace, t, h.clone());
            }
        }
    };
    allocations_of_100_steps(|steps| arguments(library, steps), run)
}

/// Checks that a native loop makes as many allocations as the handwritten loop, plus `row` for each row that it reads
/// and `write` for each row that it writes. `row` and `write` are nonzero if the library allocates memory to return a
/// tensor's sizes.
fn check<L: Library>(library: &L, row: u64, write: u64) {
    let by_hand = |h, x, a: &L::Tensor, _: &L::Tensor| library.tanh(library.add(x, library.mul(h, a.clone())));
    let (plain, traced) =
        (handwritten_allocations(library, false, by_hand), handwritten_allocations(library, true, by_hand));

    // A step owns its carry, so the library may reuse the carry's memory.
    let carry = native_allocations(library, |[h, xs, a, _]| scan(h, xs, |h, x| ((x + h * a).tanh(), ())).0);
    assert_eq!(carry, plain + 100 * row, "{}", library.name());

    let trace = native_allocations(library, |[h, xs, a, _]| {
        let step = |h: Value, x: Value| {
            let next = (x + h * a).tanh();
            (next, next)
        };
        scan(h, xs, step).1
    });
    assert_eq!(trace, traced + 100 * (row + write), "{}", library.name());

    // A step also owns a row that no later step reads.
    let state = native_allocations(library, |[h, xs, a, _]| {
        let mut recurrence = Recurrence::new();
        let (xs, hs) = (recurrence.sequence(xs, [0]), recurrence.sit_sot(h));
        let done = recurrence.run(|step| {
            let ([x], [h]) = (step.read(&xs), step.read(&hs));
            step.write(&hs, (x + h * a).tanh());
        });
        done.trace(&hs)
    });
    assert_eq!(state, traced + 100 * (row + write), "{}", library.name());

    // A kernel with three operands receives them in a list, which costs one allocation per step.
    let by_hand = |h, x, a: &L::Tensor, mask: &L::Tensor| library.choose(mask.clone(), x, library.mul(h, a.clone()));
    let choice = native_allocations(library, |[h, xs, a, mask]| scan(h, xs, |h, x| (select(mask, x, h * a), ())).0);
    assert_eq!(choice, handwritten_allocations(library, false, by_hand) + 100 * (row + 1), "{}", library.name());
}

#[test]
fn a_step_on_candle() {
    check(&Candle::cpu(), 0, 0);
}

#[test]
fn a_step_on_burn() {
    check(&Burn::flex(), 0, 0);
    check(&Burn::ndarray(), 2, 3);
}
