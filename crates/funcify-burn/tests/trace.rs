//! Tests that closures on Burn tensors become graphs in which each of Burn's ops has the same results and gradients as
//! in Burn.

mod common;

use burn::nn::attention::{MhaInput, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv1dConfig, Conv2dConfig};
use burn::nn::{BatchNormConfig, EmbeddingConfig, LayerNormConfig, LinearConfig, PaddingConfig1d, PaddingConfig2d};
use burn::tensor::ops::PadMode;
use burn::tensor::{Bool, Device, IndexingUpdateOp, Int, Tensor, TensorData, activation, s};
use common::{assert_close, autodiff_devices, devices, values};
use funcify::{Graph, Value};
use funcify_burn::{AnyTensor, Differentiable, trace};

/// A closure that applies Burn ops to two tensors of shape `[3,4]`, whose elements are between 0.1 and 0.9.
type Body = fn(Tensor<2>, Tensor<2>) -> AnyTensor;

/// Builds a [`Body`] from a closure on two tensors.
macro_rules! body {
    (|$x:ident, $y:ident| $result:expr) => {
        (|$x: Tensor<2>, $y: Tensor<2>| AnyTensor::from($result)) as Body
    };
}

/// Returns the indices of three columns, out of order and with a repetition.
fn columns(device: &Device) -> Tensor<1, Int> {
    Tensor::from_data([2, 0, 2], device)
}

