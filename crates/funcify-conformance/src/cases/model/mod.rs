//! Category `model`: networks, state space models, filters, decoders, numerical methods.

mod decoders;
mod gradients;
mod layers;
mod numerical;
mod probabilistic;
mod recurrent;
mod state_space;

use super::{Inputs, Outputs, Programs, outputs};
use decoders::*;
use gradients::*;
use layers::*;
use numerical::*;
use probabilistic::*;
use recurrent::*;
use state_space::*;

pub(super) const PROGRAMS: Programs = &[
    (&["rnn", "rnn_f64"], rnn),
    (&["rnn_sigmoid"], rnn_sigmoid),
    (&["lstm"], lstm),
    (&["gru"], gru),
    (&["bidirectional_rnn"], bidirectional_rnn),
    (&["stacked_rnn"], stacked_rnn),
    (&["residual_layers"], residual_layers),
    (&["attention_decoder"], attention_decoder),
    (&["language_model_loss"], language_model_loss),
    (&["kalman_filter", "kalman_filter_f64"], kalman_filter),
    (&["hmm_forward", "hmm_forward_f64"], hmm_forward),
    (&["viterbi"], viterbi),
    (&["rk4_lotka_volterra", "rk4_lotka_volterra_f64"], rk4_lotka_volterra),
    (&["s5_sequential", "s5_sequential_f64"], s5_sequential),
    (&["selective_ssm_sequential", "selective_ssm_sequential_f64"], selective_ssm_sequential),
    (&["s5_associative", "s5_associative_f64"], s5_associative),
    (&["s5_complex"], s5_complex),
    (&["selective_ssm_associative", "selective_ssm_associative_f64"], selective_ssm_associative),
    (&["min_gru"], min_gru),
    (&["gated_linear_attention"], gated_linear_attention),
    (&["delta_rule"], delta_rule),
    (&["stable_weighted_average"], stable_weighted_average),
    (&["chunked_cross_entropy", "chunked_cross_entropy_f64"], chunked_cross_entropy),
    (&["chunked_cross_entropy_gradients"], chunked_cross_entropy_gradients),
    (&["unrolled_gradient_descent", "unrolled_gradient_descent_f64"], unrolled_gradient_descent),
    (&["unrolled_adam"], unrolled_adam),
    (&["leapfrog"], leapfrog),
    (&["garch"], garch),
    (&["sir_epidemic"], sir_epidemic),
    (&["causal_convolution"], causal_convolution),
    (&["sinkhorn"], sinkhorn),
    (&["conjugate_gradient"], conjugate_gradient),
    (&["riccati"], riccati),
    (&["value_iteration"], value_iteration),
    (&["advantage_estimation"], advantage_estimation),
    (&["chunked_attention"], chunked_attention),
    (&["greedy_decode"], greedy_decode),
    (&["batch_greedy_decode"], batch_greedy_decode),
];
