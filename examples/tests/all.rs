//! Every example on every backend that is there.

#![allow(dead_code, reason = "an example's `main` is not called here")]

#[path = "../chunked_loss.rs"]
mod chunked_loss;
#[path = "../clamp_invalid.rs"]
mod clamp_invalid;
#[path = "../derivatives.rs"]
mod derivatives;
#[path = "../early_stopping.rs"]
mod early_stopping;
#[path = "../rnn.rs"]
mod rnn;
#[path = "../s5.rs"]
mod s5;
#[path = "../shape_dependent.rs"]
mod shape_dependent;

use anyhow::Result;
use funcify::Error;
use funcify::dispatch::{Executor, backend_names, open_backend};

fn on_every_backend(show: fn(&dyn Executor) -> Result<()>) {
    for name in backend_names() {
        match open_backend(name) {
            Ok(backend) => show(&*backend).unwrap_or_else(|error| panic!("{name}: {error:#}")),
            Err(absent @ Error::Absent { .. }) => println!("{absent}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn recurrent_network() {
    on_every_backend(rnn::show);
}

#[test]
fn derivatives_of_loops() {
    on_every_backend(derivatives::show);
}

#[test]
fn early_stopping_decode() {
    on_every_backend(early_stopping::show);
}

#[test]
fn shape_dependent_branching() {
    on_every_backend(shape_dependent::show);
}

#[test]
fn invalid_value_clamping() {
    on_every_backend(clamp_invalid::show);
}

#[test]
fn chunked_loss_forward() {
    on_every_backend(chunked_loss::show);
}

#[test]
fn s5_by_associative_scan() {
    on_every_backend(s5::show);
}