/// The ops whose results and gradients are compared with Burn's.
const DIFFERENTIABLE: &[(&str, Body)] = &[
    ("arithmetic", body!(|x, y| (x.clone() + y.clone() * 2.0 - 1.0) / (y - 3.0) * x / 0.5 + 0.25)),
    ("negation", body!(|x, y| -(x - y).abs() * 1.5)),
    ("remainder", body!(|x, y| (x.clone() * -3.0) % (y + 1.0) + (x * 5.0) % -1.7)),
    (
        "powers",
        body!(|x, y| x.clone().powf(y.clone()) + y.clone().powf_scalar(1.7) + x.powi_scalar(3) + y.powi_scalar(2)),
    ),
    ("roots", body!(|x, y| x.clone().sqrt() + y.clone().recip() + x.powf_scalar(0.5) + y.square())),
    ("exponentials", body!(|x, y| x.clone().exp() + y.clone().log() + x.log1p() + y.erf())),
    ("circular", body!(|x, y| x.clone().sin() + y.clone().cos() + x.tan() * y.clone().asin() + y.acos())),
    (
        "hyperbolic",
        body!(|x, y| x.clone().sinh() + y.clone().cosh() + x.tanh() * (y.clone() + 1.5).acosh() + y.asinh()),
    ),
    ("inverse", body!(|x, y| x.clone().atan() + y.clone().atanh() + x.atan2(y))),
    ("relu", body!(|x, y| activation::relu(x - y))),
    ("leaky relu", body!(|x, y| activation::leaky_relu(x - y, 0.1))),
    ("sigmoid", body!(|x, y| activation::sigmoid(x * 3.0 - y))),
    ("log sigmoid", body!(|x, y| activation::log_sigmoid(x * 3.0 - y))),
    ("silu", body!(|x, y| activation::silu(x - y))),
    ("softplus", body!(|x, y| activation::softplus(x - y, 2.0))),
    ("mish", body!(|x, y| activation::mish(x - y))),
    ("elu", body!(|x, y| activation::elu(x - y, 1.0))),
    ("softmax", body!(|x, y| activation::softmax(x, 1) + activation::log_softmax(y, 0))),
    ("softmin", body!(|x, y| activation::softmin(x - y, 1))),
    ("matmul", body!(|x, y| x.matmul(y.transpose()))),
    (
        "batched matmul",
        body!(|x, y| {
            let batch = Tensor::stack::<3>(vec![y.clone(), y], 0).swap_dims(1, 2);
            x.unsqueeze::<3>().matmul(batch)
        }),
    ),
    ("reshape", body!(|x, y| x.reshape([4, 3]) + y.transpose().flatten::<1>(0, 1).reshape([4, 3]))),
    ("permute", body!(|x, y| Tensor::stack::<3>(vec![x, y], 2).permute([2, 0, 1]))),
    (
        "expand",
        body!(|x, y| x.slice(s![0..1, ..]).expand([3, 4])
            * y.unsqueeze_dim::<3>(1).expand([3, 2, 4]).slice(s![.., 1, ..]).squeeze_dim::<2>(1)),
    ),
    ("slice", body!(|x, y| x.slice(s![1.., ..-1]) + y.slice(s![..2, 1..]))),
    ("slice with steps", body!(|x, y| x.slice(s![.., 0..4;2]) + y.slice(s![.., 0..4;-2]))),
    ("slice assign", body!(|x, y| x.slice_assign(s![1..3, 1..3], y.slice(s![0..2, 0..2])))),
    ("flip", body!(|x, y| x.flip([0, 1]) - y)),
    ("cat", body!(|x, y| Tensor::cat(vec![x.clone(), y, x], 1))),
    ("repeat", body!(|x, y| x.repeat_dim(0, 3) * y.repeat(&[3, 1]))),
    (
        "chunk",
        body!(|x, y| {
            let parts = x.chunk(2, 1);
            parts[0].clone() * parts[1].clone() + y.narrow(1, 1, 2)
        }),
    ),
    ("select", body!(|x, y| x.clone().select(1, columns(&x.device())) + y.slice(s![.., ..3]))),
    (
        "select assign",
        body!(|x, y| {
            let part = y.slice(s![.., ..3]);
            x.clone().select_assign(1, columns(&x.device()), part, IndexingUpdateOp::Add)
        }),
    ),
    (
        "gather",
        body!(|x, y| {
            let positions = Tensor::<2, Int>::from_data([[0, 3], [1, 1], [2, 0]], &x.device());
            x.gather(1, positions) * y.slice(s![.., ..2])
        }),
    ),
    (
        "scatter",
        body!(|x, y| {
            let positions = Tensor::<2, Int>::from_data([[0, 3], [1, 1], [2, 0]], &x.device());
            x.scatter(1, positions, y.slice(s![.., ..2]), IndexingUpdateOp::Add)
        }),
    ),
    (
        "mask",
        body!(|x, y| {
            let mask = x.clone().greater(y.clone());
            x.clone().mask_where(mask.clone(), y.clone()) + y.mask_fill(mask, 0.5)
        }),
    ),
    ("clamp", body!(|x, y| x.clamp(0.3, 0.6) + y.clone().clamp_min(0.4) + y.clamp_max(0.5))),
    ("sums", body!(|x, y| x.clone().sum() + y.clone().sum_dim(0).sum() * x.mean() + y.mean_dim(1).sum())),
    ("reductions of axes", body!(|x, y| x.sum_dim(1) * y.mean_dim(1))),
    ("products", body!(|x, y| x.prod_dim(1) * y.prod().unsqueeze())),
    ("extrema", body!(|x, y| x.clone().max_dim(1) + y.clone().min_dim(1) + (x.max() * y.min()).unsqueeze())),
    (
        "extrema with positions",
        body!(|x, y| {
            let ((high, _), (low, _)) = (x.max_dim_with_indices(0), y.min_dim_with_indices(0));
            high * low
        }),
    ),
    ("running sums", body!(|x, y| x.cumsum(1) * y.cumprod(0))),
    ("pad", body!(|x, y| x.pad((1, 0, 2, 1), PadMode::Constant(0.5)).slice(s![..3, ..4]) * y)),
    ("variance", body!(|x, y| x.var(1) + y.var_bias(1))),
    (
        "constants",
        body!(|x, y| {
            let device = x.device();
            let table = Tensor::<2>::from_data([[1.0, 2.0, 3.0, 4.0]], &device);
            x * Tensor::ones([3, 4], &device)
                + y * table
                + Tensor::zeros([3, 4], &device)
                + Tensor::full([3, 4], 0.5, &device)
        }),
    ),
    ("triangle", body!(|x, y| x.tril(0) + y.triu(1))),
    (
        "numbers of an axis",
        body!(|x, y| {
            let steps = Tensor::<1, Int>::arange(0..4, &x.device()).float();
            x * steps.unsqueeze() + y
        }),
    ),
    ("unfold", body!(|x, y| x.unfold::<3, _>(1, 2, 1).sum_dim(2).squeeze_dim::<2>(2) + y.slice(s![.., ..3]))),
];

