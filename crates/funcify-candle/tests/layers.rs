//! Tests layers with parameters from a `VarBuilder`: compares them with candle_nn's layers, loads weight files, and
//! trains them.

mod common;

use std::collections::HashMap;

use candle_core::{DType, Device, Module, Result, Tensor, Var};
use candle_nn::rnn::RNN;
use candle_nn::{GRUConfig, LSTMConfig, Optimizer, VarBuilder, VarMap};
use common::{assert_close, assert_gradients, loss, tensor, var};
use funcify::derivative::Wrt;
use funcify::nn::{self, MinimalCell, RwkvVersion, XlstmCell};
use funcify::{GradOptions, Graph, HostTensor, evaluate};
use funcify_candle::nn::{
    DeltaNet, GatedLinearAttention, Griffin, Gru, Lru, Lstm, Mamba, Mamba2, Minimal, Mlstm, RecurrentConfig, ReluRnn,
    RgLru, Rnn, Rwkv, Rwkv4, S5, SelectiveScan, Slstm, XlstmLarge,
};

const BATCH: usize = 3;
const STEPS: usize = 6;

/// Assigns new pseudorandom values to the variables of a map. Returns the variables with their names.
fn shuffled(map: &VarMap) -> Vec<(String, Var)> {
    let data = map.data().lock().unwrap();
    let mut vars: Vec<_> = data.iter().map(|(name, var)| (name.clone(), var.clone())).collect();
    vars.sort_by(|a, b| a.0.cmp(&b.0));
    for (seed, (_, var)) in (0..).zip(&vars) {
        var.set(&tensor(seed, var.dims(), var.dtype())).unwrap();
    }
    vars
}

/// Checks that this crate's layers can load weights that candle_nn saved to a safetensors file. The layers must compute
/// the same outputs and gradients as candle_nn's layers.
#[test]
fn weights_of_candle_nn() {
    let file = std::env::temp_dir().join(format!("funcify-layers-{}.safetensors", std::process::id()));
    for dtype in [DType::F32, DType::F64] {
        let map = VarMap::new();
        let vb = VarBuilder::from_varmap(&map, dtype, &Device::Cpu);
        let forward = candle_nn::lstm(4, 5, LSTMConfig::default(), vb.pp("lstm")).unwrap();
        let backward = LSTMConfig { direction: candle_nn::rnn::Direction::Backward, ..LSTMConfig::default() };
        let backward = candle_nn::lstm(4, 5, backward, vb.pp("lstm")).unwrap();
        let second = LSTMConfig { layer_idx: 1, ..LSTMConfig::default() };
        let second_forward = candle_nn::lstm(10, 5, second, vb.pp("lstm")).unwrap();
        let second = LSTMConfig { direction: candle_nn::rnn::Direction::Backward, ..second };
        let second_backward = candle_nn::lstm(10, 5, second, vb.pp("lstm")).unwrap();
        let gru = candle_nn::gru(4, 5, GRUConfig::default(), vb.pp("gru")).unwrap();
        let vars = shuffled(&map);
        map.save(&file).unwrap();

        let xs = var(90, &[BATCH, STEPS, 4], dtype);
        let run = |cell: &candle_nn::LSTM, xs: &Tensor| cell.states_to_tensor(&cell.seq(xs).unwrap()).unwrap();
        let both = |forward: &candle_nn::LSTM, backward: &candle_nn::LSTM, xs: &Tensor| {
            let reversed = run(backward, &xs.flip(&[1]).unwrap()).flip(&[1]).unwrap();
            Tensor::cat(&[run(forward, xs), reversed], 2).unwrap()
        };
        let by_lstm = both(&second_forward, &second_backward, &both(&forward, &backward, &xs));
        let states = gru.seq(&xs).unwrap();
        let by_gru = Tensor::stack(&states.iter().map(|state| state.h.clone()).collect::<Vec<_>>(), 1).unwrap();
        let expected = loss(&[&by_lstm, &by_gru]).unwrap().backward().unwrap();

        // Load the file as constants, to check the names and shapes of the weights.
        let constants = candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
        let vb = VarBuilder::from_tensors(constants, dtype, &Device::Cpu);
        let config = RecurrentConfig { layers: 2, bidirectional: true, ..RecurrentConfig::default() };
        let lstm = Lstm::new(4, 5, config, vb.pp("lstm")).unwrap();
        assert_close(&lstm.forward(&xs.detach()).unwrap(), &by_lstm, "lstm");
        assert!(!lstm.forward(&xs.detach()).unwrap().track_op());

        // Share candle_nn's variables, to compare gradients too.
        let shared: HashMap<String, Tensor> =
            vars.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
        let vb = VarBuilder::from_tensors(shared, dtype, &Device::Cpu);
        let lstm = Lstm::new(4, 5, config, vb.pp("lstm")).unwrap();
        let gru = Gru::new(4, 5, RecurrentConfig::default(), vb.pp("gru")).unwrap();
        let (found_lstm, found_gru) = (lstm.forward(&xs).unwrap(), gru.forward(&xs).unwrap());
        assert_close(&found_lstm, &by_lstm, "lstm");
        assert_close(&found_gru, &by_gru, "gru");
        let found = loss(&[&found_lstm, &found_gru]).unwrap().backward().unwrap();
        let every: Vec<&Var> = vars.iter().map(|(_, var)| var).chain([&xs]).collect();
        assert_gradients(&found, &expected, &every, "layers");
    }
    std::fs::remove_file(&file).unwrap();
}

