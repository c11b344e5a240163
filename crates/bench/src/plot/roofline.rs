//! The roofline: every test by its operations per byte (across) and its operations per second (up), on
//! logarithmic axes, under the slope of the memory limit and the roofs of the arithmetic units.

use super::axis::{Axis, number};
use super::labels::{Labels, Room};
use super::style::{BOTTOM, HEIGHT, LEFT, RIGHT, STYLE, TOP, WIDTH};
use super::svg::{Anchor, Svg};
use crate::limits::Limits;
use crate::report::Measured;

/// A test of one side.
struct Point {
    /// Operations per byte.
    intensity: f64,
    /// Operations per second, in billions.
    rate: f64,
    label: String,
    is_peer: bool,
}

/// The picture of these results as an SVG document; `run` is a few words on how they were measured.
pub fn roofline(model: &str, run: &str, limits: &Limits, results: &[Measured]) -> String {
    let points = points(results);
    let memory = limits.memory / 1e9;
    let roofs: Vec<(&str, f64)> = [
        ("int8 tiles", limits.int8_tiles),
        ("f16 units", limits.f16_units),
        ("int8 vectors", Some(limits.int8)),
        ("f32 vectors", Some(limits.f32)),
    ]
    .into_iter()
    .filter_map(|(name, limit)| Some((name, limit? / 1e9)))
    .collect();
    let highest = roofs.iter().map(|roof| roof.1).fold(0.0, f64::max);

    let intensities = || points.iter().map(|p| p.intensity);
    let least = intensities().fold(highest / memory, f64::min);
    // Room to the right of the last point for its label.
    let across = Axis {
        low: least / 2.5,
        high: intensities().fold(highest / memory, f64::max) * 6.0,
        from: LEFT,
        to: RIGHT,
    };
    let slowest = points.iter().map(|p| p.rate).fold(across.low * memory, f64::min);
    let up = Axis { low: slowest / 1.6, high: highest * 2.0, from: BOTTOM, to: TOP };

    let file = model.rsplit(['/', '\\']).next().unwrap_or(model);
    let title = format!("{file}: operations per second against the limits of the machine");
    let mut svg = Svg::new(WIDTH, HEIGHT, &title, STYLE);
    svg.rectangle("back", (0.5, 0.5), (WIDTH - 1.0, HEIGHT - 1.0), 8.0);
    svg.text("title", (LEFT, 31.0), Anchor::Start, 0.0, file);
    svg.text("tick", (LEFT, 48.0), Anchor::Start, 0.0, run);
    legend(&mut svg, points.iter().any(|p| p.is_peer));
    axes(&mut svg, across, up);
    let frame = Room { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM };
    let mut labels = Labels::new(frame);
    draw_roofs(&mut svg, &mut labels, across, up, memory, &roofs);
    draw_points(&mut svg, &mut labels, across, up, &points);
    svg.finish()
}

/// Our point of each test, and the peer's where there is one.
fn points(results: &[Measured]) -> Vec<Point> {
    let mut points = Vec::new();
    for result in results {
        let (bytes, operations) = (result.bytes, result.operations);
        let per_token = operations / (result.tokens * result.sequences) as f64;
        let point = |tokens_per_second: f64, is_peer: bool| {
            let test = if is_peer { String::new() } else { format!("{} · ", result.test) };
            let digits = if tokens_per_second < 100.0 { 1 } else { 0 };
            let label = format!("{test}{tokens_per_second:.digits$} t/s");
            Point { intensity: operations / bytes, rate: per_token * tokens_per_second / 1e9, label, is_peer }
        };
        if bytes > 0.0 && operations > 0.0 {
            points.push(point(result.ours.median, false));
            points.extend(result.peer.iter().map(|peer| point(peer.median, true)));
        }
    }
    points
}

/// What the marks mean, at the top right.
fn legend(svg: &mut Svg, has_peer: bool) {
    let mut x = RIGHT;
    if has_peer {
        svg.text("peer-name", (x, 32.0), Anchor::End, 0.0, "llama.cpp");
        svg.diamond("peer", (x - 74.0, 28.0), 6.5);
        x -= 100.0;
    }
    svg.text("ours-name", (x, 32.0), Anchor::End, 0.0, "gleed");
    svg.circle("ours", (x - 46.0, 28.0), 4.5);
}

