//! Programs that nobody has thought of: random graphs, well-typed, with loops in loops, and derivatives and lanes inside.
//!
//! A [`Sample`] follows from its choices, so it can be made again and made smaller. Its floats are f64, and so composed that
//! numbers stay moderate and functions smooth but for intended kinks. [`properties`](crate::properties) says
//! what must hold of every program.

mod choices;
mod control;
mod elementwise;
pub mod features;
mod integers;
mod loops;
mod maker;
mod recurrences;
mod rules;
mod structure;
mod test_program;
mod transforms;

use std::collections::BTreeMap;

use funcify::{Error, Graph, Sizes, Symbol};

pub use choices::{Choices, mixed, smallest};
use maker::Maker;
pub use rules::Rules;
pub use test_program::{TestProgram, arguments};

/// A random program, and the sizes that it runs with.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The program.
    pub graph: Graph,
    /// The sizes of its symbols.
    pub sizes: Sizes,
    /// The seed of its arguments, and of what else is chosen for it.
    pub seed: u64,
    /// Whether its derivatives are those of its values: it has no `stop_gradient` and no narrow floats that differences
    /// would show.
    pub is_exact: bool,
    /// What the derivative rules of its functions are.
    pub rules: Rules,
    /// How often each part was made.
    pub parts: BTreeMap<&'static str, usize>,
}

impl Sample {
    /// The program that follows from these choices. The error is that of [`Graph::build`], which refuses few of them:
    /// loops whose numbers of steps differ between lanes.
    pub fn new(choices: &mut Choices) -> Result<Sample, Error> {
        let mut sizes = Sizes::new();
        let rows = choices.of(&[3, 2, 4, 1, 3, 2, 4, 3, 3, 2, 4, 0]);
        sizes.set(&Symbol::new("T"), rows);
        sizes.set(&Symbol::new("N"), choices.of(&[2, 3, 1, 2]));
        let is_inexact = choices.one_in(10);
        let rules = Rules::of(choices.below(8));
        let fuel = [14, 8, 20][choices.below(3)];
        let seed = choices.below(1 << 30) as u64;
        let blocks = 2 + choices.below(8);
        let mut maker = Maker { is_inexact, fuel, ..Maker::new(choices, &sizes, rules) };
        let graph = Graph::build("random", |g| {
            maker.declare(g);
            maker.count(["axis of no rows", "axis of one row", "axis of several rows"][rows.min(2)]);
            maker.block(blocks);
            maker.outputs()
        });
        let (parts, error) = (maker.parts, maker.error);
        // After a failure in the program, its bodies fail too.
        let graph = graph?;
        match error {
            Some(error) => Err(error),
            None => Ok(Sample { graph, sizes, seed, is_exact: !is_inexact, rules, parts }),
        }
    }
}

/// Whether a program was refused because its lanes run different numbers of steps and a trace would be ragged: which no
/// rule could batch.
pub fn is_ragged(error: &Error) -> bool {
    matches!(error, Error::StepCount { reason, .. } if reason.contains("ragged"))
}
