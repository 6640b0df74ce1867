//! Reads files of weights and expected results, and compares results with the expected ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use funcify::HostTensor;
use funcify::files::read_safetensors;

/// Weights, outputs or gradients, keyed by name. The key of the gradient of `NAME` is `grad.NAME`.
pub(crate) type Tensors = BTreeMap<String, HostTensor>;

/// The weights of a model, its inputs, and its expected results.
pub(crate) struct Golden {
    pub(crate) weights: Tensors,
    pub(crate) expected: Tensors,
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("weights")
}

impl Golden {
    pub(crate) fn read(name: &str) -> Golden {
        let read = |file: String| read_safetensors(folder().join(file)).unwrap();
        Golden { weights: read(format!("{name}.safetensors")), expected: read(format!("{name}.expected.safetensors")) }
    }

    /// Returns the tensors whose names start with `name` and a dot, keyed by the rest of the name.
    pub(crate) fn part(&self, name: &str) -> Golden {
        let below = |tensors: &Tensors| {
            let named = tensors.iter().filter_map(|(key, tensor)| Some((key.strip_prefix(name)?, tensor)));
            named.filter_map(|(key, tensor)| Some((key.strip_prefix('.')?.to_string(), tensor.clone()))).collect()
        };
        Golden { weights: below(&self.weights), expected: below(&self.expected) }
    }

    pub(crate) fn input(&self, name: &str) -> &HostTensor {
        &self.expected[name]
    }
}

/// The largest differences from the expected outputs and from the expected gradients. Each difference is relative to
/// the largest expected element of its tensor.
#[derive(Default)]
pub(crate) struct Differences {
    pub(crate) outputs: f64,
    pub(crate) gradients: f64,
    /// The number of compared elements.
    pub(crate) count: usize,
}

/// Compares the outputs and gradients in `found` with the expected ones from the file, and returns the largest
/// differences. Panics if `found` lacks a gradient that the file contains.
pub(crate) fn differences(found: &Tensors, golden: &Golden) -> Differences {
    for name in golden.expected.keys().filter(|name| name.starts_with("grad.")) {
        assert!(found.contains_key(name), "`{name}` is missing");
    }
    let mut all = Differences::default();
    for (name, found) in found {
        let expected = &golden.expected[name];
        assert_eq!(found.shape(), expected.shape(), "{name}");
        let (found, expected) = (found.to_f64_vec(), expected.to_f64_vec());
        let largest = expected.iter().fold(0.0, |largest: f64, number| largest.max(number.abs()));
        assert!(largest > 0.0 && found.iter().all(|number| number.is_finite()), "{name}: {found:?}");
        let off =
            found.iter().zip(&expected).fold(0.0, |off: f64, (found, expected)| off.max((found - expected).abs()));
        let worst = if name.starts_with("grad.") { &mut all.gradients } else { &mut all.outputs };
        *worst = worst.max(off / largest);
        all.count += found.len();
    }
    all
}
