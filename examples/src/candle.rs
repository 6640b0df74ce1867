//! Parts shared by the Candle models: reproducible initial variables and the Adam optimizer.

use std::sync::Mutex;

use anyhow::Result;
use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Shape, Tensor, Var};
use candle_nn::init::NormalOrUniform;
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{AdamW, Init, Optimizer, ParamsAdamW, VarBuilder, VarMap};
use rand::distr::{Distribution, Uniform};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::Normal;

/// A source of variables whose initial values depend only on a seed. Candle's own generator cannot be seeded on the
/// CPU.
struct Seeded {
    vars: VarMap,
    random: Mutex<StdRng>,
}

/// Returns an empty map of variables, and a builder that adds variables with seeded initial values to it.
pub(crate) fn seeded(seed: u64, dtype: DType, device: &Device) -> (VarMap, VarBuilder<'static>) {
    let vars = VarMap::new();
    let backend = Seeded { vars: vars.clone(), random: Mutex::new(StdRng::seed_from_u64(seed)) };
    (vars, VarBuilder::from_backend(Box::new(backend), dtype, device.clone()))
}

impl SimpleBackend for Seeded {
    fn get(&self, shape: Shape, name: &str, init: Init, dtype: DType, device: &Device) -> candle_core::Result<Tensor> {
        if self.contains_tensor(name) {
            return self.vars.get(shape, name, init, dtype, device);
        }
        let numbers = self.draw(&shape, init)?;
        let var = Var::from_tensor(&Tensor::from_vec(numbers, shape, device)?.to_dtype(dtype)?)?;
        let tensor = var.as_tensor().clone();
        self.vars.data().lock().expect("no thread panics while it holds the lock").insert(name.to_string(), var);
        Ok(tensor)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        candle_core::bail!("the size of `{name}` is not known")
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.vars.data().lock().expect("no thread panics while it holds the lock").contains_key(name)
    }
}

impl Seeded {
    fn draw(&self, shape: &Shape, init: Init) -> candle_core::Result<Vec<f64>> {
        let count = shape.elem_count();
        Ok(match init {
            Init::Const(number) => vec![number; count],
            Init::Uniform { lo, up } => {
                self.sample(count, Uniform::new_inclusive(lo, up).map_err(candle_core::Error::wrap)?)
            }
            Init::Randn { mean, stdev } => {
                self.sample(count, Normal::new(mean, stdev).map_err(candle_core::Error::wrap)?)
            }
            Init::Kaiming { dist, fan, non_linearity } => {
                let stdev = non_linearity.gain() / (fan.for_shape(shape) as f64).sqrt();
                let bound = 3f64.sqrt() * stdev;
                let init = match dist {
                    NormalOrUniform::Uniform => Init::Uniform { lo: -bound, up: bound },
                    NormalOrUniform::Normal => Init::Randn { mean: 0.0, stdev },
                };
                self.draw(shape, init)?
            }
        })
    }

    fn sample(&self, count: usize, distribution: impl Distribution<f64>) -> Vec<f64> {
        let mut random = self.random.lock().expect("no thread panics while it holds the lock");
        (&mut *random).sample_iter(distribution).take(count).collect()
    }
}

/// The Adam optimizer of a model, with the gradients for its next update.
pub(crate) struct Adam {
    adam: AdamW,
    gradients: Option<GradStore>,
}

impl Adam {
    pub(crate) fn new(vars: Vec<Var>) -> Result<Self> {
        let adam = AdamW::new(vars, ParamsAdamW { weight_decay: 0.0, ..ParamsAdamW::default() })?;
        Ok(Adam { adam, gradients: None })
    }

    /// Computes the gradients of a loss and stores them. Returns the loss.
    pub(crate) fn differentiate(&mut self, loss: &Tensor) -> Result<f64> {
        self.gradients = Some(loss.backward()?);
        Ok(loss.to_dtype(DType::F64)?.to_scalar()?)
    }

    /// Updates the variables with the stored gradients and this learning rate, and discards the gradients.
    pub(crate) fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.set_learning_rate(rate);
        Ok(self.gradients.take().map_or(Ok(()), |gradients| self.adam.step(&gradients))?)
    }
}
