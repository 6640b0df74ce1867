//! Reads and writes random programs as text, and generates their arguments.

use funcify::{DType, Graph, HostTensor, Scalar, Sizes, Symbol, TensorType};

use super::{Rules, Sample, splitmix64};

/// A program, with the sizes and the seed that determine its arguments. Each `.fir` file in `tests/found` contains one
/// test program.
#[derive(Clone, Debug)]
pub struct TestProgram {
    /// The program.
    pub graph: Graph,
    /// The sizes of the program's symbols.
    pub sizes: Sizes,
    /// The seed of the program's arguments.
    pub seed: u64,
    /// `true` if the program's derivatives must agree with finite differences.
    pub is_exact: bool,
    /// The kind of custom derivative rules in the program.
    pub rules: Rules,
}

impl From<&Sample> for TestProgram {
    fn from(sample: &Sample) -> Self {
        let Sample { graph, sizes, seed, is_exact, rules, .. } = sample.clone();
        TestProgram { graph, sizes, seed, is_exact, rules }
    }
}

impl TestProgram {
    /// Returns the text of a `.fir` file for this program: the header line that [`parse`](TestProgram::parse) reads,
    /// followed by the graph.
    pub fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|(symbol, size)| format!(" {}={size}", symbol.name())).collect();
        let inexact = if self.is_exact { "" } else { " inexact" };
        let rules = match self.rules {
            Rules::Derivatives => "",
            Rules::Linear => " rules=linear",
            Rules::Any => " rules=any",
        };
        format!("// arguments: seed={}{}{inexact}{rules}\n{}", self.seed, sizes.concat(), self.graph)
    }

    /// Parses the text of a `.fir` file. Any lines before the header, which starts with `// arguments:`, are comments.
    pub fn parse(text: &str) -> Result<TestProgram, String> {
        let line = text.lines().find_map(|line| line.strip_prefix("// arguments:"));
        let line = line.ok_or("no line starts with `// arguments:`")?;
        let (mut sizes, mut seed, mut is_exact, mut rules) = (Sizes::new(), None, true, Rules::Derivatives);
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some(("seed", number)) => {
                    seed = Some(number.parse::<u64>().map_err(|error| format!("{word}: {error}"))?)
                }
                Some(("rules", "linear")) => rules = Rules::Linear,
                Some(("rules", "any")) => rules = Rules::Any,
                Some((symbol, size)) => {
                    sizes.set(&Symbol::new(symbol), size.parse().map_err(|error| format!("{word}: {error}"))?);
                }
                None if word == "inexact" => is_exact = false,
                None => return Err(format!("`{word}` is neither a size nor `seed=`, `rules=` nor `inexact`")),
            }
        }
        let graph = Graph::parse(text).map_err(|error| error.to_string())?;
        Ok(TestProgram { graph, sizes, seed: seed.ok_or("no `seed=`")?, is_exact, rules })
    }
}

/// The maximum magnitude of floats in arguments.
pub(super) const MAX_ARGUMENT: f64 = 1.2;

/// Returns arguments of these types: floats between -1.2 and 1.2, integers from 0 to 3, and booleans.
pub fn arguments(types: &[TensorType], sizes: &Sizes, seed: u64) -> Result<Vec<HostTensor>, String> {
    let types = types.iter().enumerate();
    types
        .map(|(index, ty)| tensor(ty, sizes, splitmix64(seed.wrapping_mul(64).wrapping_add(index as u64 + 1))))
        .collect()
}

fn tensor(ty: &TensorType, sizes: &Sizes, seed: u64) -> Result<HostTensor, String> {
    let shape = ty.shape.value(sizes).map_err(|symbol| format!("the size of `{symbol}` is missing"))?;
    let mut state = seed;
    Ok(HostTensor::from_fn(ty.dtype, &shape, |_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = splitmix64(state);
        match ty.dtype {
            DType::Bool => Scalar::Bool(bits & 1 == 1),
            dtype if dtype.is_int() => Scalar::Int((bits % 4) as i64),
            _ => Scalar::Float((bits >> 11) as f64 / (1u64 << 53) as f64 * 2.0 * MAX_ARGUMENT - MAX_ARGUMENT),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_as_it_was_written() {
        let graph = Graph::build("twice", |g| g.input("x", "f64[T]") * 2.0).unwrap();
        let mut sizes = Sizes::new();
        sizes.set(&Symbol::new("T"), 3);
        let text = TestProgram { graph, sizes, seed: 7, is_exact: false, rules: Rules::Any }.text();
        let program = TestProgram::parse(&text).unwrap();
        assert_eq!(program.text(), text);
        assert_eq!((program.seed, program.is_exact, program.rules), (7, false, Rules::Any));
        assert!(TestProgram::parse("// arguments: seed=1 T=x\n").unwrap_err().contains("T=x"));
        assert!(TestProgram::parse("fn @f() {}").is_err());
    }
}
