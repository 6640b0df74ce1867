//! Transforms a program for `run` and `print`: applies `--only`, `--grad`, `--jvp`, `--hvp`, `--jacobian`,
//! `--hessian` and `--vmap` in the order of the command line.
//!
//! The additional inputs of a derivative have the same names as in [`Graph::vjp`] and [`Graph::jvp`]: `ct_y` is the
//! cotangent of output `y`, and `tan_x` is the tangent of input `x`. They are read from the same file as the program's
//! own inputs.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use funcify::derivative::Wrt;
use funcify::dispatch::ordered_inputs;
use funcify::error::{Place, Site};
use funcify::{Disconnected, GradOptions, TensorType, VmapOptions};

use super::*;

/// The options, each with its name, the placeholder for its value, and its help text.
const OPTIONS: [(&str, &str, &str); 7] = [
    ("only", "OUTPUTS", "Keep these outputs"),
    (
        "grad",
        "INPUTS",
        "Compute the gradients `grad_x` of these inputs, or of all floats. If the only output is a float scalar, \
      it is differentiated; otherwise the inputs file must have the cotangents `ct_y` of the outputs",
    ),
    (
        "jvp",
        "INPUTS",
        "Compute the outputs `y` and the derivatives `tan_y` along the tangents `tan_x` of these inputs, or of all \
      floats",
    ),
    (
        "hvp",
        "INPUTS",
        "Compute the products `hvp_x` of the Hessian of the only output, a float scalar, and the vector `tan_x`",
    ),
    ("jacobian", "INPUTS", "Compute the Jacobians `jac_y_x` of each float output in these inputs, or in all floats"),
    ("hessian", "INPUTS", "Compute the second derivatives `hess_x_w` of the only output, a float scalar"),
    (
        "vmap",
        "AXES",
        "Run many lanes at once: with `x,y=1`, x has its lanes along axis 0, y along axis 1, and the other inputs \
      have none; without a value, all inputs have lanes along axis 0. Outputs have their lanes along axis 0",
    ),
];

/// A transform of a program, with the names from its command-line option. For derivatives, an empty list means all
/// float inputs; for `Vmap`, it means all inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Transform {
    Only(Vec<String>),
    Grad(Vec<String>),
    Jvp(Vec<String>),
    Hvp(Vec<String>),
    Jacobian(Vec<String>),
    Hessian(Vec<String>),
    Vmap(Vec<(String, i64)>),
}

/// The transforms to apply, in the order of the command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Transforms(Vec<Transform>);

/// A transformed program, with notes that describe the inputs added by the transforms.
pub(crate) struct TransformedProgram {
    pub(crate) graph: Graph,
    notes: BTreeMap<String, String>,
}

impl clap::Args for Transforms {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.map(|(name, value, help)| {
            let arg = Arg::new(name).long(name).value_name(value).help(help).action(ArgAction::Append);
            if name == "only" { arg } else { arg.num_args(0..=1).default_missing_value("") }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Transforms::augment_args(command)
    }
}

impl FromArgMatches for Transforms {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut transforms = Transforms::default();
        transforms.update_from_arg_matches(matches)?;
        Ok(transforms)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let mut placed = Vec::new();
        for (option, ..) in OPTIONS {
            let values = matches.get_many::<String>(option).into_iter().flatten();
            for (place, value) in matches.indices_of(option).into_iter().flatten().zip(values) {
                let transform = Transform::parse(option, value);
                placed
                    .push((place, transform.map_err(|problem| clap::Error::raw(ErrorKind::ValueValidation, problem))?));
            }
        }
        placed.sort_by_key(|(place, _)| *place);
        self.0 = placed.into_iter().map(|(_, transform)| transform).collect();
        Ok(())
    }
}

impl Transform {
    /// Parses an option and its value. An option without a value has an empty `value`.
    fn parse(option: &str, value: &str) -> Result<Self, String> {
        let parts = || value.split(',').map(str::trim).filter(|part| !part.is_empty());
        let names = || parts().map(str::to_string).collect();
        Ok(match option {
            "only" => Transform::Only(names()),
            "grad" => Transform::Grad(names()),
            "jvp" => Transform::Jvp(names()),
            "hvp" => Transform::Hvp(names()),
            "jacobian" => Transform::Jacobian(names()),
            "hessian" => Transform::Hessian(names()),
            _ => Transform::Vmap(parts().map(parse_batch_axis).collect::<Result<_, _>>()?),
        })
    }

