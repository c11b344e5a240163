//! Writes the rules of a GBNF grammar in Lark's notation.

use super::{Alternatives, Item};

/// The grammar in Lark's notation, of rules whose first is the start.
pub fn lark(rules: &[Alternatives]) -> Result<String, String> {
    let kinds = kinds(rules);
    let empty = empty(rules);
    let writer = Writer { kinds: &kinds, empty: &empty };
    let mut out = String::new();
    for (number, alternatives) in rules.iter().enumerate() {
        let is_terminal = kinds[number];
        let body = writer.alternatives(alternatives, is_terminal);
        if number == 0 {
            let start = if is_terminal { writer.reference(0, false) } else { body.clone() };
            out.push_str(&format!("start: {start}\n"));
        }
        match is_terminal {
            // A terminal is never empty: what may be left out is so where it is used.
            true if empty[number] && alternatives.len() > 1 => {
                out.push_str(&format!("T{number}: ({body}) & /(?s:.+)/\n"))
            }
            true if empty[number] => out.push_str(&format!("T{number}: {body} & /(?s:.+)/\n")),
            true => out.push_str(&format!("T{number}: {body}\n")),
            false if number > 0 || mentions(rules, 0) => out.push_str(&format!("r{number}: {body}\n")),
            false => {}
        }
    }
    Ok(out)
}

struct Writer<'a> {
    /// Which rules are terminals.
    kinds: &'a [bool],
    /// Which rules may be empty.
    empty: &'a [bool],
}

impl Writer<'_> {
    fn alternatives(&self, alternatives: &Alternatives, in_terminal: bool) -> String {
        let sequences: Vec<String> =
            alternatives.iter().map(|sequence| self.sequence(sequence, in_terminal)).collect();
        sequences.join(" | ")
    }

    fn sequence(&self, items: &[Item], in_terminal: bool) -> String {
        if items.is_empty() {
            return "\"\"".to_string();
        }
        let items: Vec<String> = items.iter().map(|item| self.item(item, in_terminal)).collect();
        items.join(" ")
    }

    fn item(&self, item: &Item, in_terminal: bool) -> String {
        match item {
            Item::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
            Item::Class(class) => class.clone(),
            Item::Token(token) => token.clone(),
            Item::Rule(number) => self.reference(*number, in_terminal),
            Item::Group(alternatives) => format!("({})", self.alternatives(alternatives, in_terminal)),
            Item::Repeat(inner, least, most) => {
                let inner = match &**inner {
                    group @ Item::Group(_) => self.item(group, in_terminal),
                    other => format!("({})", self.item(other, in_terminal)),
                };
                let sign = match (least, most) {
                    (0, None) => "*".to_string(),
                    (1, None) => "+".to_string(),
                    (0, Some(1)) => "?".to_string(),
                    (least, None) => format!("{{{least},}}"),
                    (least, Some(most)) => format!("{{{least},{most}}}"),
                };
                format!("{inner}{sign}")
            }
        }
    }

    fn reference(&self, number: usize, in_terminal: bool) -> String {
        match (self.kinds[number], self.empty[number]) {
            (true, true) if in_terminal => format!("(T{number})?"),
            (true, true) => format!("T{number}?"),
            (true, false) => format!("T{number}"),
            (false, _) => format!("r{number}"),
        }
    }
}

/// All rules that an item mentions, and whether it has a control token.
fn visit(item: &Item, found: &mut Vec<usize>, has_token: &mut bool) {
    match item {
        Item::Rule(number) => found.push(*number),
        Item::Token(_) => *has_token = true,
        Item::Group(alternatives) => {
            alternatives.iter().flatten().for_each(|item| visit(item, found, has_token));
        }
        Item::Repeat(inner, ..) => visit(inner, found, has_token),
        Item::Text(_) | Item::Class(_) => {}
    }
}

fn mentions(rules: &[Alternatives], wanted: usize) -> bool {
    let mut found = Vec::new();
    rules.iter().flatten().flatten().for_each(|item| visit(item, &mut found, &mut false));
    found.contains(&wanted)
}

/// Which rules are terminals: those without control tokens that lead, in the end, to no rule but such.
fn kinds(rules: &[Alternatives]) -> Vec<bool> {
    let parts: Vec<(Vec<usize>, bool)> = rules
        .iter()
        .map(|rule| {
            let (mut found, mut has_token) = (Vec::new(), false);
            rule.iter().flatten().for_each(|item| visit(item, &mut found, &mut has_token));
            (found, has_token)
        })
        .collect();
    let mut kinds = vec![false; rules.len()];
    loop {
        let is_new = |number: &usize| {
            let (found, has_token) = &parts[*number];
            !kinds[*number] && !has_token && found.iter().all(|&other| kinds[other])
        };
        let new: Vec<usize> = (0..rules.len()).filter(is_new).collect();
        if new.is_empty() {
            return kinds;
        }
        new.into_iter().for_each(|number| kinds[number] = true);
    }
}

/// Which rules may be empty.
fn empty(rules: &[Alternatives]) -> Vec<bool> {
    fn may_be(item: &Item, empty: &[bool]) -> bool {
        match item {
            Item::Text(text) => text.is_empty(),
            Item::Class(_) | Item::Token(_) => false,
            Item::Rule(number) => empty[*number],
            Item::Group(alternatives) => any(alternatives, empty),
            Item::Repeat(inner, least, _) => *least == 0 || may_be(inner, empty),
        }
    }
    fn any(alternatives: &Alternatives, empty: &[bool]) -> bool {
        alternatives.iter().any(|sequence| sequence.iter().all(|item| may_be(item, empty)))
    }
    let mut known = vec![false; rules.len()];
    loop {
        let new: Vec<bool> = rules.iter().map(|rule| any(rule, &known)).collect();
        if new == known {
            return known;
        }
        known = new;
    }
}
