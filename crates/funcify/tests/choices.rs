//! Tests switches: out-of-range indices, and gradients of batched switches.

use funcify::{GradOptions, Graph, HostTensor, Value, evaluate, switch, vmap};

/// Selects one of three branches, whose derivatives at x = 2 are 4, 3 and 5.
fn switch_of_three(index: Value, x: Value) -> Value {
    switch(index, [&|| x.square(), &|| x * 3.0, &|| x * 5.0])
}

const INDICES: [i64; 6] = [-1, 0, 1, 2, 3, 4];

#[test]
fn an_index_that_is_the_number_of_branches_chooses_the_last() {
    let graph = Graph::build("chosen", |g| switch_of_three(g.input("index", "i64[]"), g.input("x", "f32[]"))).unwrap();
    let of = |index: i64| evaluate(&graph, &[HostTensor::scalar(index), HostTensor::scalar(2f32)]).unwrap().remove(0);
    assert_eq!(INDICES.map(of), [4f32, 4.0, 6.0, 10.0, 10.0, 10.0].map(HostTensor::scalar));
}

/// If the index has lanes, every branch runs for all lanes, and each lane gets the gradient of its own branch.
#[test]
fn each_lane_has_the_gradient_of_its_branch() {
    let lanes = Graph::build("lanes", |g| {
        vmap((g.input("index", "i64[6]"), g.input("x", "f32[6]")), |(i, x)| switch_of_three(i, x)).sum(0)
    });
    let slopes = lanes.unwrap().grad(["x"], GradOptions::new()).unwrap();
    let slopes = evaluate(&slopes, &[HostTensor::from(INDICES), HostTensor::from([2f32; 6])]).unwrap();
    assert_eq!(slopes, [HostTensor::from([4f32, 4.0, 3.0, 5.0, 5.0, 5.0])]);
}