    fn apply(&self, program: &TransformedProgram) -> Result<TransformedProgram, Error> {
        let graph = &program.graph;
        let derived = match self {
            Transform::Only(names) => graph.with_only_outputs(&names.iter().map(String::as_str).collect::<Vec<_>>())?,
            Transform::Grad(names) if is_loss(graph) => graph.grad(wrt(names), options(names))?,
            Transform::Grad(names) => gradients(graph, names)?,
            Transform::Jvp(names) => graph.jvp(wrt(names))?,
            Transform::Hvp(names) => graph.hvp(wrt(names), GradOptions::new())?,
            Transform::Jacobian(names) => graph.jacobian(wrt(names))?,
            Transform::Hessian(names) => graph.hessian(wrt(names), GradOptions::new())?,
            Transform::Vmap(axes) => {
                let options =
                    if axes.is_empty() { VmapOptions::new() } else { VmapOptions::new().in_axes(axes.clone()) };
                graph.vmap(free_symbol(graph).as_str(), options)?
            }
        };
        let mut notes = program.notes.clone();
        for index in graph.inputs().len()..derived.inputs().len() {
            let name = derived.input_name(index);
            notes.insert(name.to_string(), self.note(name));
        }
        Ok(TransformedProgram { graph: derived, notes })
    }

    /// Replaces the fix of an [`Error::Disconnected`] with one that applies to the command line. Returns other errors
    /// unchanged.
    fn with_command_line_fix(&self, mut error: Error) -> Error {
        if let Error::Disconnected { fix, .. } = &mut error {
            let advice = match self {
                Transform::Grad(_) => {
                    "`--grad` without names differentiates all float inputs, with zeros for those without a path"
                }
                _ => "name the other inputs in the option",
            };
            *fix = format!("leave it out of `{self}`; {advice}");
        }
        error
    }

    /// Describes the input `name` that this transform added.
    fn note(&self, name: &str) -> String {
        match (self, name.strip_prefix("ct_"), name.strip_prefix("tan_")) {
            (Transform::Grad(_), Some(output), _) => {
                format!("the cotangent of output `{output}`, because the program does not return a single float scalar")
            }
            (Transform::Hvp(_), _, Some(input)) => {
                format!("the vector of input `{input}` that is multiplied by the Hessian")
            }
            (_, _, Some(input)) => format!("the tangent of input `{input}`"),
            _ => String::new(),
        }
    }
}

impl std::fmt::Display for Transform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (option, value) = match self {
            Transform::Only(names) => ("only", names.join(",")),
            Transform::Grad(names) => ("grad", names.join(",")),
            Transform::Jvp(names) => ("jvp", names.join(",")),
            Transform::Hvp(names) => ("hvp", names.join(",")),
            Transform::Jacobian(names) => ("jacobian", names.join(",")),
            Transform::Hessian(names) => ("hessian", names.join(",")),
            Transform::Vmap(axes) => {
                ("vmap", axes.iter().map(|(name, axis)| format!("{name}={axis}")).collect::<Vec<_>>().join(","))
            }
        };
        write!(f, "--{option}{}{value}", if value.is_empty() { "" } else { " " })
    }
}

impl Transforms {
    /// Applies all transforms to the program.
    pub(crate) fn apply(&self, graph: Graph) -> Result<TransformedProgram> {
        let mut program = TransformedProgram { graph, notes: BTreeMap::new() };
        for transform in &self.0 {
            let derived = transform.apply(&program).map_err(|error| transform.with_command_line_fix(error));
            program = derived.with_context(|| transform.to_string())?;
        }
        Ok(program)
    }
}

impl TransformedProgram {
    /// Returns the names of the program's inputs.
    pub(crate) fn input_names(&self) -> Vec<&str> {
        (0..self.graph.inputs().len()).map(|index| self.graph.input_name(index)).collect()
    }

