//! A server under load: tokens a second (left) and the time to the first token (right) over the number of clients or
//! the rate of requests, on logarithmic axes; of two servers where two were measured.

use super::axis::{Axis, number};
use super::labels::{Labels, Room};
use super::style::{BOTTOM, HEIGHT, LEFT, RIGHT, STYLE, TOP, WIDTH};
use super::svg::{Anchor, Svg};
use crate::load::{Arrivals, Level, Loaded};

/// Where the left frame ends and the right one begins, in pixels.
const MIDDLE: (f64, f64) = (WIDTH / 2.0 - 26.0, WIDTH / 2.0 + 52.0);

/// What is drawn of one side: a figure for each load.
struct Curve {
    is_peer: bool,
    /// A percentile far from the middle: dashed, and without numbers.
    is_far: bool,
    /// Where the load is on the axis, and the figure.
    points: Vec<(f64, f64)>,
}

/// The picture of these loads as an SVG document; `run` is a few words on how they were measured, `names` are our
/// server's and the peer's.
pub fn load_curves(title: &str, run: &str, names: (&str, &str), levels: &[Level]) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, &format!("{title}: throughput and latency under load"), STYLE);
    svg.rectangle("back", (0.5, 0.5), (WIDTH - 1.0, HEIGHT - 1.0), 8.0);
    svg.text("title", (LEFT, 31.0), Anchor::Start, 0.0, title);
    svg.text("tick", (LEFT, 48.0), Anchor::Start, 0.0, run);
    legend(&mut svg, names, levels.iter().any(|level| level.peer.is_some()));
    let below = match levels.first().map(|level| level.arrivals) {
        Some(Arrivals::Clients(_)) => "clients",
        Some(Arrivals::Poisson(_) | Arrivals::Constant(_)) => "requests per second",
        Some(Arrivals::Trace) | None => "trace",
    };
    let tokens = |side: &Loaded| Some(side.output_tokens_per_second.median);
    let half = |side: &Loaded| side.first_token.map(|times| times.p50 * 1e3);
    let far = |side: &Loaded| side.first_token.map(|times| times.p99 * 1e3);
    let frame = |left, right| Room { left, right, top: TOP, bottom: BOTTOM };
    let rates = curves(levels, &tokens, false);
    panel(&mut svg, frame(LEFT, MIDDLE.0), "tokens of answers per second", below, levels, &rates);
    let mut times = curves(levels, &half, false);
    times.extend(curves(levels, &far, true));
    let name = "milliseconds to the first token: median, 99 % dashed";
    panel(&mut svg, frame(MIDDLE.1, RIGHT), name, below, levels, &times);
    svg.finish()
}

/// The curves of both sides; what has no figure, or none that a logarithm can show, is left out.
fn curves(levels: &[Level], figure: &dyn Fn(&Loaded) -> Option<f64>, is_far: bool) -> Vec<Curve> {
    let of = |side: fn(&Level) -> Option<&Loaded>| -> Vec<(f64, f64)> {
        let point = |level: &Level| Some((amount(level), figure(side(level)?)?));
        levels.iter().filter_map(point).filter(|(_, figure)| *figure > 0.0).collect()
    };
    let ours = Curve { is_peer: false, is_far, points: of(|level| Some(&level.ours)) };
    let peer = Curve { is_peer: true, is_far, points: of(|level| level.peer.as_ref()) };
    vec![peer, ours]
}

fn amount(level: &Level) -> f64 {
    level.arrivals.amount().unwrap_or(1.0)
}

/// What the marks mean, at the top right.
fn legend(svg: &mut Svg, names: (&str, &str), has_peer: bool) {
    if has_peer {
        svg.text("peer-name", (RIGHT, 50.0), Anchor::End, 0.0, names.1);
        svg.diamond("peer", (RIGHT - 12.0 - 6.6 * names.1.chars().count() as f64, 46.0), 6.5);
    }
    svg.text("ours-name", (RIGHT, 32.0), Anchor::End, 0.0, names.0);
    svg.circle("ours", (RIGHT - 12.0 - 7.2 * names.0.chars().count() as f64, 28.0), 4.5);
}

