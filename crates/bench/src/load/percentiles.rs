//! Percentiles of measured times.

use serde::Serialize;

/// Some percentiles of a set of values, each of which is one of them: the smallest that is not below that percentage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many values there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Half of the values are at most this.
    pub p50: f64,
    /// 90 percent are at most this.
    pub p90: f64,
    /// 95 percent.
    pub p95: f64,
    /// 99 percent.
    pub p99: f64,
    /// All of them.
    pub max: f64,
}

impl Percentiles {
    /// Of at least one value.
    pub fn of(mut values: Vec<f64>) -> Option<Percentiles> {
        values.sort_by(f64::total_cmp);
        let max = *values.last()?;
        let at = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        Some(Percentiles {
            count: values.len(),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p50: at(50),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            max,
        })
    }
}

#[cfg(test)]
mod tests {
    use gleed_engine::sampler::Random;

    use super::*;

    /// The smallest of the values that at least `percent` percent of them do not exceed, by counting.
    fn plainly(values: &[f64], percent: f64) -> f64 {
        let share = |value: f64| values.iter().filter(|other| **other <= value).count() as f64;
        let enough = values.iter().filter(|value| share(**value) >= percent / 100.0 * values.len() as f64);
        enough.copied().fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn percentiles_are_those_of_the_plain_definition() {
        let mut random = Random::new(5);
        for count in (1..130).chain([199, 200, 201, 1000]) {
            // Few different values, so that many are equal.
            let values: Vec<f64> = (0..count).map(|_| random.below(1 + count / 2) as f64).collect();
            let found = Percentiles::of(values.clone()).unwrap();
            for (percent, value) in [
                (50.0, found.p50),
                (90.0, found.p90),
                (95.0, found.p95),
                (99.0, found.p99),
                (100.0, found.max),
            ] {
                assert_eq!(value, plainly(&values, percent), "p{percent} of {count}");
            }
            assert_eq!(found.count, values.len());
        }
        assert_eq!(Percentiles::of(Vec::new()), None);
    }
}