/// A function that runs a layer over a sequence, starting from the given states, or from zero states if it gets `None`.
type Seq = dyn Fn(&Tensor, Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)>;

/// A layer with its graph, parameters and zero states, for the tests that run on all layers.
struct Made {
    graph: Graph,
    parameters: Vec<Tensor>,
    zeros: Vec<Tensor>,
    seq: Box<Seq>,
}

/// A function that creates a layer with new parameters.
type Make = fn(VarBuilder<'_>) -> Made;

/// Returns the names and constructors of all layers, with 4 features.
fn all_layers() -> Vec<(&'static str, Make)> {
    macro_rules! table {
        ($($name:literal => $layer:ident($($argument:expr),*);)*) => {
            vec![$(($name, |vb| {
                let layer = $layer::new($($argument,)* vb).unwrap();
                let (graph, parameters) = (layer.graph().clone(), layer.parameters().to_vec());
                let zeros = layer.zero_state(BATCH).unwrap();
                let seq = move |xs: &Tensor, states: Option<&[Tensor]>| match states {
                    Some(states) => layer.seq_init(xs, states),
                    None => layer.seq(xs),
                };
                Made { graph, parameters, zeros, seq: Box::new(seq) }
            })),*]
        };
    }
    table! {
        "rnn" => Rnn(4, 4, RecurrentConfig { layers: 2, ..RecurrentConfig::default() });
        "relu rnn" => ReluRnn(4, 4, RecurrentConfig { layers: 2, ..RecurrentConfig::default() });
        "gru" => Gru(4, 4, RecurrentConfig { layers: 2, ..RecurrentConfig::default() });
        "lstm" => Lstm(4, 4, RecurrentConfig { layers: 2, ..RecurrentConfig::default() });
        "s5" => S5(nn::S5::new(4, 3));
        "s5 in steps" => S5(nn::S5 { associative: false, ..nn::S5::new(4, 3) });
        "selective scan" => SelectiveScan(nn::SelectiveScan::new(4));
        "gated linear attention" => GatedLinearAttention(nn::GatedLinearAttention::new(4, 2));
        "minGRU" => Minimal(nn::Minimal::new(MinimalCell::Gru, 4, 4));
        "minLSTM" => Minimal(nn::Minimal::new(MinimalCell::Lstm, 4, 4));
        "minLSTM in steps" => Minimal(nn::Minimal { associative: false, ..nn::Minimal::new(MinimalCell::Lstm, 4, 4) });
        "lru" => Lru(nn::Lru::new(4, 3));
        "rg-lru" => RgLru(nn::RgLru::new(4, 2));
        "griffin" => Griffin(nn::Griffin { inner: 6, ..nn::Griffin::new(4, 2) });
        "mamba" => Mamba(nn::Mamba { states: 3, rank: 2, ..nn::Mamba::new(4) });
        "mamba-2" => Mamba2(nn::Mamba2 { heads: 4, head: 2, states: 3, groups: 2, ..nn::Mamba2::new(4) });
        "mamba-2 in chunks" => Mamba2(nn::Mamba2 { heads: 4, head: 2, states: 3, chunk: Some(2), ..nn::Mamba2::new(4) });
        "delta net" => DeltaNet(nn::DeltaNet { value: 6, ..nn::DeltaNet::new(4, 2) });
        "gated delta net" => DeltaNet(nn::DeltaNet { gated: true, ..nn::DeltaNet::new(4, 2) });
        "rwkv-4" => Rwkv4(nn::Rwkv4 { inner: 6, ..nn::Rwkv4::new(4) });
        "rwkv-5" => Rwkv(nn::Rwkv { version: RwkvVersion::Five, ..nn::Rwkv::new(4, 2) });
        "rwkv-6" => Rwkv(nn::Rwkv { version: RwkvVersion::Six { mix_rank: 2, decay_rank: 3 }, ..nn::Rwkv::new(4, 2) });
        "slstm" => Slstm(nn::Xlstm { heads: 2, ..nn::Xlstm::new(XlstmCell::Slstm, 4, 4) });
        "mlstm" => Mlstm(nn::Xlstm { heads: 2, ..nn::Xlstm::new(XlstmCell::Mlstm, 4, 4) });
        "xlstm large" => XlstmLarge(nn::XlstmLarge::new(4, 2));
    }
}

/// Converts a tensor to a host tensor for the reference evaluator.
fn host(tensor: &Tensor) -> HostTensor {
    let numbers = tensor.flatten_all().unwrap().to_vec1::<f64>().unwrap();
    HostTensor::from_vec(numbers, tensor.dims()).unwrap()
}

fn tensor_of(host: &HostTensor) -> Tensor {
    Tensor::from_vec(host.to_f64_vec(), host.shape(), &Device::Cpu).unwrap()
}

/// Checks that the outputs, last states and gradients of each layer equal those that the reference evaluator computes
/// from the layer's graph.
#[test]
fn every_layer_is_its_graph() {
    for (name, make) in all_layers() {
        let map = VarMap::new();
        let made = make(VarBuilder::from_varmap(&map, DType::F64, &Device::Cpu));
        let vars = shuffled(&map);
        let xs = var(1, &[BATCH, STEPS, 4], DType::F64);
        let (ys, last) = (made.seq)(&xs, None).unwrap();
        let found: Vec<&Tensor> = std::iter::once(&ys).chain(&last).collect();
        let zeros: Vec<Tensor> = made.zeros.iter().map(|state| state.zeros_like().unwrap()).collect();
        let inputs: Vec<&Tensor> = std::iter::once(xs.as_tensor()).chain(&zeros).chain(&made.parameters).collect();
        let mut arguments: Vec<HostTensor> = inputs.iter().map(|input| host(input)).collect();
        let expected = evaluate(&made.graph, &arguments).unwrap();
        assert_eq!(found.len(), expected.len(), "{name}");
        found.iter().zip(&expected).for_each(|(found, expected)| assert_close(found, &tensor_of(expected), name));

        let cotangents: Vec<Tensor> =
            (0..).zip(&found).map(|(seed, found)| tensor(500 + seed, found.dims(), DType::F64)).collect();
        let parts = found.iter().zip(&cotangents).map(|(found, ct)| (*found * ct).unwrap().sum_all().unwrap());
        let gradients = parts.reduce(|sum, part| (sum + part).unwrap()).unwrap().backward().unwrap();
        arguments.extend(cotangents.iter().map(host));
        let vjp = made.graph.vjp(Wrt::Floats, GradOptions::new()).unwrap();
        let expected = evaluate(&vjp, &arguments).unwrap().split_off(expected.len());
        assert_eq!(vars.len(), made.parameters.len(), "{name}");
        for (input, expected) in inputs.iter().zip(&expected).filter(|(input, _)| input.is_variable()) {
            let gradient = gradients.get(input).unwrap_or_else(|| panic!("{name}: a gradient is missing"));
            assert_close(gradient, &tensor_of(expected), name);
            assert!(expected.to_f64_vec().iter().any(|number| *number != 0.0), "{name}");
        }
    }
}

/// Checks three properties of every layer. Two chunks of a sequence, with the states passed from one to the other,
/// yield the same results as the whole sequence. The gradients of all parameters and of the input flow through the
/// passed states. Training reduces the loss.
#[test]
fn every_layer_goes_on_and_learns() {
    for (name, make) in all_layers() {
        let map = VarMap::new();
        let seq = make(VarBuilder::from_varmap(&map, DType::F64, &Device::Cpu)).seq;
        // Use initial values that are the same in every run, because with random values, a ReLU unit might be dead.
        let vars: Vec<Var> = shuffled(&map).into_iter().map(|(_, var)| var).collect();
        let xs = var(1, &[BATCH, STEPS, 4], DType::F64);
        let (ys, last) = seq(&xs, None).unwrap();
        assert_eq!(ys.dims(), [BATCH, STEPS, 4], "{name}");
        let (first, states) = seq(&xs.narrow(1, 0, 2).unwrap(), None).unwrap();
        let (rest, found_last) = seq(&xs.narrow(1, 2, STEPS - 2).unwrap(), Some(&states)).unwrap();
        let parts = Tensor::cat(&[first, rest], 1).unwrap();
        assert_close(&parts, &ys, name);
        found_last.iter().zip(&last).for_each(|(found, last)| assert_close(found, last, name));
        let all = |ys: &Tensor, last: &[Tensor]| {
            loss(&last.iter().chain([ys]).collect::<Vec<_>>()).unwrap().backward().unwrap()
        };
        let every: Vec<&Var> = vars.iter().chain([&xs]).collect();
        assert_gradients(&all(&parts, &found_last), &all(&ys, &last), &every, name);
        assert!(seq(&xs, Some(&[])).unwrap_err().to_string().contains("zero_state"), "{name}");

        let mut optimiser = candle_nn::AdamW::new_lr(vars, 0.01).unwrap();
        let target = tensor(2, &[BATCH, STEPS, 4], DType::F64);
        let mut losses = Vec::new();
        // Train for many steps, because some initial values are close to a local minimum.
        for _ in 0..80 {
            let loss = candle_nn::loss::mse(&seq(&xs.detach(), None).unwrap().0, &target).unwrap();
            optimiser.backward_step(&loss).unwrap();
            losses.push(loss.to_scalar::<f64>().unwrap());
        }
        assert!(losses[79] < 0.95 * losses[0], "{name} learns nothing: {losses:?}");
    }
}

/// Checks that new parameters have the layer's initial values, and that parameters already in the map are unchanged.
#[test]
fn initial_values() {
    let map = VarMap::new();
    let vb = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
    let config = nn::SelectiveScan { rank: 2, ..nn::SelectiveScan::new(4) };
    SelectiveScan::new(config.clone(), vb.clone()).unwrap();
    let get = |name: &str| map.data().lock().unwrap()[name].clone();
    let a_log = get("A_log").to_vec2::<f32>().unwrap();
    assert!((0..16).all(|state| (a_log[2][state] - ((state + 1) as f32).ln()).abs() < 1e-6), "{a_log:?}");
    assert_eq!(get("D").to_vec1::<f32>().unwrap(), [1f32; 4]);
    let bound = get("dt_proj.weight").abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
    assert!(bound > 0.0 && bound <= 2f32.sqrt().recip());
    get("A_log").set(&Tensor::ones((4, 16), DType::F32, &Device::Cpu).unwrap()).unwrap();
    SelectiveScan::new(config.clone(), vb).unwrap();
    assert_eq!(get("A_log").to_vec2::<f32>().unwrap()[0], [1f32; 16]);

    let missing = VarBuilder::from_tensors(HashMap::new(), DType::F32, &Device::Cpu);
    let error = SelectiveScan::new(config.clone(), missing).err().unwrap().to_string();
    assert!(error.contains("x_proj.weight"), "{error}");
    let ints = VarBuilder::from_varmap(&VarMap::new(), DType::U32, &Device::Cpu);
    assert!(SelectiveScan::new(config, ints).err().unwrap().to_string().contains("f32"));
    let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
    let error = Gru::new(0, 4, RecurrentConfig::default(), vb).err().unwrap().to_string();
    assert!(error.contains("`input`"), "{error}");
}