/// One frame with its axes, curves and numbers.
fn panel(svg: &mut Svg, frame: Room, name: &str, below: &str, levels: &[Level], curves: &[Curve]) {
    let across = axis(levels.iter().map(amount), 1.6, (frame.left, frame.right));
    let figures = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let up = axis(figures, 1.5, (frame.bottom, frame.top));
    for level in levels {
        let x = across.place(amount(level));
        svg.line("grid", (x, frame.top), (x, frame.bottom));
        let text = level.arrivals.amount().map(number).unwrap_or_default();
        svg.text("tick", (x, frame.bottom + 18.0), Anchor::Middle, 0.0, &text);
    }
    for tick in up.ticks() {
        let y = up.place(tick);
        svg.line("grid", (frame.left, y), (frame.right, y));
        svg.text("tick", (frame.left - 8.0, y + 4.0), Anchor::End, 0.0, &number(tick));
    }
    svg.line("frame", (frame.left, frame.bottom), (frame.right, frame.bottom));
    svg.line("frame", (frame.left, frame.top), (frame.left, frame.bottom));
    let middle = (frame.left + frame.right) / 2.0;
    svg.text("axis", (middle, HEIGHT - 20.0), Anchor::Middle, 0.0, below);
    svg.text("axis", (frame.left, frame.top - 12.0), Anchor::Start, 0.0, name);
    let mut labels = Labels::new(frame);
    let place = |(x, y): (f64, f64)| (across.place(x), up.place(y));
    for curve in curves {
        let class = match (curve.is_peer, curve.is_far) {
            (false, false) => "ours-line",
            (true, false) => "peer-line",
            (false, true) => "ours-line far",
            (true, true) => "peer-line far",
        };
        for pair in curve.points.windows(2) {
            let (from, to) = (place(pair[0]), place(pair[1]));
            svg.line(class, from, to);
            labels.take_line(from, to);
        }
        for point in curve.points.iter().map(|point| place(*point)) {
            let (x, y) = point;
            labels.take(Room { left: x - 6.0, right: x + 6.0, top: y - 6.0, bottom: y + 6.0 });
            match (curve.is_far, curve.is_peer) {
                (true, _) => (),
                (false, true) => svg.diamond("peer", point, 6.5),
                (false, false) => svg.circle("ours", point, 4.5),
            }
        }
    }
    for curve in curves.iter().filter(|curve| !curve.is_far) {
        let class = if curve.is_peer { "peer-name" } else { "ours-name" };
        for point in &curve.points {
            let text = number(point.1);
            let (at, anchor) = labels.find(&text, place(*point));
            svg.text(class, at, anchor, 0.0, &text);
        }
    }
}

/// An axis on which all of these values are, with room on both sides.
fn axis(values: impl Iterator<Item = f64> + Clone, room: f64, (from, to): (f64, f64)) -> Axis {
    let (low, high) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
    // Without a value there is still a frame.
    let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };
    Axis { low: low / room, high: high * room, from, to }
}

#[cfg(test)]
mod tests {
    use super::super::svg::check;
    use super::*;
    use crate::load::Percentiles;
    use crate::report::Rates;

    fn loaded(tokens: f64, first: f64) -> Loaded {
        let rate = || Rates::new(vec![tokens]);
        let first = Percentiles {
            count: 1,
            mean: first,
            p50: first,
            p90: first,
            p95: first,
            p99: 3.0 * first,
            max: 9.0,
        };
        Loaded {
            requests: 1,
            completed: 1,
            errors: Default::default(),
            first_error: None,
            short_answers: 0,
            prompt_tokens: 1,
            cached_tokens: None,
            output_tokens: 1,
            requests_per_second: rate(),
            input_tokens_per_second: rate(),
            output_tokens_per_second: rate(),
            first_token: (tokens > 0.0).then_some(first),
            between_tokens: None,
            per_token: None,
            whole: None,
            lateness: None,
            late: 0,
        }
    }

    fn levels() -> Vec<Level> {
        let level = |clients: usize, tokens: f64, peer: f64| {
            Level::new(
                Arrivals::Clients(clients),
                loaded(tokens, 0.02 * clients as f64),
                Some(loaded(peer, 0.1)),
            )
        };
        vec![level(1, 100.0, 50.0), level(10, 300.0, 90.0), level(100, 1000.0, 0.0)]
    }

    fn circles(picture: &str) -> Vec<(f64, f64)> {
        let number = |attributes: &[(String, String)], name: &str| -> f64 {
            attributes.iter().find(|(key, _)| key == name).unwrap().1.parse().unwrap()
        };
        let elements = check::elements(picture);
        let circles = elements.iter().filter(|element| element.0 == "circle");
        circles.map(|element| (number(&element.1, "cx"), number(&element.1, "cy"))).collect()
    }

    #[test]
    fn points_lie_where_the_figures_say() {
        let picture = load_curves("a & b", "5 rounds", ("gleed", "llama.cpp"), &levels());
        let elements = check::elements(&picture);
        let circles = circles(&picture);
        // One in the legend, three on the left, three on the right.
        assert_eq!(circles.len(), 7);
        // The peer's last load brought nothing and is not drawn: two on each side, one in the legend.
        assert_eq!(elements.iter().filter(|element| element.0 == "polygon").count(), 5);
        let left = &circles[1..4];
        // 1, 10 and 100 clients are evenly spaced; from 100 to 1,000 tokens is twice as far as the root of ten.
        assert!((left[1].0 - left[0].0 - (left[2].0 - left[1].0)).abs() < 0.02);
        let decade = left[0].1 - left[2].1;
        let expected = left[0].1 - decade * 3f64.log10();
        assert!((left[1].1 - expected).abs() < 0.02, "{left:?}");
        for (x, y) in &circles[1..] {
            let inside = (LEFT..=MIDDLE.0).contains(x) || (MIDDLE.1..=RIGHT).contains(x);
            assert!(inside && (TOP..=BOTTOM).contains(y), "{x} {y}");
        }
        assert!(picture.contains(">1,000</text>") && picture.contains("a &amp; b"));
    }

    #[test]
    fn one_load_and_none_are_pictures_too() {
        for count in 0..2 {
            let levels: Vec<Level> = levels().into_iter().take(count).collect();
            let picture = load_curves("m", "", ("gleed", ""), &levels);
            check::elements(&picture);
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        }
        let trace = Level::new(Arrivals::Trace, loaded(10.0, 0.1), None);
        assert_eq!(circles(&load_curves("m", "", ("gleed", ""), &[trace])).len(), 3);
    }
}
