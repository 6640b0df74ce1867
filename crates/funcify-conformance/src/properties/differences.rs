//! Compares derivatives with finite differences.

use funcify::{DType, Graph, HostTensor, Scalar};

use super::{DIFFERENCE_TOLERANCE, Subject, sum, terms};

/// The result of comparing a derivative with finite differences.
pub(super) enum Difference {
    Agrees,
    /// The program has a kink or a jump at this point, so it is not differentiable there.
    Kink,
    Is(f64),
}

impl Subject<'_> {
    /// Moves the inputs by `step` along the tangents, and returns the sum of the outputs weighted by the cotangents.
    /// Returns `None` if the outputs change shape or the program fails.
    fn weighted_outputs_at(
        &self,
        graph: &Graph,
        wrt: &[String],
        tangents: &[HostTensor],
        cotangents: &[HostTensor],
        step: f64,
    ) -> Option<f64> {
        let mut moved = self.clone();
        for (name, along) in wrt.iter().zip(tangents) {
            let from = &self.inputs[name];
            let value = HostTensor::from_fn(DType::F64, from.shape(), |index| {
                Scalar::Float(from.at(index).as_f64() + step * along.at(index).as_f64())
            });
            moved.inputs.insert(name.clone(), value);
        }
        let results = moved.run("differences", graph).ok()?;
        let floats = results.iter().zip(cotangents).filter(|(result, _)| result.dtype().is_float());
        let mut total = 0.0;
        for (result, cotangent) in floats {
            if result.shape() != cotangent.shape() {
                return None;
            }
            total += sum(&terms([cotangent].into_iter(), std::slice::from_ref(result)));
        }
        Some(total)
    }

    /// Compares a derivative with finite differences for several step sizes. One match is enough, because larger steps
    /// may cross a nearby kink. If no step size matches, the point is considered a kink, unless the program looks
    /// smooth for some step size. The program looks smooth if halving the step barely changes the central difference,
    /// and reduces the ratio of the second difference to the step.
    pub(super) fn difference(
        &self,
        graph: &Graph,
        wrt: &[String],
        tangents: &[HostTensor],
        cotangents: &[HostTensor],
        expected: f64,
        scale: f64,
    ) -> Difference {
        let at = |step: f64| self.weighted_outputs_at(graph, wrt, tangents, cotangents, step);
        let Some(here) = at(0.0) else { return Difference::Is(f64::NAN) };
        let mut smooth = None;
        for step in [2e-3, 2.5e-4, 3e-5] {
            let values = [at(step), at(-step), at(step / 2.0), at(-step / 2.0)];
            let [Some(up), Some(down), Some(half_up), Some(half_down)] = values else { continue };
            let (whole, half) = ((up - down) / (2.0 * step), (half_up - half_down) / step);
            // Apply Richardson extrapolation to the central differences.
            let derivative = (4.0 * half - whole) / 3.0;
            if (derivative - expected).abs() <= DIFFERENCE_TOLERANCE * (scale + derivative.abs()) {
                return Difference::Agrees;
            }
            let (bend, half_bend) = ((up - 2.0 * here + down) / step, (half_up - 2.0 * here + half_down) * 2.0 / step);
            let is_bent = bend.abs() > 1e-6 * scale && half_bend.abs() > 0.8 * bend.abs();
            if (whole - half).abs() <= 1e-3 * scale && !is_bent {
                smooth = Some(derivative);
            }
        }
        smooth.map_or(Difference::Kink, Difference::Is)
    }
}
