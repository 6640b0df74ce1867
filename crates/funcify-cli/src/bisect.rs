//! `funcify bisect`: finds the rewrite patch that changes a program's results on the reference evaluator.

use funcify::evaluate;
use funcify::files::read_safetensors_needed;
use funcify::rewrite::{Patched, Rewrite, RewriteOptions, first_wrong};
use funcify_conformance::{ExpectedOutput, compare};

use super::*;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The program file.
    file: PathBuf,
    #[command(flatten)]
    transforms: Transforms,
    /// The safetensors file with the inputs, keyed by name; their shapes determine the sizes of the program's symbols.
    #[arg(long)]
    inputs: PathBuf,
    /// The largest amount by which rewriting may change a float in an output, relative to the largest magnitude in that
    /// output.
    #[arg(long, default_value_t = 1e-4)]
    tolerance: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    in_program(&arguments.file, || search(arguments))
}

fn search(arguments: &Arguments) -> Result<()> {
    let program = arguments.transforms.apply(Graph::read(&arguments.file)?)?;
    let inputs = program.inputs(&read_safetensors_needed(&arguments.inputs, &program.input_names())?)?;
    let all = program.graph.rewritten_with(&RewriteOptions::new())?.patches.len();
    match find_wrong_patch(&program.graph, &inputs, all, arguments.tolerance)? {
        Some((number, patch)) => print!("patch {number} of {all} changes the results: {patch}"),
        None => println!("none of the {all} patches changes the results"),
    }
    Ok(())
}

/// Finds the first patch that changes the program's results. Returns the patch and its number, counted from 1, or
/// `None` if no patch changes them.
fn find_wrong_patch(
    graph: &Graph,
    inputs: &[HostTensor],
    patches: usize,
    tolerance: f64,
) -> Result<Option<(usize, Patched)>> {
    let expected = evaluate(graph, inputs);
    let rewritten = |count: usize| graph.rewritten_with(&RewriteOptions::new().stop_after(count).texts());
    let number = first_wrong(patches, |count| -> Result<bool> {
        Ok(agrees(graph, &expected, &evaluate(&rewritten(count)?.graph, inputs), tolerance))
    })?;
    let Some(number) = number else { return Ok(None) };
    let patch = rewritten(number)?.patches.pop().context("rewriting up to the wrong patch applies it")?;
    Ok(Some((number, patch)))
}

type Outcome = Result<Vec<HostTensor>, Error>;

/// Returns `true` if both runs returned the same results (up to `tolerance`) or failed with the same kind of error.
fn agrees(graph: &Graph, expected: &Outcome, found: &Outcome, tolerance: f64) -> bool {
    match (expected, found) {
        (Ok(expected), Ok(found)) => {
            let outputs = graph.outputs().iter().zip(expected);
            let expected = outputs.map(|(output, values)| ExpectedOutput {
                name: output.name.clone(),
                ty: values.ty(),
                rtol: 0.0,
                atol: tolerance * max_finite_magnitude(values),
                values: values.clone(),
            });
            compare(graph, found, &expected.collect::<Vec<_>>()).is_ok()
        }
        (Err(expected), Err(found)) => expected.kind() == found.kind(),
        _ => false,
    }
}

/// Returns the largest finite magnitude in a tensor, but at least 1.
fn max_finite_magnitude(values: &HostTensor) -> f64 {
    values.to_f64_vec().into_iter().filter(|x| x.is_finite()).fold(1f64, |largest, x| largest.max(x.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that squares the sum of `xs`. The test runs it on 1, 1/2, 1/3, ..., 1/1000.
    const SUM: &str = "fn @sum(%xs: f32[T]) {
  %0: f32[] = constant 0.0
  %s: f32[] = scan @step {steps=T} {
    seq %x: f32[] = %xs[t]
    carry %c: f32[] = %s from %0
    %1: f32[] = add %c, %x
    %s = %1
  }
  %2: f32[] = mul %s, %s
  return y=%2
}
";

    /// Checks that bisecting with a tolerance of zero finds the patch that reassociates the sum. This patch changes the
    /// rounding.
    #[test]
    fn the_patch_that_adds_in_another_order_is_named() {
        let graph = Graph::parse(SUM).unwrap();
        let terms = (1..=1000).map(|number| 1.0 / number as f32).collect();
        let inputs = [HostTensor::from_vec(terms, [1000]).unwrap()];
        let all = graph.rewritten_with(&RewriteOptions::new()).unwrap().patches.len();
        let (number, patch) = find_wrong_patch(&graph, &inputs, all, 0.0).unwrap().expect("a patch reorders the sum");
        assert_eq!((patch.rule, number <= all), ("sums_over_steps", true));
        assert!(patch.before.contains("scan") && patch.after.contains("reduce"), "{patch}");
        assert_eq!(find_wrong_patch(&graph, &inputs, all, 1e-4).unwrap(), None);
    }
}
