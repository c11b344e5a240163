//! A few lines of SVG: shapes and text by class, escaped, in one string. Colours are in the style sheet
//! of the document, for light and for dark backgrounds; nothing is loaded from anywhere.

use std::fmt::{self, Display, Write};

/// How a text hangs on its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture in the making.
pub struct Svg {
    text: String,
}

impl Svg {
    /// An empty picture of a size in pixels, with a title for those who cannot see it.
    pub fn new(width: f64, height: f64, title: &str, style: &str) -> Svg {
        let mut text = String::new();
        let (width, height) = (Number(width), Number(height));
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" font-family=\"system-ui, sans-serif\">\n\
             <title>{}</title>\n<style>\n{}</style>\n",
            Escaped(title),
            Escaped(style),
        );
        Svg { text }
    }

    /// A rectangle with round corners.
    pub fn rectangle(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), radius: f64) {
        let (x, y) = (Number(corner.0), Number(corner.1));
        let (width, height) = (Number(size.0), Number(size.1));
        let radius = Number(radius);
        let shape = format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"");
        self.element("rect", class, &shape);
    }

    /// A line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1, x2, y2) = (Number(from.0), Number(from.1), Number(to.0), Number(to.1));
        self.element("line", class, &format!("x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\""));
    }

    /// A circle.
    pub fn circle(&mut self, class: &str, centre: (f64, f64), radius: f64) {
        let (x, y, radius) = (Number(centre.0), Number(centre.1), Number(radius));
        self.element("circle", class, &format!("cx=\"{x}\" cy=\"{y}\" r=\"{radius}\""));
    }

    /// A square on its corner.
    pub fn diamond(&mut self, class: &str, centre: (f64, f64), radius: f64) {
        let (x, y) = centre;
        let corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)];
        let points = corners.map(|(x, y)| format!("{},{}", Number(x), Number(y))).join(" ");
        self.element("polygon", class, &format!("points=\"{points}\""));
    }

    /// A text, turned around its point.
    pub fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, degrees: f64, text: &str) {
        let (x, y) = (Number(at.0), Number(at.1));
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turn = match degrees == 0.0 {
            true => String::new(),
            false => format!(" transform=\"rotate({} {x} {y})\"", Number(degrees)),
        };
        let _ = writeln!(
            self.text,
            "<text class=\"{}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\"{turn}>{}</text>",
            Escaped(class),
            Escaped(text)
        );
    }

    fn element(&mut self, name: &str, class: &str, shape: &str) {
        let _ = writeln!(self.text, "<{name} class=\"{}\" {shape}/>", Escaped(class));
    }

    /// The whole document.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// A number with at most two digits behind the point.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2}", self.0);
        let short = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if short == "-0" { "0" } else { short })
    }
}

/// A text in which nothing is markup.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                // Not allowed in XML in any form.
                c if c.is_control() && !matches!(c, '\n' | '\t') => f.write_char('\u{FFFD}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Reads a document as a strict parser would, as far as this writer goes: for tests here and in `plot`.
#[cfg(test)]
pub mod check {
    /// The elements in order, each with its attributes; panics where the document is not well-formed.
    pub fn elements(document: &str) -> Vec<(String, Vec<(String, String)>)> {
        let mut found = Vec::new();
        let mut open: Vec<String> = Vec::new();
        let mut rest = document.trim_end();
        while !rest.is_empty() {
            let (before, after) = rest.split_once('<').unwrap_or((rest, ""));
            check_text(before);
            assert!(!after.is_empty(), "text after the end: {before:?}");
            let (tag, after) = after.split_once('>').expect("every tag ends");
            assert!(!tag.contains('<'), "{tag}");
            rest = after;
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "closing tags match");
                assert!(!open.is_empty() || rest.is_empty(), "one root");
                continue;
            }
            let (body, is_empty) = tag.strip_suffix('/').map_or((tag, false), |body| (body, true));
            let (name, mut attributes) = body.split_once(' ').unwrap_or((body, ""));
            let mut read = Vec::new();
            while !attributes.trim().is_empty() {
                let (key, value) = attributes.trim_start().split_once("=\"").expect("a quoted attribute");
                let (value, after) = value.split_once('"').expect("a closing quote");
                check_text(value);
                assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{key}");
                assert!(read.iter().all(|(k, _)| k != key), "{key} twice");
                read.push((key.to_string(), value.to_string()));
                attributes = after;
            }
            found.push((name.to_string(), read));
            if !is_empty {
                open.push(name.to_string());
            }
        }
        assert!(open.is_empty(), "{open:?} not closed");
        found
    }

    fn check_text(text: &str) {
        assert!(!text.contains('>'), "{text}");
        for entity in text.split('&').skip(1) {
            let name = entity.split(';').next().unwrap_or_default();
            assert!(["amp", "lt", "gt", "quot"].contains(&name), "&{entity}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_well_formed_whatever_the_text() {
        let mut svg = Svg::new(100.0, 50.5, "a < b & \"c\" \u{1}", ".x > y { fill: red }\n");
        svg.rectangle("a", (0.0, 1.0), (2.0, 3.0), 4.0);
        svg.line("b", (0.0, 1.25), (2.0, 3.0));
        svg.circle("c", (1.0 / 3.0, -0.001), 4.0);
        svg.diamond("d", (5.0, 5.0), 2.0);
        svg.text("e", (1.0, 2.0), Anchor::Middle, -12.345, "</svg> & more");
        let document = svg.finish();
        let names: Vec<String> = check::elements(&document).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["svg", "title", "style", "rect", "line", "circle", "polygon", "text"]);
        assert!(document.contains("cx=\"0.33\" cy=\"0\" r=\"4\""), "{document}");
        assert!(document.contains("rotate(-12.35 1 2)") || document.contains("rotate(-12.34 1 2)"));
        assert!(document.contains("&lt;/svg&gt; &amp; more"));
        assert!(!document.contains('\u{1}'));
    }

    #[test]
    #[should_panic(expected = "closing tags match")]
    fn the_check_sees_what_is_not_closed() {
        check::elements("<svg><g></svg>");
    }
}
