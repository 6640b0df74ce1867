//! `funcify run`: runs a program from a `.fir` file, optionally differentiated or batched, on a backend. Reads the
//! program's inputs from a safetensors file, and can write the program's outputs to another file.

use std::time::Duration;

use funcify::Cancellation;
use funcify::dispatch::CompileOptions;
use funcify::files::{read_safetensors_needed, write_safetensors};
use signal_hook::consts::SIGINT;

use super::*;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The program file.
    file: PathBuf,
    #[command(flatten)]
    transforms: Transforms,
    /// The name of the backend.
    #[arg(long, default_value = "reference")]
    backend: String,
    /// The safetensors file with the inputs, keyed by name; their shapes determine the sizes of the program's symbols.
    #[arg(long)]
    inputs: PathBuf,
    /// Write the outputs to this safetensors file, keyed by name, instead of printing them.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Run every loop natively.
    #[arg(long, conflicts_with = "unroll")]
    native: bool,
    /// Unroll every loop.
    #[arg(long)]
    unroll: bool,
    /// Print a report on the compiled program: instructions, loops, memory.
    #[arg(long)]
    report: bool,
    /// Profile a second call: print its time by op, by source line and by step, and write a trace to this file, which a
    /// browser's trace viewer can open.
    #[arg(long)]
    profile: Option<PathBuf>,
    /// Stop after this many seconds. Ctrl-C also stops the run; a second Ctrl-C ends the process.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Returns a handle that the first Ctrl-C cancels. A second Ctrl-C ends the process.
fn cancel_on_interrupt() -> Result<Cancellation> {
    let flag = Arc::default();
    // Register the shutdown handler first: handlers run in the order of registration, and on the first Ctrl-C, the
    // shutdown handler must run before the other handler sets the flag.
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&flag))?;
    signal_hook::flag::register(SIGINT, Arc::clone(&flag))?;
    Ok(Cancellation::from_flag(flag))
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    in_program(&arguments.file, || run_program(arguments))
}

