//! Logarithmic axes, and numbers beside them.

/// A logarithmic axis: from values to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub low: f64,
    pub high: f64,
    pub from: f64,
    pub to: f64,
}

impl Axis {
    /// The pixel of a value.
    pub fn place(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// 1, 2 and 5 times the powers of ten that are on the axis.
    pub fn ticks(&self) -> Vec<f64> {
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let ticks = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
        ticks.filter(|tick| (self.low..=self.high).contains(tick)).collect()
    }
}

/// A number as people write it: `0.5`, `30.1`, `9,800`.
pub fn number(value: f64) -> String {
    if value < 100.0 {
        let text = format!("{value:.1}");
        return text.strip_suffix(".0").map_or(text.clone(), str::to_string);
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_logarithmic() {
        let axis = Axis { low: 1.0, high: 1000.0, from: 100.0, to: 400.0 };
        assert!((axis.place(1.0) - 100.0).abs() < 1e-9);
        assert!((axis.place(10.0) - 200.0).abs() < 1e-9);
        assert!((axis.place(1000.0) - 400.0).abs() < 1e-9);
        assert_eq!(axis.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.5, "0.5"),
            (2.0, "2"),
            (30.14, "30.1"),
            (200.0, "200"),
            (9834.2, "9,834"),
            (1e6, "1,000,000"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }
}
