//! Models in Candle and in Burn, trained with funcify's loop in place of the framework's own.
//!
//! Each module contains a model's data, training and evaluation. Its submodules `candle` and `burn` contain the model
//! in each framework.

pub(crate) mod adding;
pub(crate) mod burn_model;
pub(crate) mod characters;
pub(crate) mod clamping;
pub(crate) mod large_vocabulary;
pub(crate) mod neural_ode;
pub(crate) mod nile;