/// The ops for which only results are compared, because they have no gradients or because Burn's gradients differ from
/// funcify's.
const VALUES: &[(&str, Body)] = &[
    // Burn's backward pass differentiates the tanh approximation of GELU instead of GELU itself.
    ("gelu", body!(|x, y| activation::gelu(x - y))),
    // Burn has no gradient rule for the hard sigmoid. It differentiates a clamp instead, and the gradient of a clamp at
    // its bounds is unspecified.
    ("hard sigmoid", body!(|x, y| activation::hard_sigmoid(x * 8.0 - y, 0.2, 0.5))),
    (
        "rounding",
        body!(|x, y| (x.clone() * 7.0).round() + (y.clone() * 7.0).floor() + (x * 7.0).ceil() + (y * 7.0).trunc()),
    ),
    ("signs", body!(|x, y| (x - y).sign())),
    (
        "comparisons",
        body!(|x, y| {
            let less = x.clone().lower(y.clone()).bool_or(x.clone().greater_equal(y.clone()).bool_not());
            let near = x.clone().greater_elem(0.5).bool_and(y.clone().lower_equal_elem(0.7));
            less.bool_xor(near).bool_and(x.not_equal(y))
        }),
    ),
    ("comparisons with numbers", body!(|x, y| x.clone().lower_elem(0.4).equal(y.greater_equal_elem(0.6)).float() + x)),
    ("not a number", body!(|x, y| (x.clone() - 0.5).log().is_nan().float() + (y - 0.5).is_inf().float() + x)),
    (
        "any and all",
        body!(|x, y| x
            .clone()
            .greater_elem(0.5)
            .any_dim(1)
            .bool_and(y.greater_elem(0.01).all_dim(1))
            .bool_or(x.greater_elem(9.0).any().unsqueeze())),
    ),
    ("positions", body!(|x, y| x.argmax(1) * 10 + y.argmin(1))),
    ("sort", body!(|x, y| x.sort(1) + y.sort_descending(0))),
    (
        "sort with positions",
        body!(|x, y| {
            let (sorted, positions) = x.sort_with_indices(1);
            sorted * positions.float() + y.argsort(1).float()
        }),
    ),
    (
        "greatest",
        body!(|x, y| {
            let (values, positions) = x.topk_with_indices(2, 1);
            values * positions.float() + y.slice(s![.., ..2])
        }),
    ),
    (
        "integers",
        body!(|x, y| {
            let (i, j) = ((x * 20.0).int(), (y * 5.0).int() + 1);
            (i.clone() + j.clone() * 3 - 1) / j.clone() + i.clone().max_dim(1) - j.clone().sum_dim(1) + (i - j).abs()
        }),
    ),
    (
        "bits",
        body!(|x, y| {
            let (i, j) = ((x * 100.0).int(), (y * 100.0).int());
            i.clone()
                .bitwise_and(j.clone())
                .bitwise_or_scalar(4)
                .bitwise_xor(i.bitwise_left_shift_scalar(1))
                .bitwise_right_shift_scalar(1)
                + j.bitwise_not()
        }),
    ),
    (
        "one hot",
        body!(|x, y| {
            let classes = (x.clone().slice(s![.., 0]) * 4.0).int();
            let all = Tensor::<1, Int>::arange(0..4, &x.device()).unsqueeze::<2>().expand([3, 4]);
            classes.expand([3, 4]).equal(all).float() + y
        }),
    ),
    ("running extrema", body!(|x, y| x.cummax(1) + y.cummin(0))),
];

fn inputs(device: &Device) -> (Tensor<2>, Tensor<2>) {
    let of = |seed| values(12, seed).into_iter().map(|number| 0.5 + 0.4 * number).collect::<Vec<f32>>();
    let tensor = |seed| Tensor::from_data(TensorData::new(of(seed), [3, 4]), device);
    (tensor(1), tensor(2))
}

