//! Caches the functions of recorded closures. Every training step records its loops again, but only the first step
//! compiles them.

use super::record::{Body, Record};
use super::*;

/// The maximum number of cached functions per line of user code.
const CAPACITY: usize = 16;

struct Entry {
    record: Record,
    /// A description of the options and operands that, together with the record, determine the graph. The cache also
    /// compares `types`, because the record lacks the types of values that no op uses.
    key: String,
    types: Vec<TensorType>,
    function: Arc<Differentiable>,
}

static CACHE: Mutex<Option<HashMap<Location<'static>, Vec<Entry>>>> = Mutex::new(None);

/// A closure to record, with its context.
#[derive(Clone, Copy)]
pub(crate) struct Closure<'a> {
    /// The source line of the user's call, which identifies the closure in the cache.
    pub(crate) line: &'static Location<'static>,
    pub(crate) at: &'a Place,
    pub(crate) device: &'a Device,
    /// The types of the closure's arguments.
    pub(crate) types: &'a [TensorType],
    pub(crate) body: &'a Body<'a>,
}

impl Closure<'_> {
    /// Returns a function that runs the closure's graph, and one flag per argument: `true` if the closure uses it.
    /// `graph` builds the graph from the record. `key` describes everything else that the graph depends on. A cached
    /// function is reused if its line, ops, types and `key` are the same.
    pub(crate) fn function(
        &self,
        key: String,
        options: &DifferentiableOptions,
        graph: impl FnOnce(&Record) -> Result<Graph>,
    ) -> Result<(Arc<Differentiable>, Vec<bool>)> {
        let recording = self.record()?;
        let first = &recording.record;
        let used = first.used_inputs();
        let is_it = |entry: &Entry| entry.key == key && entry.types == self.types && entry.record.is_same(first);
        let cached = |entries: &mut Vec<Entry>| {
            let entry = entries.remove(entries.iter().position(is_it)?);
            let function = entry.function.clone();
            entries.push(entry);
            Some(function)
        };
        if let Some(function) = self.entries(cached) {
            return Ok((function, used));
        }
        self.check(&recording)?;
        let function = Arc::new(Differentiable::with_options(&graph(first)?, options.clone()));
        self.entries(|entries| {
            if entries.len() >= CAPACITY {
                entries.remove(0);
            }
            entries.push(Entry {
                record: recording.record,
                key,
                types: self.types.to_vec(),
                function: function.clone(),
            });
        });
        Ok((function, used))
    }

    /// Returns the device for recording a closure whose graph is returned to the user. If gradients stop anywhere in
    /// the closure, the device has autodiff even if the tensors have none, because the user may differentiate the
    /// graph.
    pub(crate) fn device_for_graph(self) -> Result<Device> {
        let device = self.device.clone().autodiff();
        let stops = Closure { device: &device, ..self }.record()?.record.has_stops();
        Ok(if stops { device } else { self.device.clone() })
    }

    fn entries<R>(&self, f: impl FnOnce(&mut Vec<Entry>) -> R) -> R {
        let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        f(cache.get_or_insert_default().entry(*self.line).or_default())
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::plugin::AnyTensor;
    use burn::tensor::Tensor;
    use funcify_core::DType;
    use funcify_core::error::Site;

    /// Returns the function for a closure that multiplies its argument by `number`. All calls record the closure on the
    /// same line.
    fn function(number: f64, size: usize, key: &str) -> Result<Arc<Differentiable>> {
        let body = |_: &Device, tensors: Vec<AnyTensor>| {
            let tensors = tensors.into_iter().map(|tensor| tensor.into_tensor::<1, burn::tensor::Float>());
            let scaled = tensors.map(|tensor| AnyTensor::from(tensor.expect("the only argument has rank 1") * number));
            Ok(scaled.collect())
        };
        let at = Place::new("test", Site::caller());
        let types = [TensorType::new(DType::F32, [size])];
        let (line, device) = (line(), Device::flex());
        let closure = Closure { line, at: &at, device: &device, types: &types, body: &body };
        let graph = |record: &Record| {
            Graph::build("scaled", |g| {
                let x = g.input("x", &types[0]);
                super::super::import::import(&at, record, &[x]).unwrap()
            })
        };
        Ok(closure.function(key.into(), &DifferentiableOptions::default(), graph)?.0)
    }

    #[track_caller]
    fn line() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn what_a_line_records_again_is_the_same_function() {
        let first = function(2.0, 3, "").unwrap();
        assert!(Arc::ptr_eq(&first, &function(2.0, 3, "").unwrap()));
        let others = [(3.0, 3, ""), (2.0, 4, ""), (2.0, 3, "reversed"), (f64::NAN, 3, "")];
        for (number, size, key) in others {
            let other = function(number, size, key).unwrap();
            assert!(!Arc::ptr_eq(&first, &other));
            assert!(Arc::ptr_eq(&other, &function(number, size, key).unwrap()));
        }
        assert!(Arc::ptr_eq(&first, &function(2.0, 3, "").unwrap()));
        // A full cache evicts the least recently used function.
        for size in 10..10 + CAPACITY {
            function(2.0, size, "").unwrap();
        }
        assert!(!Arc::ptr_eq(&first, &function(2.0, 3, "").unwrap()));
        let tensor = first.call::<Tensor<1>>((Tensor::<1>::ones([3], &Device::flex()),)).unwrap();
        assert_eq!(tensor.into_data().iter::<f32>().collect::<Vec<_>>(), [2.0; 3]);
    }
}
