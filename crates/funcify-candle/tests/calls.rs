//! Tests calls with bytes passed as booleans, with tracked tensors, and with a handle that cancels the call. Also tests
//! the errors of calls.

use std::time::Duration;

use candle_core::{DType, Device, Result, Tensor, Var};
use funcify::dispatch::{CompileOptions, Function, LoopStrategy};
use funcify::{Cancellation, Error, Graph, HostTensor, fori_loop, scan, while_loop};
use funcify_candle::{Candle, Differentiable};

const STRATEGIES: [LoopStrategy; 2] = [LoopStrategy::Native, LoopStrategy::Unroll];

fn compile(graph: &Graph, strategy: LoopStrategy) -> Function<Candle> {
    let options = CompileOptions { strategy, ..CompileOptions::default() };
    Function::compile_with(graph, &Candle::cpu(), options).unwrap()
}

/// Builds a graph that uses booleans in several ways: for example, it multiplies a float by the number of true elements
/// of `p`.
fn masks() -> Graph {
    let graph = Graph::build("masks", |g| {
        let (p, q, x) = (g.input("p", "bool[3]"), g.input("q", "bool[]"), g.input("x", "f64[]"));
        let count = p.cast(funcify::DType::F64).sum(0);
        let all = scan(q, p, |all, p| (all & p, all)).0;
        (!p, count * x, all, p.all(0))
    });
    graph.unwrap()
}

/// Checks that every nonzero byte counts as true, as in Candle's `where_cond`, whose masks are bytes.
#[test]
fn a_byte_that_is_not_zero_is_true() {
    let bytes = |bytes: &[u8]| Tensor::new(bytes, &Device::Cpu).unwrap();
    let (p, q) = (bytes(&[1, 2, 4]), Tensor::new(255u8, &Device::Cpu).unwrap());
    let x = Var::new(0.5f64, &Device::Cpu).unwrap();
    let check = |results: &[Tensor]| {
        assert_eq!(results[0].to_vec1::<u8>().unwrap(), [0, 0, 0]);
        assert_eq!(results[1].to_scalar::<f64>().unwrap(), 1.5);
        assert_eq!(results[2].to_scalar::<u8>().unwrap(), 1);
        assert_eq!(results[3].to_scalar::<u8>().unwrap(), 1);
    };
    for strategy in STRATEGIES {
        check(&compile(&masks(), strategy).call(&[p.clone(), q.clone(), x.as_detached_tensor()]).unwrap());
    }
    let function = Differentiable::compile(&masks(), &Candle::cpu()).unwrap();
    check(&function.call(&[p.clone(), q.clone(), x.as_detached_tensor()]).unwrap());
    let results = function.call(&[p, q, x.as_tensor().clone()]).unwrap();
    check(&results);
    let slope = results[1].backward().unwrap().get(&x).unwrap().to_scalar::<f64>().unwrap();
    assert_eq!(slope, 3.0);
    let none = Tensor::zeros(0, DType::U8, &Device::Cpu).unwrap();
    let graph = Graph::build("none", |g| !g.input("p", "bool[N]")).unwrap();
    assert_eq!(compile(&graph, LoopStrategy::Native).call(&[none]).unwrap()[0].dims(), [0]);
}