    /// Selects the program's inputs, in order, from named tensors, and ignores all other tensors. If inputs are
    /// missing, the error lists each of them with its type and meaning.
    pub(crate) fn inputs(&self, named: &BTreeMap<String, HostTensor>) -> Result<Vec<HostTensor>, Error> {
        let at = Place::new(self.graph.name(), Site::Unknown);
        let all =
            (0..self.graph.inputs().len()).map(|index| (self.graph.input_name(index), self.graph.input_type(index)));
        let missing: Vec<_> = all.filter(|(name, _)| !named.contains_key(*name)).collect();
        if missing.is_empty() {
            let names = self.input_names();
            let needed = named.iter().filter(|(name, _)| names.contains(&name.as_str()));
            let needed = needed.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
            return ordered_inputs(&at, &self.graph, &needed);
        }
        let described = missing.iter().map(|(name, ty)| match self.notes.get(*name) {
            Some(note) => format!("`{name}` of {ty}, {note}"),
            None => format!("`{name}` of {ty}"),
        });
        let found: Vec<String> = named.iter().map(|(name, tensor)| format!("`{name}` of {}", tensor.ty())).collect();
        let names: Vec<String> = missing.iter().map(|(name, _)| format!("`{name}`")).collect();
        Err(Error::Call {
            at: at.boxed(),
            component: "the inputs file".to_string(),
            expected: described.collect::<Vec<_>>().join("; "),
            found: if found.is_empty() { "no tensors".to_string() } else { found.join(", ") },
            fix: format!("add {} to it", names.join(" and ")),
        })
    }
}

/// Parses `NAME` or `NAME=AXIS`: an input and its batch axis, which is 0 by default.
fn parse_batch_axis(part: &str) -> Result<(String, i64), String> {
    let Some((name, axis)) = part.split_once('=') else { return Ok((part.to_string(), 0)) };
    let axis = axis
        .parse()
        .map_err(|_| format!("--vmap: `{part}` is not an input with the index of an axis, as in `x=1`\n"))?;
    Ok((name.to_string(), axis))
}

fn wrt(names: &[String]) -> Wrt {
    if names.is_empty() { Wrt::Floats } else { Wrt::Names(names.to_vec()) }
}

/// Returns the options for the gradients of these inputs. An empty list means all float inputs; those that do not
/// affect the outputs then have zero gradients.
fn options(names: &[String]) -> GradOptions {
    let options = GradOptions::new();
    if names.is_empty() { options.disconnected(Disconnected::Zeros) } else { options }
}

/// Returns `true` if the graph's only output is a float scalar.
fn is_loss(graph: &Graph) -> bool {
    let is_float_scalar = |ty: &TensorType| ty.dtype.is_float() && ty.rank() == 0;
    graph.outputs().len() == 1 && is_float_scalar(graph.output_type(0))
}

/// Builds a graph that returns only the gradients of these inputs. The graph has an additional input for the cotangent
/// of each float output.
fn gradients(graph: &Graph, names: &[String]) -> Result<Graph, Error> {
    let outputs = || (0..graph.outputs().len()).map(|index| (&graph.outputs()[index].name, graph.output_type(index)));
    if !outputs().any(|(_, ty)| ty.dtype.is_float()) {
        let found: Vec<String> = outputs().map(|(name, ty)| format!("`{name}` of {ty}")).collect();
        let at = Place::new("grad", Site::Unknown);
        let fix = "differentiate a program with a float output";
        return Err(at.mismatch("the list of outputs", "a float output", found.join(", "), fix));
    }
    let pulled = graph.vjp(wrt(names), options(names))?;
    let added: Vec<&str> =
        pulled.outputs()[graph.outputs().len()..].iter().map(|output| output.name.as_str()).collect();
    pulled.with_only_outputs(&added)
}

