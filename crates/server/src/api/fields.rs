//! Reading JSON objects so that whatever is wrong is told by the name of the field.
//!
//! Every field is taken out of its object once; what is left at the end is unknown, which is an error. `null` is the
//! same as nothing, as in OpenAI's API.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::errors::Problem;

type Result<T> = std::result::Result<T, Problem>;

/// The fields of an object that were not read yet.
#[derive(Debug)]
pub struct Fields {
    /// Where the object is: empty for the body of the request.
    path: String,
    fields: Map<String, Value>,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub struct Field {
    /// The path of the field: `stop[1]`.
    pub path: String,
    /// The value, which is not null.
    pub value: Value,
}

impl Fields {
    /// The fields of a request's body.
    pub fn of_body(body: &[u8]) -> Result<Fields> {
        let value = serde_json::from_slice(body).map_err(|error| {
            let message = format!("the body is not JSON: {error}");
            Problem { code: Some("invalid_json"), param: None, ..Problem::invalid("", message) }
        })?;
        match value {
            Value::Object(fields) => Ok(Fields { path: String::new(), fields }),
            other => {
                let message = format!("the body must be a JSON object, not {}", kind(&other));
                Err(Problem { param: None, ..Problem::invalid("", message) })
            }
        }
    }

    /// No fields, to be left behind where others are taken.
    pub fn empty() -> Fields {
        Fields { path: String::new(), fields: Map::new() }
    }

    /// The path of one of the fields.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) }
    }

    /// Takes a field out, if it is there.
    pub fn take(&mut self, name: &str) -> Option<Field> {
        let value = self.fields.shift_remove(name).filter(|value| !value.is_null())?;
        Some(Field { path: self.path(name), value })
    }

    /// Takes a field out that must be there.
    pub fn require(&mut self, name: &str) -> Result<Field> {
        let missing = || Problem::invalid(self.path(name), format!("`{}` is missing", self.path(name)));
        let missing = Problem { code: Some("missing_required_parameter"), ..missing() };
        self.take(name).ok_or(missing)
    }

    /// A string.
    pub fn string(&mut self, name: &str) -> Result<Option<String>> {
        self.take(name).map(Field::string).transpose()
    }

    /// True or false.
    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>> {
        self.take(name).map(Field::boolean).transpose()
    }

    /// A whole number within a range.
    pub fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>> {
        self.take(name).map(|field| field.integer(range)).transpose()
    }

    /// A count, from `least` on.
    pub fn count(&mut self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        let most = i64::try_from(*range.end()).unwrap_or(i64::MAX);
        Ok(self.integer(name, *range.start() as i64..=most)?.map(|number| number as usize))
    }

    /// A number within a range.
    pub fn number(&mut self, name: &str, range: RangeInclusive<f32>) -> Result<Option<f32>> {
        self.take(name).map(|field| field.number(range)).transpose()
    }

    /// Refuses a field that asks for something that there is not.
    pub fn refuse(&mut self, name: &str, why: &str) -> Result<()> {
        match self.take(name) {
            Some(field) => {
                let message = format!("`{}` is not supported: {why}", field.path);
                Err(Problem::unsupported(field.path, message))
            }
            None => Ok(()),
        }
    }

    /// Passes over a field that changes nothing here, whatever it says.
    pub fn pass_over(&mut self, names: &[&str]) {
        names.iter().for_each(|name| _ = self.fields.shift_remove(*name));
    }

    /// All fields that are left, for objects whose keys are the caller's.
    pub fn rest(self) -> Map<String, Value> {
        self.fields
    }

    /// Refuses what is left: no API has it.
    pub fn finish(self) -> Result<()> {
        match self.fields.keys().next() {
            Some(name) => {
                let path = self.path(name);
                let message = format!("`{path}` is not a parameter of this request; leave it out");
                Err(Problem { code: Some("unknown_parameter"), ..Problem::invalid(path, message) })
            }
            None => Ok(()),
        }
    }
}

impl Field {
    /// The fields of an object.
    pub fn object(self) -> Result<Fields> {
        match self.value {
            Value::Object(fields) => Ok(Fields { path: self.path, fields }),
            _ => Err(self.wrong("an object")),
        }
    }

    /// The entries of a list.
    pub fn list(self) -> Result<Vec<Field>> {
        match self.value {
            Value::Array(values) => {
                let place = |(index, value)| Field { path: format!("{}[{index}]", self.path), value };
                Ok(values.into_iter().enumerate().map(place).collect())
            }
            _ => Err(self.wrong("a list")),
        }
    }

    /// The entries of a list with at least one and at most `most`.
    pub fn short_list(self, most: usize) -> Result<Vec<Field>> {
        let path = self.path.clone();
        let list = self.list()?;
        match list.len() {
            0 => Err(Problem::invalid(&path, format!("`{path}` is empty; it needs at least one entry"))),
            n if n > most => Err(Problem::invalid(
                &path,
                format!("`{path}` has {n} entries, and at most {most} are taken"),
            )),
            _ => Ok(list),
        }
    }

    /// A string.
    pub fn string(self) -> Result<String> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong("a string")),
        }
    }

    /// True or false.
    pub fn boolean(self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// A whole number within a range.
    pub fn integer(self, range: RangeInclusive<i64>) -> Result<i64> {
        // Some clients write 5.0 for 5.
        let float = self.value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
        let number = self.value.as_i64().or(float.map(|number| number as i64));
        let number = number.ok_or_else(|| self.wrong("a whole number"))?;
        if range.contains(&number) { Ok(number) } else { Err(self.outside(&range)) }
    }

    /// A token's number.
    pub fn token(self, vocabulary: usize) -> Result<u32> {
        let most = vocabulary.saturating_sub(1).min(u32::MAX as usize) as i64;
        self.integer(0..=most).map(|token| token as u32)
    }

    /// A number within a range.
    pub fn number(self, range: RangeInclusive<f32>) -> Result<f32> {
        let number = self.value.as_f64().ok_or_else(|| self.wrong("a number"))?;
        // The ends are compared as they are written: 0.1f32 is not 0.1.
        let inside = number >= f64::from(*range.start()) && number <= f64::from(*range.end());
        if inside { Ok(number as f32) } else { Err(self.outside(&range)) }
    }

    /// One of some words.
    pub fn word<T: Copy>(self, words: &[(&str, T)]) -> Result<T> {
        let found = self.value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            self.wrong(&known.join(" or "))
        })
    }

    /// The problem that the value is not what it must be.
    pub fn wrong(&self, expected: &str) -> Problem {
        let found = match &self.value {
            Value::String(text) if text.len() <= 40 => format!("`{text}`"),
            value => kind(value).to_string(),
        };
        let message = format!("`{}` must be {expected}, not {found}", self.path);
        Problem { code: Some("invalid_type"), ..Problem::invalid(&self.path, message) }
    }

    fn outside(&self, range: &RangeInclusive<impl Display>) -> Problem {
        let (least, most) = (range.start(), range.end());
        let message = format!("`{}` is {}, must be from {least} to {most}", self.path, self.value);
        Problem { code: Some("value_out_of_range"), ..Problem::invalid(&self.path, message) }
    }
}

/// What a value is, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