/// Differentiates the square of `x + 20_000`, computed by a loop of 20,000 steps. If each step were a separate node,
/// the backward pass would overflow the stack.
#[test]
fn a_call_with_a_variable_is_one_node() {
    let long = || -> Result<()> {
        let graph = Graph::build("long", |g| {
            let (x, n) = (g.input("x", "f64[]"), g.input("n", "i64[]"));
            fori_loop(0, n, x, |_, x| x + 1.0).square()
        });
        let function = compile(&graph.unwrap(), LoopStrategy::Native);
        let x = Var::new(2f64, &Device::Cpu)?;
        let y = function.call(&[x.as_tensor().clone(), Tensor::new(20_000i64, &Device::Cpu)?]).unwrap().remove(0);
        assert_eq!(y.to_scalar::<f64>()?, 20_002f64.powi(2));
        assert_eq!(y.backward()?.get(&x).unwrap().to_scalar::<f64>()?, 2.0 * 20_002.0);
        drop(y);
        Ok(())
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(long).unwrap();
    thread.join().expect("the thread must not overflow the stack").unwrap();
}

#[test]
fn what_is_not_tracked_has_no_graph() {
    let graph = Graph::build("plain", |g| g.input("x", "f64[2]") * 2.0).unwrap();
    for strategy in STRATEGIES {
        let x = Var::new(&[1f64, 2.0], &Device::Cpu).unwrap();
        let y = compile(&graph, strategy).call(&[x.as_detached_tensor()]).unwrap().remove(0);
        assert!(!y.track_op());
        // Candle tracks integers that were computed from a variable, although they have no gradient.
        let count = Graph::build("count", |g| g.input("n", "i64[2]") + 1).unwrap();
        let n = x.as_tensor().to_dtype(DType::I64).unwrap();
        let n = compile(&count, strategy).call(&[n]).unwrap().remove(0);
        assert!(!n.track_op());
        assert_eq!(n.to_vec1::<i64>().unwrap(), [2, 3]);
    }
}

#[test]
fn loops_stop() {
    let endless = Graph::build("endless", |g| while_loop(g.input("x", "f32[]"), |x| x.lt(2.0), |x| x * 0.5)).unwrap();
    let long = Graph::build("long", |g| {
        let (x, n) = (g.input("x", "f32[]"), g.input("n", "i64[]"));
        fori_loop(0, n, x, |_, x| fori_loop(0, 100_000, x, |_, x| x * 0.5))
    });
    let x = Var::new(1f32, &Device::Cpu).unwrap();
    let n = Tensor::new(i64::from(i32::MAX), &Device::Cpu).unwrap();
    let stop = || Cancellation::after(Duration::from_millis(30));
    for (graph, inputs) in [(&endless, vec![x.as_detached_tensor()]), (&long.unwrap(), vec![x.as_detached_tensor(), n])]
    {
        let error = stop().scope(|| compile(graph, LoopStrategy::Native).call(&inputs)).unwrap_err();
        assert!(matches!(&error, Error::Cancelled { progress, .. } if progress.count() > 0), "{error}");
    }
    let function = Differentiable::compile(&endless, &Candle::cpu()).unwrap();
    for x in [x.as_tensor().clone(), x.as_detached_tensor()] {
        let error = stop().scope(|| function.call(std::slice::from_ref(&x))).unwrap_err().to_string();
        assert!(error.contains("stopped after"), "{error}");
        let closure = || funcify_candle::while_loop(&x, |_| Ok(true), |x: Tensor| x * 0.5);
        let error = stop().scope(closure).unwrap_err().to_string();
        assert!(error.starts_with("while_loop: stopped after") && error.contains("tests/calls.rs"), "{error}");
        let xs = Tensor::zeros(100, DType::F32, &Device::Cpu).unwrap();
        let stopped = Cancellation::new();
        stopped.cancel();
        let closure = || funcify_candle::scan(&x, &xs, |c: Tensor, x: Tensor| Ok(((&c + x)?, c)));
        let error = stopped.scope(closure).unwrap_err().to_string();
        assert!(error.starts_with("scan: stopped after 0 steps"), "{error}");
        let Ok((last, _)) = closure() else { panic!("the call must not be stopped outside of the scope") };
        if last.track_op() {
            let Err(error) = stopped.scope(|| last.backward()) else { panic!("backward must be stopped") };
            let error = error.to_string();
            assert!(error.contains("stopped after"), "{error}");
        }
    }
}

/// Checks that errors contain no backtrace, although Candle's own errors do if `RUST_BACKTRACE` is set. The variable is
/// read only once per process, so the test runs itself in a new process.
#[test]
fn errors_have_no_backtrace() {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|asked| asked != "1") {
        let program = std::env::current_exe().unwrap();
        let mut again = std::process::Command::new(program);
        let output = again.args(["--exact", "errors_have_no_backtrace"]).env("RUST_BACKTRACE", "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let check = |error: String| assert!(!error.contains("candle_core::") && error.lines().count() < 16, "{error}");
    let x = Tensor::zeros((2, 3), DType::F32, &Device::Cpu).unwrap();
    assert!(x.matmul(&x).unwrap_err().to_string().contains("candle_core::"), "Candle's own errors have a backtrace");

    let graph = Graph::build("matmul", |g| g.input("x", "f32[2,3]").matmul(g.input("y", "f32[3,2]"))).unwrap();
    let inputs = [x.clone(), x.clone()];
    check(compile(&graph, LoopStrategy::Native).call(&inputs).unwrap_err().to_string());
    check(Differentiable::compile(&graph, &Candle::cpu()).unwrap().call(&inputs).unwrap_err().to_string());
    let wrong = |c: Tensor, x: Tensor| Ok::<_, candle_core::Error>(((&c + &x)?.matmul(&x)?, c));
    check(funcify_candle::scan(&x, &x.unsqueeze(0).unwrap(), wrong).unwrap_err().to_string());
    let other = |c: Tensor, x: Tensor| Ok::<_, candle_core::Error>((x.t()?, c));
    check(funcify_candle::scan(&x, &x.unsqueeze(0).unwrap(), other).unwrap_err().to_string());
    let failing = |x: Tensor| x.matmul(&x);
    check(funcify_candle::checkpoint(&x, failing).unwrap_err().to_string());
    check(funcify_candle::cond(&x, &x, Ok::<Tensor, _>, Ok::<Tensor, _>).unwrap_err().to_string());
}

/// Checks that any nonzero byte of a BOOL tensor in a safetensors file counts as true, as in an argument of a call.
#[test]
fn a_byte_of_a_file_that_is_not_zero_is_true() {
    let header = r#"{"p":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0, 2, 255]].concat();
    let tensors = funcify::files::parse_safetensors(&bytes).unwrap();
    assert_eq!(tensors["p"], HostTensor::from([false, true, true]));
}