fn data(tensor: AnyTensor) -> TensorData {
    let shape = tensor.shape();
    let elements = tensor.into_host().unwrap().cast(funcify::DType::F64);
    TensorData::new(elements.as_slice::<f64>().unwrap().to_vec(), shape)
}

/// Returns the device that computes the expected results. Some functions are less accurate on other devices, for
/// example the arcsine on wgpu.
fn reference() -> Device {
    devices().swap_remove(0)
}

#[test]
fn every_op_gives_in_the_graph_what_it_gives_in_burn() {
    for device in devices() {
        let (x, y) = inputs(&device);
        for (name, body) in DIFFERENTIABLE.iter().chain(VALUES) {
            let traced = trace((), (x.clone(), y.clone()), |(), (x, y)| body(x, y));
            let traced = traced.unwrap_or_else(|error| panic!("{name}: {error}"));
            let found: AnyTensor = traced.call((), (x.clone(), y.clone())).unwrap();
            let (x, y) = inputs(&reference());
            assert_close(&data(found), &data(body(x, y)), 2e-5, &format!("{name} on {device:?}"));
        }
    }
}

/// The elementwise ops whose results are compared with Burn's for infinities, NaN, and zeros of both signs.
const ON_SPECIAL_NUMBERS: &[(&str, Body)] = &[
    ("square root", body!(|x, _y| x.sqrt())),
    ("power 0.5", body!(|x, _y| x.powf_scalar(0.5))),
    ("power 1.5", body!(|x, _y| x.powf_scalar(1.5))),
    ("power 2.0", body!(|x, _y| x.powf_scalar(2.0))),
    ("power -1", body!(|x, _y| x.powi_scalar(-1))),
    ("power 3", body!(|x, _y| x.powi_scalar(3))),
    ("powers", body!(|x, y| x.powf(y))),
    ("square", body!(|x, _y| x.square())),
    ("recip", body!(|x, _y| x.recip())),
    ("abs", body!(|x, _y| x.abs())),
    ("negation", body!(|x, _y| -x)),
    ("floor", body!(|x, _y| x.floor())),
    ("ceil", body!(|x, _y| x.ceil())),
    ("round", body!(|x, _y| x.round())),
    ("truncation", body!(|x, _y| x.trunc())),
    ("exp", body!(|x, _y| x.exp())),
    ("log", body!(|x, _y| x.log())),
    ("log1p", body!(|x, _y| x.log1p())),
    ("tanh", body!(|x, _y| x.tanh())),
    ("sigmoid", body!(|x, _y| activation::sigmoid(x))),
    ("erf", body!(|x, _y| x.erf())),
    ("sums", body!(|x, y| x + y)),
    ("differences", body!(|x, y| x - y)),
    ("products", body!(|x, y| x * y)),
    ("quotients", body!(|x, y| x / y)),
    ("comparisons", body!(|x, y| x.clone().greater(y.clone()).int() + x.equal(y).int() * 2)),
    ("is nan", body!(|x, _y| x.is_nan())),
    ("is finite", body!(|x, _y| x.is_finite())),
];

