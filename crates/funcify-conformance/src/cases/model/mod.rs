//! Category `model`: networks, state space models, filters, decoders, numerical methods.

mod decoders;
mod gradients;
mod layers;
mod numerical;
mod probabilistic;
mod recurrent;
mod state_space;

use super::Programs;

pub(super) const PROGRAMS: [Programs; 7] = [
    recurrent::PROGRAMS,
    decoders::PROGRAMS,
    layers::PROGRAMS,
    state_space::PROGRAMS,
    probabilistic::PROGRAMS,
    gradients::PROGRAMS,
    numerical::PROGRAMS,
];
