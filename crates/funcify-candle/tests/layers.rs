//! Layers with parameters from a `VarBuilder`: against candle_nn with its weights, from files, and in training.

mod common;

use std::collections::HashMap;

use candle_core::{DType, Device, Module, Result, Tensor, Var};
use candle_nn::rnn::RNN;
use candle_nn::{GRUConfig, LSTMConfig, Optimizer, VarBuilder, VarMap};
use common::{assert_close, assert_gradients, loss, tensor, var};
use funcify_candle::nn::{GatedLinearAttention, Gru, Lstm, RecurrentConfig, Rnn, S5, SelectiveScan};

const BATCH: usize = 3;
const STEPS: usize = 6;

/// The variables of a map by name, with other numbers.
fn shuffled(map: &VarMap) -> Vec<(String, Var)> {
    let data = map.data().lock().unwrap();
    let mut vars: Vec<_> = data.iter().map(|(name, var)| (name.clone(), var.clone())).collect();
    vars.sort_by(|a, b| a.0.cmp(&b.0));
    for (seed, (_, var)) in (0..).zip(&vars) {
        var.set(&tensor(seed, var.dims(), var.dtype())).unwrap();
    }
    vars
}

/// Weights of candle_nn through a file of safetensors fit, and give the same outputs and gradients.
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

        // The file as constants: names and shapes fit.
        let constants = candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
        let vb = VarBuilder::from_tensors(constants, dtype, &Device::Cpu);
        let config = RecurrentConfig { layers: 2, bidirectional: true, ..RecurrentConfig::default() };
        let lstm = Lstm::new(4, 5, config, vb.pp("lstm")).unwrap();
        assert_close(&lstm.forward(&xs.detach()).unwrap(), &by_lstm, "lstm");
        assert!(!lstm.forward(&xs.detach()).unwrap().track_op());

        // The variables themselves: gradients, too.
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

/// Every layer: a sequence in two parts is the sequence, with the states between; gradients reach all parameters, the
/// input and the states; training learns.
#[test]
fn every_layer() {
    type Seq = Box<dyn Fn(&Tensor, Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)>>;
    macro_rules! seq {
        ($layer:expr) => {{
            let layer = $layer.unwrap();
            let seq: Seq = Box::new(move |xs, states| match states {
                Some(states) => layer.seq_init(xs, states),
                None => layer.seq(xs),
            });
            seq
        }};
    }
    let config = RecurrentConfig { layers: 2, ..RecurrentConfig::default() };
    type Make = fn(RecurrentConfig, VarBuilder<'_>) -> Seq;
    let layers: [(&str, Make); 7] = [
        ("rnn", |config, vb| seq!(Rnn::new(4, 4, config, vb))),
        ("gru", |config, vb| seq!(Gru::new(4, 4, config, vb))),
        ("lstm", |config, vb| seq!(Lstm::new(4, 4, config, vb))),
        ("s5", |_, vb| seq!(S5::new(funcify::nn::S5::new(4, 3), vb))),
        ("s5 in steps", |_, vb| {
            seq!(S5::new(funcify::nn::S5 { associative: false, ..funcify::nn::S5::new(4, 3) }, vb))
        }),
        ("selective scan", |_, vb| seq!(SelectiveScan::new(funcify::nn::SelectiveScan::new(4), vb))),
        ("gla", |_, vb| seq!(GatedLinearAttention::new(funcify::nn::GatedLinearAttention::new(4, 2), vb))),
    ];
    for (name, make) in layers {
        let map = VarMap::new();
        let vb = VarBuilder::from_varmap(&map, DType::F64, &Device::Cpu);
        let seq = make(config, vb);
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
        let vars = map.all_vars();
        let every: Vec<&Var> = vars.iter().chain([&xs]).collect();
        assert_gradients(&all(&parts, &found_last), &all(&ys, &last), &every, name);
        assert!(seq(&xs, Some(&[])).unwrap_err().to_string().contains("zero_state"), "{name}");

        let mut optimiser = candle_nn::AdamW::new_lr(vars, 0.01).unwrap();
        let target = tensor(2, &[BATCH, STEPS, 4], DType::F64);
        let mut losses = Vec::new();
        // The initial values are random, and some are near a minimum.
        for _ in 0..80 {
            let loss = candle_nn::loss::mse(&seq(&xs.detach(), None).unwrap().0, &target).unwrap();
            optimiser.backward_step(&loss).unwrap();
            losses.push(loss.to_scalar::<f64>().unwrap());
        }
        assert!(losses[79] < 0.95 * losses[0], "{name} learns nothing: {losses:?}");
    }
}

/// New parameters have the layer's initial values; those that a map has are left alone.
#[test]
fn initial_values() {
    let map = VarMap::new();
    let vb = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
    let config = funcify::nn::SelectiveScan { rank: 2, ..funcify::nn::SelectiveScan::new(4) };
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
