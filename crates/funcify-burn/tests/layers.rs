//! Tests layers as Burn modules: their results, gradients and saved records.

mod common;

use std::sync::{Mutex, PoisonError};

use burn::module::{Module, ModuleVisitor, Param};
use burn::store::ModuleRecord;
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use common::{assert_close, autodiff_devices, devices};
use funcify::derivative::Wrt;
use funcify::nn::{self, Cell, MinimalCell, Recurrent, RwkvVersion, Xlstm, XlstmCell};
use funcify::{GradOptions, HostTensor, evaluate};
use funcify_burn::nn::{
    DeltaNet, GatedLinearAttention, Griffin, Gru, Lru, Lstm, Mamba, Mamba2, Minimal, Mlstm, ReluRnn, RgLru, Rnn, Rwkv,
    Rwkv4, S5, SelectiveScan, Slstm, XlstmLarge,
};
use funcify_burn::{AnyTensor, Tensors};

const FEATURES: usize = 4;
const STEPS: usize = 7;

/// The names, values and gradients of a module's parameters, in order.
#[derive(Default)]
struct Parameters {
    path: Vec<String>,
    names: Vec<String>,
    values: Vec<HostTensor>,
    gradients: Vec<Option<TensorData>>,
}

struct Visitor<'a>(Parameters, Option<&'a burn::tensor::Gradients>);

impl ModuleVisitor for Visitor<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.names.push(self.0.path.join("."));
        self.0.values.push(AnyTensor::from(param.val()).into_host().unwrap());
        let gradient = self.1.and_then(|gradients| param.val().grad(gradients));
        self.0.gradients.push(gradient.map(|gradient| gradient.into_data()));
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.0.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.0.path.pop();
    }
}

fn parameters<M: Module>(module: &M, gradients: Option<&burn::tensor::Gradients>) -> Parameters {
    let mut visitor = Visitor(Parameters::default(), gradients);
    module.visit(&mut visitor);
    visitor.0
}

fn data(tensor: &HostTensor) -> TensorData {
    TensorData::new(tensor.to_f64_vec(), tensor.shape().to_vec())
}

/// Draws random numbers that are the same in each run. All devices of a kind share a generator, so only one thread may
/// draw at a time.
fn seeded<T>(device: &Device, draw: impl FnOnce() -> T) -> T {
    static GENERATOR: Mutex<()> = Mutex::new(());
    let _guard = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    device.seed(1);
    draw()
}

/// Compares the outputs and gradients of a layer with those of the reference evaluator. Unless the layer has a reverse
/// direction, also splits the sequence in two, starts the second part from the final state of the first, and checks
/// that the outputs are the same.
fn check<M: Module, S: Tensors + Clone>(
    layer: nn::Layer,
    make: impl Fn(&Device) -> M,
    forward: impl Fn(&M, Tensor<3>, Option<S>) -> (Tensor<3>, S),
) {
    for device in autodiff_devices() {
        let (module, xs) = seeded(&device, || {
            let module = make(&device);
            // Burn initialises some parameters only when they are read, so read all of them here.
            parameters(&module, None);
            (
                module,
                Tensor::<3>::random([2, STEPS, FEATURES], Distribution::Uniform(-1.0, 1.0), &device).require_grad(),
            )
        });
        let (ys, state) = forward(&module, xs.clone(), None);

        let names = parameters(&module, None).names;
        assert_eq!(names, layer.parameters.iter().map(|parameter| parameter.name.clone()).collect::<Vec<_>>());
        let sizes = |ty: &funcify::TensorType| -> Vec<usize> {
            ty.shape.dims().iter().map(|dim| dim.constant().map_or(2, |size| size as usize)).collect()
        };
        let zeros =
            layer.states.iter().map(|ty| HostTensor::from_fn(ty.dtype, &sizes(ty), |_| funcify::Scalar::Float(0.0)));
        let mut inputs = vec![AnyTensor::from(xs.clone()).into_host().unwrap()];
        inputs.extend(zeros.chain(parameters(&module, None).values));
        let expected = evaluate(&layer.graph, &inputs).unwrap();
        let what = |part: &str| format!("{part} of {} on {device:?}", layer.graph.name());
        assert_close(&data(&AnyTensor::from(ys.clone()).into_host().unwrap()), &data(&expected[0]), 2e-5, &what("ys"));
        let mut last = Vec::new();
        state.clone().into_leaves(&mut last);
        assert_eq!(last.len(), layer.states.len());
        for (last, expected) in last.into_iter().zip(&expected[1..]) {
            assert_close(&data(&last.into_host().unwrap()), &data(expected), 2e-5, &what("the last state"));
        }

        let (first, middle) = forward(&module, xs.clone().narrow(1, 0, 3), None);
        let (second, _) = forward(&module, xs.clone().narrow(1, 3, STEPS - 3), Some(middle));
        let parts = Tensor::cat(vec![first, second], 1).into_data();
        if !layer.graph.to_string().contains("reverse") && !names.iter().any(|name| name.contains("reverse")) {
            assert_close(&parts, &ys.to_data(), 2e-5, &what("in two parts"));
        }

        let gradients = ys.clone().sum().backward();
        let cotangents = expected.iter().enumerate().map(|(index, output)| {
            HostTensor::from_fn(output.dtype(), output.shape(), |_| {
                funcify::Scalar::Float(if index == 0 { 1.0 } else { 0.0 })
            })
        });
        let vjp = layer.graph.vjp(Wrt::Floats, GradOptions::new()).unwrap();
        let count = inputs.len();
        let all: Vec<HostTensor> = inputs.into_iter().chain(cotangents).collect();
        let expected = evaluate(&vjp, &all).unwrap().split_off(expected.len());
        let found = parameters(&module, Some(&gradients)).gradients;
        for ((name, found), expected) in names.iter().zip(&found).zip(&expected[count - names.len()..]) {
            assert_close(found.as_ref().expect(name), &data(expected), 1e-4, &what(name));
        }
        let found = xs.grad(&gradients).unwrap().into_data();
        assert_close(&found, &data(&expected[0]), 1e-4, &what("xs"));

        // Check that a second layer that loads the record computes the same outputs.
        let record: ModuleRecord = module.clone().into_record();
        let other = make(&device).load_record(record);
        let (again, _) = forward(&other, xs.clone(), None);
        assert_close(&again.into_data(), &ys.to_data(), 0.0, &what("from a record"));
        let (plain, _) = forward(&module.valid(), xs.inner(), None);
        assert!(!plain.is_autodiff());
        assert_close(&plain.into_data(), &ys.into_data(), 0.0, &what("without autodiff"));
    }
}