#[test]
fn special_numbers_are_burns() {
    let device = reference();
    let numbers = [f32::NEG_INFINITY, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, f32::INFINITY, f32::NAN];
    let pairs = || numbers.iter().flat_map(|x| numbers.iter().map(move |y| (*x, *y)));
    let tensor = |of: Vec<f32>| Tensor::<2>::from_data(TensorData::new(of, [1, numbers.len().pow(2)]), &device);
    let (x, y) = (tensor(pairs().map(|pair| pair.0).collect()), tensor(pairs().map(|pair| pair.1).collect()));
    let mut wrong = Vec::new();
    for (name, body) in ON_SPECIAL_NUMBERS {
        let traced = trace((), (x.clone(), y.clone()), |(), (x, y)| body(x, y)).unwrap();
        let found = data(traced.call((), (x.clone(), y.clone())).unwrap());
        let expected = data(body(x.clone(), y.clone()));
        for ((found, expected), pair) in found.iter::<f64>().zip(expected.iter::<f64>()).zip(pairs()) {
            let is_same = found == expected && found.is_sign_negative() == expected.is_sign_negative();
            let is_near = (found - expected).abs() <= 2e-6 * expected.abs() && expected != 0.0;
            if !(is_same || is_near || found.is_nan() && expected.is_nan()) {
                wrong.push(format!("{name} of {pair:?}: {found} instead of {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the gradients of x and y. The loss is a weighted sum of the elements of the result, with a different weight
/// for each element.
fn gradients(device: &Device, forward: impl Fn(Tensor<2>, Tensor<2>) -> AnyTensor) -> [TensorData; 2] {
    let (x, y) = inputs(device);
    let (x, y) = (x.require_grad(), y.require_grad());
    let result = forward(x.clone(), y.clone());
    let flat: Tensor<1> = match result.shape().len() {
        1 => result.into_tensor().unwrap(),
        2 => result.into_tensor::<2, burn::tensor::Float>().unwrap().flatten(0, 1),
        _ => result.into_tensor::<3, burn::tensor::Float>().unwrap().flatten(0, 2),
    };
    let count = flat.dims()[0];
    let weights = Tensor::from_data(TensorData::new(values(count, 3), [count]), device);
    let gradients = (flat * weights).sum().backward();
    [x, y].map(|it| it.grad(&gradients).unwrap_or_else(|| Tensor::zeros([3, 4], device)).into_data())
}

#[test]
fn every_gradient_is_burns() {
    for device in autodiff_devices() {
        for (name, body) in DIFFERENTIABLE {
            let traced = trace((), inputs(&device), |(), (x, y)| body(x, y)).unwrap();
            let found = gradients(&device, |x, y| traced.call((), (x, y)).unwrap());
            let expected = gradients(&reference().autodiff(), body);
            for (found, expected) in found.iter().zip(&expected) {
                assert_close(found, expected, 2e-5, &format!("the gradient of {name} on {device:?}"));
            }
        }
    }
}

#[test]
fn the_layers_of_burn_are_traced() {
    for device in devices() {
        let (x, _) = inputs(&device);
        let tokens = Tensor::<2, Int>::from_data([[0, 3], [2, 2]], &device);
        let close = |found: AnyTensor, expected: AnyTensor, what: &str| {
            assert_close(&data(found), &data(expected), 2e-5, &format!("{what} on {device:?}"));
        };

        let linear = LinearConfig::new(4, 2).init(&device);
        let traced = trace(&linear, x.clone(), |linear, x| linear.forward(x)).unwrap();
        let names: Vec<&str> = (0..3).map(|index| traced.graph().input_name(index)).collect();
        assert_eq!(names, ["weight", "bias", "x"]);
        close(traced.call(&linear, x.clone()).unwrap(), linear.forward(x.clone()).into(), "linear");

        let norms = (LayerNormConfig::new(4).init(&device), BatchNormConfig::new(4).init(&device));
        let traced =
            trace((&norms.0, &norms.1), x.clone(), |(layer, batch), x| batch.forward(layer.forward(x))).unwrap();
        let expected = norms.1.forward(norms.0.forward(x.clone()));
        close(traced.call((&norms.0, &norms.1), x.clone()).unwrap(), expected.into(), "norms");

        let embedding = EmbeddingConfig::new(5, 4).init(&device);
        let traced = trace(&embedding, tokens.clone(), |embedding, tokens| embedding.forward(tokens)).unwrap();
        close(traced.call(&embedding, tokens.clone()).unwrap(), embedding.forward(tokens.clone()).into(), "embedding");

        let conv =
            Conv1dConfig::new(4, 6, 2).with_padding(PaddingConfig1d::Explicit(1, 0)).with_groups(2).init(&device);
        let series = embedding.forward(tokens.clone()).swap_dims(1, 2);
        let traced = trace(&conv, series.clone(), |conv, x| conv.forward(x)).unwrap();
        close(traced.call(&conv, series.clone()).unwrap(), conv.forward(series.clone()).into(), "a convolution");

        let conv =
            Conv2dConfig::new([1, 2], [2, 2]).with_stride([1, 2]).with_padding(PaddingConfig2d::Same).init(&device);
        let image = x.clone().reshape([1, 1, 3, 4]);
        if let Ok(traced) = trace(&conv, image.clone(), |conv, x| conv.forward(x)) {
            close(traced.call(&conv, image.clone()).unwrap(), conv.forward(image).into(), "a convolution of images");
        }

        let attention = MultiHeadAttentionConfig::new(4, 2).with_dropout(0.0).init(&device);
        let words = embedding.forward(tokens);
        let attend = |x: Tensor<3>| MhaInput::self_attn(x);
        let traced = trace(&attention, words.clone(), |attention, x| attention.forward(attend(x)).context).unwrap();
        let expected = attention.forward(attend(words.clone())).context;
        close(traced.call(&attention, words).unwrap(), expected.into(), "attention");
    }
}

#[test]
fn a_result_may_be_an_argument_and_may_be_given_twice() {
    for device in devices() {
        let (x, y) = inputs(&device);
        let traced = trace((), (x.clone(), y.clone()), |(), (x, y)| {
            let sum = x.clone() + y;
            (x, sum.clone(), sum)
        })
        .unwrap();
        let (a, b, c): (Tensor<2>, Tensor<2>, Tensor<2>) = traced.call((), (x.clone(), y.clone())).unwrap();
        assert_eq!(a.into_data(), x.to_data());
        assert_eq!(b.into_data(), (x + y).into_data());
        assert_eq!(c.dims(), [3, 4]);
    }
}

#[test]
fn a_trace_is_a_part_of_another_graph_with_the_weights_of_its_module() {
    for device in devices() {
        let linear = LinearConfig::new(3, 3).init(&device);
        let x = Tensor::<2>::from_data(TensorData::new(values(6, 1), [2, 3]), &device);
        let traced = trace(&linear, (x.clone(),), |linear, (x,)| linear.forward(x).tanh()).unwrap();
        let layer = traced.graph();
        let twice = Graph::build("twice", |g| {
            let inputs = (0..3).map(|index| g.input(layer.input_name(index), layer.input_type(index)));
            let mut inputs: Vec<Value> = inputs.collect();
            inputs[2] = layer.apply(&inputs)[0];
            layer.apply(&inputs)[0]
        });
        let weights = traced.weights(&linear).unwrap();
        let found: Tensor<2> = Differentiable::new(&twice.unwrap()).call((weights, x.clone())).unwrap();
        let expected = linear.forward(linear.forward(x).tanh()).tanh();
        assert_close(&found.into_data(), &expected.into_data(), 1e-5, "twice");
    }
}

#[test]
fn an_op_without_a_translation_is_named_with_the_users_line() {
    let device = Device::flex();
    let x = Tensor::<2>::ones([2, 3], &device);
    let error = trace((), x.clone(), |(), x: Tensor<2>| x.clone().cross(x, 1)).unwrap_err();
    assert_eq!(error.kind(), "Unsupported");
    let text = error.to_string();
    assert!(["trace: ", "Burn's op `Cross`", "tests/trace.rs"].iter().all(|part| text.contains(part)), "{text}");
    let error = trace((), x, |(), _: Tensor<2>| Tensor::<2>::ones([2, 3], &device)).unwrap_err();
    assert!(error.to_string().contains("result 0 of the closure"), "{error}");
}

#[test]
fn booleans_are_arguments_and_results() {
    for device in devices() {
        let mask = Tensor::<2, Bool>::from_data([[true, false], [false, false]], &device);
        let traced =
            trace((), mask.clone(), |(), mask: Tensor<2, Bool>| mask.clone().bool_not().bool_or(mask.transpose()))
                .unwrap();
        let found: Tensor<2, Bool> = traced.call((), mask).unwrap();
        assert_eq!(found.into_data().iter::<bool>().collect::<Vec<_>>(), [true, true, true, true]);
    }
}
