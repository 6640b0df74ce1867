//! Lists the linked backends with their declared gaps.

use funcify_conformance::Expectations;

use super::*;

// Linking `funcify_cpu` registers its lowering rules.
#[cfg(feature = "cpu")]
use funcify_cpu as _;

/// The declared gaps: for each backend, its name and the text of its `conformance.toml`. A backend that is not listed
/// has no declared gaps.
const DECLARED: &[(&str, &str)] = &[
    #[cfg(feature = "candle")]
    ("candle", funcify_candle::CONFORMANCE),
    #[cfg(feature = "flex")]
    ("burn-flex", funcify_burn::conformance::FLEX),
    #[cfg(feature = "ndarray")]
    ("burn-ndarray", funcify_burn::conformance::NDARRAY),
    #[cfg(feature = "wgpu")]
    ("burn-wgpu", funcify_burn::conformance::WGPU),
];

/// Opens the backends with these names, or all linked backends if `named` is empty, as subjects of the suite.
pub(crate) fn subjects(named: &[String]) -> Result<Vec<Subject>> {
    let names = backend_names();
    if let Some(name) = named.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(anyhow!("no backend `{name}`; the backends are {}", names.join(", ")));
    }
    let selected = names.into_iter().filter(|name| named.is_empty() || named.iter().any(|other| other == name));
    selected.map(subject).collect()
}

/// Returns `true` if the subject's thread mostly waits for a device, and leaves the CPU to other subjects.
pub(crate) fn waits_for_device(subject: &Subject) -> bool {
    subject.name == "burn-wgpu"
}

fn subject(name: &str) -> Result<Subject> {
    let expectations = match DECLARED.iter().find(|(backend, ..)| *backend == name) {
        Some((_, text)) => {
            Expectations::parse(text).map_err(|reason| anyhow!("conformance.toml of {name}: {reason}"))?
        }
        None => Expectations::default(),
    };
    let executor = match open_backend(name) {
        Ok(executor) => Ok(executor),
        Err(error @ funcify::Error::Unavailable { .. }) => Err(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    Ok(Subject { name: name.to_string(), executor, expectations })
}
