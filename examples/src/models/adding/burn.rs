//! The model in Burn. funcify's S5 layer is an ordinary Burn module.

use anyhow::{Context, Result};
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use funcify_burn::AnyTensor;
use funcify_burn::nn::S5;

use super::{Adder, Batch, FEATURE_SCALE, Problems, SEED, Sizes, WEIGHT_DEVIATION};
use crate::burn::Adam;
use crate::training::{Loop, Training};

pub(super) struct Model {
    adam: Adam<Network>,
    problems: Problems,
    whose: Loop,
    device: Device,
}

#[derive(Module, Debug)]
pub(super) struct Network {
    encoder: Linear,
    layer: S5,
    readout: Linear,
}

impl Network {
    pub(super) fn new(sizes: Sizes, device: &Device) -> Result<Self> {
        let device = device.clone().autodiff();
        device.seed(SEED);
        let wide = Initializer::Normal { mean: 0.0, std: WEIGHT_DEVIATION };
        let encoder = LinearConfig::new(2, sizes.features).with_bias(false).with_initializer(wide).init(&device);
        let layer = S5::new(&sizes.layer(), &device)?;
        let readout = LinearConfig::new(sizes.features, 1).init(&device);
        Ok(Network { encoder, layer, readout }.materialize())
    }

    /// Maps rows to features. For unmarked rows, most features are zero.
    fn encode<const D: usize>(&self, rows: Tensor<D>) -> Tensor<D> {
        relu(self.encoder.forward(rows) - 1.0) * FEATURE_SCALE
    }

    /// Computes the answer for each sequence, `[B,1]`, with the loop that `whose` selects.
    fn forward(&self, rows: Tensor<3>, whose: Loop) -> Result<Tensor<2>> {
        let last = match whose {
            Loop::Plugin => {
                let (ys, _) = self.layer.forward(self.encode(rows), None)?;
                ys.slice_dim(1, -1).squeeze_dim(1)
            }
            Loop::Own => self.own_loop(rows)?,
        };
        Ok(self.readout.forward(last))
    }

    /// Computes the layer's last output with a handwritten loop, which encodes one row at a time. If autodiff tracked a
    /// sequence of encoded rows, the backward pass of each slice would take time proportional to the length of the
    /// whole sequence.
    fn own_loop(&self, rows: Tensor<3>) -> Result<Tensor<2>> {
        let own = S5Parameters::of(&self.layer)?;
        let (rate, b) = own.discretise();
        let zeros = Tensor::zeros([rows.dims()[0], rate.0.dims()[1]], &rows.device());
        let mut state = (zeros.clone(), zeros);
        for row in rows.clone().iter_dim(1) {
            let u = self.encode(row.squeeze_dim(1));
            let moved = multiply(rate.clone(), state);
            state = (moved.0 + u.clone().matmul(b.0.clone()), moved.1 + u.matmul(b.1.clone()));
        }
        Ok(own.output(state, self.encode(rows.slice_dim(1, -1).squeeze_dim(1))))
    }
}

/// A complex tensor, represented by its real and imaginary parts.
type Complex = (Tensor<2>, Tensor<2>);

/// The parameters of S5, for the handwritten loop with Burn's ops.
struct S5Parameters {
    /// The eigenvalues, `[1,P]`.
    lambda: Complex,
    /// The input matrix, `[P,H,2]`.
    b: Tensor<3>,
    /// The output matrix, `[H,P,2]`.
    c: Tensor<3>,
    /// The feedthrough, `[H]`.
    d: Tensor<1>,
    /// The logarithms of the step sizes, `[1,P]`.
    log_step: Tensor<2>,
}

impl S5Parameters {
    fn of(layer: &S5) -> Result<Self> {
        let mut parameters = Parameters::default();
        layer.visit(&mut parameters);
        let [lambda_re, lambda_im, b, c, d, log_step]: [AnyTensor; 6] =
            parameters.0.try_into().ok().context("S5 has six parameters")?;
        let row = |parameter: AnyTensor| parameter.into_tensor::<1, _>().map(|row| row.unsqueeze());
        Ok(S5Parameters {
            lambda: (row(lambda_re)?, row(lambda_im)?),
            b: b.into_tensor()?,
            c: c.into_tensor()?,
            d: d.into_tensor()?,
            log_step: log_step.into_tensor::<2, _>()?.transpose(),
        })
    }

    /// Discretises the layer with a zero-order hold. Returns the discrete eigenvalues Λ̄, `[1,P]`, and the discrete
    /// input matrix B̄, `[H,P]`.
    fn discretise(&self) -> (Complex, Complex) {
        let step = self.log_step.clone().exp();
        let (re, im) = self.lambda.clone();
        let (decay, angle) = ((re.clone() * step.clone()).exp(), im.clone() * step);
        let rate = (decay.clone() * angle.clone().cos(), decay * angle.sin());
        // B̄ is B times the gain, (Λ̄ - 1) / Λ.
        let norm = re.clone().square() + im.clone().square();
        let gain = multiply((rate.0.clone() - 1.0, rate.1.clone()), (re / norm.clone(), -im / norm));
        let b = multiply(gain, parts(self.b.clone()));
        (rate, b)
    }

    /// Computes the output `2 Re(C x) + D u` from the state `x` and the input `u`.
    fn output(self, x: Complex, u: Tensor<2>) -> Tensor<2> {
        let c = parts(self.c);
        (x.0.matmul(c.0) - x.1.matmul(c.1)) * 2.0 + u * self.d.unsqueeze()
    }
}

/// Splits a tensor `[m,n,2]` into its real and imaginary parts, each transposed to `[n,m]`.
fn parts(numbers: Tensor<3>) -> Complex {
    let part = |index: usize| numbers.clone().slice_dim(2, index).squeeze_dim::<2>(2).transpose();
    (part(0), part(1))
}

fn multiply(a: Complex, b: Complex) -> Complex {
    let re = a.0.clone() * b.0.clone() - a.1.clone() * b.1.clone();
    (re, a.0 * b.1 + a.1 * b.0)
}

/// A visitor that collects the parameters of a module, in the order of its fields.
#[derive(Default)]
struct Parameters(Vec<AnyTensor>);

impl ModuleVisitor for Parameters {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(param.val().into());
    }
}

impl Model {
    pub(super) fn new(whose: Loop, network: Network, sizes: Sizes, device: &Device) -> Self {
        let device = device.clone().autodiff();
        Model { adam: Adam::new(network), problems: sizes.problems(0), whose, device }
    }
}

fn rows(batch: &Batch, device: &Device) -> Tensor<3> {
    Tensor::from_data(TensorData::new(batch.rows.clone(), batch.shape), device)
}

impl Training for Model {
    type Batch = Batch;

    fn batch(&mut self) -> Self::Batch {
        self.problems.next()
    }

    fn differentiate(&mut self, batch: Self::Batch) -> Result<f64> {
        let answers = self.adam.module.forward(rows(&batch, &self.device), self.whose)?;
        let sums = TensorData::new(batch.sums.clone(), [batch.sums.len(), 1]);
        let loss = MseLoss::new().forward(answers, Tensor::from_data(sums, &self.device), Reduction::Mean);
        self.adam.differentiate(loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl Adder for Model {
    fn answers(&self, batch: &Batch) -> Result<Vec<f32>> {
        let device = self.device.clone().inner();
        let answers = self.adam.module.valid().forward(rows(batch, &device), Loop::Plugin)?;
        Ok(answers.into_data().iter::<f32>().collect())
    }
}
