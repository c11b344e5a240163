//! Numbers in schemas: those that the compiler would round or overflow on are refused.

use serde_json::Value;

use super::Node;
use super::source::Draft;
use crate::{Result, limits};

/// The largest integer that all integers up to it are exact to.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number of characters, items or properties.
pub fn count(node: &Node, keyword: &str, value: &Value) -> Result<u64> {
    let whole =
        |number: f64| (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64);
    let Some(count) = value.as_u64().or_else(|| value.as_f64().and_then(whole)) else {
        return Err(node.refuse(keyword, format!("{value} is not a count")));
    };
    if keyword.starts_with("min") && count > limits::LEAST {
        return Err(node.refuse(keyword, format!("{count} is more than {}", limits::LEAST)));
    }
    // A larger maximum is none: no answer is as long.
    Ok(count.min(u64::from(u32::MAX) / 2))
}

/// A bound of numbers. The fourth draft has words for bounds that do not belong to the range.
pub fn bound(node: &mut Node, keyword: &str, value: &Value, draft: Draft) -> Result<()> {
    let own = match (keyword, value) {
        ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(excludes)) if draft == Draft::Four => {
            let own = if keyword == "exclusiveMinimum" { "minimum" } else { "maximum" };
            match node.given.get(own) {
                Some(own) if *excludes => own.clone(),
                _ => return Ok(()),
            }
        }
        _ => value.clone(),
    };
    if !own.is_number() {
        return Err(node.refuse(keyword, format!("{value} is not a number")));
    }
    check_number(node, keyword, &own)?;
    node.put(keyword, own);
    Ok(())
}

/// Refuses a number that the compiler cannot hold exactly.
fn check_number(node: &Node, keyword: &str, number: &Value) -> Result<()> {
    let value = number.as_f64().unwrap_or(f64::INFINITY);
    let is_exact = match number.as_i64() {
        Some(integer) => integer.unsigned_abs() <= EXACT as u64,
        // What is written as a fraction is the number that it is read as.
        None => number.is_f64() && value.abs() <= EXACT,
    };
    if is_exact { Ok(()) } else { Err(node.refuse(keyword, format!("{number} is too large to be exact"))) }
}

/// Refuses a listed value that the compiler cannot write.
pub fn check_constant(node: &Node, keyword: &str, value: &Value) -> Result<()> {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Number(_) => check_number(node, keyword, value)?,
            Value::String(text) => check_text(node, keyword, text)?,
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            Value::Null | Value::Bool(_) => {}
        }
    }
    Ok(())
}

fn check_text(node: &Node, keyword: &str, text: &str) -> Result<()> {
    let is_odd = |c: char| c.is_ascii_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{8}' | '\u{c}');
    match text.chars().find(|&c| is_odd(c)) {
        Some(odd) => Err(node.refuse(keyword, format!("it has the control character {odd:?}"))),
        None => Ok(()),
    }
}

/// All steps of `multipleOf` in a schema. Those of schemas that hold together are multiplied in 32 bits.
#[derive(Default)]
pub struct Multiples {
    /// As numerators over ten to the power of each one's digits.
    steps: Vec<(u64, u32)>,
}

impl Multiples {
    pub fn add(&mut self, node: &Node, value: &Value) -> Result<()> {
        let step = value.as_f64().filter(|step| *step > 0.0 && step.is_finite());
        let Some(step) = step else {
            return Err(node.refuse("multipleOf", format!("{value} is not a positive number")));
        };
        // As the compiler counts digits: by multiplying until nothing is left behind the point.
        let (mut numerator, mut digits) = (step, 0);
        while numerator.fract() != 0.0 && digits < 20 {
            numerator *= 10.0;
            digits += 1;
        }
        let written = value.to_string();
        let is_exact =
            format!("{}", numerator / 10f64.powi(digits)) == format!("{step}") && !written.contains("e-");
        self.steps.push((numerator as u64, digits as u32));
        if numerator >= 65_536.0 || !is_exact || !fit(&self.steps) {
            return Err(
                node.refuse("multipleOf", format!("{value} has too many digits, alone or with others"))
            );
        }
        Ok(())
    }
}

/// Whether the least common multiple of any of these steps can be computed in 32 bits.
fn fit(steps: &[(u64, u32)]) -> bool {
    let digits = steps.iter().map(|step| step.1).max().unwrap_or(0);
    let scaled =
        steps.iter().map(|&(numerator, own)| numerator.checked_mul(10u64.checked_pow(digits - own)?));
    let mut least: u64 = 1;
    let mut largest = 1;
    for step in scaled {
        let Some(step) = step.filter(|step| *step > 0) else { return false };
        let Some(next) = (least / divisor(least, step)).checked_mul(step) else { return false };
        (least, largest) = (next, largest.max(step));
    }
    least.checked_mul(largest).is_some_and(|product| product <= u64::from(u32::MAX))
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
