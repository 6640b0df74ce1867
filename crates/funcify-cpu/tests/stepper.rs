//! Tests that a stepper on slices allocates memory only in its first step. Tests that apply to the steppers of every
//! backend are in the `tests` folder at the root of the workspace.

use allocation_counter::measure;
use funcify::stepped::Steppable;
use funcify::{Graph, scan};
use funcify_cpu::OnSlices;

mod numbers;
use numbers::{built, numbers, sizes, traced};

/// Builds a recurrent network with a matrix product before the loop and another one after it.
fn network() -> Graph {
    built("network", |g| {
        let [xs, h] = [g.input("xs", "f32[T,B,24]"), g.input("h", "f32[B,32]")];
        let [w, u, v] = [g.input("w", "f32[24,32]"), g.input("u", "f32[32,32]"), g.input("v", "f32[32,5]")];
        let hs = scan(h, xs.dot_general(w, &[(2, 0)], &[]), |h, x| traced((x + h.matmul(u)).tanh()));
        hs.1.dot_general(v, &[(2, 0)], &[])
    })
}

/// Returns the shape of an input of the stepper's graph, for a batch of 3 sequences.
fn shape(graph: &Graph, input: usize) -> Vec<usize> {
    graph.input_type(input).shape.value(&sizes(&[("B", 3)])).unwrap()
}

#[test]
fn a_step_on_slices_allocates_nothing_after_the_first() {
    let stepped = network().stepped().unwrap();
    let names: Vec<&str> = (0..5).map(|input| stepped.step.input_name(input)).collect();
    assert_eq!(names, ["h", "xs", "w", "u", "v"]);
    let shapes: Vec<Vec<usize>> = (0..5).map(|input| shape(&stepped.step, input)).collect();
    let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let step = OnSlices::compile(&stepped.step, &shapes).unwrap();
    let slice = |shape: &[usize], seed| numbers(shape, seed).as_slice::<f32>().unwrap().to_vec();
    let [x, w, u, v] =
        [(&shapes[1], 1), (&shapes[2], 2), (&shapes[3], 3), (&shapes[4], 4)].map(|(shape, seed)| slice(shape, seed));
    let (mut now, mut next, mut y) = (slice(shapes[0], 0), vec![0f32; 96], vec![0f32; 15]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let counts = pool.install(|| {
        [(); 8].map(|()| {
            let counted = measure(|| step.call(&[&now, &x, &w, &u, &v], &mut [&mut next, &mut y]).unwrap());
            std::mem::swap(&mut now, &mut next);
            counted.count_total
        })
    });
    assert_eq!(counts[1..], [0; 7]);
    assert!(y.iter().all(|y| *y != 0.0));
}
