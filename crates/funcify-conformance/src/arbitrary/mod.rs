//! Generates random programs: well-typed graphs with nested loops, derivatives and `vmap`.
//!
//! A [`Sample`] is fully determined by its choices, so it can be reproduced and shrunk. Its floats are f64. Ops are
//! composed so that magnitudes stay moderate and functions stay smooth, except for intended kinks.
//! [`properties`](crate::properties) checks properties that every program must have.

mod choices;
mod control;
mod elementwise;
pub mod features;
mod integers;
mod loops;
mod program_builder;
mod recurrences;
mod rules;
mod structure;
mod test_program;
mod transforms;

use std::collections::BTreeMap;

use funcify::{Error, Graph, Sizes, Symbol};

pub use choices::{Choices, shrink_tape, splitmix64};
use program_builder::ProgramBuilder;
pub use rules::Rules;
pub use test_program::{TestProgram, arguments};

/// A random program, and the sizes to run it with.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The program.
    pub graph: Graph,
    /// The sizes of the program's symbols.
    pub sizes: Sizes,
    /// The seed for the program's arguments and for all other random choices in the checks of the program.
    pub seed: u64,
    /// `true` if the derivatives must agree with finite differences: the program has no `stop_gradient` and no floats
    /// narrower than f64.
    pub is_exact: bool,
    /// The kind of custom derivative rules in the program.
    pub rules: Rules,
    /// The number of times that each kind of part, such as a loop, was added.
    pub parts: BTreeMap<&'static str, usize>,
}

impl Sample {
    /// Builds the program that these choices determine.
    ///
    /// # Errors
    /// Returns the error of [`Graph::build`], which rejects a few programs because the lanes of a loop run different
    /// numbers of steps.
    pub fn new(choices: &mut Choices) -> Result<Sample, Error> {
        let mut sizes = Sizes::new();
        let rows = choices.pick(&[3, 2, 4, 1, 3, 2, 4, 3, 3, 2, 4, 0]);
        sizes.set(&Symbol::new("T"), rows);
        sizes.set(&Symbol::new("N"), choices.pick(&[2, 3, 1, 2]));
        let is_inexact = choices.one_in(10);
        let rules = Rules::from_choice(choices.below(8));
        let fuel = [14, 8, 20][choices.below(3)];
        let seed = choices.below(1 << 30) as u64;
        let blocks = 2 + choices.below(8);
        let mut builder = ProgramBuilder { is_inexact, fuel, ..ProgramBuilder::new(choices, &sizes, rules) };
        let graph = Graph::build("random", |g| {
            builder.declare(g);
            builder.count(["axis of no rows", "axis of one row", "axis of several rows"][rows.min(2)]);
            builder.block(blocks);
            builder.outputs()
        });
        let (parts, error) = (builder.parts, builder.error);
        // If the program itself is rejected, the separate graphs of its functions and loop bodies fail too, so the
        // program's own error takes precedence.
        let graph = graph?;
        match error {
            Some(error) => Err(error),
            None => Ok(Sample { graph, sizes, seed, is_exact: !is_inexact, rules, parts }),
        }
    }
}

/// Returns `true` if a program was rejected because the lanes of a loop run different numbers of steps. Traces of
/// different lengths cannot be stacked.
pub fn is_ragged(error: &Error) -> bool {
    matches!(error, Error::StepCount { reason, .. } if reason.contains("ragged"))
}
