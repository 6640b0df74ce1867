//! `funcify print`: prints a program from a `.fir` file as text, optionally differentiated, batched or rewritten.

use funcify::rewrite::{Rewrite, RewriteOptions};
use funcify::to_dot;

use super::*;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The program file.
    file: PathBuf,
    #[command(flatten)]
    transforms: Transforms,
    /// Rewrite the program after all transforms.
    #[arg(long)]
    rewrite: bool,
    /// Also apply these opt-in rules: `affine_recurrence`.
    #[arg(long, value_name = "RULES", value_delimiter = ',', requires = "rewrite")]
    with: Vec<String>,
    /// Print each patch, with the old op and its replacement, before the program.
    #[arg(long, requires = "rewrite")]
    log: bool,
    /// Print the program in Graphviz's DOT language.
    #[arg(long)]
    dot: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    print!("{}", in_program(&arguments.file, || print_to_string(arguments))?);
    Ok(())
}

fn print_to_string(arguments: &Arguments) -> Result<String> {
    let graph = Graph::read(&arguments.file)?;
    let broken = |errors: Vec<funcify::Error>| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}: {}", arguments.file.display(), errors.join("\n"))
    };
    graph.check().map_err(broken)?;
    let graph = arguments.transforms.apply(graph)?.graph;
    if !arguments.rewrite {
        return Ok(format_graph(arguments, &graph));
    }
    let options = arguments.with.iter().fold(RewriteOptions::from_environment(), |options, rule| options.with(rule));
    let rewritten = graph.rewritten_with(&if arguments.log { options.texts() } else { options })?;
    let log: String = match arguments.log {
        true => rewritten
            .patches
            .iter()
            .map(|patch| format!("// {}\n", patch.to_string().trim_end().replace('\n', "\n// ")))
            .collect(),
        false => String::new(),
    };
    Ok(log + &format_graph(arguments, &rewritten.graph))
}

fn format_graph(arguments: &Arguments, graph: &Graph) -> String {
    if arguments.dot { to_dot(graph) } else { graph.to_string() }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// Writes the program to a temporary file, and returns the output of `print` with these options.
    fn output_of(name: &str, program: &str, options: &[&str]) -> Result<String> {
        let file = std::env::temp_dir().join(format!("funcify-print-{name}-{}.fir", std::process::id()));
        std::fs::write(&file, program)?;
        let words = ["print", file.to_str().unwrap()].into_iter().chain(options.iter().copied());
        let text = print_to_string(&Line::try_parse_from(words)?.arguments);
        std::fs::remove_file(file)?;
        text
    }

    #[test]
    fn rules_on_request_are_named() {
        let program = "fn @f(%a: f64[T], %b: f64[T], %x: f64[]) {
  %y: f64[] = scan @step {steps=T} {
    seq %p: f64[] = %a[t]
    seq %q: f64[] = %b[t]
    carry %c: f64[] = %y from %x
    %0: f64[] = mul %c, %p
    %1: f64[] = add %0, %q
    %y = %1
  }
  return y=%y
}
";
        let output_of = |options: &[&str]| output_of("with", program, options);
        assert!(!output_of(&["--rewrite"]).unwrap().contains("associative_scan"));
        let with = output_of(&["--rewrite", "--with", "affine_recurrence,identity"]).unwrap();
        assert!(with.contains("associative_scan"), "{with}");
        let error = output_of(&["--rewrite", "--with", "affine"]).unwrap_err().to_string();
        assert!(
            error.contains("`affine`") && error.contains("identity, ") && error.contains("affine_recurrence"),
            "{error}"
        );
        assert!(output_of(&["--with", "affine_recurrence"]).unwrap_err().to_string().contains("--rewrite"));
    }

    #[test]
    fn the_text_is_a_program_and_the_drawing_has_its_ops() {
        let program = "fn @f(%x: f64[]) {\n  %0: f64[] = sin %x\n  return y=%0\n}\n";
        let output_of = |options: &[&str]| output_of("text", program, options).unwrap();
        let expected = "fn @f(%x: f64[]) {
  %0: f64[] = constant 1.0
  %1: f64[] = cos %x
  %2: f64[] = mul %0, %1
  return grad_x=%2
}
";
        assert_eq!(output_of(&["--grad"]), expected);
        assert!(output_of(&["--grad", "x", "--grad", "--vmap"]).contains("return grad_x="));
        let rewritten = "fn @f(%x: f64[]) {\n  %0: f64[] = cos %x\n  return grad_x=%0\n}\n";
        assert_eq!(output_of(&["--grad", "--rewrite"]), rewritten);
        let logged = output_of(&["--grad", "--rewrite", "--log"]);
        assert!(logged.starts_with("// identity (") && logged.ends_with(rewritten), "{logged}");
        let drawing = output_of(&["--grad", "--dot"]);
        assert!(drawing.starts_with("digraph \"f\" {") && drawing.contains("label=\"cos\""), "{drawing}");
    }
}