/// Returns the name of a new symbol for the number of lanes. The graph's inputs do not use this symbol.
fn free_symbol(graph: &Graph) -> String {
    let inputs = (0..graph.inputs().len()).map(|index| graph.input_type(index));
    let symbols = inputs.flat_map(|ty| ty.shape.dims()).flat_map(|dim| dim.symbols());
    let used: Vec<&str> = symbols.map(|symbol| symbol.name()).collect();
    let numbered = (2..).map(|number: usize| format!("B{number}"));
    let mut names = std::iter::once("B".to_string()).chain(numbered);
    names.find(|name| !used.contains(&name.as_str())).expect("the sequence of names is infinite")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        transforms: Transforms,
    }

    fn parse(line: &str) -> Result<Transforms, clap::Error> {
        let words = std::iter::once("run").chain(line.split_whitespace());
        Arguments::try_parse_from(words).map(|arguments| arguments.transforms)
    }

    fn apply(line: &str, program: &str) -> Result<TransformedProgram> {
        parse(line)?.apply(Graph::parse(program)?)
    }

    const LOSS: &str = "fn @loss(%x: f64[T], %w: f64[], %n: i64[]) {
  %0: f64[T] = broadcast %w {shape=[T]}
  %1: f64[T] = mul %x, %0
  %2: f64[T] = square %1
  %3: f64[] = reduce %2 {kind=sum, axes=[0]}
  return loss=%3
}
";
    const ROWS: &str = "fn @rows(%x: f64[B,2], %k: i64[]) {
  %0: f64[B,2] = square %x
  return y=%0, k=%k
}
";

    #[track_caller]
    fn refused(line: &str, program: &str, says: &[&str]) {
        let Err(error) = apply(line, program) else { panic!("`{line}` is not rejected") };
        let text = format!("{error:#}");
        says.iter().for_each(|part| assert!(text.contains(part), "{text}\ndoes not say: {part}"));
    }

    /// Returns the names and types of a program's inputs and outputs.
    fn signature(graph: &Graph) -> (Vec<String>, Vec<String>) {
        let inputs = (0..graph.inputs().len()).map(|i| format!("{}: {}", graph.input_name(i), graph.input_type(i)));
        let outputs =
            (0..graph.outputs().len()).map(|i| format!("{}: {}", graph.outputs()[i].name, graph.output_type(i)));
        (inputs.collect(), outputs.collect())
    }

    #[track_caller]
    fn check(line: &str, program: &str, inputs: &[&str], outputs: &[&str]) {
        let derived = apply(line, program).unwrap_or_else(|error| panic!("{line}: {error:#}"));
        let (found_inputs, found_outputs) = signature(&derived.graph);
        assert_eq!(
            (found_inputs, found_outputs),
            (inputs.iter().map(|s| s.to_string()).collect(), outputs.iter().map(|s| s.to_string()).collect()),
            "{line}"
        );
        let text = derived.graph.to_string();
        assert_eq!(Graph::parse(&text).unwrap().to_string(), text, "{line}");
    }

    #[test]
    fn the_order_is_that_of_the_command_line() {
        let transforms = parse("--vmap x,y=-1 --grad --only loss --jvp x --grad w,x --hvp").unwrap();
        let shown: Vec<String> = transforms.0.iter().map(Transform::to_string).collect();
        assert_eq!(shown, ["--vmap x=0,y=-1", "--grad", "--only loss", "--jvp x", "--grad w,x", "--hvp"]);
        assert_eq!(parse("").unwrap(), Transforms::default());
        let error = parse("--vmap x=first").unwrap_err().to_string();
        assert!(error.contains("`x=first`"), "{error}");
        assert!(parse("--only").is_err());
    }

    #[test]
    fn each_step_has_the_inputs_and_outputs_that_its_help_says() {
        let own = ["x: f64[T]", "w: f64[]", "n: i64[]"];
        check("--grad w", LOSS, &own, &["grad_w: f64[]"]);
        check("--grad", LOSS, &own, &["grad_x: f64[T]", "grad_w: f64[]"]);
        let pushed = [own.as_slice(), &["tan_w: f64[]"]].concat();
        check("--jvp w", LOSS, &pushed, &["loss: f64[]", "tan_loss: f64[]"]);
        check("--hvp w", LOSS, &pushed, &["hvp_w: f64[]"]);
        check("--jacobian w", LOSS, &own, &["jac_loss_w: f64[]"]);
        check(
            "--hessian",
            LOSS,
            &own,
            &["hess_x_x: f64[T,T]", "hess_x_w: f64[T]", "hess_w_x: f64[T]", "hess_w_w: f64[]"],
        );
        check("--vmap x=1", LOSS, &["x: f64[T,B]", "w: f64[]", "n: i64[]"], &["loss: f64[B]"]);
        check("--vmap", LOSS, &["x: f64[B,T]", "w: f64[B]", "n: i64[B]"], &["loss: f64[B]"]);
        check("--grad w --vmap x", LOSS, &["x: f64[B,T]", "w: f64[]", "n: i64[]"], &["grad_w: f64[B]"]);
        check("--grad w --grad w", LOSS, &own, &["grad_w: f64[]"]);
        let along = ["x: f64[B,2]", "k: i64[]", "ct_y: f64[B,2]"];
        check("--grad", ROWS, &along, &["grad_x: f64[B,2]"]);
        check("--jacobian", ROWS, &along[..2], &["jac_y_x: f64[B,2,B,2]"]);
        check("--only k", ROWS, &along[..2], &["k: i64[]"]);
        check("--vmap x --only y", ROWS, &["x: f64[B2,B,2]", "k: i64[]"], &["y: f64[B2,B,2]"]);
    }

    #[test]
    fn what_cannot_be_derived_is_refused_with_the_option() {
        refused("--grad y", LOSS, &["--grad y: grad: `wrt`", "one of the inputs x, w, n"]);
        refused("--grad n", LOSS, &["input `n` in `wrt`", "i64[]"]);
        refused("--hvp", ROWS, &["--hvp: hvp: the loss", "y, k"]);
        refused("--hessian", ROWS, &["--hessian: hessian: the loss"]);
        refused("--only k --grad", ROWS, &["--grad: grad: the list of outputs", "a float output", "`k` of i64[]"]);
        refused("--only loss", ROWS, &["outputs among y, k"]);
        refused("--vmap z", LOSS, &["--vmap z=0: vmap: `in_axes`", "names among x, w, n"]);
        refused("--vmap x=2", LOSS, &["batch axis of leaf `x`", "an axis below 2"]);
    }

    #[test]
    fn all_missing_tensors_are_named_with_their_types() {
        let derived = apply("--grad x --jvp x", ROWS).unwrap();
        let given = [("x".to_string(), HostTensor::from([[1f64, 2.]]))].into();
        let error = derived.inputs(&given).unwrap_err();
        assert_eq!(error.kind(), "Call");
        let text = error.to_string();
        for part in [
            "`k` of i64[];",
            "`ct_y` of f64[B,2], the cotangent of output `y`",
            "`tan_x` of f64[B,2], the tangent of input `x`",
            "`x` of f64[1,2]",
            "add `k` and `ct_y` and `tan_x` to it",
        ] {
            assert!(text.contains(part), "{text}\ndoes not say: {part}");
        }
    }

    #[test]
    fn tensors_that_a_command_does_not_need_are_left_alone() {
        let surplus = [("x", HostTensor::from([[1f64, 2.]])), ("k", 1i64.into()), ("z", 1i64.into())];
        let named = surplus.map(|(name, tensor)| (name.to_string(), tensor)).into();
        let inputs = apply("", ROWS).unwrap().inputs(&named).unwrap();
        assert_eq!(inputs, [HostTensor::from([[1f64, 2.]]), HostTensor::scalar(1i64)]);
    }

    #[test]
    fn the_fix_for_an_input_that_nothing_leads_to_is_one_of_the_command_line() {
        let program = "fn @f(%x: f64[], %w: f64[]) {\n  %0: f64[] = sin %x\n  return y=%0\n}\n";
        refused("--grad w", program, &["input `w`", "leave it out of `--grad w`; `--grad` without names", "zeros"]);
        refused("--grad x,w", program, &["leave it out of `--grad x,w`"]);
        let Err(error) = apply("--grad w", program) else { panic!("the command is not rejected") };
        assert!(!format!("{error:#}").contains("GradOptions"));
        check("--grad", program, &["x: f64[]", "w: f64[]"], &["grad_x: f64[]", "grad_w: f64[]"]);
    }
}
