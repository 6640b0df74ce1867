//! Holds the parameters of a layer as a Burn module. The names and ranks of the parameters are known only when the
//! layer is created.

use burn::module::{Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Distribution, Tensor};
use funcify_core::error::{Place, Result};
use funcify_core::{DType, HostTensor};
use funcify_nn::{Init, Layer, Parameter};

use crate::device::Burn;
use crate::plugin::{AnyTensor, device_error};
use crate::{data, dtypes};

/// An ordered list of named parameters. Dots separate the levels of a name, as in `x_proj.weight`.
#[derive(Clone, Debug)]
pub(super) struct Parameters(Vec<(String, AnyParam)>);

/// A parameter of rank 1, 2 or 3, the only ranks that occur in layers.
#[derive(Clone, Debug)]
enum AnyParam {
    One(Param<Tensor<1>>),
    Two(Param<Tensor<2>>),
    Three(Param<Tensor<3>>),
}

macro_rules! each {
    ($param:expr, $name:ident => $of:expr) => {
        match $param {
            AnyParam::One($name) => $of,
            AnyParam::Two($name) => $of,
            AnyParam::Three($name) => $of,
        }
    };
}

macro_rules! mapped {
    ($param:expr, $name:ident => $of:expr) => {
        match $param {
            AnyParam::One($name) => AnyParam::One($of),
            AnyParam::Two($name) => AnyParam::Two($of),
            AnyParam::Three($name) => AnyParam::Three($of),
        }
    };
}

impl Parameters {
    /// Creates the initial parameters of a layer. Random parameters are drawn from Burn's generator for the device.
    pub(super) fn new(at: &Place, layer: &Layer, dtype: DType, device: &Device) -> Result<Self> {
        let burn = Burn::of(device)?;
        let named = layer.parameters.iter().map(|parameter| {
            let param = match parameter.shape.len() {
                1 => AnyParam::One(param(at, &burn, parameter, dtype, device)?),
                2 => AnyParam::Two(param(at, &burn, parameter, dtype, device)?),
                3 => AnyParam::Three(param(at, &burn, parameter, dtype, device)?),
                rank => {
                    let found = format!("rank {rank}");
                    return Err(at.mismatch(&parameter.name, "rank 1, 2 or 3", found, "reshape it in the layer"));
                }
            };
            Ok((parameter.name.clone(), param))
        });
        named.collect::<Result<Vec<_>>>().map(Parameters)
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = AnyTensor> + '_ {
        self.0.iter().map(|(_, param)| each!(param, param => param.val().into()))
    }

    fn map_each(self, f: impl FnMut((String, AnyParam)) -> (String, AnyParam)) -> Self {
        Parameters(self.0.into_iter().map(f).collect())
    }
}

/// Creates a parameter of rank `D` with its initial elements.
fn param<const D: usize>(
    at: &Place,
    burn: &Burn,
    parameter: &Parameter,
    dtype: DType,
    device: &Device,
) -> Result<Param<Tensor<D>>> {
    let shape = parameter.shape.as_slice();
    let burn_dtype = burn::tensor::DType::from(
        dtypes::float(burn.storage_dtype(dtype)).map_err(|source| device_error(at, "burn", source))?,
    );
    let options = (device, burn_dtype);
    let tensor = match &parameter.init {
        Init::Uniform(bound) => Tensor::random(shape, Distribution::Uniform(-bound, *bound), options),
        Init::Normal(deviation) => Tensor::random(shape, Distribution::Normal(0.0, *deviation), options),
        Init::Constant(number) => Tensor::full(shape, *number, options),
        Init::Values(values) => from_host(burn, &values.cast(dtype), device),
    };
    Ok(Param::from_tensor(tensor))
}

fn from_host<const D: usize>(burn: &Burn, values: &HostTensor, device: &Device) -> Tensor<D> {
    let tensor = Tensor::<D>::from_dispatch(data::upload(burn, values));
    if device.is_autodiff() { Tensor::from_inner(tensor) } else { tensor }
}

impl Module for Parameters {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.iter().fold(devices, |devices, (_, param)| each!(param, param => param.collect_devices(devices)))
    }

    fn fork(self, device: &Device) -> Self {
        self.map_each(|(name, param)| (name, mapped!(param, param => param.fork(device))))
    }

    fn to_device(self, device: &Device) -> Self {
        self.map_each(|(name, param)| (name, mapped!(param, param => param.to_device(device))))
    }

    fn train(self) -> Self {
        self.map_each(|(name, param)| (name, mapped!(param, param => param.train())))
    }

    fn valid(&self) -> Self {
        self.clone().map_each(|(name, param)| (name, mapped!(param, param => param.valid())))
    }

    fn materialize(self) -> Self {
        self.map_each(|(name, param)| (name, mapped!(param, param => param.materialize())))
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        for (name, param) in &self.0 {
            name.split('.').for_each(|part| visitor.enter_module(part, CONTAINER));
            each!(param, param => param.visit(visitor));
            name.rsplit('.').for_each(|part| visitor.exit_module(part, CONTAINER));
        }
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        self.map_each(|(name, param)| {
            name.split('.').for_each(|part| mapper.enter_module(part, CONTAINER));
            let param = mapped!(param, param => Module::map(param, mapper));
            name.rsplit('.').for_each(|part| mapper.exit_module(part, CONTAINER));
            (name, param)
        })
    }
}

/// The container type reported to Burn's module visitors.
const CONTAINER: &str = "Struct:Layer";

impl ModuleDisplayDefault for Parameters {
    fn content(&self, content: Content) -> Option<Content> {
        let content =
            self.0.iter().fold(content, |content, (name, param)| each!(param, param => content.add(name, param)));
        content.optional()
    }
}

impl ModuleDisplay for Parameters {}
