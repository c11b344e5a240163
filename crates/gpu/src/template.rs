//! Kernels as templates: WGSL with lines that repeat or leave out others, so that what a kernel keeps per row
//! or per matrix are variables of their own rather than arrays that a compiler may put in memory.
//!
//! `//@for r in ROWS` … `//@end` repeats lines for each value of the list `ROWS`, with `$r` replaced by it;
//! `//@if GATED` … `//@end` keeps lines when `GATED` is not empty, `//@ifnot` when it is; `//@text LOAD` … `//@end` puts lines by for
//! `$LOAD`, which may stand in several places. `$NAME` is replaced by its value. Names are letters only, so that
//! `acc_$m_$r` works.

use std::collections::HashMap;

/// What names stand for: a list of values; a plain value is a list of one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(HashMap<String, Vec<String>>);

impl Values {
    /// Sets a plain value.
    pub(crate) fn set(mut self, name: &str, value: impl ToString) -> Values {
        self.0.insert(name.to_string(), vec![value.to_string()]);
        self
    }

    /// Sets a list.
    pub(crate) fn list<T: ToString>(mut self, name: &str, values: impl IntoIterator<Item = T>) -> Values {
        self.0.insert(name.to_string(), values.into_iter().map(|value| value.to_string()).collect());
        self
    }

    /// Sets a switch.
    pub(crate) fn switch(self, name: &str, on: bool) -> Values {
        self.list(name, on.then_some("1"))
    }

    fn get(&self, name: &str) -> &[String] {
        self.0.get(name).unwrap_or_else(|| panic!("the kernels use no name but those set: {name}"))
    }

    fn is_off(&self, name: &str) -> bool {
        self.get(name).iter().all(String::is_empty)
    }
}

/// The template with everything replaced.
///
/// # Panics
/// When the template, which is part of this crate, is not well-formed.
pub(crate) fn expand(template: &str, values: &Values) -> String {
    let lines: Vec<&str> = template.lines().collect();
    let mut out = String::with_capacity(4 * template.len());
    expand_lines(&lines, &mut values.clone(), &mut out);
    out
}

fn expand_lines(lines: &[&str], values: &mut Values, out: &mut String) {
    let mut at = 0;
    while at < lines.len() {
        let trimmed = lines[at].trim_start();
        let Some(directive) = trimmed.strip_prefix("//@") else {
            replace(lines[at], values, out);
            out.push('\n');
            at += 1;
            continue;
        };
        let end = at + length(&lines[at..]);
        let inner = &lines[at + 1..end - 1];
        let words: Vec<&str> = directive.split_whitespace().collect();
        match words[..] {
            ["for", name, "in", list] => {
                for value in values.get(list).to_vec() {
                    values.0.insert(name.to_string(), vec![value]);
                    expand_lines(inner, values, out);
                }
            }
            ["if", name] if values.is_off(name) => {}
            ["ifnot", name] if !values.is_off(name) => {}
            ["if" | "ifnot", _] => expand_lines(inner, values, out),
            ["text", name] => {
                let mut text = String::new();
                expand_lines(inner, values, &mut text);
                values.0.insert(name.to_string(), vec![text.trim_end().to_string()]);
            }
            _ => panic!("not a directive: {directive}"),
        }
        at = end;
    }
}

/// Lines from an opening directive to its end.
fn length(lines: &[&str]) -> usize {
    let mut depth = 0;
    for (i, line) in lines.iter().enumerate() {
        match line.trim_start().strip_prefix("//@") {
            Some("end") => depth -= 1,
            Some(_) => depth += 1,
            None => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    panic!("no end for {}", lines[0]);
}

fn replace(line: &str, values: &Values, out: &mut String) {
    let mut parts = line.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(part.len());
        out.push_str(&values.get(&part[..end])[0]);
        out.push_str(&part[end..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_repeated_left_out_and_filled_in() {
        let template = "a $SIZE\n//@for m in BOTH\n  //@for r in ROWS\n  x_$m_$r;\n  //@end\n//@end\n\
                        //@if ON\non\n//@end\n//@if OFF\n//@if ON\noff\n//@end\n//@end\nb";
        let values = Values::default()
            .set("SIZE", 7)
            .list("BOTH", ["a", "b"])
            .list("ROWS", 0..2)
            .switch("ON", true)
            .switch("OFF", false);
        assert_eq!(expand(template, &values), "a 7\n  x_a_0;\n  x_a_1;\n  x_b_0;\n  x_b_1;\non\nb\n");
        let template = "//@text TWICE\n//@for r in ROWS\nx_$r;\n//@end\n//@end\n$TWICE\nb\n$TWICE";
        assert_eq!(expand(template, &values), "x_0;\nx_1;\nb\nx_0;\nx_1;\n");
    }
}