/// Builds each module with the given options, and runs [`check`] on it.
macro_rules! check_all {
    ($($module:ident: $options:expr;)*) => {$({
        let options = $options;
        check(
            options.layer().unwrap(),
            |device| $module::new(&options, device).unwrap(),
            |layer, xs, state| layer.forward(xs, state).unwrap(),
        );
    })*};
}

#[test]
fn recurrent_layers() {
    let one = |cell| Recurrent::new(cell, FEATURES, 5);
    let stacked = |cell| Recurrent { layers: 2, bidirectional: true, ..one(cell) };
    check_all! {
        Rnn: one(Cell::Rnn);
        Rnn: stacked(Cell::Rnn);
        ReluRnn: one(Cell::ReluRnn);
        Gru: one(Cell::Gru);
        Gru: stacked(Cell::Gru);
        Lstm: one(Cell::Lstm);
        Lstm: stacked(Cell::Lstm);
        Slstm: Xlstm { heads: 2, ..Xlstm::new(XlstmCell::Slstm, FEATURES, 6) };
    }
}

#[test]
fn linear_recurrences() {
    check_all! {
        S5: nn::S5::new(FEATURES, 3);
        S5: nn::S5 { associative: false, ..nn::S5::new(FEATURES, 3) };
        Minimal: nn::Minimal::new(MinimalCell::Gru, FEATURES, 5);
        Minimal: nn::Minimal { associative: false, ..nn::Minimal::new(MinimalCell::Lstm, FEATURES, 5) };
        Lru: nn::Lru::new(FEATURES, 3);
        RgLru: nn::RgLru::new(FEATURES, 2);
        Griffin: nn::Griffin { inner: 6, ..nn::Griffin::new(FEATURES, 2) };
        SelectiveScan: nn::SelectiveScan { states: 3, rank: 2, ..nn::SelectiveScan::new(FEATURES) };
        Mamba: nn::Mamba { states: 3, rank: 2, ..nn::Mamba::new(FEATURES) };
        Mamba2: nn::Mamba2 { heads: 4, head: 2, states: 3, groups: 2, ..nn::Mamba2::new(FEATURES) };
    }
}

#[test]
fn linear_attention() {
    let six = RwkvVersion::Six { mix_rank: 2, decay_rank: 3 };
    check_all! {
        GatedLinearAttention: nn::GatedLinearAttention { rank: 2, ..nn::GatedLinearAttention::new(FEATURES, 2) };
        DeltaNet: nn::DeltaNet { value: 6, ..nn::DeltaNet::new(FEATURES, 2) };
        DeltaNet: nn::DeltaNet { gated: true, ..nn::DeltaNet::new(FEATURES, 2) };
        Rwkv4: nn::Rwkv4 { inner: 6, ..nn::Rwkv4::new(FEATURES) };
        Rwkv: nn::Rwkv { version: RwkvVersion::Five, ..nn::Rwkv::new(FEATURES, 2) };
        Rwkv: nn::Rwkv { version: six, ..nn::Rwkv::new(FEATURES, 2) };
        Mlstm: Xlstm { heads: 2, ..Xlstm::new(XlstmCell::Mlstm, FEATURES, 6) };
        XlstmLarge: nn::XlstmLarge::new(FEATURES, 2);
    }
}

#[test]
fn layers_are_fields_of_modules_and_say_what_does_not_fit() {
    #[derive(Module, Debug)]
    struct Model {
        rnn: Rnn,
        head: burn::nn::Linear,
    }
    for device in devices() {
        let options = Recurrent::new(Cell::Lstm, FEATURES, 5);
        let model = seeded(&device, || {
            let head = burn::nn::LinearConfig::new(5, 1).init(&device);
            let model = Model { rnn: Rnn::new(&options, &device).unwrap(), head };
            assert_eq!(parameters(&model, None).names[0], "rnn.weight_ih_l0");
            model
        });
        assert_eq!(model.num_params(), 5 * 4 + 5 * 5 + 5 + 5 + 6);
        assert!(format!("{model}").contains("weight_ih_l0"));
        let (ys, _) = model.rnn.forward(Tensor::ones([2, 3, FEATURES], &device), None).unwrap();
        assert_eq!(model.head.forward(ys).dims(), [2, 3, 1]);

        let error = model.rnn.forward(Tensor::ones([2, 3, FEATURES + 1], &device), None).unwrap_err();
        assert_eq!(error.kind(), "Call", "{error}");
        let state = Tensor::<3>::zeros([1, 9, 5], &device);
        let error = model.rnn.forward(Tensor::ones([2, 3, FEATURES], &device), Some(state)).unwrap_err();
        assert!(error.to_string().contains("`h`"), "{error}");
        let error = Rnn::new(&Recurrent { hidden: 0, ..options }, &device).unwrap_err();
        assert_eq!(error.kind(), "Type", "{error}");
    }
}
