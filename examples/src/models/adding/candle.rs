//! The model in Candle. funcify's S5 layer gets its parameters from a `VarBuilder`, under the names used in the S5
//! authors' code.

use anyhow::Result;
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{Init, Linear, VarBuilder, linear, loss};
use funcify_candle::nn::S5;

use super::{Adder, Batch, FEATURE_SCALE, Problems, SEED, Sizes, WEIGHT_DEVIATION};
use crate::candle::{Adam, seeded};
use crate::training::{Loop, Training};

pub(super) struct Model {
    encoder: Linear,
    layer: S5,
    /// The parameters of `layer`, for the handwritten loop.
    own: S5Parameters,
    readout: Linear,
    adam: Adam,
    problems: Problems,
    whose: Loop,
    device: Device,
}

impl Model {
    pub(super) fn new(whose: Loop, sizes: Sizes, device: &Device) -> Result<Self> {
        let (vars, vb) = seeded(SEED, DType::F32, device);
        let wide = Init::Randn { mean: 0.0, stdev: WEIGHT_DEVIATION };
        let encoder = Linear::new(vb.get_with_hints((sizes.features, 2), "encoder.weight", wide)?, None);
        let layer = S5::new(sizes.layer(), vb.pp("s5"))?;
        let own = S5Parameters::new(sizes, vb.pp("s5"))?;
        let readout = linear(sizes.features, 1, vb.pp("readout"))?;
        let adam = Adam::new(vars.all_vars())?;
        Ok(Model { encoder, layer, own, readout, adam, problems: sizes.problems(0), whose, device: device.clone() })
    }

    /// Maps rows to features. For unmarked rows, most features are zero.
    fn encode(&self, rows: &Tensor) -> candle_core::Result<Tensor> {
        (self.encoder.forward(rows)? - 1.0)?.relu()? * FEATURE_SCALE
    }

    /// Computes the answer for each sequence of a batch, `[B]`.
    fn forward(&self, batch: &Batch) -> candle_core::Result<Tensor> {
        let rows = Tensor::from_slice(&batch.rows, &batch.shape, &self.device)?;
        let last = match self.whose {
            Loop::Plugin => {
                let ys = self.layer.forward(&self.encode(&rows)?)?;
                ys.narrow(1, batch.shape[1] - 1, 1)?.squeeze(1)?
            }
            Loop::Own => self.own_loop(&rows)?,
        };
        self.readout.forward(&last)?.squeeze(1)
    }

    /// Computes the layer's last output with a handwritten loop, which encodes one row at a time. If autodiff tracked a
    /// sequence of encoded rows, the backward pass of each `narrow` would take time proportional to the length of the
    /// whole sequence.
    fn own_loop(&self, rows: &Tensor) -> candle_core::Result<Tensor> {
        let rows = rows.transpose(0, 1)?.contiguous()?;
        let (steps, sequences, _) = rows.dims3()?;
        let (rate, b) = self.own.discretise()?;
        let zeros = Tensor::zeros((sequences, b.0.dim(1)?), DType::F32, &self.device)?;
        let mut state = (zeros.clone(), zeros);
        for step in 0..steps {
            let u = self.encode(&rows.get(step)?)?;
            let moved = multiply(&rate, &state)?;
            state = ((moved.0 + u.matmul(&b.0)?)?, (moved.1 + u.matmul(&b.1)?)?);
        }
        let last = self.encode(&rows.get(steps - 1)?)?;
        self.own.output(&state, &last)
    }
}

/// A complex tensor, represented by its real and imaginary parts.
type Complex = (Tensor, Tensor);

/// The parameters of S5, for the handwritten loop with Candle's ops.
struct S5Parameters {
    lambda: Complex,
    b: Tensor,
    c: Tensor,
    d: Tensor,
    log_step: Tensor,
}

impl S5Parameters {
    fn new(sizes: Sizes, vb: VarBuilder) -> candle_core::Result<Self> {
        let (h, p) = (sizes.features, sizes.states);
        let lambda = (vb.get(p, "Lambda_re")?, vb.get(p, "Lambda_im")?);
        let (b, c, d) = (vb.get((p, h, 2), "B")?, vb.get((h, p, 2), "C")?, vb.get(h, "D")?);
        Ok(S5Parameters { lambda, b, c, d, log_step: vb.get((p, 1), "log_step")? })
    }

    /// Discretises the layer with a zero-order hold. Returns the discrete eigenvalues Λ̄, `[P]`, and the discrete input
    /// matrix B̄, `[H,P]`.
    fn discretise(&self) -> candle_core::Result<(Complex, Complex)> {
        let step = self.log_step.squeeze(1)?.exp()?;
        let decay = (&self.lambda.0 * &step)?.exp()?;
        let angle = (&self.lambda.1 * &step)?;
        let rate = ((&decay * angle.cos()?)?, (&decay * angle.sin()?)?);
        // B̄ is B times the gain, (Λ̄ - 1) / Λ.
        let norm = (self.lambda.0.sqr()? + self.lambda.1.sqr()?)?;
        let conjugate = ((&self.lambda.0 / &norm)?, (&self.lambda.1 / &norm)?.neg()?);
        let gain = multiply(&((&rate.0 - 1.0)?, rate.1.clone()), &conjugate)?;
        let b = multiply(&gain, &parts(&self.b.transpose(0, 1)?)?)?;
        Ok((rate, b))
    }

    /// Computes the output `2 Re(C x) + D u` from the state `x` and the input `u`.
    fn output(&self, x: &Complex, u: &Tensor) -> candle_core::Result<Tensor> {
        let c = parts(&self.c.transpose(0, 1)?)?;
        let seen = (x.0.matmul(&c.0)? - x.1.matmul(&c.1)?)?;
        (seen * 2.0)? + u.broadcast_mul(&self.d)?
    }
}

fn parts(numbers: &Tensor) -> candle_core::Result<Complex> {
    Ok((numbers.narrow(2, 0, 1)?.squeeze(2)?, numbers.narrow(2, 1, 1)?.squeeze(2)?))
}

fn multiply(a: &Complex, b: &Complex) -> candle_core::Result<Complex> {
    let re = (a.0.broadcast_mul(&b.0)? - a.1.broadcast_mul(&b.1)?)?;
    let im = (a.0.broadcast_mul(&b.1)? + a.1.broadcast_mul(&b.0)?)?;
    Ok((re, im))
}

impl Training for Model {
    type Batch = Batch;

    fn batch(&mut self) -> Self::Batch {
        self.problems.next()
    }

    fn differentiate(&mut self, batch: Self::Batch) -> Result<f64> {
        let sums = Tensor::new(batch.sums.as_slice(), &self.device)?;
        let loss = loss::mse(&self.forward(&batch)?, &sums)?;
        self.adam.differentiate(&loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl Adder for Model {
    fn answers(&self, batch: &Batch) -> Result<Vec<f32>> {
        Ok(self.forward(batch)?.to_vec1()?)
    }
}
