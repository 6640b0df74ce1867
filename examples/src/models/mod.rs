//! Models of Candle and of Burn, trained with funcify's loop in place of the framework's own.
//!
//! Of each, this is the shared half: the data, what is trained, and how the result is judged. `candle` and `burn` beside it
//! are the model in each framework.

pub(crate) mod adding;
pub(crate) mod burn_model;
pub(crate) mod characters;
pub(crate) mod clamping;
pub(crate) mod large_vocabulary;
pub(crate) mod neural_ode;
pub(crate) mod nile;