/// Grid, numbers and names of both axes.
fn axes(svg: &mut Svg, across: Axis, up: Axis) {
    for tick in across.ticks() {
        let x = across.place(tick);
        svg.line("grid", (x, TOP), (x, BOTTOM));
        svg.text("tick", (x, BOTTOM + 18.0), Anchor::Middle, 0.0, &number(tick));
    }
    for tick in up.ticks() {
        let y = up.place(tick);
        svg.line("grid", (LEFT, y), (RIGHT, y));
        svg.text("tick", (LEFT - 8.0, y + 4.0), Anchor::End, 0.0, &number(tick));
    }
    svg.line("frame", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    svg.line("frame", (LEFT, TOP), (LEFT, BOTTOM));
    let below = "operations per byte of weights, keys and values";
    svg.text("axis", ((LEFT + RIGHT) / 2.0, HEIGHT - 20.0), Anchor::Middle, 0.0, below);
    svg.text("axis", (LEFT, TOP - 12.0), Anchor::Start, 0.0, "billion operations per second");
}

/// The slope up to the highest roof, and each roof from the slope to the right.
fn draw_roofs(
    svg: &mut Svg,
    labels: &mut Labels,
    across: Axis,
    up: Axis,
    memory: f64,
    roofs: &[(&str, f64)],
) {
    let highest = roofs.iter().map(|roof| roof.1).fold(0.0, f64::max);
    // The slope starts where it enters the frame.
    let start = across.low.max(up.low / memory);
    let place = |x: f64, y: f64| (across.place(x), up.place(y));
    let (from, to) = (place(start, start * memory), place(highest / memory, highest));
    svg.line("roof", from, to);
    let degrees = (to.1 - from.1).atan2(to.0 - from.0).to_degrees();
    // Beside the slope, halfway up, on its upper side.
    let (along, away) = (0.55, 7.0);
    let middle = (from.0 + along * (to.0 - from.0), from.1 + along * (to.1 - from.1));
    let normal = (degrees - 90.0).to_radians();
    let at = (middle.0 + away * normal.cos(), middle.1 + away * normal.sin());
    svg.text("roof-name", at, Anchor::Middle, degrees, &format!("memory {} GB/s", number(memory)));
    labels.take_line(from, to);
    for (name, roof) in roofs {
        let (from, to) = (place(roof / memory, *roof), (RIGHT, up.place(*roof)));
        svg.line("roof", from, to);
        let text = format!("{name} {} GOP/s", number(*roof));
        svg.text("roof-name", (RIGHT - 4.0, to.1 - 6.0), Anchor::End, 0.0, &text);
        labels.take(Room::of(&text, (RIGHT - 4.0, to.1 - 6.0), Anchor::End));
        // A label across the line could not be read.
        labels.take(Room { left: from.0, right: to.0, top: to.1 - 1.0, bottom: to.1 + 1.0 });
    }
}

/// The marks, then the labels where there is room for them.
fn draw_points(svg: &mut Svg, labels: &mut Labels, across: Axis, up: Axis, points: &[Point]) {
    let places: Vec<(f64, f64)> =
        points.iter().map(|p| (across.place(p.intensity), up.place(p.rate))).collect();
    for (index, pair) in points.windows(2).enumerate() {
        if !pair[0].is_peer && pair[1].is_peer {
            let ((x, from), (_, to)) = (places[index], places[index + 1]);
            svg.line("link", (x, from), (x, to));
            labels.take(Room { left: x - 1.0, right: x + 1.0, top: from.min(to), bottom: from.max(to) });
        }
    }
    // Ours on top: the peer's mark is wider, so both are seen where they meet.
    for (_, place) in points.iter().zip(&places).filter(|(point, _)| point.is_peer) {
        svg.diamond("peer", *place, 6.5);
    }
    for (_, place) in points.iter().zip(&places).filter(|(point, _)| !point.is_peer) {
        svg.circle("ours", *place, 4.5);
    }
    for &(x, y) in &places {
        labels.take(Room { left: x - 6.0, right: x + 6.0, top: y - 6.0, bottom: y + 6.0 });
    }
    for (point, &(x, y)) in points.iter().zip(&places) {
        let class = if point.is_peer { "peer-name" } else { "ours-name" };
        let (at, anchor) = labels.find(&point.label, (x, y));
        svg.text(class, at, anchor, 0.0, &point.label);
    }
}

#[cfg(test)]
mod tests {
    use super::super::svg::check;
    use super::*;
    use crate::report::Rates;
    use crate::test::Test;
    use crate::work::Work;

    const LIMITS: Limits =
        Limits { memory: 30e9, f32: 300e9, int8: 1.2e12, int8_tiles: Some(10e12), f16_units: None };

    fn results() -> Vec<Measured> {
        let one = |test: Test, ours: f64, peer: f64| {
            let tokens = test.all_tokens() as f64;
            let work = Work {
                weights: 4e8 * tokens.min(1.0),
                kv: 0.0,
                activations: 0.0,
                integer: 1.2e9 * tokens,
                half: 0.0,
                float: 1e7 * tokens,
            };
            let peer = (peer > 0.0).then(|| Rates::new(vec![peer]));
            Measured::new(&test, Rates::new(vec![ours]), &work, Some(&LIMITS)).with_peer(peer, None)
        };
        vec![
            one(Test::prompt(19, 0), 250.0, 190.0),
            one(Test::prompt(512, 0), 420.0, 210.0),
            one(Test::prompt(512, 2048), 300.0, 60.0),
            one(Test::generate(1, 1, 0), 38.0, 30.0),
            one(Test::generate(1, 8, 0), 90.0, 0.0),
        ]
    }

    fn attribute(element: &(String, Vec<(String, String)>), name: &str) -> f64 {
        element.1.iter().find(|(key, _)| key == name).unwrap().1.parse().unwrap()
    }

    fn class(element: &(String, Vec<(String, String)>)) -> &str {
        element.1.iter().find(|(key, _)| key == "class").map_or("", |(_, value)| value)
    }

    #[test]
    fn the_picture_is_well_formed_and_every_point_is_inside_the_frame() {
        let picture = roofline("a/b & <c>.gguf", "2 threads", &LIMITS, &results());
        let elements = check::elements(&picture);
        let circles: Vec<_> = elements.iter().filter(|e| e.0 == "circle").collect();
        let diamonds = elements.iter().filter(|e| e.0 == "polygon").count();
        // One more of each in the legend.
        assert_eq!((circles.len(), diamonds), (6, 5));
        for circle in &circles[1..] {
            let (x, y) = (attribute(circle, "cx"), attribute(circle, "cy"));
            assert!((LEFT..=RIGHT).contains(&x) && (TOP..=BOTTOM).contains(&y), "{x} {y}");
        }
        assert!(picture.contains("b &amp; &lt;c&gt;.gguf") && !picture.contains("http://www.w3.org/1999"));
    }

    #[test]
    fn points_lie_where_the_arithmetic_says() {
        let elements = check::elements(&roofline("m", "", &LIMITS, &results()));
        let circles: Vec<_> = elements.iter().filter(|e| e.0 == "circle").skip(1).collect();
        let roofs: Vec<_> = elements.iter().filter(|e| class(e) == "roof").collect();
        let (slope, tiles, f32) = (roofs[0], roofs[1], roofs[3]);
        // Pixels of a factor of ten, from the two roofs that are 10,000 and 300.
        let decade = (attribute(f32, "y1") - attribute(tiles, "y1")) / (10_000f64 / 300.0).log10();
        // pp512: 420 tokens of 1.21 billion operations a second.
        let rate = 420.0 * 1.21;
        let expected = attribute(tiles, "y1") + decade * (10_000f64 / rate).log10();
        assert!((attribute(circles[1], "cy") - expected).abs() < 0.1);
        // The slope meets the highest roof where 30 GB/s times the intensity is 10,000 GOP/s.
        assert_eq!(attribute(slope, "x2"), attribute(tiles, "x1"));
        let wide = (attribute(tiles, "x1") - attribute(f32, "x1")) / (10_000f64 / 300.0).log10();
        // tg1: 1.21e9 operations over 4e8 bytes.
        let expected = attribute(tiles, "x1") - wide * ((10_000f64 / 30.0) / (1.21e9 / 4e8)).log10();
        assert!((attribute(circles[3], "cx") - expected).abs() < 0.1);
    }
}