fn run_program(arguments: &Arguments) -> Result<()> {
    let program = arguments.transforms.apply(Graph::read(&arguments.file)?)?;
    let inputs = program.inputs(&read_safetensors_needed(&arguments.inputs, &program.input_names())?)?;
    let strategy = match (arguments.native, arguments.unroll) {
        (true, _) => LoopStrategy::Native,
        (_, true) => LoopStrategy::Unroll,
        _ => LoopStrategy::Auto,
    };
    let options = CompileOptions { strategy, ..CompileOptions::default() };
    let function = open_backend(&arguments.backend)?.compile(&program.graph, options)?;
    let deadline = arguments.timeout.map_or_else(Cancellation::new, Cancellation::after);
    let results = cancel_on_interrupt()?.scope(|| deadline.scope(|| function.call(&inputs)))?;
    let names = program.graph.outputs().iter().map(|output| output.name.clone());
    let outputs: BTreeMap<String, HostTensor> = names.zip(results).collect();
    match &arguments.out {
        Some(path) => {
            write_safetensors(path, &outputs)?;
            for (name, tensor) in &outputs {
                println!("{name}: {}", tensor.ty());
            }
        }
        None => outputs.iter().for_each(|(name, tensor)| println!("{name}: {tensor:?}")),
    }
    if arguments.report {
        print!("\n{}", function.report());
    }
    if let Some(path) = &arguments.profile {
        let (_, profile) = function.profile(&inputs)?;
        print!("\n{profile}");
        std::fs::write(path, profile.trace_json()).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use clap::Parser;
    use funcify::dispatch::backend_names;
    use funcify::files::read_safetensors;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    const SUMS: &str = "fn @sums(%xs: f32[T], %start: f32[]) {
  %ys: f32[T], %last: f32[] = scan @body {steps=T} {
    seq %x: f32[] = %xs[t]
    nit-sot %ys
    carry %sum: f32[] = %last from %start
    %0: f32[] = add %sum, %x
    %ys[t] = %0
    %last = %0
  }
  return ys=%ys, last=%last
}
";

    /// A program that computes c = c * w + x in each step, and returns the final value of c, and the value of c after
    /// each step.
    const DECAY: &str = "fn @decay(%xs: f32[T], %w: f32[]) {
  %start: f32[] = constant 0.0
  %ys: f32[T], %last: f32[] = scan @body {steps=T} with %w {
    seq %x: f32[] = %xs[t]
    nit-sot %ys
    carry %c: f32[] = %last from %start
    %0: f32[] = mul %c, %w
    %1: f32[] = add %0, %x
    %ys[t] = %1
    %last = %1
  }
  return last=%last, ys=%ys
}
";

    type Tensors = BTreeMap<String, HostTensor>;

    fn tensors<const N: usize>(named: [(&str, HostTensor); N]) -> Tensors {
        named.map(|(name, tensor)| (name.to_string(), tensor)).into()
    }

    /// Writes a program and its inputs to temporary files, runs the command on these files with the given options, and
    /// returns the program's outputs.
    fn run_file(name: &str, program: &str, inputs: &Tensors, options: &str) -> Result<Tensors> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("funcify-run-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [file, given, out] = ["f.fir", "in.safetensors", "out.safetensors"].map(|name| folder.join(name));
        std::fs::write(&file, program).unwrap();
        write_safetensors(&given, inputs).unwrap();
        let paths = [("", &file), ("--inputs", &given), ("--out", &out)];
        let words = paths.iter().flat_map(|(option, path)| [*option, path.to_str().unwrap()]);
        let words =
            std::iter::once("run").chain(words).filter(|word| !word.is_empty()).chain(options.split_whitespace());
        let result = run(&Line::try_parse_from(words)?.arguments).and_then(|()| Ok(read_safetensors(&out)?));
        std::fs::remove_dir_all(folder).unwrap();
        result
    }

    #[test]
    fn a_program_from_a_file_runs_on_every_backend_in_both_strategies() {
        let inputs = tensors([("xs", [1f32, 2.0, 3.0].into()), ("start", HostTensor::scalar(10f32))]);
        let expected = tensors([("ys", [11f32, 13.0, 16.0].into()), ("last", HostTensor::scalar(16f32))]);
        // Element `t` of `xs` is a term of `last` and of all elements of `ys` from `t` onwards. The gradient of element
        // `t` is therefore the sum of the cotangents of `last` and of these elements of `ys`.
        let along = [("ct_ys", [1f32, 10.0, 100.0].into()), ("ct_last", HostTensor::scalar(1000f32))];
        let along: Tensors = inputs.clone().into_iter().chain(tensors(along)).collect();
        let gradients =
            tensors([("grad_xs", [1111f32, 1110., 1100.].into()), ("grad_start", HostTensor::scalar(1111f32))]);
        let is_absent = |name: &str| matches!(open_backend(name), Err(funcify::Error::Unavailable { .. }));
        for backend in backend_names().into_iter().filter(|name| !is_absent(name)) {
            for strategy in ["--native", "--unroll", "--report"] {
                let options = format!("--backend {backend} {strategy}");
                assert_eq!(run_file(backend, SUMS, &inputs, &options).unwrap(), expected, "{options}");
                let found = run_file(backend, SUMS, &along, &format!("{options} --grad")).unwrap();
                assert_eq!(found, gradients, "{options}");
            }
        }
    }

    #[test]
    fn an_endless_loop_is_stopped_on_every_backend() {
        let endless =
            Graph::build("endless", |g| funcify::while_loop(g.input("x", "f32[]"), |x| x.lt(2.0), |x| x * 0.5));
        let long = Graph::build("long", |g| {
            let (x, n) = (g.input("x", "f32[]"), g.input("n", "i32[]"));
            funcify::fori_loop(0, n, x, |_, x| x * 0.5)
        });
        let is_absent = |name: &str| matches!(open_backend(name), Err(funcify::Error::Unavailable { .. }));
        for backend in backend_names().into_iter().filter(|name| !is_absent(name)) {
            for (program, op) in [(&endless, "while"), (&long, "scan")] {
                let mut inputs = tensors([("x", scalar(1.0))]);
                if op == "scan" {
                    inputs.insert("n".into(), HostTensor::scalar(i32::MAX));
                }
                let program = program.as_ref().unwrap().to_string();
                let error = run_file(backend, &program, &inputs, &format!("--backend {backend} --timeout 0.5"));
                let error = error.expect_err("the timeout stops the run");
                let stopped = matches!(
                    error.downcast_ref(),
                    Some(funcify::Error::Cancelled { at, reason, .. }) if at.op == op && reason.contains("500ms")
                );
                assert!(stopped, "{backend}: {error:#}");
            }
        }
        let refused =
            |timeout: &str| Line::try_parse_from(["run", "f", "--inputs", "i", "--timeout", timeout]).is_err();
        assert!(["-1", "NaN", "soon", "1e300"].into_iter().all(refused));
    }

    /// Runs `DECAY` with transform options, and asserts that it returns the expected outputs.
    #[track_caller]
    fn check<const N: usize, const M: usize>(
        options: &str,
        inputs: [(&str, HostTensor); N],
        expected: [(&str, HostTensor); M],
    ) {
        let found =
            run_file("check", DECAY, &tensors(inputs), options).unwrap_or_else(|error| panic!("{options}: {error:#}"));
        assert_eq!(found, tensors(expected), "{options}");
    }

    fn scalar(number: f32) -> HostTensor {
        HostTensor::scalar(number)
    }

    /// Checks derivatives and `--vmap` of `DECAY`. For three rows, last = x0 w^2 + x1 w + x2. The first derivative of
    /// `last` with respect to w is 2 x0 w + x1, and the second is 2 x0.
    #[test]
    fn derivatives_and_lanes_in_any_order() {
        let xs = || ("xs", HostTensor::from([1f32, 2., 3.]));
        let w = || ("w", scalar(10.));
        check("--only last", [xs(), w()], [("last", scalar(123.))]);
        check("--only last --grad w", [xs(), w()], [("grad_w", scalar(22.))]);
        check("--only last --grad", [xs(), w()], [("grad_w", scalar(22.)), ("grad_xs", [100f32, 10., 1.].into())]);
        check(
            "--only last --grad w --grad xs,w",
            [xs(), w()],
            [("grad_w", scalar(2.)), ("grad_xs", [20f32, 1., 0.].into())],
        );
        check("--only last --hvp w", [xs(), w(), ("tan_w", scalar(3.))], [("hvp_w", scalar(6.))]);
        let pushed = [("last", scalar(123.)), ("tan_last", scalar(66.))];
        check("--only last --jvp w", [xs(), w(), ("tan_w", scalar(3.))], pushed);
        // The rows of `ys` are x0, x0 w + x1 and x0 w^2 + x1 w + x2.
        let cotangents = [xs(), w(), ("ct_last", scalar(0.)), ("ct_ys", [5f32, 100., 1000.].into())];
        check("--grad w", cotangents, [("grad_w", scalar(22_100.))]);

        let lanes = || ("xs", HostTensor::from([[1f32, 2., 3.], [4., 5., 6.]]));
        check("--only last --vmap xs", [lanes(), w()], [("last", [123f32, 456.].into())]);
        let columns = ("xs", HostTensor::from([[1f32, 4.], [2., 5.], [3., 6.]]));
        check("--only last --vmap xs=1,w", [columns, ("w", [10f32, 1.].into())], [("last", [123f32, 15.].into())]);
        check("--only last --grad w --vmap xs", [lanes(), w()], [("grad_w", [22f32, 85.].into())]);
        let weighted = [lanes(), w(), ("ct_last", [1f32, 10.].into())];
        check("--only last --vmap xs --grad w", weighted, [("grad_w", scalar(872.))]);
    }

    #[test]
    fn a_missing_tensor_is_named_with_its_type() {
        let inputs = tensors([("xs", [1f32, 2.].into()), ("w", scalar(1.))]);
        let error = run_file("missing", DECAY, &inputs, "--only ys --grad w").unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(funcify::Error::Call { .. })), "{error:#}");
        let text = error.to_string();
        for part in
            ["`ct_ys` of f32[T], the cotangent of output `ys`", "`w` of f32[], `xs` of f32[2]", "add `ct_ys` to it"]
        {
            assert!(text.contains(part), "{text}\ndoes not say: {part}");
        }
        let error = run_file("unknown", DECAY, &inputs, "--grad y").unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(funcify::Error::Type { .. })), "{error:#}");
    }

    /// Checks that errors about mistakes on the command line or in the inputs name the program's file instead of a
    /// source line of this workspace.
    #[test]
    fn errors_name_the_program_and_no_source_of_the_command() {
        let inputs = || tensors([("xs", [1f32, 2.].into()), ("w", scalar(1.))]);
        let wrong = tensors([("xs", HostTensor::from([1f64, 2.])), ("w", scalar(1.))]);
        let uneven = tensors([("xs", HostTensor::from([[1f32, 2.]])), ("w", scalar(1.))]);
        let mistakes = [
            (&wrong, ""),
            (&wrong, "--grad w --only grad_w"),
            (&uneven, ""),
            (&inputs(), "--grad q"),
            (&inputs(), "--grad w,q"),
            (&inputs(), "--jvp q"),
            (&inputs(), "--only q"),
            (&inputs(), "--hvp q"),
            (&inputs(), "--jacobian q"),
            (&inputs(), "--hessian q"),
            (&inputs(), "--vmap q"),
            (&inputs(), "--vmap w"),
            (&inputs(), "--only ys --grad w"),
        ];
        for (inputs, options) in mistakes {
            let error = run_file("mistake", DECAY, inputs, options).expect_err(options);
            let text = format!("{error:#}");
            assert!(!text.contains(".rs:"), "{options}: {text}");
            assert!(text.contains("f.fir"), "{options}: {text}");
        }
    }
}
